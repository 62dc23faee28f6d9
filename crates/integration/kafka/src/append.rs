//! Appends: those that wait for a topic are sent as one batch. While it is in flight, the next batch accumulates.

use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId};
use kit::clock;
use store::Error;

use crate::batch::{self, Producer};
use crate::cluster::{CALL_MAX, Cluster, ConnectionPurpose, Topic};
use crate::protocol::{Failure, check, invalid_answer, name};
use crate::waiting_appends::Append;

/// The maximum size of a batch of several appends. It is below the default maximum of brokers, 1 MiB.
const BATCH_BYTES: usize = 900 << 10;

/// How long an append is retried while the topic's leader changes.
const TRY_MAX: Duration = Duration::from_secs(6);

/// The timeout of one attempt, including the replicas. It is shorter than `TRY_MAX`, so that after an unanswered attempt there is another
/// one.
const WAIT: Duration = Duration::from_secs(4);

/// The pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// Queues an append, and starts the task that sends the topic's appends if it is not running.
pub(crate) fn append(cluster: &Rc<Cluster>, topic: Rc<Topic>, append: Append) {
    topic.appends.waiting.borrow_mut().push_back(append);
    if !topic.appends.is_sending.replace(true) {
        kit::spawn(send(cluster.clone(), topic));
    }
}

