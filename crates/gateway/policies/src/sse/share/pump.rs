//! Reads a shared stream from the upstream into its ring, on the worker of its first client.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Poll, ready};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{Alarm, clock, scratch};
use message::{Body, EventScanner, Fill, Reply, Request, RequestHead};
use policy::{Call, Caller, Fetch, Totals};

use super::ring::{Ring, RingBlock, RingEnd, SharedAnswer};
use super::{Share, ShareSettings, Shares};
use crate::sse::Sse;
use crate::sse::coding::Decoder;

/// The maximum size of an answer that is not a stream.
const OTHER_BYTES_MAX: usize = 64 << 10;

/// The maximum decoded size of one read.
const PLAIN_BYTES_MAX: usize = 16 << 20;

/// The pause after each part of a burst, in which the clients on all workers take that part.
const CATCH_UP: Duration = Duration::from_millis(1);

/// How long the events of an ended stream are kept, unless `linger` is longer. Clients that lost the stream reconnect within this time.
const KEPT: Duration = Duration::from_secs(60);

/// The number of attempts to open a stream while lingering streams release their connections.
const PLACE_TRIES: u32 = 20;
/// The pause between two of these attempts.
const PLACE_PAUSE: Duration = Duration::from_millis(5);

/// Reads the upstream into a ring. When dropped, it ends the ring and removes it.
struct Pump {
    ring: Arc<Ring>,
    shares: Arc<Shares>,
    key: Box<[u8]>,
    sse: Arc<Sse>,
}

/// The request for a stream.
pub(super) struct Opening {
    pub(super) key: Box<[u8]>,
    pub(super) head: RequestHead,
    /// The last event id of the client that opens the stream.
    pub(super) last_id: Option<Box<[u8]>>,
}

/// Opens the stream of a ring, and reads it until it ends or has had no client for the linger time. The events are kept for a while
/// afterwards.
pub(super) fn start(share: &Share, opening: Opening, ring: Arc<Ring>, caller: Rc<Caller>) {
    let (sharing, upstream) = (share.sharing.clone(), share.upstream.clone());
    let Opening { key, head, last_id } = opening;
    let pump = Pump { ring, shares: share.shares.clone(), key, sse: share.sse.clone() };
    kit::spawn(async move {
        let ended = {
            let running = pin!(pump.run(&sharing, &*upstream, head, last_id, &caller));
            kit::task::contain(running).await
        };
        let end = match ended {
            Ok(Ok(())) => RingEnd::Complete,
            Ok(Err(Fault { kind: Kind::ReplyTooLarge, .. })) if pump.ring.is_open() => {
                RingEnd::TooLarge
            }
            Ok(Err(fault)) => RingEnd::Failed(fault.kind, fault.cause),
            Err(panic) => {
                tracing::error!("a shared stream ended with a panic: {panic}");
                RingEnd::Failed(Kind::Internal, "sse: a shared stream has panicked".into())
            }
        };
        pump.ring.end(end);
        if !pump.ring.has_events() {
            return;
        }
        // The task must not keep alive a ring that another ring has continued.
        let (shares, key) = (pump.shares.clone(), pump.key.clone());
        let ring = Arc::downgrade(&pump.ring);
        let kept = EndedRing { shares, key, ring };
        drop(pump);
        tokio::time::sleep(KEPT.max(sharing.linger)).await;
        drop(kept);
    });
}

/// A ring that has ended. It is removed when this is dropped.
struct EndedRing {
    shares: Arc<Shares>,
    key: Box<[u8]>,
    ring: Weak<Ring>,
}

impl Drop for EndedRing {
    fn drop(&mut self) {
        self.shares.forget(&self.key, self.ring.as_ptr());
    }
}

impl Pump {
    async fn run(
        &self,
        sharing: &ShareSettings,
        upstream: &dyn Fetch,
        head: RequestHead,
        last_id: Option<Box<[u8]>>,
        caller: &Caller,
    ) -> Result<(), Fault> {
        let mut watch = UnusedWatch { pump: self, linger: sharing.linger, alarm: Alarm::default() };
        let from = self.ring.from.as_deref();
        let asked = request_after(&head, from);
        let Some(mut reply) = watch.fetch(upstream, asked, caller).await? else { return Ok(()) };
        if !reply.head.is_event_stream() && from != last_id.as_deref() {
            // An answer about the event id of another client, such as that the id is unknown, must not be given to this client.
            let asked = request_after(&head, last_id.as_deref());
            let Some(other) = watch.fetch(upstream, asked, caller).await? else { return Ok(()) };
            reply = other;
        }
        let Reply { mut head, body, .. } = reply;
        let decoder = if head.is_event_stream() {
            Decoder::of(&mut head.headers)?
        } else {
            let body = body.gather(OTHER_BYTES_MAX, Kind::ReplyTooLarge).await?;
            self.ring.open(SharedAnswer { body: Some(body), ..SharedAnswer::of(&head) });
            return Ok(());
        };
        self.ring.open(SharedAnswer::of(&head));
        let blocks = Blocks::new(sharing.event_bytes_max);
        UpstreamStream { watch, body, decoder, blocks }.run(sharing).await
    }

