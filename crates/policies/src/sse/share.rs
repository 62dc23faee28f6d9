//! One stream of the upstream for many clients.
//!
//! Owns the streams that are open, by what they are asked for, and the place of each client in one. Clients are authorised and counted
//! by the route's policies, each by itself; only the request to the upstream is shared, and has nothing of theirs but the headers that
//! the operator names.

mod cursor;
mod pump;
mod ring;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fault::{Fault, Kind};
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::{Answer, Answerer, Exchange, Explanation, Fetch};
use serde_json::{Value, json};

use cursor::Client;
use ring::{ClientAnswer, Ring};

use super::Sse;

/// Settings of a shared stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSettings {
    /// Events that are kept for clients that come back and for slow ones.
    pub replay: usize,
    /// A client that falls behind what is kept goes on with the oldest event that is there, rather than end.
    pub skips: bool,
    /// The time for which a stream stays open without a client.
    pub linger: Duration,
    /// Headers of clients that the upstream sees. Clients with other values have another stream.
    pub headers: Vec<String>,
    /// The host that the upstream sees, if it is not that of its target.
    pub host: Option<Box<str>>,
    /// Bytes of one event.
    pub event_bytes_max: usize,
}

/// The open streams of a policy. They outlive a reload that leaves the policy as it is.
#[derive(Default)]
pub struct Shares {
    open: Mutex<HashMap<Box<[u8]>, Weak<Ring>>>,
    /// Bytes that all of them keep.
    bytes: Arc<AtomicUsize>,
}

/// Streams at once. More are refused: each is a connection and its events.
const STREAMS_MAX: usize = 10_000;

/// Answers in place of the upstream.
pub(super) struct Share {
    pub(super) sharing: ShareSettings,
    pub(super) shares: Arc<Shares>,
    pub(super) upstream: Arc<dyn Fetch>,
    pub(super) sse: Arc<Sse>,
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Weak<Ring>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open stream of a key, or a new one, which has to be opened.
    fn find(&self, key: &[u8], sharing: &ShareSettings) -> Result<(Arc<Ring>, bool), Fault> {
        let mut open = self.lock();
        let known = open.get(key).and_then(Weak::upgrade);
        if let Some(ring) = known.filter(|ring| ring.join()) {
            return Ok((ring, false));
        }
        if open.len() >= STREAMS_MAX {
            open.retain(|_, ring| ring.strong_count() > 0);
        }
        if open.len() >= STREAMS_MAX {
            let cause = format!("sse: {STREAMS_MAX} shared streams are open");
            return Err(Fault::new(Kind::Busy, cause));
        }
        let ring = Arc::new(Ring::new(sharing.replay, self.bytes.clone()));
        open.insert(key.into(), Arc::downgrade(&ring));
        Ok((ring, true))
    }

    /// Forgets a stream that is over.
    fn forget(&self, key: &[u8], ring: &Arc<Ring>) {
        let mut open = self.lock();
        if open.get(key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(ring))) {
            open.remove(key);
        }
    }
}

impl Share {
    /// The request to the upstream, and the key of the stream: its bytes.
    fn request(&self, asked: &RequestHead) -> (RequestHead, Box<[u8]>) {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", asked.target());
        let mut key = asked.target().to_vec();
        head.headers.add_known("Accept", b"text/event-stream");
        if let Some(host) = &self.sharing.host {
            head.headers.add_known("Host", host.as_bytes());
        }
        // The last is this gateway's own, by which it knows a request that comes back.
        if let Some(via) = asked.headers.get_all("via").last() {
            head.headers.add_known("Via", via);
        }
        for name in &self.sharing.headers {
            for value in asked.headers.get_all(name) {
                // It was read from a head, so it can stand in one.
                let _added = head.headers.add(name, value);
                for part in [name.as_bytes(), value] {
                    key.push(b'\n');
                    key.extend_from_slice(part);
                }
            }
        }
        (head, key.into())
    }

    async fn stream(&self, ex: &mut Exchange, request: &Request) -> Result<Reply, Fault> {
        let last_id = request.head.headers.get("last-event-id").map(<[u8]>::to_vec);
        let (head, key) = self.request(&request.head);
        let (ring, is_new) = self.shares.find(&key, &self.sharing)?;
        // From here on this client counts; it is given up by being dropped.
        let client = Client::of(ring.clone());
        if is_new {
            pump::start(self, key, head, ring.clone(), ex.caller.clone());
        }
        Ok(match ring.opened().await? {
            ClientAnswer::Stream(head) => {
                let unasked = || Fault::new(Kind::Internal, "sse: nobody asked for the stream");
                let meter = self.sse.open(ex).ok_or_else(unasked)?;
                let cursor = client.begin(last_id.as_deref(), self.sharing.skips, meter);
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
