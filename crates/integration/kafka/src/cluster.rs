//! The known state of the cluster: its brokers, the leaders of topics, and the connections to them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{CreateTopicsRequest, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use kit::clock::{self, Instant};
use store::Watches;
use tokio::sync::{Mutex, Notify};

use crate::connection::Connection;
use crate::protocol::{Failure, check, name};
use crate::tail::{Tail, Windows};
use crate::waiting_appends::Appends;
use crate::{Broker, KafkaSettings, is_topic};

/// The state of the cluster. Only the thread for Kafka uses it.
pub(crate) struct Cluster {
    pub(crate) settings: KafkaSettings,
    pub(crate) watches: Arc<Watches>,
    /// Wakes the follower when a topic is watched for the first time.
    pub(crate) followed: Notify,
    /// The number of bytes in all tails.
    pub(crate) tail_bytes: Cell<usize>,
    /// Records that were fetched but not returned yet.
    pub(crate) windows: RefCell<Windows>,
    topics: RefCell<HashMap<String, Rc<Topic>>>,
    brokers: RefCell<HashMap<i32, Broker>>,
    slots: RefCell<Slots>,
    /// Held while the location of topics is queried, so that there is one query at a time.
    asking: Mutex<()>,
}

/// A topic.
pub(crate) struct Topic {
    pub(crate) name: String,
    /// The logs that the topic stores: one, or several if hubs share it.
    pub(crate) logs: RefCell<BTreeSet<String>>,
    /// The id of the broker that leads it, if known.
    pub(crate) leader: Cell<Option<i32>>,
    pub(crate) appends: Appends,
    /// The newest position appended by this process, or 0.
    pub(crate) appended: Cell<u64>,
    pub(crate) tail: RefCell<Tail>,
    /// The last failure to find its leader, and its time.
    lost: RefCell<Option<(Instant, Failure)>>,
}

/// The purpose of a connection. A broker serves the requests of one connection in order, and some take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ConnectionPurpose {
    /// Metadata queries and reads, which are answered at once.
    Reads,
    /// Appends, which wait for the replicas.
    Appends,
    /// Long-polling fetches.
    Follow,
}

/// The connections. The lock of a slot is held while its connection is being opened.
type Slots = HashMap<(Broker, ConnectionPurpose), Rc<Mutex<Slot>>>;

#[derive(Default)]
struct Slot {
    open: Option<Rc<Connection>>,
    /// The last failure, and its time.
    failed: Option<(Instant, Failure)>,
}

/// The timeout of one call. It is longer than the retries during a change of leaders.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(9);

/// The pause before a failed broker is tried again, and before a topic is searched again. In between, the same failure is returned.
const PAUSE: Duration = Duration::from_millis(200);

/// The timeout of queries about topics.
const WAIT: Duration = Duration::from_secs(5);

/// The maximum number of brokers of a cluster. The largest clusters have some hundreds.
const BROKERS_MAX: usize = 1000;

/// How long brokers are tried until one answers.
const ANY_MAX: Duration = Duration::from_secs(12);

/// The maximum number of attempts to find a topic that was just created: it takes a moment until all brokers know it.
const FIND_ATTEMPTS_MAX: u32 = 20;

impl Cluster {
    pub(crate) fn new(settings: KafkaSettings, watches: Arc<Watches>) -> Cluster {
        Cluster {
            settings,
            watches,
            followed: Notify::new(),
            tail_bytes: Cell::new(0),
            windows: RefCell::default(),
            topics: RefCell::default(),
            brokers: RefCell::default(),
            slots: RefCell::default(),
            asking: Mutex::new(()),
        }
    }

    /// Returns the topic of a log.
    pub(crate) fn topic(&self, log: &str) -> Rc<Topic> {
        let name = log.rsplit('/').next().unwrap_or(log);
        let name = format!("{}{name}", self.settings.topics_prefix);
        let mut topics = self.topics.borrow_mut();
        let topic = topics.entry(name).or_insert_with_key(|name| {
            Rc::new(Topic {
                name: name.clone(),
                logs: RefCell::default(),
                leader: Cell::new(None),
                appends: Appends::default(),
                appended: Cell::new(0),
                tail: RefCell::default(),
                lost: RefCell::default(),
            })
        });
        if !topic.logs.borrow().contains(log) {
            topic.logs.borrow_mut().insert(log.to_owned());
        }
        topic.clone()
    }

