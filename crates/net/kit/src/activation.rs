//! Listening sockets that a service manager opened before the program began, by the protocol of sd_listen_fds(3).

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Socket, Type};

/// The number of the first descriptor.
const FIRST: RawFd = 3;

/// Descriptors that one process is given. A manager's usual limit for open files is lower.
const DESCRIPTORS_MAX: u16 = 1024;

/// A socket with the name that the manager gave it.
#[derive(Debug)]
pub struct PassedSocket {
    /// Empty if it has none.
    pub name: String,
    pub socket: TcpListener,
}

/// They are taken once: nobody else owns them.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the sockets that this process was started with, if it was, the first time that it is called. The error names a descriptor
/// that must be a listening socket of TCP and is something else.
pub fn take_passed() -> io::Result<Vec<PassedSocket>> {
    // Harmless: a manager sets texts.
    let variable = |name| env::var(name).ok();
    let count = count(variable("LISTEN_PID"), variable("LISTEN_FDS"))?;
    if count == 0 || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    // Harmless: without names they belong to addresses.
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (0..count)
        .map(|at| {
            // Harmless: without a name it belongs to an address.
            let name = names.next().unwrap_or_default().to_owned();
            let number = FIRST + RawFd::from(i16::try_from(at).unwrap_or(i16::MAX));
            // SAFETY: the manager gave these descriptors to this process, as the variables with its id say, and the mark above sees to it
            // that they are taken once.
            #[allow(unsafe_code, reason = "only the number of a descriptor is passed")]
            let socket = unsafe { Socket::from_raw_fd(number) };
            listening(socket)
                .map(|socket| PassedSocket { name: name.clone(), socket })
                .map_err(|why| io::Error::other(format!("descriptor {number} ({name:?}): {why}")))
        })
        .collect()
}

/// The number of descriptors for this process.
fn count(pid: Option<String>, count: Option<String>) -> io::Result<u16> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    // Variables that were inherited from another process are not for this one.
    if pid.parse() != Ok(std::process::id()) {
        return Ok(0);
    }
    match count.parse() {
        Ok(known @ 0..=DESCRIPTORS_MAX) => Ok(known),
        Ok(_) | Err(_) => Err(io::Error::other(format!("LISTEN_FDS is {count:?}"))),
    }
}

fn listening(socket: Socket) -> io::Result<TcpListener> {
    // Programs that this one starts get no copy.
    socket.set_cloexec(true)?;
    let is_tcp = socket.r#type()? == Type::STREAM && socket.local_addr()?.as_socket().is_some();
    if !is_tcp || !socket.is_listener()? {
        return Err(io::Error::other("it must be a listening socket of TCP"));
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_for_this_process_counts() {
        let own = || Some(std::process::id().to_string());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(count(own(), text("2")).unwrap(), 2);
        assert_eq!(count(text("1"), text("2")).unwrap(), 0);
        assert_eq!(count(None, text("2")).unwrap(), 0);
        assert_eq!(count(own(), None).unwrap(), 0);
        for wrong in ["", "-1", "x", "2000"] {
            assert!(count(own(), text(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_listening_sockets_of_tcp_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(listening(listener.into()).unwrap().local_addr().unwrap(), address);
        assert!(listening(client.into()).is_err());
        assert!(listening(datagrams.into()).is_err());
    }
}
