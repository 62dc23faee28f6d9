//! One run of a queue's flow for a message, and what its outcome means.

use std::rc::Rc;

use bytes::Bytes;
use fault::{Fault, Kind};
use kit::{SharedAlarm, clock};
use message::{Reply, ReplyHead, Request, RequestHead};
use policy::{Answer, Caller, Exchange, ExchangeTrace};
use telemetry::span::{SpanKind, Tracing};

use crate::queue::{Queue, QueueSettings};
use crate::stored;

/// Maximum size of a reply that is read to its end, so that its connection can be reused.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// The reason why a run failed.
pub(crate) struct RunFailure {
    pub(crate) why: String,
    /// Whether a retry may succeed. False if the message itself is at fault.
    pub(crate) is_retryable: bool,
}

/// Runs the flow once for a message. Returns the reason if it failed, by a fault or by the status of the reply.
pub(crate) async fn run_once(
    queue: &Queue,
    caller: Rc<Caller>,
    tracing: Option<Rc<Tracing>>,
    record: &Bytes,
) -> Option<RunFailure> {
    let Some(mut request) = stored::request(record) else {
        let why = "the stored message cannot be read".to_owned();
        return Some(RunFailure { why, is_retryable: false });
    };
    let (began, mut cause) = (clock::now(), None);
    let mut ex = Exchange::new(caller, SharedAlarm::default());
    if let Some(tracing) = tracing {
        cause = ExchangeTrace::take_note(&mut request.head.headers);
        ex.trace = Some(ExchangeTrace::of_own(&tracing, cause));
    }
    let failed = match answered(queue, &mut ex, &mut request).await.map(|(head, _)| head.status) {
        Ok(status) if !queue.settings.is_failure(status) => None,
        Ok(status) => {
            let is_retryable = is_retryable_status(status);
            Some(RunFailure { why: format!("status {status}"), is_retryable })
        }
        Err(fault) => {
            Some(RunFailure { why: fault.to_string(), is_retryable: is_retryable(&fault) })
        }
    };
    if let Some(trace) = &ex.trace {
        let name = format!("process {}", queue.name());
        let why = failed.as_ref().map(|failed| failed.why.as_str());
        trace.end_own(name, SpanKind::Consumer, began, cause, why);
    }
    failed
}

/// Runs the flow of a queue and returns its outcome for a message.
async fn answered(
    queue: &Queue,
    ex: &mut Exchange,
    request: &mut Request,
) -> Result<(ReplyHead, Bytes), Fault> {
    let Reply { head, body, .. } = match queue.flow.answer(ex, request) {
        Answer::Ready(answered) => answered?,
        Answer::Wait(answering) => answering.await?,
    };
    let body = body.gather(REPLY_BYTES_MAX, Kind::ReplyTooLarge).await?;
    Ok((head, body))
}

impl Queue {
    /// Runs the flow for a message that is not stored, for tests of configurations.
    pub async fn rehearse(
        &self,
        caller: Rc<Caller>,
        head: &RequestHead,
        body: &[u8],
    ) -> Result<(ReplyHead, Bytes), Fault> {
        let record = stored::record(head, body).as_ref().and_then(stored::request);
        let unstored = || Fault::new(Kind::FlowFailed, "the message cannot be stored");
        let mut ex = Exchange::new(caller, SharedAlarm::default());
        answered(self, &mut ex, &mut record.ok_or_else(unstored)?).await
    }
}

impl QueueSettings {
    /// Returns true if a reply of this status is a failure.
    fn is_failure(&self, status: u16) -> bool {
        match &self.fault_on {
            None => status >= 500,
            Some(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&status)),
        }
    }
}

fn is_retryable(fault: &Fault) -> bool {
    let own = fault.more.as_ref().and_then(|more| more.status);
    is_retryable_status(own.unwrap_or_else(|| fault.kind.status()))
}

/// Returns true if the same message may succeed later. A client error (4xx) means that the message itself is at fault, except for timeouts,
/// rate limits, locks and conflicts.
fn is_retryable_status(status: u16) -> bool {
    !(400..500).contains(&status) || matches!(status, 408 | 409 | 423 | 425 | 429 | 499)
}
