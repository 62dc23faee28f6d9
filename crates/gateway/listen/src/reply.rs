//! A reply to an HTTP/1 client: chooses its framing, and writes it as fast as its source and the client allow.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::alarm::{self, SharedAlarm};
use kit::clock::{self, Instant};
use kit::{Wire, scratch};
use message::{Body, Chunk, CopyError, DirectBytes, DirectWriter, Outgoing, Protocol, Reply};
use pipeline::Account;

use crate::client::{ClientHandle, ClientWriter};
use crate::date;
use crate::stream_lifetime::StreamLifetime;
use crate::write_progress::WriteProgress;

/// The properties of the request that determine how its reply is framed.
#[derive(Clone, Copy)]
pub(crate) struct ReplyRules {
    pub(crate) protocol: Protocol,
    /// True if the method is HEAD.
    pub(crate) head: bool,
    /// True if the connection may be reused.
    pub(crate) keep_alive: bool,
}

/// How the end of a reply is marked.
enum ReplyFraming {
    /// No body, and no header about one.
    None,
    /// A length: the given one, or with `None` the one that is already in the head.
    Length(Option<u64>),
    Chunked,
    Close,
}

/// Prepares a reply for writing. Returns the data, and whether the connection can be reused.
pub(crate) fn outgoing(mut reply: Reply, rules: ReplyRules, tunnelled: bool) -> (Outgoing, bool) {
    let framing = framing(&mut reply, rules);
    let keep_alive = rules.keep_alive && !matches!(framing, ReplyFraming::Close);
    let mut head = scratch::lend();
    reply.head.write_to(&mut head);
    if !reply.head.headers.contains("date") {
        date::write_to(&mut head);
    }
    match framing {
        ReplyFraming::Length(Some(n)) => http1::content_length(n, &mut head),
        ReplyFraming::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        ReplyFraming::None | ReplyFraming::Length(None) | ReplyFraming::Close => {}
    }
    match (keep_alive, rules.protocol) {
        (true, Protocol::Http10) => head.extend_from_slice(b"Connection: keep-alive\r\n"),
        (false, Protocol::Http11 | Protocol::Http2) if !tunnelled => {
            head.extend_from_slice(b"Connection: close\r\n");
        }
        // Harmless: the other combinations need no header.
        _ => {}
    }
    head.extend_from_slice(b"\r\n");
    (Outgoing::new(head, reply.body, matches!(framing, ReplyFraming::Chunked)), keep_alive)
}

/// Chooses the framing of a reply (RFC 9112, 6.3). Drops a body that must not be sent.
fn framing(reply: &mut Reply, rules: ReplyRules) -> ReplyFraming {
    let status = reply.head.status;
    let said = reply.head.headers.get("content-length");
    let (announced, said) = (said.is_some(), said.and_then(http1::parse_content_length));
    if status < 200 || status == 204 {
        reply.head.headers.remove("content-length");
        reply.body = Body::Empty;
        return ReplyFraming::None;
    }
    let remaining = reply.body.remaining();
    if status == 304 || rules.head {
        // The length that the reply to a GET would have: the upstream's, or else that of the body.
        let made = remaining.filter(|n| !announced && *n > 0);
        reply.body = Body::Empty;
        return if made.is_some() { ReplyFraming::Length(made) } else { ReplyFraming::None };
    }
    if said.is_some() && said == remaining {
        return ReplyFraming::Length(None);
    }
    if announced {
        // Only one header may frame a body, and it has to be right (RFC 9112, 6.3).
        reply.head.headers.remove("content-length");
    }
    match remaining {
        Some(n) => ReplyFraming::Length(Some(n)),
        None if rules.protocol == Protocol::Http10 => ReplyFraming::Close,
        None => ReplyFraming::Chunked,
    }
}

/// Writes a reply as fast as its source and the client allow, and adds each waiting time to the side that it was spent on. `stay` is the
/// lifetime of a stream.
pub(crate) async fn write(
    client: &ClientHandle,
    outgoing: &mut Outgoing,
    account: &mut Account,
    timeout: Duration,
    stay: Option<Rc<StreamLifetime>>,
) -> Result<(), Fault> {
    let endless = outgoing.has_unknown_length();
    let write_progress = WriteProgress::default();
    let (waiting, alarm) = (None, None);
    let direct = match (&stay, &client.borrow().wire) {
        (Some(_), Wire::Plain(_)) => Direct::Possible,
        _ => Direct::Never,
    };
    let mut writing = Writing {
        timeout,
        endless,
        waiting,
        sent_before: 0,
        write_progress,
        alarm,
        stay,
        listens: false,
        direct,
    };
    let written = poll_fn(|cx| writing.poll(cx, client, outgoing, account)).await;
    account.reply_bytes = outgoing.payload_bytes();
    written
}

struct Writing {
    timeout: Duration,
    endless: bool,
    /// The start of the current wait, and true if it is for the client, not for the source.
    waiting: Option<(Instant, bool)>,
    sent_before: u64,
    write_progress: WriteProgress,
    /// Created when it is first needed, since most clients take their reply at once.
    alarm: Option<SharedAlarm>,
    stay: Option<Rc<StreamLifetime>>,
    /// True if data from the client wakes the task.
    listens: bool,
    direct: Direct,
}

/// Whether the source of a stream may write to the client while its task waits.
enum Direct {
    Never,
    /// The source has not been asked yet.
    Possible,
    By(Rc<DirectReply>),
}