    /// Ends the ring if no client has joined it again. Returns true if it did.
    fn end_if_unused(&self) -> bool {
        self.shares.end_if_unused(&self.ring)
    }
}

/// Returns the request for the events after an id. Without an id, the head is not changed.
fn request_after(head: &RequestHead, id: Option<&[u8]>) -> RequestHead {
    let mut head = head.clone();
    if let Some(id) = id {
        head.headers.remove("last-event-id");
        // Harmless: only an id from an event can be invalid in a header, and no client could send such an id.
        let _ = head.headers.add("Last-Event-ID", id);
    }
    head
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.ring.end(RingEnd::Failed(Kind::Internal, "sse: the shared stream was dropped".into()));
        if !self.ring.has_events() {
            self.shares.forget(&self.key, Arc::as_ptr(&self.ring));
        }
    }
}

/// Waits for the upstream, and ends the ring once it has had no client for the linger time.
struct UnusedWatch<'p> {
    pump: &'p Pump,
    linger: Duration,
    alarm: Alarm,
}

impl UnusedWatch<'_> {
    /// Sends the request to the upstream. If the upstream is at its connection limit, lingering streams are ended to free connections.
    async fn fetch(
        &mut self,
        upstream: &dyn Fetch,
        head: RequestHead,
        caller: &Caller,
    ) -> Result<Option<Reply>, Fault> {
        let totals = Totals::default();
        let mut tries = 0;
        loop {
            let request = Request { head: head.clone(), body: Body::Empty };
            let fetched = upstream.fetch(Call::detached(caller, None, &totals), request);
            match self.unless_left(fetched).await {
                Err(fault) if fault.kind == Kind::BreakerOpen && tries < PLACE_TRIES => {
                    if !self.pump.shares.end_lingering() && tries == 0 {
                        return Err(fault);
                    }
                    tries += 1;
                    tokio::time::sleep(PLACE_PAUSE).await;
                }
                fetched => return fetched,
            }
        }
    }

    /// Waits for a future. Returns `None` if the ring ends first.
    async fn unless_left<T>(
        &mut self,
        waited: impl Future<Output = Result<T, Fault>>,
    ) -> Result<Option<T>, Fault> {
        let ring = &self.pump.ring;
        let mut left = pin!(ring.left.notified());
        let mut waited = pin!(waited);
        poll_fn(|cx| {
            while left.as_mut().poll(cx).is_ready() {
                left.set(ring.left.notified());
                if ring.has_ended() {
                    return Poll::Ready(Ok(None));
                }
                if ring.lingers() {
                    self.pump.shares.linger(ring, self.pump.sse.lingering_max(ring.opener));
                    self.alarm.set(clock::now(), self.linger);
                }
            }
            if self.alarm.poll(cx).is_ready() {
                self.alarm.clear();
                if self.pump.end_if_unused() {
                    return Poll::Ready(Ok(None));
                }
            }
            waited.as_mut().poll(cx).map_ok(Some)
        })
        .await
    }
}

/// The open stream of the upstream.
struct UpstreamStream<'p> {
    watch: UnusedWatch<'p>,
    body: Body,
    decoder: Option<Decoder>,
    blocks: Blocks,
}