    /// Returns all topics used so far.
    pub(crate) fn topics(&self) -> Vec<Rc<Topic>> {
        self.topics.borrow().values().cloned().collect()
    }

    /// Returns a connection to the leader of a topic. The topic is created if it does not exist.
    pub(crate) async fn leader(
        &self,
        topic: &Topic,
        purpose: ConnectionPurpose,
    ) -> Result<Rc<Connection>, Failure> {
        let broker = self.locate(topic).await?;
        let connected = self.connect(&broker, purpose).await;
        if connected.is_err() {
            topic.leader.set(None);
        }
        connected
    }

    /// Returns the broker that leads a topic.
    pub(crate) async fn locate(&self, topic: &Topic) -> Result<Broker, Failure> {
        if let Some(known) = self.known(topic) {
            return Ok(known);
        }
        let _turn = self.asking.lock().await;
        if let Some(known) = self.known(topic) {
            return Ok(known);
        }
        if let Some((at, why)) = &*topic.lost.borrow()
            && clock::now().duration_since(*at) < PAUSE
        {
            return Err(why.clone());
        }
        let found = self.find(topic).await;
        topic.lost.replace(found.as_ref().err().map(|why| (clock::now(), why.clone())));
        found
    }

    /// Returns a broker by its id.
    pub(crate) fn broker(&self, id: i32) -> Option<Broker> {
        self.brokers.borrow().get(&id).cloned()
    }

    fn known(&self, topic: &Topic) -> Option<Broker> {
        self.broker(topic.leader.get()?)
    }

