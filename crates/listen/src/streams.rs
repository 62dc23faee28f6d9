//! The streams of one HTTP/2 connection: how many there are, and the deadline of a client that takes nothing of a reply.
//!
//! hyper asks a reply for its next piece only once the client has room for it, so no reply can tell how long that takes.
//! The task that runs a stream can.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use kit::{Alarm, clock};

/// Shared by a connection's task and those of its streams.
#[derive(Clone)]
pub(crate) struct Streams(Rc<Shared>);

struct Shared {
    open: Cell<usize>,
    /// The stream that has just begun and has no task yet.
    begun: RefCell<Option<Rc<Progress>>>,
    /// How long a client may take nothing.
    timeout: Duration,
}

/// One stream, counted as long as it lives.
pub(crate) struct Stream {
    streams: Streams,
    pub(crate) progress: Rc<Progress>,
}

/// How far a reply has got.
#[derive(Default)]
pub(crate) struct Progress {
    pieces: Cell<u64>,
    /// The last piece was handed out and the next not asked for yet.
    held: Cell<bool>,
}

impl Streams {
    pub(crate) fn new(timeout: Duration) -> Streams {
        Streams(Rc::new(Shared { open: Cell::new(0), begun: RefCell::default(), timeout }))
    }

    pub(crate) fn open(&self) -> usize {
        self.0.open.get()
    }

    pub(crate) fn begin(&self) -> Stream {
        self.0.open.set(self.0.open.get() + 1);
        let progress: Rc<Progress> = Rc::default();
        self.0.begun.replace(Some(progress.clone()));
        Stream { streams: self.clone(), progress }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let open = &self.streams.0.open;
        open.set(open.get().saturating_sub(1));
    }
}

impl Progress {
    pub(crate) fn asked_for_a_piece(&self) {
        self.held.set(false);
    }

    pub(crate) fn handed_out_a_piece(&self) {
        self.held.set(true);
        self.pieces.set(self.pieces.get().wrapping_add(1));
    }
}

/// hyper's streams run on the worker they came to. hyper starts a stream's task right after it has asked the service for it.
impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + 'static,
{
    fn execute(&self, future: F) {
        let progress = self.0.begun.take().unwrap_or_default();
        drop(kit::spawn(run(future, progress, self.0.timeout)));
    }
}

/// Runs a stream. Dropped before its end, hyper resets it.
async fn run(stream: impl Future<Output = ()>, progress: Rc<Progress>, timeout: Duration) {
    let mut stream = pin!(stream);
    let mut stall = Stall { alarm: Alarm::default(), pieces: 0 };
    poll_fn(|cx| match stream.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => stall.poll(cx, &progress, timeout),
    })
    .await;
}

struct Stall {
    alarm: Alarm,
    /// As many as there were when the alarm was set.
    pieces: u64,
}

impl Stall {
    /// Ready when the client has taken nothing for too long.
    fn poll(&mut self, cx: &mut Context<'_>, progress: &Progress, timeout: Duration) -> Poll<()> {
        if !progress.held.get() {
            self.alarm.clear();
            return Poll::Pending;
        }
        if !self.alarm.is_set() || self.pieces != progress.pieces.get() {
            self.pieces = progress.pieces.get();
            self.alarm.set(clock::now(), timeout);
        }
        self.alarm.poll(cx)
    }
}
