//! Reads records after a position, and the extent of a topic.

use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest};
use kit::clock;
use store::{Error, ReadQuery, Record, Records, Span, limits};

use crate::RecordForm;
use crate::batch::{self, FetchedRecord};
use crate::cluster::{Cluster, ConnectionPurpose, Topic};
use crate::connection::Connection;
use crate::protocol::{Failure, check, invalid_answer, name};
use crate::tail::bounded;

/// The extent of a topic, as offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The offset of the oldest record, or of the next one if there is none.
    pub(crate) oldest: i64,
    /// The offset of the next record. Records of incomplete transactions do not count.
    pub(crate) next: i64,
}

/// An end of a topic, whose offset can be queried.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TopicEnd {
    Oldest,
    Next,
}

/// The records of one fetch from a topic.
pub(crate) struct FetchResult {
    pub(crate) records: Vec<Record>,
    /// The offset at which to continue.
    pub(crate) next: i64,
    /// The offset of the next record to be written.
    pub(crate) end: i64,
}

/// How long a read is retried while the topic's leader changes.
const TRY_MAX: Duration = Duration::from_secs(6);

/// The maximum number of fetches of one read. If all records of a fetch are skipped, the read continues with another fetch.
const FETCHES_MAX: usize = 1000;

/// The timeout of a fetch.
const WAIT: Duration = Duration::from_secs(5);

/// The pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// The isolation level: only committed records, without those of aborted or incomplete transactions.
const COMMITTED: i8 = 1;

/// The minimum size of a fetch, since brokers return whole batches.
const FETCH_BYTES_MIN: usize = 64 << 10;

/// The size of a fetch per record, if few records are requested.
const FETCH_BYTES_EACH: usize = 4 << 10;

impl Cluster {
    /// Returns the records after a position.
    pub(crate) async fn read(&self, topic: &Topic, read: ReadQuery) -> Result<Records, Error> {
        let near = topic.tail.borrow().read(read);
        let near = near.or_else(|| self.windows.borrow().read(&topic.name, read));
        // Records appended by this process must be readable at once, but the follower may not have fetched them yet.
        let near = near.filter(|(_, newest)| *newest >= topic.appended.get());
        if let Some((records, newest)) = near {
            return Ok(Records { records, newest });
        }
        let mut offset = i64::try_from(read.after).unwrap_or(i64::MAX);
        for _ in 0..FETCHES_MAX {
            let fetched = self.retry(topic, async || self.fetch(topic, offset, read).await).await;
            let fetched = match fetched {
                Ok(fetched) => fetched,
                Err(Failure::Code(ResponseError::OffsetOutOfRange)) => {
                    let ends = self.ends(topic).await?;
                    let newest = position(ends.next - 1);
                    if offset >= ends.next {
                        return Ok(Records { records: Vec::new(), newest });
                    }
                    if read.after != 0 {
                        return Err(Error::Trimmed { oldest: position(ends.oldest) });
                    }
                    offset = ends.oldest.max(offset);
                    continue;
                }
                Err(failure) => return Err(failure.into_error(&topic.name)),
            };
            let is_over = fetched.next <= offset || fetched.next >= fetched.end;
            if fetched.records.is_empty() && read.records_max > 0 && !is_over {
                // The fetch contained only records that are skipped.
                offset = fetched.next;
                continue;
            }
            return Ok(self.requested_part(topic, fetched, offset, read));
        }
        Err(Error::Unavailable(format!(
            "the topic {} has no readable record in {FETCHES_MAX} responses in a row up to position {}",
            topic.name,
            position(offset - 1)
        )))
    }

    /// Returns the part of a fetch that a read requested, and keeps the rest for the next reads.
    fn requested_part(
        &self,
        topic: &Topic,
        fetched: FetchResult,
        offset: i64,
        read: ReadQuery,
    ) -> Records {
        let newest = position(fetched.end - 1);
        let after = position(offset - 1);
        let records = bounded(fetched.records.iter().cloned(), read);
        if records.len() < fetched.records.len() {
            self.windows.borrow_mut().keep(&topic.name, after, &fetched.records, newest);
        }
        Records { records, newest }
    }

    /// Returns the extent of a topic. Kafka does not report its size in bytes.
    pub(crate) async fn span(&self, topic: &Topic) -> Result<Span, Error> {
        let ends = self.ends(topic).await?;
        Ok(Span { oldest: position(ends.oldest), newest: position(ends.next - 1), bytes: 0 })
    }

    async fn ends(&self, topic: &Topic) -> Result<Ends, Error> {
        let ends = self.retry(topic, async || {
            let connection = self.leader(topic, ConnectionPurpose::Reads).await?;
            let oldest = one_end(&connection, topic, TopicEnd::Oldest).await?;
            let next = one_end(&connection, topic, TopicEnd::Next).await?;
            Ok(Ends { oldest, next: next.max(oldest) })
        });
        ends.await.map_err(|failure| failure.into_error(&topic.name))
    }