/// The direct path to the client. It is used only while the stream's task waits.
struct DirectReply {
    client: ClientHandle,
    stay: Option<Rc<StreamLifetime>>,
    is_chunked: bool,
    taken: RefCell<DirectBytes>,
}

impl Writing {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &ClientHandle,
        outgoing: &mut Outgoing,
        account: &mut Account,
    ) -> Poll<Result<(), Fault>> {
        if let Direct::By(way) = &self.direct {
            outgoing.take_over(way.taken.take());
        }
        // A stream waits long and forwards an event quickly. Reading the clock twice would cost more than forwarding it.
        if self.stay.is_none() {
            self.wait_for(None, account);
        }
        let written = match outgoing.poll(cx, &mut ClientWriter(client)) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(CopyError::Source(fault))) => {
                outgoing.flush(cx, &mut ClientWriter(client));
                Poll::Ready(Err(fault))
            }
            Poll::Ready(Err(CopyError::Peer(e))) => Poll::Ready(Err(gone(&e.to_string()))),
            Poll::Pending => {
                self.wait_for(Some(outgoing.is_blocked()), account);
                let waited = self.poll_waiting(cx, client, outgoing);
                if waited.is_pending() {
                    self.write_directly(client, outgoing);
                }
                waited
            }
        };
        if written.is_ready() {
            self.wait_for(None, account);
        }
        written
    }

    /// Lets the source write while the task has nothing else to wait for.
    fn write_directly(&mut self, client: &ClientHandle, outgoing: &mut Outgoing) {
        if !outgoing.is_starved() {
            return;
        }
        let way = match &self.direct {
            Direct::Never => return,
            Direct::Possible => {
                let (client, is_chunked) = (client.clone(), outgoing.is_chunked());
                let stay = self.stay.clone();
                Rc::new(DirectReply { client, stay, is_chunked, taken: RefCell::default() })
            }
            Direct::By(way) => way.clone(),
        };
        let writer: Rc<dyn DirectWriter> = way.clone();
        self.direct =
            if outgoing.write_directly(&writer) { Direct::By(way) } else { Direct::Never };
    }

    /// Starts or ends a wait for the client or for the source of the body.
    fn wait_for(&mut self, client: Option<bool>, account: &Account) {
        if self.waiting.map(|(_, for_client)| for_client) == client {
            return;
        }
        let now = clock::now();
        if let Some((since, for_client)) = self.waiting.take() {
            let waited = now.duration_since(since);
            if for_client {
                account.ex.totals.client_wait.add(waited)
            } else {
                account.ex.totals.upstream_wait.add(waited)
            }
        }
        self.waiting = client.map(|for_client| (now, for_client));
    }

    fn poll_waiting(
        &mut self,
        cx: &mut Context<'_>,
        client: &ClientHandle,
        outgoing: &Outgoing,
    ) -> Poll<Result<(), Fault>> {
        if let Some(stay) = self.stay.as_ref().filter(|stay| stay.poll_over(cx).is_ready()) {
            return Poll::Ready(Err(stay.cut()));
        }
        let mut client = client.borrow_mut();
        if outgoing.is_blocked() {
            let mut alarm = self.alarm.get_or_insert_with(alarm::take).borrow_mut();
            // The deadline moves with every piece that the client takes.
            if outgoing.sent_bytes() != self.sent_before || !alarm.is_set() {
                self.sent_before = outgoing.sent_bytes();
                self.write_progress = WriteProgress::default();
                alarm.set(clock::now(), WriteProgress::first_look(self.timeout));
            }
            while alarm.poll(cx).is_ready() {
                if !self.write_progress.has_progressed(&client.wire) {
                    return Poll::Ready(Err(gone("the client does not read its reply")));
                }
                alarm.set(clock::now(), self.timeout);
            }
            return Poll::Pending;
        }
        // The client of a stream seldom sends anything, so it is not checked again while nothing has arrived.
        if self.listens && client.is_silent() {
            return Poll::Pending;
        }
        // A client that has closed its sending side may still wait for a reply. If the length of the
        // reply is unknown, such a client counts as gone.
        let gone_for_good =
            if self.endless { client.poll_gone(cx) } else { client.poll_broken(cx) };
        if gone_for_good.is_ready() {
            Poll::Ready(Err(gone("closed")))
        } else {
            self.listens = self.stay.is_some() && kit::task::has_budget();
            Poll::Pending
        }
    }
}

impl DirectWriter for DirectReply {
    fn write(&self, chunk: &Chunk) -> bool {
        let bytes = if self.is_chunked { chunk.framed() } else { chunk.payload() };
        self.stay.iter().for_each(|stay| stay.moved());
        let mut taken = self.taken.borrow_mut();
        let sent = match (taken.rest.is_empty(), self.client.try_borrow()) {
            (true, Ok(client)) => client.write_now(bytes),
            (false, _) | (_, Err(_)) => 0,
        };
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        taken.made_bytes += count(chunk.payload().len());
        taken.sent_bytes += count(sent);
        let rest = bytes.get(sent..).unwrap_or_default();
        taken.rest.extend_from_slice(rest);
        rest.is_empty()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            alarm::give(alarm);
        }
    }
}

fn gone(why: &str) -> Fault {
    Fault::new(Kind::ClientGone, format!("writing the reply to the client: {why}"))
}

#[cfg(test)]
mod tests;
