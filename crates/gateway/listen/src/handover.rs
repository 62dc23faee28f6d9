//! Passes listening sockets from one process to its successor, without interrupting service.
//!
//! Both processes have the same sockets for a while, so that no waiting connection is lost. The sockets are sent over a Unix socket: first
//! their number, then for each one the length of its key, with the socket attached, and the key. Schedules are handed over too, so that no
//! run is repeated or missed.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::sync::watch;

/// A listening socket, by its place in the configuration.
#[derive(Debug)]
pub struct HandedSocket {
    /// The key, such as `listen.public` or `admin`.
    pub key: String,
    pub socket: TcpListener,
}

/// A socket that this process did not open.
#[derive(Debug)]
struct InheritedSocket {
    /// The key of the previous process, or the name from the service manager.
    name: String,
    /// True if it is from the service manager.
    is_passed: bool,
    socket: TcpListener,
}

/// Sockets from the previous process or a service manager that are not used yet.
static INHERITED: Mutex<Vec<InheritedSocket>> = Mutex::new(Vec::new());

/// Sockets other than those of listeners, by their keys, for the next process.
static OTHERS: Mutex<Vec<HandedSocket>> = Mutex::new(Vec::new());

/// True if another process has the schedules or is about to get them.
static SCHEDULES_GIVEN: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// The number of schedule runs in progress.
static SCHEDULE_RUNS: AtomicUsize = AtomicUsize::new(0);

/// The time from which the schedules belong to this process, if another process had them before. It is removed once
/// this process serves.
static SCHEDULES_SINCE: Mutex<Option<Duration>> = Mutex::new(None);

/// A run of a schedule.
pub(crate) struct ScheduleRun(());

impl ScheduleRun {
    /// Starts a run once the schedules belong to this process.
    pub(crate) async fn begin() -> ScheduleRun {
        let mut given = SCHEDULES_GIVEN.subscribe();
        loop {
            // Harmless: the sender is never dropped.
            let _ = given.wait_for(|given| !given).await;
            // The run is counted before the second check. So either this check sees that the schedules are given away, or the code that
            // gives them away sees the run.
            SCHEDULE_RUNS.fetch_add(1, Ordering::SeqCst);
            let run = ScheduleRun(());
            if !*SCHEDULES_GIVEN.borrow() {
                return run;
            }
        }
    }
}

impl Drop for ScheduleRun {
    fn drop(&mut self) {
        SCHEDULE_RUNS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts no more runs of schedules, since another process will have them.
pub fn give_schedules() {
    SCHEDULES_GIVEN.send_replace(true);
}

/// Takes the schedules back. Runs that were due meanwhile start now.
pub fn keep_schedules() {
    SCHEDULES_GIVEN.send_replace(false);
}

/// True while a schedule runs in this process.
pub fn has_schedule_runs() -> bool {
    SCHEDULE_RUNS.load(Ordering::SeqCst) > 0
}

/// Sets the time since which the previous process has started no runs, since the Unix epoch.
pub fn set_schedules_since(since: Duration) {
    *SCHEDULES_SINCE.lock().unwrap_or_else(PoisonError::into_inner) = Some(since);
}

/// The time from which the schedules belong to this process, if another process had them before.
pub(crate) fn schedules_since() -> Option<Duration> {
    *SCHEDULES_SINCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The prefix of listeners' keys. The listener's name follows.
pub(crate) const LISTENER: &str = "listen.";

/// The maximum number of sockets in one handover. Each listener has one for each worker.
const SOCKETS_MAX: u32 = 65_536;

/// The maximum length of a key. The names of listeners are shorter.
const KEY_BYTES_MAX: usize = 4_096;

fn lock<T>(sockets: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the sockets to the next process.
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

/// Receives the sockets of the previous process, and keeps them until they are used.
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
    let received = received.into_iter().map(|HandedSocket { key, socket }| InheritedSocket {
        name: key,
        is_passed: false,
        socket,
    });
    *lock(&INHERITED) = received.collect();
    Ok(())
}

/// Keeps the sockets from a service manager until they are used.
pub fn keep_passed(sockets: Vec<kit::activation::PassedSocket>) {
    let passed = sockets.into_iter().map(|passed| InheritedSocket {
        name: passed.name,
        is_passed: true,
        socket: passed.socket,
    });
    lock(&INHERITED).extend(passed);
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
        // Harmless: the sending process sends no other control messages.
        RecvAncillaryMessage::ScmCredentials(_) | _ => None,
    });
    let rest = length.get_mut(read.bytes..).filter(|_| read.bytes > 0);
    stream.read_exact(rest.ok_or(io::ErrorKind::UnexpectedEof)?)?;
    // Harmless: the next line refuses a length that is too large.
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

/// Takes the inherited sockets for an address: those that are bound to it, or for port 0 those with the key. If there are none, takes those
/// that a service manager has passed with the listener's name.
pub(crate) fn take(key: &str, address: SocketAddr) -> Vec<TcpListener> {
    let is_it = |inherited: &mut InheritedSocket| match address.port() {
        0 => !inherited.is_passed && inherited.name == key,
        // Harmless: a socket without an address cannot be used.
        _ => inherited.socket.local_addr().is_ok_and(|bound| bound == address),
    };
    let name = key.strip_prefix(LISTENER).unwrap_or(key);
    let has_name = |inherited: &mut InheritedSocket| inherited.is_passed && inherited.name == name;
    let mut all = lock(&INHERITED);
    let mut taken: Vec<InheritedSocket> = all.extract_if(.., is_it).collect();
    if taken.is_empty() {
        taken.extend(all.extract_if(.., has_name));
    }
    taken.into_iter().map(|inherited| inherited.socket).collect()
}

/// Closes the inherited sockets that the configuration does not use. Also forgets when the previous process stopped its schedules, so that
/// a schedule that is added later starts at that later time.
pub fn forget_rest() {
    *SCHEDULES_SINCE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    for InheritedSocket { name, is_passed, socket } in std::mem::take(&mut *lock(&INHERITED)) {
        // Harmless: the address is only logged.
        let address = socket.local_addr().map(|address| address.to_string()).unwrap_or_default();
        if is_passed {
            let what =
                "a socket of the service manager is not used by this configuration; it is closed";
            tracing::warn!(name, address, "{what}");
        } else {
            let what =
                "a socket of the previous process is not used by this configuration; it is closed";
            tracing::info!(key = name, address, "{what}");
        }
    }
}

/// Opens a socket that does not belong to a listener: takes that of the previous process, or binds a new one.
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

/// Drops the copy of the socket with this key, so that it is not handed over.
pub fn forget_other(key: &str) {
    lock(&OTHERS).retain(|other| other.key != key);
}

/// Returns copies of the sockets that do not belong to listeners, for the next process.
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

    #[tokio::test]
    async fn a_run_waits_while_another_process_may_have_the_schedules() {
        let run = ScheduleRun::begin().await;
        give_schedules();
        assert!(has_schedule_runs());
        drop(run);
        assert!(!has_schedule_runs());
        let mut next = std::pin::pin!(ScheduleRun::begin());
        let polled =
            std::future::poll_fn(|cx| std::task::Poll::Ready(next.as_mut().poll(cx).is_pending()));
        assert!(polled.await, "it has not started");
        keep_schedules();
        drop(next.await);
        assert!(!has_schedule_runs());
    }

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
        // Invalid data, and a stream that ends early.
        for bytes in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x01", b"\0\0\0\x01\0\0\0\x01a", b""] {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            ours.write_all(bytes).unwrap();
            drop(ours);
            assert!(receive(&mut theirs).is_err(), "{bytes:?}");
        }
    }
}
