//! One end of a byte stream with a script at the other end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The next act of a scripted peer. A peer without further acts is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Closes its sending side.
    End,
    /// Resets the connection.
    Reset,
}

/// Receives written bytes and returns the acts that answer them.
pub(crate) type Responder = Box<dyn FnMut(&[u8]) -> Vec<Act>>;

/// The gateway's end of a connection. Clones share it, so the written bytes can be inspected.
#[derive(Clone)]
pub struct Wire(Rc<RefCell<State>>);

struct State {
    acts: VecDeque<Act>,
    hears: Option<Responder>,
    written: Vec<u8>,
    /// The maximum number of bytes per read and write, or `None` for all bytes at once. With a maximum, each read and write is pending once
    /// before it succeeds.
    piece: Option<usize>,
    reader: Option<Waker>,
    /// Whether the next read and the next write have already been pending.
    waited: [bool; 2],
    shut: bool,
}

impl Wire {
    /// Creates a wire. `piece` is the maximum number of bytes per read and write, or `None` for all bytes at once. With a maximum, each
    /// read and write is pending once before it succeeds.
    pub fn new(acts: impl IntoIterator<Item = Act>, piece: Option<usize>) -> Wire {
        Wire(Rc::new(RefCell::new(State {
            acts: acts.into_iter().collect(),
            hears: None,
            written: Vec::new(),
            piece,
            reader: None,
            waited: [false; 2],
            shut: false,
        })))
    }

    /// Creates a wire that answers written bytes.
    pub(crate) fn answered(piece: Option<usize>, hears: Responder) -> Wire {
        let wire = Wire::new([], piece);
        wire.0.borrow_mut().hears = Some(hears);
        wire
    }

    /// Returns the bytes that were written.
    pub fn written(&self) -> Vec<u8> {
        self.0.borrow().written.clone()
    }

    /// Returns true if its writing side was closed properly.
    pub fn is_shut(&self) -> bool {
        self.0.borrow().shut
    }
}

impl State {
    /// If bytes are sent in pieces, makes every other read or write pending and wakes it at once.
    fn waits(&mut self, side: usize, cx: &Context<'_>) -> bool {
        let Some(waited) = self.waited.get_mut(side).filter(|_| self.piece.is_some()) else {
            return false;
        };
        *waited = !*waited;
        if *waited {
            cx.waker().wake_by_ref();
        }
        *waited
    }

    fn read(&mut self, out: &mut ReadBuf<'_>) -> io::Result<()> {
        match self.acts.pop_front() {
            Some(Act::Send(mut bytes)) => {
                let len = bytes.len().min(out.remaining()).min(self.piece.unwrap_or(usize::MAX));
                let rest = bytes.split_off(len);
                out.put_slice(&bytes);
                if !rest.is_empty() {
                    self.acts.push_front(Act::Send(rest));
                }
                Ok(())
            }
            // The end is permanent.
            Some(Act::End) => {
                self.acts.push_front(Act::End);
                Ok(())
            }
            Some(Act::Reset) | None => {
                self.acts.push_front(Act::Reset);
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        if state.acts.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if state.waits(0, cx) { Poll::Pending } else { Poll::Ready(state.read(out)) }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.acts.front() == Some(&Act::Reset) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.waits(1, cx) {
            return Poll::Pending;
        }
        let taken = bytes.get(..state.piece.unwrap_or(usize::MAX)).unwrap_or(bytes);
        state.written.extend_from_slice(taken);
        if let Some(hears) = &mut state.hears {
            let acts = hears(taken);
            state.acts.extend(acts);
        }
        if !state.acts.is_empty()
            && let Some(reader) = state.reader.take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().shut = true;
        Poll::Ready(Ok(()))
    }
}
