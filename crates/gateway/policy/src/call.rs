//! A call to an upstream: its parameters, and the sums over all calls of an exchange.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kit::SharedAlarm;
use kit::clock::{self, Instant};

use crate::{CallTrace, Caller, Exchange, ExchangeTrace, Interim, RequestId};

/// The parameters of one call to an upstream. An exchange may have several calls at once, each with an alarm of its own.
pub struct Call<'a> {
    /// The worker whose connections the call uses.
    pub worker: usize,
    /// The client that the call is for: balancing by client uses it.
    pub client: IpAddr,
    /// A hash of the subject, for balancing by consumer.
    pub subject: Option<u64>,
    /// A hash of the path parameter that the upstream balances by.
    pub captured: Option<u64>,
    /// The exchange that the call belongs to, if any.
    pub id: Option<&'a RequestId>,
    /// The deadline of the whole call, including the body of the reply. With `None`, the pauses of the call are bounded, but not its total
    /// duration.
    pub deadline: Option<Instant>,
    /// Whether the reply may pause without limit if it is that of a gRPC call. The recipient must then limit its silence.
    pub may_pause: bool,
    /// The alarm for the deadline of the current pause. Nothing else may use it during the call.
    pub alarm: SharedAlarm,
    /// The sums of the exchange. The call adds its waits and retries to them.
    pub totals: &'a Totals,
    /// If set, receives the target of each attempt; the target of the last attempt remains.
    pub target: Option<&'a mut Option<Arc<str>>>,
    /// The receiver of interim replies, if the caller wants them.
    pub interim: Option<&'a Interim>,
    /// The place of the call in a trace, if tracing is on.
    pub trace: Option<CallTrace<'a>>,
}

/// Sums over all calls of an exchange.
#[derive(Debug, Default)]
pub struct Totals {
    /// Time spent waiting for upstreams: for connections, and for the heads and bodies of their replies.
    pub upstream_wait: WaitTime,
    /// Time spent waiting for the client: for more of its body, and for it to accept the reply.
    pub client_wait: WaitTime,
    /// Retries: attempts beyond the first of each call.
    pub retries: Cell<u32>,
}

/// The sum of several waits.
#[derive(Debug, Default)]
pub struct WaitTime(Cell<Duration>);

/// A wait in progress. It is added to the sum when dropped, so that it also counts if the waiting future is dropped because the client
/// disconnects.
#[derive(Debug)]
pub struct OpenWait<'a> {
    sum: &'a WaitTime,
    pub began: Instant,
}

impl WaitTime {
    /// Begins a wait, which lasts until the returned value is dropped.
    pub fn begin(&self) -> OpenWait<'_> {
        OpenWait { sum: self, began: clock::now() }
    }

    pub fn get(&self) -> Duration {
        self.0.get()
    }

    pub fn add(&self, waited: Duration) {
        self.0.set(self.0.get().saturating_add(waited));
    }

    /// Reduces the sum to at most `sum`: waits that overlapped are counted once.
    pub fn at_most(&self, sum: Duration) {
        self.0.set(self.0.get().min(sum));
    }
}

impl Drop for OpenWait<'_> {
    fn drop(&mut self) {
        self.sum.add(clock::now().duration_since(self.began));
    }
}

impl Call<'_> {
    /// Returns a call that belongs to no exchange.
    pub fn detached<'a>(
        caller: &Caller,
        deadline: Option<Instant>,
        totals: &'a Totals,
    ) -> Call<'a> {
        Call {
            worker: caller.worker,
            client: caller.peer.ip(),
            subject: None,
            captured: None,
            id: None,
            deadline,
            may_pause: true,
            alarm: kit::alarm::take(),
            totals,
            target: None,
            interim: None,
            trace: None,
        }
    }
}

impl Exchange {
    /// Returns the exchange's own call, to its destination.
    pub fn call(&mut self) -> Call<'_> {
        Call {
            worker: self.caller.worker,
            client: self.client,
            subject: self.identity.as_ref().map(|identity| identity.number()),
            captured: None,
            id: Some(&self.id),
            deadline: self.grpc.as_ref().and_then(|call| call.deadline),
            may_pause: !self.notes.as_ref().is_some_and(|notes| notes.is_translated_call),
            alarm: self.alarm.clone(),
            totals: &self.totals,
            target: Some(&mut self.target),
            interim: self.interim.as_ref(),
            trace: self.trace.as_ref().map(ExchangeTrace::call),
        }
    }

    /// Returns a call in addition to the exchange's own. There may be several at once.
    pub fn additional_call(&self, deadline: Option<Instant>) -> Call<'_> {
        let call = Call::detached(&self.caller, deadline, &self.totals);
        let subject = self.identity.as_ref().map(|identity| identity.number());
        let trace = self.trace.as_ref().map(ExchangeTrace::call);
        Call { client: self.client, subject, id: Some(&self.id), trace, ..call }
    }
}
