//! The side that has the store: it answers the calls of processes that had it before.

use std::cell::Cell;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kit::LocalBoxFuture;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use super::frame::{FrameReader, put};
use super::wire::{AnswerBody, AnswerFrame, Call, CallFrame, ChangedMessage};
use super::{StoreOwner, listen, remove_socket, run};
use crate::Error;
use crate::handover::wait_for;
use crate::watch::{Subject, Tap};

/// The maximum number of calls of one connection that are in progress. At this number, no more calls are read.
const CALLS_MAX: usize = 256;

/// The time limit for writing an answer. A process that does not read its answers is disconnected.
const WRITE_MAX: Duration = Duration::from_secs(30);

/// The pause after a connection could not be accepted.
const AWAY: Duration = Duration::from_millis(100);

/// The maximum time that [`StoreServer::stop`] waits until the listener is closed.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serves,
    /// Another process will have the store: no connection is accepted, and connected processes are notified.
    Moves,
    /// The listener is closed.
    Moved,
}

/// A server for a store. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct StoreServer {
    phase: Arc<watch::Sender<Phase>>,
}

impl StoreServer {
    /// Serves a store in a folder.
    pub(crate) fn start(folder: &Path, store: Arc<dyn StoreOwner>) -> std::io::Result<StoreServer> {
        let listener = listen(folder)?;
        let phase = Arc::new(watch::Sender::new(Phase::Serves));
        let of_thread = phase.clone();
        let thread = std::thread::Builder::new().name("store-server".to_owned());
        thread.spawn(move || {
            let mut runtime = Builder::new_current_thread();
            match runtime.enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime.block_on(serve(listener, store, &of_thread)),
                Err(error) => tracing::error!("store: its server cannot start: {error}"),
            }
        })?;
        Ok(StoreServer { phase })
    }

    /// Accepts no more connections, and notifies connected processes that another process has the store. Calls that they have already sent
    /// are answered. This blocks for at most `STOP_MAX`.
    pub(crate) fn stop(self, folder: &Path) {
        self.phase.send_replace(Phase::Moves);
        // Harmless: even if the listener is still open, nobody can connect once the socket is removed.
        let _ = wait_for(STOP_MAX, || *self.phase.borrow() == Phase::Moved);
        if let Err(error) = remove_socket(folder) {
            tracing::debug!("store: its socket cannot be removed: {error}");
        }
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Moves);
    }
}

/// Accepts connections until the store moves, and serves each to its end.
async fn serve(
    listener: StdListener,
    store: Arc<dyn StoreOwner>,
    phase: &Arc<watch::Sender<Phase>>,
) {
    let connections = accept(listener, &store, phase).await;
    phase.send_replace(Phase::Moved);
    for connection in connections {
        // Harmless: a panic was reported when it happened.
        let _ = connection.await;
    }
}

async fn accept(
    listener: StdListener,
    store: &Arc<dyn StoreOwner>,
    phase: &Arc<watch::Sender<Phase>>,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut connections: Vec<tokio::task::JoinHandle<()>> = Vec::new();
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("store: its server cannot listen: {error}");
            return connections;
        }
    };
    let (mut changes, open) = (phase.subscribe(), Rc::new(Cell::new(0_usize)));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = changes.wait_for(|phase| *phase != Phase::Serves) => return connections,
        };
        connections.retain(|connection| !connection.is_finished());
        match accepted {
            Ok((stream, _)) if is_own(&stream) => {
                store.set_company(true);
                let (store, changes, open) = (store.clone(), phase.subscribe(), open.clone());
                open.set(open.get() + 1);
                connections.push(kit::spawn(async move {
                    converse(stream, &store, changes.clone()).await;
                    open.set(open.get().saturating_sub(1));
                    if open.get() == 0 && *changes.borrow() == Phase::Serves {
                        store.set_company(false);
                    }
                }));
            }
            Ok(_) => tracing::warn!("store: a connection of another user was refused"),
            Err(error) => {
                tracing::warn!("store: a connection could not be accepted: {error}");
                tokio::time::sleep(AWAY).await;
            }
        }
    }
}

