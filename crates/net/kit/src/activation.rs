//! Socket activation: takes the listening sockets that a service manager has opened for this process, by the protocol of
//! sd_listen_fds(3).

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Socket, Type};

/// The number of the first passed descriptor.
const FIRST: RawFd = 3;

/// The maximum number of passed descriptors. A service manager's usual limit on open files is lower.
const DESCRIPTORS_MAX: u16 = 1024;

/// A socket with the name that the service manager gave it.
#[derive(Debug)]
pub struct PassedSocket {
    /// Empty if the socket has no name.
    pub name: String,
    pub socket: TcpListener,
}

/// Whether the sockets were taken. They may be taken only once, so that each descriptor has one owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the sockets that a service manager has passed to this process. Returns none if there are none, and after the first call. Fails if
/// a descriptor is not a listening TCP socket; the error names it.
pub fn take_passed() -> io::Result<Vec<PassedSocket>> {
    // Harmless: a variable that is unset or not UTF-8 was not set by a service manager.
    let variable = |name| env::var(name).ok();
    let count = count(variable("LISTEN_PID"), variable("LISTEN_FDS"))?;
    if count == 0 || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    // Harmless: names are optional. A socket without a name is matched to a listener by its address.
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (0..count)
        .map(|at| {
            // Harmless: as above, there may be fewer names than sockets.
            let name = names.next().unwrap_or_default().to_owned();
            let number = FIRST + RawFd::from(i16::try_from(at).unwrap_or(i16::MAX));
            // SAFETY: `LISTEN_PID` is the id of this process, so the service manager has passed these descriptors to it, and `TAKEN`
            // ensures that they are taken only once.
            #[allow(
                unsafe_code,
                reason = "a service manager passes only the numbers of the descriptors"
            )]
            let socket = unsafe { Socket::from_raw_fd(number) };
            listening(socket)
                .map(|socket| PassedSocket { name: name.clone(), socket })
                .map_err(|why| io::Error::other(format!("descriptor {number} ({name:?}): {why}")))
        })
        .collect()
}

/// Returns the number of descriptors that were passed to this process. It is 0 unless `pid` is the id of this process.
fn count(pid: Option<String>, count: Option<String>) -> io::Result<u16> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    // The variables may be inherited from another process, which the descriptors were meant for.
    if pid.parse() != Ok(std::process::id()) {
        return Ok(0);
    }
    match count.parse() {
        Ok(known @ 0..=DESCRIPTORS_MAX) => Ok(known),
        Ok(_) | Err(_) => Err(io::Error::other(format!("LISTEN_FDS is {count:?}"))),
    }
}

fn listening(socket: Socket) -> io::Result<TcpListener> {
    // Child processes must not inherit the socket.
    socket.set_cloexec(true)?;
    let is_tcp = socket.r#type()? == Type::STREAM && socket.local_addr()?.as_socket().is_some();
    if !is_tcp || !socket.is_listener()? {
        return Err(io::Error::other("it is not a listening TCP socket"));
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_descriptors_for_this_process_count() {
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
    fn only_listening_tcp_sockets_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(listening(listener.into()).unwrap().local_addr().unwrap(), address);
        assert!(listening(client.into()).is_err());
        assert!(listening(datagrams.into()).is_err());
    }
}
