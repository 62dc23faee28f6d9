//! Listening sockets on their way from one process to the next, which takes its place without an interruption.
//!
//! Both processes hold the same sockets for a while, so that no connection that waits in one is lost. The sockets go over a stream of
//! the machine, one message each: its length, where it belongs, and the socket beside the first byte.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// A listening socket, by its place in the configuration.
#[derive(Debug)]
pub struct HandedSocket {
    /// Such as `listen.public` or `admin`.
    pub key: String,
    pub socket: TcpListener,
}

/// Sockets of the process before, which nobody has taken yet.
static INHERITED: Mutex<Vec<HandedSocket>> = Mutex::new(Vec::new());

/// Sockets beside those of listeners, by their keys: what the next process gets.
static OTHERS: Mutex<Vec<HandedSocket>> = Mutex::new(Vec::new());

/// Sockets that one process hands to the next. Each listener has one for each worker.
const SOCKETS_MAX: u32 = 65_536;

/// The longest key: the name of a listener has fewer characters.
const KEY_BYTES_MAX: usize = 4_096;

fn lock(sockets: &Mutex<Vec<HandedSocket>>) -> MutexGuard<'_, Vec<HandedSocket>> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the sockets.
pub fn send(stream: &mut UnixStream, sockets: &[HandedSocket]) -> io::Result<()> {
    let count = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
    stream.write_all(&count.to_be_bytes())?;
    for HandedSocket { key, socket } in sockets {
        let length = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
        let fds = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("there is no room for a socket"));
        }
        let sent = sendmsg(&*stream, &[IoSlice::new(&length)], &mut beside, SendFlags::NOSIGNAL)?;
        stream.write_all(length.get(sent..).unwrap_or_default())?;
        stream.write_all(key.as_bytes())?;
    }
    Ok(())
}

/// Receives the sockets and keeps them for those who open them.
pub fn receive(stream: &mut UnixStream) -> io::Result<()> {
    let mut count = [0; 4];
    stream.read_exact(&mut count)?;
    let count = u32::from_be_bytes(count);
    if count > SOCKETS_MAX {
        return Err(io::Error::other("there are too many sockets"));
    }
    let mut received = Vec::new();
    for _ in 0..count {
        received.push(receive_one(stream)?);
    }
    *lock(&INHERITED) = received;
    Ok(())
}

fn receive_one(stream: &mut UnixStream) -> io::Result<HandedSocket> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(
        &*stream,
        &mut [IoSliceMut::new(&mut length)],
        &mut beside,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let socket: Option<OwnedFd> = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        // Harmless: nothing else is sent.
        RecvAncillaryMessage::ScmCredentials(_) | _ => None,
    });
    let rest = length.get_mut(read.bytes..).filter(|_| read.bytes > 0);
    stream.read_exact(rest.ok_or(io::ErrorKind::UnexpectedEof)?)?;
    // Harmless: a number that is too large is refused.
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > KEY_BYTES_MAX {
        return Err(io::Error::other("the key of a socket is too long"));
    }
    let mut key = vec![0; length];
    stream.read_exact(&mut key)?;
    let key = String::from_utf8(key).map_err(io::Error::other)?;
    let socket = socket.ok_or_else(|| io::Error::other(format!("{key} has no socket")))?;
    Ok(HandedSocket { key, socket: TcpListener::from(socket) })
}

/// The sockets of the process before for an address: those that are bound to it, or with port 0 those of the key.
pub(crate) fn take(key: &str, address: SocketAddr) -> Vec<TcpListener> {
    let is_it = |handed: &mut HandedSocket| match address.port() {
        0 => handed.key == key,
        // Harmless: a socket without an address is of no use.
        _ => handed.socket.local_addr().is_ok_and(|bound| bound == address),
    };
    lock(&INHERITED).extract_if(.., is_it).map(|handed| handed.socket).collect()
}

/// Closes the sockets that nobody took: the configuration does not name them any more.
pub fn forget_rest() {
    for HandedSocket { key, .. } in std::mem::take(&mut *lock(&INHERITED)) {
        tracing::info!(
            key,
            "a socket of the process before is not in this configuration; it is closed"
        );
    }
}

/// A socket beside those of listeners: that of the process before, or a new one.
pub fn open_other(key: &str, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match take(key, address).into_iter().next() {
        Some(socket) => socket,
        None => TcpListener::bind(address)?,
    };
    socket.set_nonblocking(true)?;
    let mut others = lock(&OTHERS);
    others.retain(|other| other.key != key);
    others.push(HandedSocket { key: key.to_owned(), socket: socket.try_clone()? });
    Ok(socket)
}

/// The socket of that key is closed for good.
pub fn forget_other(key: &str) {
    lock(&OTHERS).retain(|other| other.key != key);
}

/// Those sockets for the next process.
pub(crate) fn others() -> io::Result<Vec<HandedSocket>> {
    let others = lock(&OTHERS);
    let copy = |other: &HandedSocket| {
        Ok(HandedSocket { key: other.key.clone(), socket: other.socket.try_clone()? })
    };
    others.iter().map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_arrive_as_they_were() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let handed =
            |key: &str| HandedSocket { key: key.into(), socket: socket.try_clone().unwrap() };
        send(&mut ours, &[handed("listen.a"), handed("listen.a"), handed("admin")]).unwrap();
        receive(&mut theirs).unwrap();
        assert_eq!(take("listen.b", "127.0.0.1:0".parse().unwrap()).len(), 0);
        assert_eq!(take("listen.a", "127.0.0.1:0".parse().unwrap()).len(), 2);
        let last = take("whatever", address).remove(0);
        assert_eq!(last.local_addr().unwrap(), address);
        // Garbage, and a stream that ends.
        for bytes in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x01", b"\0\0\0\x01\0\0\0\x01a", b""] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            ours.write_all(bytes).unwrap();
            drop(ours);
            assert!(receive(&mut theirs).is_err(), "{bytes:?}");
        }
    }
}
