//! Follows watched topics: for each broker, one long-polling fetch waits for new records.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_response::PartitionData;
use store::Subject;
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, ConnectionPurpose, Topic};
use crate::fetch::{TopicEnd, one_end, part, position, read_partition, request};
use crate::protocol::{Failure, check};

/// How long a fetch waits at the broker. A newly watched topic is included in the next fetch.
const WAIT_MS: i32 = 500;

/// The timeout for the answer to a fetch.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The pause before topics without a leader are searched again, and after a broker has failed.
const PAUSE: Duration = Duration::from_millis(500);

/// The maximum size of a topic's part of a fetch.
const TOPIC_BYTES: i32 = 1 << 20;
/// The maximum size of a fetch.
const FETCH_BYTES: i32 = 8 << 20;

/// The maximum total size of all tails. Beyond it, a tail that grows is emptied, and its readers fetch from the topic itself.
const TAIL_BYTES_MAX: usize = 64 << 20;

/// Runs one task for each broker that leads a watched topic.
pub(crate) async fn follow(cluster: Rc<Cluster>) {
    let mut tasks: HashMap<i32, JoinHandle<()>> = HashMap::new();
    let mut is_away = false;
    loop {
        tasks.retain(|_, task| !task.is_finished());
        let mut why = None;
        for topic in cluster.topics().into_iter().filter(|topic| cluster.is_watched(topic)) {
            if let Err(failure) = cluster.locate(&topic).await {
                why = Some((topic.name.clone(), failure));
                continue;
            }
            if let Some(leader) = topic.leader.get() {
                let task = || kit::spawn(serve(cluster.clone(), leader));
                tasks.entry(leader).or_insert_with(task);
            }
        }
        if let Some((topic, failure)) = &why
            && !is_away
        {
            let error = failure.clone().into_error(topic);
            tracing::warn!(topic, "waiting for Kafka: {error}");
        }
        is_away = why.is_some();
        // Harmless: the loop checks again in either case.
        let _ = tokio::time::timeout(PAUSE, cluster.followed.notified()).await;
    }
}

/// Fetches from one broker until it leads no watched topic, or a fetch fails.
async fn serve(cluster: Rc<Cluster>, leader: i32) {
    loop {
        let topics = cluster.topics().into_iter();
        let topics: Vec<Rc<Topic>> = topics
            .filter(|topic| topic.leader.get() == Some(leader) && cluster.is_watched(topic))
            .collect();
        if topics.is_empty() {
            return;
        }
        if let Err(failure) = cluster.round(leader, &topics).await {
            tracing::debug!(leader, "new records cannot be fetched from a broker: {failure:?}");
            topics.iter().for_each(|topic| topic.leader.set(None));
            tokio::time::sleep(PAUSE).await;
            return;
        }
    }
}

impl Cluster {
    fn is_watched(&self, topic: &Topic) -> bool {
        let logs = topic.logs.borrow();
        logs.iter().any(|log| self.watches.has(&Subject::Log(log.clone())))
    }

    fn wake(&self, topic: &Topic) {
        let logs = topic.logs.borrow();
        logs.iter().for_each(|log| self.watches.wake(&Subject::Log(log.clone())));
    }

    /// Makes one fetch for all watched topics that a broker leads.
    async fn round(&self, leader: i32, topics: &[Rc<Topic>]) -> Result<(), Failure> {
        let gone =
            || Failure::Unreached(format!("broker {leader} is no longer part of the cluster"));
        let broker = self.broker(leader).ok_or_else(gone)?;
        let connection = self.connect(&broker, ConnectionPurpose::Follow).await?;
        let mut parts = Vec::new();
        for topic in topics {
            let known = topic.tail.borrow().newest();
            let offset = match known {
                // A position is an offset plus one, so the newest position is the offset of the next record.
                Some(newest) => i64::try_from(newest).unwrap_or(i64::MAX),
                None => {
                    let next = match one_end(&connection, topic, TopicEnd::Next).await {
                        Err(failure @ (Failure::Lost(_) | Failure::Unreached(_))) => {
                            return Err(failure);
                        }
                        Err(_) => {
                            topic.leader.set(None);
                            continue;
                        }
                        Ok(next) => next,
                    };
                    topic.tail.borrow_mut().begin(position(next - 1));
                    // Earlier records are not new, but a waiting reader may not have read them.
                    self.wake(topic);
                    next
                }
            };
            parts.push(part(topic, offset, TOPIC_BYTES));
        }
        let answer = connection.ask(&request(parts, FETCH_BYTES, WAIT_MS), ANSWER_MAX).await?;
        check(answer.error_code)?;
        for found in answer.responses {
            let topic = topics.iter().find(|topic| topic.name == found.topic.as_str());
            let partition = found.partitions.into_iter().find(|found| found.partition_index == 0);
            if let (Some(topic), Some(partition)) = (topic, partition) {
                self.advance(topic, partition);
            }
        }
        Ok(())
    }

    /// Stores the records that a fetch returned for a topic.
    fn advance(&self, topic: &Topic, partition: PartitionData) {
        let Some(newest) = topic.tail.borrow().newest() else { return };
        let offset = i64::try_from(newest).unwrap_or(i64::MAX);
        match read_partition(topic, partition, offset, self.settings.form) {
            Ok(fetched) if fetched.next > offset => {
                let reached = position(fetched.next.min(fetched.end.max(offset)) - 1);
                let has_records = !fetched.records.is_empty();
                let (before, now) = topic.tail.borrow_mut().extend(fetched.records, reached);
                self.count_tail_bytes(before, now);
                if self.tail_bytes.get() > TAIL_BYTES_MAX {
                    let dropped = topic.tail.borrow_mut().begin(reached.max(newest));
                    self.count_tail_bytes(dropped, 0);
                }
                if has_records {
                    self.wake(topic);
                }
            }
            Ok(_) => {}
            Err(failure) => {
                // The next round starts again at the topic's end and wakes the waiting readers, which then read the topic itself.
                let dropped = topic.tail.borrow_mut().reset();
                self.count_tail_bytes(dropped, 0);
                if !matches!(failure, Failure::Code(ResponseError::OffsetOutOfRange)) {
                    topic.leader.set(None);
                }
            }
        }
    }

    fn count_tail_bytes(&self, before: usize, now: usize) {
        self.tail_bytes.set(self.tail_bytes.get().saturating_sub(before).saturating_add(now));
    }
}
