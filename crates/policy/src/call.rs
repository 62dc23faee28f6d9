//! A call of an upstream, as its caller sees it.

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
    /// The subject, as a number: balancing by consumer uses it.
    pub subject: Option<u64>,
    /// The path parameter that is balanced by, as a number.
    pub captured: Option<u64>,
    /// The exchange that the call belongs to, if any.
    pub id: Option<&'a RequestId>,
    /// The deadline of the whole call, the reply's body included. None: only its pauses are bounded, not its length.
    pub deadline: Option<Instant>,
    /// The deadline of its next pause. Nothing else uses this alarm meanwhile.
    pub alarm: SharedAlarm,
    /// The sums to add to.
    pub totals: &'a Totals,
    /// Gets the chosen target, if the caller wants to know it.
    pub target: Option<&'a mut Option<Arc<str>>>,
    /// The way of interim replies, if the caller wants them.
    pub interim: Option<&'a Interim>,
    /// Its place in a trace, if there are traces.
    pub trace: Option<CallTrace<'a>>,
}

/// Sums over all calls of an exchange.
#[derive(Debug, Default)]
pub struct Totals {
    /// Time spent waiting for upstreams: connecting, and until the heads of their replies were there.
    pub upstream_wait: WaitTime,
    /// Time spent waiting for the client: for more of its body, and for it to take the reply.
    pub client_wait: WaitTime,
    /// Retries: attempts beyond the first of each call.
    pub retries: Cell<u32>,
}

/// The sum of several waits.
#[derive(Debug, Default)]
pub struct WaitTime(Cell<Duration>);

/// A wait that goes on. Whatever ends it, it is added to its sum: a future that waits is dropped if the client goes meanwhile.
#[derive(Debug)]
pub struct OpenWait<'a> {
    sum: &'a WaitTime,
    pub began: Instant,
}

impl WaitTime {
    /// Begins a wait, which lasts until that is dropped.
    pub fn begin(&self) -> OpenWait<'_> {
        OpenWait { sum: self, began: clock::now() }
    }

    pub fn get(&self) -> Duration {
        self.0.get()
    }

    pub fn add(&self, waited: Duration) {
        self.0.set(self.0.get().saturating_add(waited));
    }

    /// Takes back what is above a sum: waits that went on at once are one.
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
    /// A call outside of any exchange.
    pub fn apart<'a>(caller: &Caller, deadline: Option<Instant>, totals: &'a Totals) -> Call<'a> {
        Call {
            worker: caller.worker,
            client: caller.peer.ip(),
            subject: None,
            captured: None,
            id: None,
            deadline,
            alarm: kit::alarm::take(),
            totals,
            target: None,
            interim: None,
            trace: None,
        }
    }
}

impl Exchange {
    /// The exchange's own call, to its destination.
    pub fn call(&mut self) -> Call<'_> {
        Call {
            worker: self.caller.worker,
            client: self.client,
            subject: self.identity.as_ref().map(|identity| identity.number()),
            captured: None,
            id: Some(&self.id),
            deadline: self.grpc.as_ref().and_then(|call| call.deadline),
            alarm: self.alarm.clone(),
            totals: &self.totals,
            target: Some(&mut self.target),
            interim: self.interim.as_ref(),
            trace: self.trace.as_ref().map(ExchangeTrace::call),
        }
    }

    /// A call beside the exchange's own. There may be several at once.
    pub fn call_beside(&self, deadline: Option<Instant>) -> Call<'_> {
        let call = Call::apart(&self.caller, deadline, &self.totals);
        let subject = self.identity.as_ref().map(|identity| identity.number());
        let trace = self.trace.as_ref().map(ExchangeTrace::call);
        Call { client: self.client, subject, id: Some(&self.id), trace, ..call }
    }
}
