//! The entrance of a queue: where flows put messages in.

use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use message::RequestHead;
use store::{Error, Guard, Store};
use telemetry::QueueMetrics;

use crate::stored;

/// The entrance of a queue, held by steps of flows.
pub struct Entrance {
    pub(crate) name: Box<str>,
    pub(crate) store: Arc<dyn Store>,
    /// The log that holds the messages.
    pub(crate) log: Arc<str>,
    pub(crate) metrics: Arc<QueueMetrics>,
}

impl Entrance {
    pub fn new(name: &str, store: Arc<dyn Store>, metrics: Arc<QueueMetrics>) -> Entrance {
        let log = format!("queue/{name}").into();
        Entrance { name: name.into(), store, log, metrics }
    }

    /// Puts a message into the queue and returns its number. When this returns, the message is durable.
    pub async fn put(&self, head: &RequestHead, body: &[u8]) -> Result<u64, Fault> {
        let record = stored::record(head, body);
        let record = record.ok_or_else(|| Fault::new(Kind::FlowFailed, "a head of over 4 GiB"))?;
        self.put_record(record, None).await.map_err(|error| fault(&self.name, &error))
    }

    /// Like [`Entrance::put`], for a message that was stored before.
    pub(crate) async fn put_record(
        &self,
        record: Bytes,
        guard: Option<&Guard>,
    ) -> Result<u64, Error> {
        let positions = self.store.append(&self.log, vec![record], guard).await?;
        self.metrics.stored();
        Ok(*positions.start())
    }
}

/// The text for a client whose message was written without an answer from the store.
const UNKNOWN_OUTCOME: &str =
    "The store did not answer in time. It is not known whether the message was stored.";

fn fault(queue: &str, error: &Error) -> Fault {
    let kind = match error {
        Error::Full(_) => Kind::StoreFull,
        Error::Size { .. } => Kind::BodyTooLarge,
        Error::Unavailable(_)
        | Error::OutcomeUnknown(_)
        | Error::Busy
        | Error::Corrupt(_)
        | Error::Fenced
        | Error::Conflict { .. }
        | Error::Trimmed { .. } => Kind::StoreAway,
    };
    let cause = format!("queue {queue}: {error}");
    if let Error::OutcomeUnknown(_) = error {
        return Fault::with_detail(kind, cause, UNKNOWN_OUTCOME);
    }
    Fault::new(kind, cause)
}
