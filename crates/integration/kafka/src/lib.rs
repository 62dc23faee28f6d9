//! Logs in Kafka: implements the log part of the store's contract with topics of a cluster that other systems may use as well.
//!
//! Owns the communication with the brokers: connections, leaders, batches, and the thread for it. It does not interpret records, which
//! [`RecordForm`] converts, and keeps no tables, no leases and no positions of readers. A call enters by [`Kafka`], which is a
//! [`store::Logs`], and leaves as an answer from the thread.
//!
//! ```text
//! Kafka ── commands, bounded ──> thread: Cluster ── append ──> leader of the topic, acknowledged by all replicas
//!                                                ── fetch  ──> the same, by another connection
//!                                                ── follow ──> one long fetch for each broker ──> Tail, Watches
//! ```
//!
//! A log is a topic with one partition. A position is an offset plus one, since positions begin at 1.
#![forbid(unsafe_code)]

mod append;
mod batch;
mod cluster;
mod compression;
mod connection;
mod fetch;
mod follow;
mod handshake;
mod logs;
mod protocol;
mod sasl;
mod shape;
mod tail;
mod waiting_appends;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

pub use logs::Kafka;

/// Settings of a cluster and of its topics.
#[derive(Clone)]
pub struct KafkaSettings {
    /// Bootstrap brokers. They name the others.
    pub brokers: Vec<Broker>,
    pub tls: Option<tls::Client>,
    pub sasl: Option<Sasl>,
    /// The prefix of topic names. The part of a log's name after its last slash follows.
    pub topics_prefix: String,
    /// Settings of topics that are created.
    pub new_topics: TopicSettings,
    pub form: RecordForm,
}

/// The address of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Broker {
    pub host: String,
    pub port: u16,
}

/// The credentials of the gateway at the brokers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sasl {
    pub user: String,
    pub password: String,
    pub mechanism: Mechanism,
}

/// The mechanism of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// The password itself.
    Plain,
    ScramSha256,
    ScramSha512,
}

/// The settings of topics that are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicSettings {
    /// How long records are kept.
    pub age: Duration,
    /// How many bytes of records are kept.
    pub bytes: u64,
    /// The maximum size of a message.
    pub message_bytes_max: usize,
}

/// A message in the form that all users of the topic see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The content type, which is in a header, or empty if there is none.
    pub content_type: Bytes,
    /// The other headers, by name.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The value.
    pub value: Bytes,
}

/// The conversion between a record of a log and a message. A function returns `None` if it cannot convert.
#[derive(Debug, Clone, Copy)]
pub struct RecordForm {
    pub message: fn(&Bytes) -> Option<Message>,
    pub record: fn(&Message) -> Option<Bytes>,
}

/// The maximum length of a topic name.
pub const TOPIC_BYTES_MAX: usize = 249;

/// Returns true if this is a valid topic name.
pub fn is_topic(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty()
        && name.len() <= TOPIC_BYTES_MAX
        && name.bytes().all(is_plain)
        && !matches!(name, "." | "..")
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Sasl {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}