    /// Queries the leader of a topic, and creates the topic if it does not exist.
    async fn find(&self, topic: &Topic) -> Result<Broker, Failure> {
        if !is_topic(&topic.name) {
            let what = format!("`{}` is not a Kafka topic name", topic.name);
            return Err(Failure::Refused(what));
        }
        let mut is_created = false;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.query_leader(topic).await {
                Err(Failure::Code(code)) if is_unknown(&code) && attempts < FIND_ATTEMPTS_MAX => {
                    if !std::mem::replace(&mut is_created, true) {
                        self.make(topic).await?;
                    }
                    tokio::time::sleep(PAUSE / 4).await;
                }
                found => return found,
            }
        }
    }

    async fn query_leader(&self, topic: &Topic) -> Result<Broker, Failure> {
        let asked = MetadataRequestTopic::default().with_name(Some(name(&topic.name)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_allow_auto_topic_creation(false);
        let answer = self.connect_any().await?.ask(&request, WAIT).await?;
        if answer.brokers.len() > BROKERS_MAX {
            let what = format!("the cluster has more than {BROKERS_MAX} brokers");
            return Err(Failure::Refused(what));
        }
        let brokers = answer.brokers.iter().map(|broker| {
            let (host, port) = (broker.host.to_string(), broker.port);
            let port = u16::try_from(port).map_err(|_| {
                Failure::Refused(format!("the broker {host} has the invalid port {port}"))
            })?;
            Ok((broker.node_id.0, Broker { host, port }))
        });
        self.brokers.replace(brokers.collect::<Result<_, Failure>>()?);
        self.forget_slots();
        let leader = leader(topic, &answer)?;
        let broker = self.broker(leader).ok_or(Failure::Code(LEADERLESS))?;
        topic.leader.set(Some(leader));
        Ok(broker)
    }

    /// Drops the connections to brokers that are no longer part of the cluster.
    fn forget_slots(&self) {
        let brokers = self.brokers.borrow();
        let is_known = |broker: &Broker| {
            self.settings.brokers.contains(broker) || brokers.values().any(|known| known == broker)
        };
        self.slots.borrow_mut().retain(|(broker, _), _| is_known(broker));
    }

    /// Creates a topic with one partition. Another node may have created it in the meantime.
    async fn make(&self, topic: &Topic) -> Result<(), Failure> {
        let made = &self.settings.new_topics;
        let settings = [
            ("cleanup.policy", "delete".to_owned()),
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("retention.ms", made.age.as_millis().to_string()),
            ("retention.bytes", made.bytes.to_string()),
            ("max.message.bytes", made.message_bytes_max.to_string()),
        ];
        let settings = settings.into_iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(Some(StrBytes::from_string(value)))
        });
        let new = CreatableTopic::default()
            .with_name(name(&topic.name))
            .with_num_partitions(1)
            // Selects the default number of replicas of the brokers.
            .with_replication_factor(-1)
            .with_configs(settings.collect());
        let wait = i32::try_from(WAIT.as_millis()).unwrap_or(i32::MAX);
        let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(wait);
        let answer = self.connect_any().await?.ask(&request, WAIT * 2).await?;
        for result in answer.topics {
            let Err(Failure::Code(code)) = check(result.error_code) else {
                tracing::info!(topic = &*topic.name, "a topic was created in Kafka");
                continue;
            };
            if !already_exists(&code) {
                let said = result.error_message.map(|said| said.to_string());
                let said = said.unwrap_or_else(|| code.to_string());
                let what = format!(
                    "the topic {} does not exist in Kafka and cannot be created: {said}",
                    topic.name
                );
                return Err(Failure::Refused(what));
            }
        }
        Ok(())
    }

    /// Returns a connection to any broker.
    async fn connect_any(&self) -> Result<Rc<Connection>, Failure> {
        let mut brokers = self.settings.brokers.clone();
        brokers.extend(self.brokers.borrow().values().cloned());
        let mut why = "no broker is configured".to_owned();
        let began = clock::now();
        for broker in brokers {
            if began.elapsed() > ANY_MAX {
                break;
            }
            match self.connect(&broker, ConnectionPurpose::Reads).await {
                Ok(connection) => return Ok(connection),
                Err(Failure::Unreached(error)) => why = error,
                Err(other) => return Err(other),
            }
        }
        Err(Failure::NoBroker(why))
    }

    /// Returns a connection to a broker. While one is being opened, other callers wait for it.
    pub(crate) async fn connect(
        &self,
        broker: &Broker,
        purpose: ConnectionPurpose,
    ) -> Result<Rc<Connection>, Failure> {
        let slot = self.slots.borrow_mut().entry((broker.clone(), purpose)).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(open) = slot.open.take_if(|open| open.is_open()) {
            slot.open = Some(open.clone());
            return Ok(open);
        }
        if let Some((at, why)) = &slot.failed
            && clock::now().duration_since(*at) < PAUSE
        {
            return Err(why.clone());
        }
        match Connection::open(broker, &self.settings).await {
            Ok(open) => {
                let open = Rc::new(open);
                *slot = Slot { open: Some(open.clone()), failed: None };
                Ok(open)
            }
            Err(why) => {
                *slot = Slot { open: None, failed: Some((clock::now(), why.clone())) };
                Err(why)
            }
        }
    }
}

/// Returns the id of a topic's leader.
fn leader(topic: &Topic, answer: &MetadataResponse) -> Result<i32, Failure> {
    let found = answer.topics.iter().find(|found| {
        let name = found.name.as_ref();
        name.is_some_and(|name| name.as_str() == topic.name)
    });
    let found = found.ok_or_else(crate::protocol::invalid_answer)?;
    check(found.error_code)?;
    let [partition] = found.partitions.as_slice() else {
        let what = format!(
            "the topic {} has {} partitions; the gateway needs a topic with exactly one",
            topic.name,
            found.partitions.len()
        );
        return Err(Failure::Refused(what));
    };
    check(partition.error_code)?;
    match partition.leader_id.0 {
        id if id >= 0 => Ok(id),
        _ => Err(Failure::Code(LEADERLESS)),
    }
}

const LEADERLESS: kafka_protocol::ResponseError = kafka_protocol::ResponseError::LeaderNotAvailable;

fn is_unknown(code: &kafka_protocol::ResponseError) -> bool {
    *code == kafka_protocol::ResponseError::UnknownTopicOrPartition
}

fn already_exists(code: &kafka_protocol::ResponseError) -> bool {
    *code == kafka_protocol::ResponseError::TopicAlreadyExists
}