/// Returns true if the peer is a process of the same user or of root.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(
    stream: UnixStream,
    store: &Arc<dyn StoreOwner>,
    changes: watch::Receiver<Phase>,
) {
    let Some(tap) = store.tap() else { return };
    let (reading, writing) = stream.into_split();
    let connection = Connection {
        reading: FrameReader::new(reading),
        writing,
        tap,
        changes,
        calls: FuturesUnordered::new(),
        is_read: true,
        is_told: false,
    };
    if let Err(error) = connection.run(store).await {
        tracing::warn!("store: the connection of another process has ended: {error}");
    }
}

/// A connection and its calls in progress.
struct Connection {
    reading: FrameReader<OwnedReadHalf>,
    writing: OwnedWriteHalf,
    tap: Tap,
    changes: watch::Receiver<Phase>,
    calls: FuturesUnordered<LocalBoxFuture<'static, AnswerFrame>>,
    /// True while the other process may send more calls.
    is_read: bool,
    /// True once the other process was notified that the store moves.
    is_told: bool,
}

enum Next {
    Call(Option<CallFrame>),
    Answer(AnswerFrame),
    News(Option<Subject>),
    Moves,
}

impl Connection {
    async fn run(mut self, store: &Arc<dyn StoreOwner>) -> std::io::Result<()> {
        loop {
            if !self.is_read && self.calls.is_empty() {
                return Ok(());
            }
            let frame = match self.next().await? {
                Next::Call(None) => {
                    self.is_read = false;
                    continue;
                }
                Next::Call(Some(CallFrame { id, call })) => {
                    self.calls.push(answer(store.clone(), id, call));
                    continue;
                }
                Next::Answer(frame) => frame,
                Next::News(subject) => {
                    notification(AnswerBody::Changed(ChangedMessage::of(subject)))
                }
                Next::Moves => {
                    self.is_told = true;
                    notification(AnswerBody::Moved(true))
                }
            };
            self.write(&frame).await?;
        }
    }

    async fn next(&mut self) -> std::io::Result<Next> {
        let takes_calls = self.is_read && self.calls.len() < CALLS_MAX;
        tokio::select! {
            call = self.reading.next(), if takes_calls => Ok(Next::Call(call?)),
            Some(frame) = self.calls.next() => Ok(Next::Answer(frame)),
            subject = self.tap.next(), if self.is_read => Ok(Next::News(subject)),
            _ = self.changes.wait_for(|phase| *phase != Phase::Serves), if !self.is_told => {
                Ok(Next::Moves)
            }
        }
    }

    async fn write(&mut self, frame: &AnswerFrame) -> std::io::Result<()> {
        let mut bytes = BytesMut::new();
        put(frame, &mut bytes)?;
        let written = tokio::time::timeout(WRITE_MAX, self.writing.write_all(&bytes)).await;
        written.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }
}

fn notification(body: AnswerBody) -> AnswerFrame {
    AnswerFrame { id: 0, body: Some(body) }
}

/// Makes a call and returns its answer.
fn answer(
    store: Arc<dyn StoreOwner>,
    id: u64,
    call: Option<Call>,
) -> LocalBoxFuture<'static, AnswerFrame> {
    Box::pin(async move {
        let result = match (call, store.store()) {
            (Some(call), Some(store)) => {
                let answer = run(&*store, call);
                drop(store);
                answer.await
            }
            // The call of a newer program, which this one does not know.
            (None, _) => Err(Error::Unavailable("this program does not know the call".to_owned())),
            (_, None) => Err(crate::queue::closed()),
        };
        AnswerFrame { id, body: Some(result.unwrap_or_else(|e| AnswerBody::Error(e.into()))) }
    })
}
