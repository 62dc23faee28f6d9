//! Notifications to a service manager, by the protocol of sd_notify(3): a datagram of lines to the socket that `NOTIFY_SOCKET`
//! names. Without that variable nothing is sent.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long to wait for a manager whose queue is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time for ending in addition to the time for exchanges: for the last lines of the log, and for threads to end.
const SLACK: Duration = Duration::from_secs(15);

/// Reports that every listener is open.
pub(crate) fn serving() {
    tell("READY=1\nSTATUS=Serving.");
}

/// Reports to the manager that files are read again, and the result.
pub(crate) async fn reloading<T, E>(reload: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    tell("RELOADING=1\nSTATUS=Reading the configuration again.");
    let done = reload.await;
    tell(match &done {
        Ok(_) => "READY=1\nSTATUS=Serving.",
        Err(_) => "READY=1\nSTATUS=Serving the last good configuration: the new one was refused.",
    });
    done
}

/// Reports to the manager that another process has replaced this one.
pub(crate) fn replaced(pid: u32) {
    tell(&format!("MAINPID={pid}\nSTATUS=Serving."));
}

/// Reports to the manager that the process ends, and how long to wait: `limit` is the longest time for the announcement
/// and for exchanges.
pub(crate) fn stopping(limit: Duration) {
    let micros = limit.saturating_add(SLACK).as_micros();
    tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}\nSTATUS=Letting exchanges end."));
}

fn tell(lines: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(e) = send(&socket, lines) {
        tracing::warn!("the service manager cannot be notified: {e}");
    }
}

/// A name that begins with `@` is one of Linux's abstract sockets, which are not files.
fn send(socket: &OsStr, lines: &str) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagrams = UnixDatagram::unbound()?;
    datagrams.set_write_timeout(Some(PATIENCE))?;
    datagrams.send_to_addr(lines.as_bytes(), &address).map(drop)
}