impl UpstreamStream<'_> {
    async fn run(mut self, sharing: &ShareSettings) -> Result<(), Fault> {
        // A burst must not make all clients fall behind.
        let at_once = (sharing.replay / 2).max(1);
        let mut pushed = 0;
        loop {
            let read = self.read().await;
            let ring = &self.watch.pump.ring;
            let mut blocks = std::mem::take(&mut self.blocks.ended).into_iter().peekable();
            while blocks.peek().is_some() {
                let room = at_once - pushed;
                // Harmless: the loop continues with the rest.
                pushed += ring.push(blocks.by_ref().take(room));
                if pushed >= at_once {
                    tokio::time::sleep(CATCH_UP).await;
                    pushed = 0;
                }
            }
            if read? == Fill::End {
                return Ok(());
            }
        }
    }

    /// Reads and splits the next data into blocks. The stream ends if the upstream ends, if an event is too large, or after the linger time
    /// without a client.
    async fn read(&mut self) -> Result<Fill, Fault> {
        let UpstreamStream { watch, body, decoder, blocks } = self;
        let cut = poll_fn(|cx| {
            let mut bytes = scratch::lend();
            let fill = ready!(body.poll_fill(cx, &mut bytes))?;
            let cut = match decoder {
                None => blocks.cut(&bytes),
                Some(decoder) => decoder.decode(&bytes, |plain| blocks.cut(plain))?,
            };
            Poll::Ready(match (cut, fill) {
                (Err(TooMuch), _) => Err(Fault::new(Kind::ReplyTooLarge, TOO_MUCH)),
                (Ok(()), Fill::End) => {
                    blocks.end();
                    decoder.as_mut().map_or(Ok(()), Decoder::end)?;
                    Ok(Fill::End)
                }
                (Ok(()), fill) => Ok(fill),
            })
        });
        Ok(watch.unless_left(cut).await?.unwrap_or(Fill::End))
    }
}

/// Splits data into blocks.
struct Blocks {
    scanner: EventScanner,
    held: Vec<u8>,
    bytes_max: usize,
    /// Whether the first bytes of the stream have arrived. A byte order mark may precede them.
    has_begun: bool,
    /// The complete blocks.
    ended: Vec<RingBlock>,
    /// Their size in bytes.
    ended_bytes: usize,
}

/// The error for an event that is too large, or for too much data decoded at once.
struct TooMuch;

/// The mark that may precede a stream (WHATWG HTML, 9.2.5).
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

const TOO_MUCH: &str = "sse: an event is too large";

impl Blocks {
    fn new(bytes_max: usize) -> Blocks {
        let (scanner, held) = (EventScanner::default(), Vec::new());
        Blocks { scanner, held, bytes_max, has_begun: false, ended: Vec::new(), ended_bytes: 0 }
    }

    fn cut(&mut self, bytes: &[u8]) -> Result<(), TooMuch> {
        if self.ended.is_empty() {
            self.ended_bytes = 0;
        }
        let mut rest = bytes;
        while let Some(block) = self.scanner.next_block(rest) {
            let (ended, after) = rest.split_at_checked(block.len).unwrap_or((rest, &[]));
            self.hold(ended)?;
            self.keep(block.is_event, true);
            rest = after;
        }
        self.hold(rest)
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), TooMuch> {
        if self.held.len() + bytes.len() > self.bytes_max || self.ended_bytes > PLAIN_BYTES_MAX {
            return Err(TooMuch);
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn keep(&mut self, is_event: bool, is_whole: bool) {
        let whole = std::mem::take(&mut self.held);
        let lines = if std::mem::replace(&mut self.has_begun, true) {
            whole.as_slice()
        } else {
            whole.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&whole)
        };
        let id = id_of(lines).filter(|_| is_whole).map(Into::into);
        self.ended_bytes += whole.len();
        self.ended.push(RingBlock { bytes: whole.into(), id, is_event, is_whole });
    }

    /// Keeps the part of a block that had arrived when the upstream ended. Browsers ignore such a part, but other clients may not.
    fn end(&mut self) {
        if !self.held.is_empty() {
            self.keep(false, false);
        }
    }
}

/// Returns the value of the last field `id` of a block (WHATWG HTML, 9.2.6).
fn id_of(block: &[u8]) -> Option<&[u8]> {
    let lines = block.split(|byte| matches!(byte, b'\r' | b'\n'));
    // Harmless: other lines do not affect the id.
    let mut values = lines.filter_map(|line| match line.strip_prefix(b"id") {
        Some([]) => Some(&[][..]),
        Some([b':', b' ', value @ ..] | [b':', value @ ..]) => Some(value),
        Some(_) | None => None,
    });
    values.rfind(|value| !value.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_browsers_do() {
        for (block, id) in [
            (&b"id: 7\ndata: x\n\n"[..], Some(&b"7"[..])),
            (b"id:7\r\n\r\n", Some(b"7")),
            (b"id:  7\n\n", Some(b" 7")),
            (b"id\n\n", Some(b"")),
            (b"id: 1\nid: 2\n\n", Some(b"2")),
            (b"id: a\0b\n\n", None),
            (b"idle: 7\ndata: id: 8\n\n", None),
        ] {
            assert_eq!(id_of(block), id, "{block:?}");
        }
    }
}
