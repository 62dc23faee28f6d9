//! Shares one stream of the upstream among many clients.
//!
//! Owns the open streams, by the request to the upstream, and the position of each client in its stream. The route's policies authorize and
//! count each client separately. Only the request to the upstream is shared. The only client headers in it are those that the operator
//! lists.

mod cursor;
mod pump;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fault::{Fault, Kind};
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::{Answer, Answerer, Exchange, Explanation, Fetch};
use serde_json::{Value, json};

use cursor::Client;
use pump::Opening;
use ring::{ClientAnswer, Ring, RingEnd};

use super::Sse;

/// Settings of a shared stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSettings {
    /// The number of events kept for reconnecting and slow clients.
    pub replay: usize,
    /// Whether a client that falls behind the kept events continues with the oldest one, instead of being disconnected.
    pub skip_missed: bool,
    /// How long a stream stays open without a client.
    pub linger: Duration,
    /// Client headers that are sent to the upstream. Clients with different values get different streams.
    pub headers: Vec<String>,
    /// The `Host` sent to the upstream, if it differs from the target's.
    pub host: Option<Box<str>>,
    /// The maximum size of one event in bytes.
    pub event_bytes_max: usize,
}

/// The shared streams of a policy. They survive a reload that does not change the policy.
#[derive(Default)]
pub struct Shares {
    open: Mutex<Rings>,
    /// The number of bytes kept by all of the streams.
    bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Rings {
    /// The open streams and the recently ended ones, by request.
    by_key: HashMap<Box<[u8]>, Arc<Ring>>,
    /// Open streams without a client, by the client that opened them, in the order in which they lost their last client.
    lingering: HashMap<u64, VecDeque<Weak<Ring>>>,
}

/// The maximum number of streams. More are refused, since each holds a connection and events.
const STREAMS_MAX: usize = 10_000;

/// The maximum number of lingering streams for one client, if the client's number of streams is not limited. A client usually reconnects to
/// the streams that it left last.
pub(super) const LINGERING_MAX: usize = 16;

/// The number of kept bytes above which ended streams are removed.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// The answerer that serves shared streams in place of the upstream.
pub(super) struct Share {
    pub(super) sharing: ShareSettings,
    pub(super) shares: Arc<Shares>,
    pub(super) upstream: Arc<dyn Fetch>,
    pub(super) sse: Arc<Sse>,
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open stream of a key. If there is none, creates one, and returns true with it: the caller must open it. Changes the key
    /// if a client with this last event id needs a separate stream.
    fn find(
        &self,
        key: &mut Box<[u8]>,
        sharing: &ShareSettings,
        opener: u64,
        last_id: Option<&[u8]>,
    ) -> Result<(Arc<Ring>, bool), Fault> {
        let mut rings = self.lock();
        if let Some(id) = last_id
            && rings
                .by_key
                .get(key)
                .is_some_and(|ring| !ring.has_ended() && ring.may_lack_events_after(id))
        {
            // The upstream was asked to begin this stream after another client's event id, so it may lack events that this client missed.
            // The client gets a separate stream, which begins after its own id.
            *key = [key, &b"\nlast-event-id:"[..], id].concat().into();
        }
        let known = rings.by_key.get(key).cloned();
        if let Some(ring) = known.clone().filter(|ring| ring.join()) {
            return Ok((ring, false));
        }
        if self.bytes.load(Ordering::Relaxed) > KEPT_BYTES_MAX {
            rings.by_key.retain(|_, ring| !ring.has_ended());
        }
        if rings.by_key.len() >= STREAMS_MAX {
            rings.end_lingering();
            rings.by_key.retain(|_, ring| !ring.has_ended());
        }
        if rings.by_key.len() >= STREAMS_MAX {
            let cause = format!("sse: {STREAMS_MAX} shared streams are open");
            return Err(Fault::new(Kind::Busy, cause));
        }
        let before = known.filter(|ring| last_id.is_none_or(|id| ring.holds(id)));
        let bytes = self.bytes.clone();
        let ring = Ring::new(opener, last_id, before.as_deref(), sharing.replay, bytes);
        let ring = Arc::new(ring);
        rings.by_key.insert(key.clone(), ring.clone());
        Ok((ring, true))
    }

    /// Removes a stream that has ended, unless another one has replaced it.
    fn forget(&self, key: &[u8], ring: *const Ring) {
        let mut rings = self.lock();
        if rings.by_key.get(key).is_some_and(|known| std::ptr::eq(Arc::as_ptr(known), ring)) {
            rings.by_key.remove(key);
        }
    }