/// Sends batches until no append waits.
async fn send(cluster: Rc<Cluster>, topic: Rc<Topic>) {
    let mut bytes_max = BATCH_BYTES;
    loop {
        let batch = topic.appends.next_batch(bytes_max);
        if batch.is_empty() {
            topic.appends.is_sending.set(false);
            return;
        }
        let sent = cluster.send_batch(&topic, &batch).await;
        bytes_max = BATCH_BYTES;
        match sent {
            Ok(first) => answer(&topic, batch, first),
            Err(Error::Size { .. }) if batch.len() > 1 => {
                // Each append may be small enough on its own.
                topic.appends.put_back(batch);
                bytes_max = 0;
            }
            Err(error) => {
                for append in batch {
                    // Harmless: a caller that has stopped waiting needs no answer.
                    let _ = append.done.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Answers each append of a batch with its positions. The batch begins at the position `first`.
fn answer(topic: &Topic, batch: Vec<Append>, first: u64) {
    let mut next = first;
    for append in batch {
        let end = next.saturating_add(u64::try_from(append.messages.len()).unwrap_or(u64::MAX));
        let last = end.saturating_sub(1);
        topic.appended.set(last);
        // Harmless: a caller that has stopped waiting needs no answer.
        let _ = append.done.send(Ok(next..=last));
        next = end;
    }
}

impl Cluster {
    /// Sends a batch, with retries, until all replicas have written it. Returns the position of its first record.
    async fn send_batch(&self, topic: &Topic, batch: &[Append]) -> Result<u64, Error> {
        let began = clock::now();
        // True once the batch may have been written by an attempt whose outcome is unknown.
        let mut may_be_written = false;
        let failure = loop {
            let left = CALL_MAX.saturating_sub(began.elapsed());
            let failure = match tokio::time::timeout(left, self.try_batch(topic, batch)).await {
                Ok(Ok(first)) => return Ok(first),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Lost("Kafka does not answer in time".to_owned()),
            };
            match &failure {
                Failure::Code(ResponseError::MessageTooLarge) => {
                    let size = batch.iter().map(|append| append.bytes).sum();
                    // The topic may have another limit than those that the gateway creates.
                    return Err(Error::Size { what: "event", size, max: None });
                }
                Failure::Code(code) if is_producer_mismatch(code) => {
                    // The broker has forgotten the producer, or has not seen its last batch.
                    topic.appends.producer.set(None);
                    if may_be_written {
                        break failure;
                    }
                }
                Failure::Lost(_)
                | Failure::Code(
                    ResponseError::RequestTimedOut | ResponseError::NotEnoughReplicasAfterAppend,
                ) => may_be_written = true,
                Failure::Code(_)
                | Failure::NoBroker(_)
                | Failure::Unreached(_)
                | Failure::Refused(_) => {}
            }
            let is_producer_mismatch =
                matches!(&failure, Failure::Code(code) if is_producer_mismatch(code));
            let is_late = clock::now().duration_since(began) >= TRY_MAX;
            if is_late || !(failure.may_have_new_leader() || is_producer_mismatch) {
                break failure;
            }
            if failure.may_have_new_leader() {
                topic.leader.set(None);
            }
            tokio::time::sleep(PAUSE).await;
        };
        let error = failure.into_error(&topic.name);
        if !may_be_written {
            return Err(error);
        }
        // The next batch gets a new producer, so that it is accepted whether this one was written or not.
        topic.appends.producer.set(None);
        if let Error::Unavailable(why) = error {
            return Err(Error::OutcomeUnknown(why));
        }
        Err(error)
    }

    async fn try_batch(&self, topic: &Topic, batch: &[Append]) -> Result<u64, Failure> {
        let connection = self.leader(topic, ConnectionPurpose::Appends).await?;
        let producer = match topic.appends.producer.get() {
            Some(producer) => producer,
            None => {
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(None)
                    .with_producer_id(ProducerId(-1))
                    .with_producer_epoch(-1);
                // If an earlier attempt may have been written, the topic still has its producer. So nothing was written before, and if
                // the connection is lost here, nothing was written at all.
                let unreached = |failure| match failure {
                    Failure::Lost(why) => Failure::Unreached(why),
                    other @ (Failure::NoBroker(_)
                    | Failure::Unreached(_)
                    | Failure::Code(_)
                    | Failure::Refused(_)) => other,
                };
                let given = connection.ask(&request, WAIT).await.map_err(unreached)?;
                check(given.error_code)?;
                let (id, epoch) = (given.producer_id.0, given.producer_epoch);
                let new = Producer { id, epoch, sequence: 0 };
                topic.appends.producer.set(Some(new));
                new
            }
        };
        let messages = batch.iter().flat_map(|append| &append.messages);
        let count = i32::try_from(messages.clone().count()).unwrap_or(i32::MAX);
        let time = i64::try_from(clock::wall().as_millis()).unwrap_or(i64::MAX);
        let records = batch::encode(messages, producer, time)
            .ok_or_else(|| Failure::Refused("a batch that cannot be written".to_owned()))?;
        let partition = PartitionProduceData::default().with_records(Some(records));
        let topics = TopicProduceData::default()
            .with_name(name(&topic.name))
            .with_partition_data(vec![partition]);
        let wait = i32::try_from(WAIT.as_millis() / 2).unwrap_or(i32::MAX);
        // Acknowledged by all in-sync replicas.
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(wait)
            .with_topic_data(vec![topics]);
        let answer = connection.ask(&request, WAIT).await?;
        let written = answer.responses.iter().find(|found| *found.name == *topic.name);
        let written = written.and_then(|topic| topic.partition_responses.first());
        let written =
            written.filter(|partition| partition.index == 0).ok_or_else(invalid_answer)?;
        check(written.error_code)?;
        let sequence = after(producer.sequence, count);
        topic.appends.producer.set(Some(Producer { sequence, ..producer }));
        u64::try_from(written.base_offset).map(|offset| offset + 1).map_err(|_| invalid_answer())
    }
}

/// Returns the sequence number after `count` records. Sequence numbers wrap around to 0.
fn after(sequence: i32, count: i32) -> i32 {
    let next = (i64::from(sequence) + i64::from(count)) % (i64::from(i32::MAX) + 1);
    i32::try_from(next).unwrap_or(0)
}

/// Returns true if the broker's state of the producer differs from the gateway's.
fn is_producer_mismatch(code: &ResponseError) -> bool {
    matches!(
        code,
        ResponseError::OutOfOrderSequenceNumber
            | ResponseError::UnknownProducerId
            | ResponseError::InvalidProducerEpoch
            | ResponseError::DuplicateSequenceNumber
            | ResponseError::InvalidProducerIdMapping
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_around_to_zero() {
        for (sequence, count, next) in [(0, 3, 3), (i32::MAX, 1, 0), (i32::MAX - 1, 5, 3)] {
            assert_eq!(after(sequence, count), next);
        }
    }
}
