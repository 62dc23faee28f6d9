//! One embedded store for the processes of an upgrade: the newest process has it, and serves it to the previous ones.
//!
//! Owns the socket in the store's folder and its protocol. A process that gave its store away makes its calls through a [`LinkedStore`],
//! and a [`StoreServer`] of the process that has the store answers them. This way, streams of an old process continue, and requests that
//! it has begun succeed. Each side has its own thread. A slow link does not delay the store: if there are too many wake-ups to send, one
//! wake-up for all logs and tables replaces them.

mod client;
mod frame;
mod server;
mod wire;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;

pub(crate) use client::LinkedStore;
pub(crate) use server::StoreServer;

use crate::disk::SOCKET;
use crate::watch::Tap;
use crate::{Answer, LeaseAnswer, Store};
use wire::{AnswerBody, Call, CounterMessage, OptionalRow, Positions, Versions};

/// The store of this process, as the threads of a link see it. They do not keep it open.
pub(crate) trait StoreOwner: Send + Sync {
    /// Returns the store, while it exists.
    fn store(&self) -> Option<Box<dyn Store>>;

    /// Returns the wake-ups of all logs and tables.
    fn tap(&self) -> Option<Tap>;

    /// Notes whether other processes use the store.
    fn set_company(&self, has_company: bool);
}

/// Returns the path of the socket, through the open folder, since the length of socket paths is limited.
fn socket_of(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Listens in a folder. Replaces the socket of a previous process.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    remove_socket(folder)?;
    let listener = UnixListener::bind(socket_of(&File::open(folder)?))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn remove_socket(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(folder.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Connects to the process that has the store in a folder.
fn connect(folder: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket_of(&File::open(folder)?))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Makes a call of another process.
fn run(store: &dyn Store, call: Call) -> Answer<AnswerBody> {
    match call {
        Call::Append(call) => {
            let guard = call.guard.map(Into::into);
            let appended = store.append(&call.log, call.records, guard.as_ref());
            answered(appended, |positions| {
                AnswerBody::Positions(Positions {
                    first: *positions.start(),
                    last: *positions.end(),
                })
            })
        }
        Call::Read(call) => {
            answered(store.read(&call.log, call.query()), |found| AnswerBody::Records(found.into()))
        }
        Call::Span(log) => answered(store.span(&log), |span| AnswerBody::Span(span.into())),
        Call::Trim(call) => {
            answered(store.trim(&call.log, call.keep()), |span| AnswerBody::Span(span.into()))
        }
        Call::Get(call) => answered(store.get(&call.table, &call.key), |row| {
            AnswerBody::Row(OptionalRow { row: row.map(Into::into) })
        }),
        Call::Scan(call) => {
            answered(store.scan(&call.table, call.scan()), |rows| AnswerBody::Rows(rows.into()))
        }
        Call::Change(call) => {
            let changes = call.changes.into_iter().map(Into::into).collect();
            let guard = call.guard.map(Into::into);
            answered(store.change(changes, guard.as_ref()), |versions| {
                AnswerBody::Versions(Versions { versions })
            })
        }
        Call::Acquire(call) => {
            let ttl = std::time::Duration::from_millis(call.ttl_millis);
            answered(store.acquire(&call.lease, &call.owner, ttl), LeaseAnswer::into)
        }
        Call::Renew(call) => {
            let ttl = std::time::Duration::from_millis(call.ttl_millis);
            answered(store.renew(&call.lease(), ttl), |lease| LeaseAnswer::Acquired(lease).into())
        }
        Call::Release(call) => answered(store.release(&call.lease()), |()| AnswerBody::Done(true)),
        Call::Add(call) => {
            let window = std::time::Duration::from_millis(call.window_millis);
            let added = store.add(&call.counter, call.by, call.limit, window);
            answered(added, |counter| AnswerBody::Counter(CounterMessage::from(counter)))
        }
    }
}

fn answered<T: Send + 'static>(
    answer: Answer<T>,
    body: impl FnOnce(T) -> AnswerBody + Send + 'static,
) -> Answer<AnswerBody> {
    Box::pin(answer.map(|result| result.map(body)))
}

#[cfg(test)]
mod tests;