    /// Called when a stream has lost its last client. At most `max` lingering streams of its opener are kept.
    fn linger(&self, ring: &Arc<Ring>, max: usize) {
        let mut rings = self.lock();
        let own = rings.lingering.entry(ring.opener).or_default();
        own.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(ring)));
        own.push_back(Arc::downgrade(ring));
        rings.trim(ring.opener, max);
    }

    /// Ends the oldest lingering streams of a client, so that at most `max` remain.
    fn trim(&self, opener: u64, max: usize) {
        self.lock().trim(opener, max);
    }

    /// Ends all lingering streams. Returns false if there were none.
    fn end_lingering(&self) -> bool {
        self.lock().end_lingering()
    }

    /// Ends a stream if it has no client. Returns whether it did.
    fn end_if_unused(&self, ring: &Arc<Ring>) -> bool {
        let mut rings = self.lock();
        let is_alone = end_if_unused(ring);
        rings.trim(ring.opener, usize::MAX);
        is_alone
    }
}

impl Rings {
    fn trim(&mut self, opener: u64, max: usize) {
        let Some(own) = self.lingering.get_mut(&opener) else { return };
        own.retain(|ring| ring.upgrade().is_some_and(|ring| ring.lingers()));
        while own.len() > max {
            let Some(first) = own.pop_front() else { break };
            if let Some(first) = first.upgrade() {
                end_if_unused(&first);
            }
        }
        if own.is_empty() {
            self.lingering.remove(&opener);
        }
    }

    fn end_lingering(&mut self) -> bool {
        let rings = self.lingering.drain().flat_map(|(_, own)| own);
        // Harmless: a dropped ring has ended.
        rings.filter_map(|ring| ring.upgrade()).filter(end_if_unused).count() > 0
    }
}

/// Ends a stream if it has no client. Returns whether it did. The caller must hold the lock, so that no client can join in the meantime.
fn end_if_unused(ring: &Arc<Ring>) -> bool {
    let is_alone = ring.lingers();
    if is_alone {
        ring.end(RingEnd::Complete);
    }
    is_alone
}

impl Share {
    /// Returns the request to the upstream, and the key of the stream: the target and the listed headers.
    fn request(&self, asked: &RequestHead) -> (RequestHead, Box<[u8]>) {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", asked.target());
        let mut key = asked.target().to_vec();
        head.headers.add_known("Accept", b"text/event-stream");
        if let Some(host) = &self.sharing.host {
            head.headers.add_known("Host", host.as_bytes());
        }
        // Only the last `Via` is copied. The gateway added it, and detects loops by it.
        if let Some(via) = asked.headers.get_all("via").last() {
            head.headers.add_known("Via", via);
        }
        for name in &self.sharing.headers {
            for value in asked.headers.get_all(name) {
                // Harmless: the line was parsed from a head, so it is valid.
                let _ = head.headers.add(name, value);
                for part in [name.as_bytes(), value] {
                    key.push(b'\n');
                    key.extend_from_slice(part);
                }
            }
        }
        (head, key.into())
    }

    async fn stream(&self, ex: &mut Exchange, request: &Request) -> Result<Reply, Fault> {
        // An empty id counts as none (WHATWG HTML, 9.2.6).
        let last_id = request.head.headers.get("last-event-id").filter(|id| !id.is_empty());
        let last_id: Option<Box<[u8]>> = last_id.map(Into::into);
        let (head, mut key) = self.request(&request.head);
        let opener = self.sse.slot.get(ex).map_or(0, |admitted| admitted.counted.key);
        let (ring, is_new) =
            self.shares.find(&mut key, &self.sharing, opener, last_id.as_deref())?;
        // The ring counts this client until `client` is dropped.
        let client = Client::of(ring.clone());
        self.shares.trim(opener, self.sse.lingering_max(opener));
        if is_new {
            let opening = Opening { key, head, last_id: last_id.clone() };
            pump::start(self, opening, ring.clone(), ex.caller.clone());
        }
        Ok(match ring.opened().await? {
            ClientAnswer::Stream(head) => {
                let unasked = || Fault::new(Kind::Internal, "sse: the stream was not admitted");
                let meter = self.sse.open(ex).ok_or_else(unasked)?;
                let cursor = client.begin(last_id.as_deref(), self.sharing.skip_missed, meter);
                Reply { head, body: Body::Stream(Box::new(cursor)), tunnel: None }
            }
            ClientAnswer::Other(head, bytes) => {
                Reply { head, body: Body::whole(bytes), tunnel: None }
            }
        })
    }
}

impl Answerer for Share {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Wait(Box::pin(self.stream(ex, request)))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        Explanation { what: "a shared stream of the upstream".to_owned(), how: Vec::new() }
    }

    fn view(&self) -> Value {
        json!({ "shares": true })
    }
}
