//! Event streams that end between two events once they have to leave, and what a listener that closes leaves, which is cut.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use fault::Fault;
use message::{Body, Fill, Reply, Source, Trailers};
use pipeline::Account;

use crate::accept::Connection;
use crate::connections::Permit;
use crate::stay::Stay;

/// The body of an event stream, which ends behind a whole event as soon as it has to leave.
struct Events {
    body: Body,
    stay: Rc<Stay>,
    last: Boundary,
}

/// The place of the last byte in a stream of events. Lines end with CR, LF or both, and events with an empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boundary {
    /// No byte of a line has come since the last empty one.
    is_between: bool,
    line_is_empty: bool,
    /// An LF that comes next belongs to the end of the line before.
    after_cr: bool,
}

/// Makes an event stream end between two events once it has to leave, and gives what it asks. Other replies stay as they are.
pub(crate) fn end_between(
    reply: &mut Reply,
    account: &Account,
    connection: &Connection,
) -> Option<Rc<Stay>> {
    if reply.body.remaining().is_some() || !reply.head.is_event_stream() {
        return None;
    }
    let body = std::mem::take(&mut reply.body);
    let stay = Rc::new(Stay::begin(account, connection));
    let events = Events { body, stay: stay.clone(), last: Boundary::START };
    reply.body = Body::Stream(Box::new(events));
    Some(stay)
}

/// The result of a connection's work, or nothing if its listener was cut before.
pub(crate) async fn until_cut<T>(
    permit: &Permit,
    mut work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if permit.is_closing(cx.waker()) && permit.listener_state.is_cutting() => {
            Poll::Ready(None)
        }
        Poll::Pending => Poll::Pending,
    })
    .await
}

impl Boundary {
    const START: Boundary = Boundary { is_between: true, line_is_empty: true, after_cr: false };

    /// Goes on by a byte.
    fn pass(self, byte: u8) -> Boundary {
        match byte {
            b'\n' if self.after_cr => Boundary { after_cr: false, ..self },
            b'\r' | b'\n' => Boundary {
                is_between: self.is_between || self.line_is_empty,
                line_is_empty: true,
                after_cr: byte == b'\r',
            },
            _ => Boundary { is_between: false, line_is_empty: false, after_cr: false },
        }
    }

    /// Goes on to the first place between two events, if there is one, and gives how many bytes that took.
    fn pass_to_between(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut bytes = bytes.iter().enumerate().peekable();
        while let Some((at, byte)) = bytes.next() {
            *self = self.pass(*byte);
            if self.is_between {
                let has_lf = self.after_cr && bytes.peek().is_some_and(|(_, byte)| **byte == b'\n');
                return Some(at + 1 + usize::from(has_lf));
            }
        }
        None
    }
}

impl Source for Events {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let is_leaving = self.stay.has_to_leave(cx);
        if is_leaving && self.last.is_between {
            return Poll::Ready(Ok(Fill::End));
        }
        let before = out.len();
        let fill = ready!(self.body.poll_fill(cx, out))?;
        let came = out.get(before..).unwrap_or_default();
        if !is_leaving {
            self.last = came.iter().fold(self.last, |permit, byte| permit.pass(*byte));
        } else if let Some(passed) = self.last.pass_to_between(came) {
            out.truncate(before + passed);
            return Poll::Ready(Ok(Fill::End));
        }
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        self.body.trailers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_at_an_empty_line_whatever_ends_lines() {
        for (bytes, is_between) in [
            ("", true),
            ("data: 1", false),
            ("data: 1\n", false),
            ("data: 1\n\n", true),
            ("data: 1\r\n", false),
            ("data: 1\r\n\r", true),
            ("data: 1\r\n\r\n", true),
            ("data: 1\r\r", true),
            ("data: 1\n\r\n", true),
            ("data: 1\n\ndata: 2\n", false),
            (": ping\n\n\n", true),
            ("\n", true),
        ] {
            let permit = bytes.bytes().fold(Boundary::START, Boundary::pass);
            assert_eq!(permit.is_between, is_between, "{bytes:?}");
        }
    }

    #[test]
    fn a_stream_goes_on_to_the_end_of_its_event_and_no_further() {
        for (begun, rest, passed) in [
            ("data: 1", "\n\ndata: 2\n\n", Some(2)),
            ("data: 1", "\r\n\r\ndata: 2\r\n\r\n", Some(4)),
            ("data: 1\r", "\n\r\ndata: 2", Some(3)),
            ("data: 1\n", "\r", Some(1)),
            ("data: 1", "2\n", None),
        ] {
            let mut permit = begun.bytes().fold(Boundary::START, Boundary::pass);
            assert_eq!(permit.pass_to_between(rest.as_bytes()), passed, "{begun:?} {rest:?}");
        }
    }
}
