//! `sse`: quotas and bounds for event streams.
//!
//! Owns the count of events, the end of a stream that exceeds its bounds, and the removal of content codings. A stream passes event by
//! event, never in parts, so that it can always end after a whole event. Replies that are not event streams pass unchanged.

mod coding;
mod metered;
mod share;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::{self, Instant};
use message::{ReplyHead, RequestHead};
use policy::{
    Answerer, BodyTransform, Decision, Exchange, Fetch, Flow, OnCall, OnHead, OnStreamed, Onward,
    Policy, Slot, Slots, Step, StreamNotes,
};
use telemetry::{RouteMetrics, StreamEnd};

use crate::key::KeySource;
use crate::permits::{Permit, Permits};
use crate::quota::shared::SharedQuotas;
use crate::quota::{CONNECTIONS_CODE, ClientTier, ClientUse, Quotas, Tier};
use crate::tiers::Tiers;

pub use share::{ShareSettings, Shares};

use coding::Decoder;
use metered::{EventMeter, MeteredStream};
use share::Share;

/// Settings of the policy.
#[derive(Debug)]
pub struct SseSettings {
    /// The key by which events and streams are counted.
    pub by: KeySource,
    /// The quotas. Each event counts as a message.
    pub tiers: Tiers<Tier>,
    /// The maximum size of one event, including its empty line.
    pub event_bytes_max: usize,
    /// The longest time without data from the upstream.
    pub idle: Option<Duration>,
    /// The maximum number of concurrent streams of a client.
    pub connections: Option<u32>,
}

/// Returns the policy.
pub fn policy(
    settings: SseSettings,
    kept: ClientUse,
    metrics: Arc<RouteMetrics>,
    share: Option<(ShareSettings, Arc<Shares>, Arc<dyn Fetch>)>,
    slots: &mut Slots,
) -> Policy {
    let ClientUse { quotas, permits, shared } = kept;
    let sse = Arc::new(Sse { settings, quotas, permits, metrics, slot: slots.assign() });
    let share = share.map(|(sharing, shares, upstream)| {
        let sse = sse.clone();
        Arc::new(Share { sharing, shares, upstream, sse }) as Arc<dyn Answerer>
    });
    let admit = Admit { sse: sse.clone(), share };
    Policy {
        name: "sse",
        request: Some(match shared {
            None => Step::Head(Box::new(admit)),
            Some(shared) => Step::Call(Box::new(SharedAdmit { admit, shared })),
        }),
        response: Some(Step::Streamed(Box::new(Meter(sse)))),
    }
}

struct Sse {
    settings: SseSettings,
    quotas: Arc<Quotas>,
    permits: Arc<Permits>,
    metrics: Arc<RouteMetrics>,
    slot: Slot<AdmittedStream>,
}

/// The key and the tier by which a client's events are counted.
#[derive(Clone)]
struct EventCounter {
    key: u64,
    tier: ClientTier,
}

/// A client that was admitted.
struct AdmittedStream {
    counted: EventCounter,
    permit: Option<Permit>,
}

/// The state of an open stream. Dropping it ends the stream's counts.
struct Stream {
    sse: Arc<Sse>,
    counted: EventCounter,
    notes: Rc<StreamNotes>,
    worker: usize,
    #[expect(dead_code, reason = "the permit is returned when the stream is dropped")]
    permit: Option<Permit>,
}

/// The request step, which admits or refuses a client.
struct Admit {
    sse: Arc<Sse>,
    /// The answerer in place of the upstream, if clients share streams.
    share: Option<Arc<dyn Answerer>>,
}

/// The request step if counts are shared with other gateways.
struct SharedAdmit {
    admit: Admit,
    shared: Arc<SharedQuotas>,
}

/// The response step, which counts the events of the stream.
struct Meter(Arc<Sse>);

impl Sse {
    /// Returns the key and the tier of a client.
    fn counted(&self, ex: &Exchange, head: &RequestHead) -> EventCounter {
        let tier = ClientTier::of(&self.settings.tiers, ex);
        let mut hash = self.quotas.hash(&tier);
        self.settings.by.write(ex, head, &mut hash);
        EventCounter { key: hash.finish(), tier }
    }

