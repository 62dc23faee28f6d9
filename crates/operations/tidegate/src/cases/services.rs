//! Stand-ins for upstreams: they answer the calls that cases list.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use config::{CaseAnswer, CaseCall};
use kit::Duplex;
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::Notify;

use super::compare::of_request;
use super::difference::Difference;
use super::message::{Message, MessageKind, WireReader, head};
use super::recorded::RecordedReply;

/// The upstreams of one run. Clones share state.
#[derive(Clone)]
pub(super) struct Services(Rc<Inner>);

struct Inner {
    listed: RefCell<Vec<ListedCall>>,
    received: RefCell<Vec<ReceivedCall>>,
    /// True if each listed call may be made any number of times.
    repeats: bool,
    /// The answer to unlisted calls. None if such calls are errors.
    reply: RefCell<Option<RecordedReply>>,
    /// Notified of each call.
    called: Notify,
}

/// A call that a case lists.
struct ListedCall {
    call: CaseCall,
    made: bool,
}

/// A call that was made.
#[derive(Debug, Clone)]
pub(super) struct ReceivedCall {
    pub(super) upstream: String,
    pub(super) request: Message,
    /// The status of its answer. None if the call is not listed.
    pub(super) answered: Option<u16>,
}

/// The buffer size of a wire between the gateway and a stand-in.
pub(super) const WIRE_BYTES: usize = 64 * 1024;

impl Services {
    /// Answers each of these calls once.
    pub(super) fn answering_once(calls: impl Iterator<Item = CaseCall>) -> Services {
        Services::new(calls, false)
    }

    /// Answers these calls any number of times. The first match is used.
    pub(super) fn answering_always(calls: impl Iterator<Item = CaseCall>) -> Services {
        Services::new(calls, true)
    }

    /// Answers every call with the reply that [`Services::set_reply`] names.
    pub(super) fn recorded() -> Services {
        Services::new(std::iter::empty(), true)
    }

    /// Sets the answer to every further call.
    pub(super) fn set_reply(&self, reply: &RecordedReply) {
        *self.0.reply.borrow_mut() = Some(reply.clone());
    }

    /// Takes the calls that were made since this was last called.
    pub(super) fn take_received(&self) -> Vec<ReceivedCall> {
        self.0.received.take()
    }

    fn new(calls: impl Iterator<Item = CaseCall>, repeats: bool) -> Services {
        let listed = calls.map(|call| ListedCall { call, made: false }).collect();
        Services(Rc::new(Inner {
            listed: RefCell::new(listed),
            received: RefCell::default(),
            repeats,
            reply: RefCell::default(),
            called: Notify::new(),
        }))
    }

    /// Replaces the network for this thread.
    pub(super) fn stand_in(&self) {
        let services = self.clone();
        kit::stand_in::network(move |upstream| Ok(services.connect(upstream)));
    }

    /// Removes unlisted calls. Calls of background work may be listed, but need not be.
    pub(super) fn forget_unlisted(&self) {
        self.0.received.borrow_mut().retain(|came| came.answered.is_some());
    }

    /// The calls in their order.
    pub(super) fn received(&self) -> Vec<ReceivedCall> {
        self.0.received.borrow().clone()
    }

    /// The listed calls that were not made, with their numbers.
    pub(super) fn not_made(&self) -> Vec<(usize, CaseCall)> {
        let listed = self.0.listed.borrow();
        let open = listed.iter().enumerate().filter(|(_, listed)| !listed.made);
        open.map(|(number, listed)| (number, listed.call.clone())).collect()
    }

    /// Returns once no call is missing: all listed ones were made, or an unlisted one was made, possibly instead of a
    /// listed one. Mirrors make their calls outside the exchange.
    pub(super) async fn settled(&self) {
        while !self.0.is_settled() {
            self.0.called.notified().await;
        }
    }

    fn connect(&self, upstream: &str) -> Box<dyn Duplex> {
        let (near, far) = tokio::io::duplex(WIRE_BYTES);
        let (services, upstream) = (self.clone(), upstream.to_owned());
        // The task ends with the connection.
        kit::spawn(async move {
            // Harmless: the gateway notices the end of the connection.
            let _ = services.serve(&upstream, far).await;
        });
        Box::new(near)
    }

    async fn serve(&self, upstream: &str, wire: DuplexStream) -> io::Result<()> {
        let (read, mut write) = tokio::io::split(wire);
        let mut incoming = WireReader::new(read);
        // The gateway sends no malformed requests. A malformed request would end the connection.
        while let Ok(Some(request)) = incoming.next(MessageKind::Request).await {
            let to_head = request.method == "HEAD";
            let answer = self.answer(upstream, request);
            if let Some(answer) = &answer {
                tokio::time::sleep(answer.delay.value).await;
            }
            let recorded = self.0.reply.borrow().clone();
            let bytes = match (answer, recorded) {
                (None, Some(recorded)) => recorded.written(to_head),
                (answer, _) => written(answer.as_ref(), to_head),
            };
            write.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// Records a call. Returns the answer of the first matching listed call that is still open, or `None` if there is none.
    fn answer(&self, upstream: &str, request: Message) -> Option<CaseAnswer> {
        let mut listed = self.0.listed.borrow_mut();
        let fits = |listed: &&mut ListedCall| {
            (self.0.repeats || !listed.made)
                && listed.call.peer() == upstream
                && of_request(&listed.call.expect, &request).is_empty()
        };
        let answer = listed.iter_mut().find(fits).map(|listed| {
            listed.made = true;
            listed.call.reply.clone()
        });
        let answered = answer.as_ref().map(status);
        let upstream = upstream.to_owned();
        self.0.received.borrow_mut().push(ReceivedCall { upstream, request, answered });
        // A task that does not wait yet checks the state before it waits.
        self.0.called.notify_one();
        answer
    }
}

impl Inner {
    fn is_settled(&self) -> bool {
        self.repeats
            || self.listed.borrow().iter().all(|listed| listed.made)
            || self.received.borrow().iter().any(|came| came.answered.is_none())
    }
}

impl ReceivedCall {
    /// The differences from a listed call of the same upstream that was not made.
    pub(super) fn differences(&self, call: &CaseCall) -> Vec<Difference> {
        of_request(&call.expect, &self.request)
    }
}

impl RecordedReply {
    fn written(&self, to_head: bool) -> Vec<u8> {
        let lines = self.lines.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        bytes(self.status, lines, &self.body, to_head)
    }
}

fn status(answer: &CaseAnswer) -> u16 {
    u16::try_from(answer.status.get()).unwrap_or(200)
}

/// Encodes an answer. An unlisted call also gets one, so that it fails at once and is not retried.
fn written(answer: Option<&CaseAnswer>, to_head: bool) -> Vec<u8> {
    let Some(answer) = answer else {
        return head("HTTP/1.1 501 Not Listed", std::iter::empty(), Some(0)).into_bytes();
    };
    let status = status(answer);
    let lines =
        answer.headers.iter().map(|(name, value)| (name.value.as_str(), value.value.as_str()));
    bytes(status, lines, answer.body.as_bytes(), to_head)
}

fn bytes<'l>(
    status: u16,
    lines: impl Iterator<Item = (&'l str, &'l str)>,
    body: &[u8],
    to_head: bool,
) -> Vec<u8> {
    let bodiless = matches!(status, 204 | 304);
    let length = (!bodiless).then_some(body.len());
    let mut bytes = head(&format!("HTTP/1.1 {status} "), lines, length).into_bytes();
    if !bodiless && !to_head {
        bytes.extend_from_slice(body);
    }
    bytes
}
