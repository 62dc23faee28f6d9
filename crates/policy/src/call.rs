//! A call of an upstream, as whoever makes it sees it.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kit::SharedAlarm;
use kit::clock::Instant;

use crate::{Caller, Exchange, Interim, RequestId};

/// What a call of an upstream needs of whoever makes it. An exchange may have several under way, each with an alarm of its own.
pub struct Call<'a> {
    /// The worker whose connections it uses.
    pub worker: usize,
    /// For whom it is made: balancing by client goes by it.
    pub client: IpAddr,
    /// The exchange it is made for, where it is made for one.
    pub id: Option<RequestId>,
    /// When it is given up, wherever it is: its reply's body included. None: its pauses are bounded, its length is not.
    pub deadline: Option<Instant>,
    /// The deadline of its next pause. Nothing else uses it meanwhile.
    pub alarm: SharedAlarm,
    /// What it adds to.
    pub totals: &'a Totals,
    /// Where the target is noted that was asked, where somebody wants to know.
    pub target: Option<&'a mut Option<Arc<str>>>,
    /// Where interim replies go, where somebody wants them.
    pub interim: Option<&'a Interim>,
}

/// What all calls of an exchange came to.
#[derive(Debug, Default)]
pub struct Totals {
    /// Time spent waiting for upstreams: connecting, and until their replies' heads were there.
    pub upstream_wait: WaitTime,
    /// Time spent waiting for the client: for more of its body, and for it to take the reply.
    pub client_wait: WaitTime,
    /// Attempts beyond the first of each call.
    pub retries: Cell<u32>,
}

/// Time that was waited, in several pieces.
#[derive(Debug, Default)]
pub struct WaitTime(Cell<Duration>);

impl WaitTime {
    pub fn get(&self) -> Duration {
        self.0.get()
    }

    pub fn add(&self, waited: Duration) {
        self.0.set(self.0.get().saturating_add(waited));
    }
}

impl Call<'_> {
    /// A call that belongs to no exchange.
    pub fn apart<'a>(caller: &Caller, deadline: Option<Instant>, totals: &'a Totals) -> Call<'a> {
        Call {
            worker: caller.worker,
            client: caller.peer.ip(),
            id: None,
            deadline,
            alarm: kit::alarm::take(),
            totals,
            target: None,
            interim: None,
        }
    }
}

impl Exchange {
    /// The call that the exchange itself is for.
    pub fn call(&mut self) -> Call<'_> {
        Call {
            worker: self.caller.worker,
            client: self.client,
            id: Some(self.id),
            deadline: None,
            alarm: self.alarm.clone(),
            totals: &self.totals,
            target: Some(&mut self.target),
            interim: self.interim.as_ref(),
        }
    }

    /// A call beside that, of which there may be several at once.
    pub fn call_beside(&self, deadline: Option<Instant>) -> Call<'_> {
        let call = Call::apart(&self.caller, deadline, &self.totals);
        Call { client: self.client, id: Some(self.id), ..call }
    }
}