    /// Returns how many shared streams may linger for a client. They count as streams of the client.
    fn lingering_max(&self, client: u64) -> usize {
        let Some(max) = self.settings.connections else { return share::LINGERING_MAX };
        let left = max.saturating_sub(self.permits.taken(client));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Opens the stream of an admitted client. Only the first reply of the exchange gets it.
    fn open(self: &Arc<Sse>, ex: &mut Exchange) -> Option<EventMeter> {
        let AdmittedStream { counted, permit } = self.slot.remove(ex)?;
        let notes = ex.notes().stream.get_or_insert_default().clone();
        let stream = Stream { sse: self.clone(), counted, notes, worker: ex.caller.worker, permit };
        let expires = ex.identity.as_ref().and_then(|identity| identity.expires);
        Some(EventMeter::new(stream, expires))
    }
}

impl Stream {
    /// Charges an event to the client's quota. Returns how many are left, or `None` if this event must not pass.
    fn take(&self, bytes: usize, now: Option<Instant>) -> Option<u64> {
        let EventCounter { key, tier } = &self.counted;
        let Some(tier) = tier.get(&self.sse.settings.tiers) else { return Some(u64::MAX) };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Harmless: `None` means that the quota is used up.
        self.sse.quotas.take(*key, tier, bytes, now.unwrap_or_else(clock::now)).ok()
    }

    /// Records that an event has passed.
    fn passed(&self) {
        self.notes.events.set(self.notes.events.get() + 1);
        self.sse.metrics.events(self.worker, 1);
    }

    /// Records that the policy has ended the stream.
    fn ended(&self, end: StreamEnd) {
        self.notes.end.set(Some(end));
        self.sse.metrics.stream_ended(self.worker, end);
    }
}

impl OnHead<RequestHead> for Admit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.admit(self.sse.counted(ex, head), ex, head)
    }
}

impl OnCall<RequestHead> for SharedAdmit {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let sse = &self.admit.sse;
        let counted = sse.counted(ex, head);
        Decision::Waits(Box::pin(async move {
            if let Some(tier) = counted.tier.get(&sse.settings.tiers) {
                self.shared.load_counts(counted.key, tier).await;
            }
            self.admit.admit(counted, ex, head)
        }))
    }
}

impl Admit {
    fn admit(&self, counted: EventCounter, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Admit { sse, share } = self;
        let tier = counted.tier.get(&sse.settings.tiers);
        if let Some(wait) = tier.and_then(|tier| sse.quotas.wait(counted.key, tier)) {
            let cause = "sse: no event is left in the window".to_owned();
            let seconds = wait.as_secs_f64().ceil();
            return Err(refusal(cause, &seconds.to_string()).with_code(EVENTS_CODE));
        }
        let mut permit = None;
        if let Some(max) = sse.settings.connections {
            let taken = sse.permits.take(counted.key, max);
            let refused = || {
                let cause = format!("sse: {max} streams are open");
                refusal(cause, RETRY_AFTER).with_code(CONNECTIONS_CODE)
            };
            permit = Some(taken.ok_or_else(refused)?);
        }
        if let Some(share) = share.as_ref().filter(|_| head.method() == b"GET") {
            ex.notes().instead = Some(share.clone());
        }
        coding::narrow(&mut head.headers);
        sse.slot.put(ex, AdmittedStream { counted, permit });
        Ok(Onward::Next)
    }
}

/// WSO2's code for too many events.
pub(crate) const EVENTS_CODE: u32 = 900_807;
/// The value of `Retry-After`, in seconds, if only the end of another stream frees a permit.
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
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        if !head.is_event_stream() || asked_head {
            // The permit is only for streams, so it is returned with any other reply.
            drop(sse.slot.remove(ex));
            return Ok(None);
        }
        // A shared stream was already opened by its answerer.
        let Some(meter) = sse.open(ex) else { return Ok(None) };
        let decoder = Decoder::of(&mut head.headers)?;
        Ok(Some(Box::new(MeteredStream::new(meter, decoder))))
    }
}
