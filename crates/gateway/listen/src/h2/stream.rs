//! State that the tasks of a connection and of its streams share.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http2::{Code, Session};
use kit::Wire;
use message::ReplyHead;
use policy::InterimReplies;

use super::Phase;

/// One connection as its streams see it.
pub(super) struct SharedConnection {
    session: RefCell<Session>,
    wire: RefCell<Wire>,
    /// The waker of the connection's task, until the task knows that there is data to write.
    writer: RefCell<Option<Waker>>,
}

impl SharedConnection {
    pub(super) fn new(session: Session, wire: Wire) -> Rc<SharedConnection> {
        let (session, wire) = (RefCell::new(session), RefCell::new(wire));
        Rc::new(SharedConnection { session, wire, writer: RefCell::default() })
    }

    /// Borrows the session. The borrow must last only for a few lines, and never across an await.
    pub(super) fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// Borrows the wire, as briefly as the session. Only the connection's task reads and writes it; other tasks only inspect it.
    pub(super) fn wire(&self) -> RefMut<'_, Wire> {
        self.wire.borrow_mut()
    }

    /// The wire, for the end of the connection.
    pub(super) fn take_wire(&self) -> Wire {
        self.wire.replace(Wire::Wrapped(Box::new(tokio::io::empty())))
    }

    /// Sets the waker of the task that writes.
    pub(super) fn written_by(&self, task: &Waker) {
        self.writer.replace(Some(task.clone()));
    }

    /// Requests a write, which happens after the tasks that are ready now, so that the replies of many streams are written at once.
    pub(super) fn write_soon(&self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// Returns the phase that follows `before`. `begun` is true if a frame has arrived in part.
    pub(super) fn phase(&self, before: Phase, begun: bool) -> Phase {
        let session = self.session.borrow();
        match (session.open(), before) {
            (0, _) if session.is_leaving() => Phase::Leaving,
            (0, _) if begun || !session.has_begun() || session.is_within_head() => Phase::Beginning,
            (0, _) => Phase::Idle,
            (_, Phase::Asked) => Phase::Asked,
            (_, _) => Phase::Busy,
        }
    }
}

impl InterimReplies for SharedConnection {
    fn pass(&self, stream: u32, head: &ReplyHead) {
        let mut session = self.session();
        if !session.is_full() {
            session.send_head(stream, head.status, head.headers.iter(), false);
        }
        if !session.unsent().is_empty() {
            self.write_soon();
        }
    }
}

/// One stream, owned by its exchange. It is reset if dropped before its end.
pub(super) struct Stream {
    pub(super) shared: Rc<SharedConnection>,
    pub(super) number: u32,
}

impl Stream {
    pub(super) fn new(shared: Rc<SharedConnection>, number: u32) -> Stream {
        Stream { shared, number }
    }

    /// Calls `work` with the session, and requests a write if there is data to write.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Session, u32) -> R) -> R {
        let mut session = self.shared.session();
        let result = work(&mut session, self.number);
        if !session.unsent().is_empty() {
            self.shared.write_soon();
        }
        result
    }

    /// Ready when the client has reset the stream or has left.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut session = self.shared.session();
        if !session.is_open(self.number) {
            return Poll::Ready(());
        }
        session.wait(self.number, cx.waker());
        Poll::Pending
    }

    pub(super) fn reset(&self, code: Code) {
        self.with(|session, number| {
            if session.is_open(number) {
                session.reset(number, code);
            }
        });
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reset(Code::INTERNAL_ERROR);
    }
}
