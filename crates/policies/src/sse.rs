//! `sse`: quotas and bounds for event streams.
//!
//! Owns the count of events, the end of a stream that may not go on, and the coding of one that has to be read. A stream passes event by
//! event, never in parts, so that it can always end behind a whole one. Replies that are no event stream pass untouched.

mod coding;
mod metered;
mod share;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use message::{ReplyHead, RequestHead};
use policy::{
    Answerer, BodyTransform, Exchange, Fetch, Flow, OnHead, OnStreamed, Onward, Policy, Slot,
    Slots, Step, StreamNotes,
};
use telemetry::{RouteMetrics, StreamEnd};

use crate::concurrency::{Permit, Permits};
use crate::key::KeySource;
use crate::quota::{Quota, Quotas};

pub use share::{Shares, Sharing};

use coding::Decoder;
use metered::Metered;
use share::Share;

/// Settings of the policy.
#[derive(Debug)]
pub struct Settings {
    /// The key that shares the quota of events and the number of streams.
    pub by: KeySource,
    /// The quota of events, as messages.
    pub events: Option<Quota>,
    /// Bytes of one event, its empty line included.
    pub event_bytes_max: usize,
    /// The longest time without a byte of the upstream.
    pub idle: Option<Duration>,
    /// Streams at once.
    pub connections: Option<u32>,
}

/// The policy. Quotas and places are the plan's before where nothing changed.
pub fn policy(
    settings: Settings,
    quotas: Arc<Quotas>,
    permits: Arc<Permits>,
    metrics: Arc<RouteMetrics>,
    shared: Option<(Sharing, Arc<Shares>, Arc<dyn Fetch>)>,
    slots: &mut Slots,
) -> Policy {
    let share = shared.map(|(sharing, shares, upstream)| {
        let metrics = metrics.clone();
        Arc::new(Share { sharing, shares, upstream, metrics }) as Arc<dyn Answerer>
    });
    let sse = Arc::new(Sse { settings, quotas, permits, metrics, share, slot: slots.assign() });
    Policy {
        name: "sse",
        request: Some(Step::Head(Box::new(Admit(sse.clone())))),
        response: Some(Step::Streamed(Box::new(Meter(sse)))),
    }
}

struct Sse {
    settings: Settings,
    quotas: Arc<Quotas>,
    permits: Arc<Permits>,
    metrics: Arc<RouteMetrics>,
    /// Answers in place of the upstream, if clients share its streams.
    share: Option<Arc<dyn Answerer>>,
    slot: Slot<Admitted>,
}

/// A client that may have a stream.
struct Admitted {
    /// By which its events are counted.
    key: u64,
    permit: Option<Permit>,
}

/// An open stream, for as long as it is open.
struct Stream {
    sse: Arc<Sse>,
    /// By which its events are counted.
    key: u64,
    notes: Rc<StreamNotes>,
    worker: usize,
    #[expect(dead_code, reason = "the place is given back with the stream")]
    permit: Option<Permit>,
}

/// Lets a client have a stream, or not.
struct Admit(Arc<Sse>);

/// Counts the events of the stream.
struct Meter(Arc<Sse>);

impl Sse {
    /// The client's number among the quotas.
    fn key(&self, ex: &Exchange, head: &RequestHead) -> u64 {
        let mut hash = self.quotas.hash();
        self.settings.by.write(ex, head, &mut hash);
        hash.finish()
    }
}

impl Stream {
    /// Charges an event to the client's quota. Gives how many are left, or none if this one may not pass.
    fn take(&self) -> Option<u64> {
        match &self.sse.settings.events {
            Some(events) => self.sse.quotas.take(self.key, events, 0).ok(),
            None => Some(u64::MAX),
        }
    }

    /// Notes that an event has passed.
    fn passed(&self) {
        self.notes.events.set(self.notes.events.get() + 1);
        self.sse.metrics.events(self.worker, 1);
    }

    /// Notes that the policy ended the stream.
    fn ended(&self, end: StreamEnd) {
        self.notes.end.set(Some(end));
        self.sse.metrics.stream_ended(self.worker, end);
    }
}

impl OnHead<RequestHead> for Admit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Admit(sse) = self;
        let key = sse.key(ex, head);
        if let Some(events) = &sse.settings.events
            && let Some(wait) = sse.quotas.wait(key, events)
        {
            let cause = format!("sse: no event is left in the window of {:?}", events.per);
            let seconds = wait.as_secs_f64().ceil();
            return Err(refusal(cause, &seconds.to_string()));
        }
        let mut permit = None;
        if let Some(max) = sse.settings.connections {
            let taken = sse.permits.take(key, max);
            let refused = || refusal(format!("sse: {max} streams are open"), RETRY_AFTER);
            permit = Some(taken.ok_or_else(refused)?);
        }
        if let Some(share) = sse.share.as_ref().filter(|_| head.method() == b"GET") {
            ex.notes().instead = Some(share.clone());
        }
        sse.slot.put(ex, Admitted { key, permit });
        Ok(Onward::Next)
    }
}

/// When to come again, in seconds, where only the end of a stream makes room.
const RETRY_AFTER: &str = "1";

fn refusal(cause: String, retry_after: &str) -> Fault {
    Fault::new(Kind::RateLimited, cause).with_header("Retry-After", retry_after.to_owned())
}

impl OnStreamed<ReplyHead> for Meter {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let Meter(sse) = self;
        // A place is for a stream: it goes with any other reply.
        let Some(Admitted { key, permit }) = sse.slot.take(ex) else { return Ok(None) };
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        if !head.is_event_stream() || asked_head {
            return Ok(None);
        }
        let decoder = Decoder::of(&mut head.headers)?;
        let notes = ex.notes().stream.get_or_insert_default().clone();
        let stream = Stream { sse: sse.clone(), key, notes, worker: ex.caller.worker, permit };
        let expires = ex.identity.as_ref().and_then(|identity| identity.expires);
        Ok(Some(Box::new(Metered::new(stream, decoder, expires))))
    }
}