    /// Retries a call until the topic's leader has answered it, for at most `TRY_MAX`.
    async fn retry<T>(
        &self,
        topic: &Topic,
        ask: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let began = clock::now();
        loop {
            match ask().await {
                Err(failure)
                    if failure.may_have_new_leader()
                        && clock::now().duration_since(began) < TRY_MAX =>
                {
                    topic.leader.set(None);
                }
                done => return done,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Fetches once from an offset on, without waiting for new records.
    async fn fetch(
        &self,
        topic: &Topic,
        offset: i64,
        read: ReadQuery,
    ) -> Result<FetchResult, Failure> {
        let connection = self.leader(topic, ConnectionPurpose::Reads).await?;
        let few = read.records_max.saturating_mul(FETCH_BYTES_EACH).max(FETCH_BYTES_MIN);
        let bytes = read.bytes_max.clamp(FETCH_BYTES_MIN, limits::READ_BYTES_MAX).min(few);
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let request = request(vec![part(topic, offset, bytes)], bytes, 0);
        let answer = connection.ask(&request, WAIT).await?;
        check(answer.error_code)?;
        let found = answer.responses.into_iter().find(|found| *found.topic == *topic.name);
        let found = found.and_then(|topic| topic.partitions.into_iter().next());
        let found = found.filter(|partition| partition.partition_index == 0);
        read_partition(topic, found.ok_or_else(invalid_answer)?, offset, self.settings.form)
    }
}

/// Builds a fetch of some topics, which waits up to `wait_ms` for new records.
pub(crate) fn request(topics: Vec<FetchTopic>, bytes_max: i32, wait_ms: i32) -> FetchRequest {
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(bytes_max)
        .with_isolation_level(COMMITTED)
        // Without a session.
        .with_session_epoch(-1)
        .with_topics(topics)
}

/// Builds the part of a fetch for one topic.
pub(crate) fn part(topic: &Topic, offset: i64, bytes_max: i32) -> FetchTopic {
    let partition = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(bytes_max);
    FetchTopic::default().with_topic(name(&topic.name)).with_partitions(vec![partition])
}

/// Parses the response for one topic.
pub(crate) fn read_partition(
    topic: &Topic,
    partition: PartitionData,
    offset: i64,
    form: RecordForm,
) -> Result<FetchResult, Failure> {
    check(partition.error_code)?;
    let end = match partition.last_stable_offset {
        stable if stable >= 0 => stable,
        _ => partition.high_watermark,
    };
    // Harmless: without the list, no transaction was aborted; without records, there are none to return.
    let aborted = partition.aborted_transactions.unwrap_or_default();
    let aborted = aborted.iter().map(|lost| (lost.producer_id.0, lost.first_offset)).collect();
    // Harmless: without records, there are none to return.
    let bytes = partition.records.unwrap_or_default();
    let batches = batch::decode(bytes, offset, aborted)
        .map_err(|_| Failure::Refused(format!("a batch of the topic {} is damaged", topic.name)))?;
    for first in &batches.unread {
        let (topic, id) = (&*topic.name, position(*first));
        tracing::warn!(topic, id, "a batch in Kafka cannot be read and is skipped");
    }
    let records = batches.found.into_iter().filter(|found| found.offset < end).map(|found| {
        let id = position(found.offset);
        let record = record(found, form);
        if record.is_none() {
            let topic = &*topic.name;
            tracing::warn!(
                topic,
                id,
                "a message in Kafka cannot be converted to an event and is skipped"
            );
        }
        record
    });
    Ok(FetchResult {
        // Harmless: omitted records are logged.
        records: records.flatten().collect(),
        next: batches.next.unwrap_or(offset).max(offset),
        end,
    })
}

/// Queries the offset of one end of a topic.
pub(crate) async fn one_end(
    connection: &Connection,
    topic: &Topic,
    end: TopicEnd,
) -> Result<i64, Failure> {
    let timestamp = match end {
        TopicEnd::Oldest => -2,
        TopicEnd::Next => -1,
    };
    let partition =
        ListOffsetsPartition::default().with_current_leader_epoch(-1).with_timestamp(timestamp);
    let asked =
        ListOffsetsTopic::default().with_name(name(&topic.name)).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(COMMITTED)
        .with_topics(vec![asked]);
    let answer = connection.ask(&request, WAIT).await?;
    let found = answer.topics.iter().find(|found| *found.name == *topic.name);
    let found = found.and_then(|topic| topic.partitions.first());
    let found =
        found.filter(|partition| partition.partition_index == 0).ok_or_else(invalid_answer)?;
    check(found.error_code)?;
    Ok(found.offset)
}

/// Converts a message to a record of the log.
fn record(found: FetchedRecord, form: RecordForm) -> Option<Record> {
    let bytes = (form.record)(&found.message)?;
    let time = Duration::from_millis(u64::try_from(found.time).unwrap_or(0));
    Some(Record { position: position(found.offset), time, bytes })
}

/// Converts an offset to a position. Positions begin at 1.
pub(crate) fn position(offset: i64) -> u64 {
    u64::try_from(offset.saturating_add(1)).unwrap_or(0)
}
