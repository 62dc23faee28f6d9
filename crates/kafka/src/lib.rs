//! Logs in Kafka: the log part of the store's contract over the topics of a cluster that others use as well.
//!
//! Owns the conversation with the brokers: connections, leaders, batches, and the thread on which it takes place. It never learns
//! what a record means ([`RecordForm`] says what of it is whose), and keeps no table, no lease and no place of a reader. A call enters by
//! [`Kafka`], which is a [`store::Logs`], and leaves as an answer from the thread.
//!
//! ```text
//! Kafka ── commands, bounded ──> thread: Cluster ── append ──> leader of the topic, acknowledged by all replicas
//!                                                ── fetch  ──> the same, by another connection
//!                                                ── follow ──> one long fetch for each broker ──> Tail, Watches
//! ```
//!
//! A log is a topic of one partition, and a position is an offset and one, since positions begin at 1.
#![forbid(unsafe_code)]

mod append;
mod batch;
mod cluster;
mod compression;
mod connection;
mod fetch;
mod follow;
mod logs;
mod protocol;
mod sasl;
mod shape;
mod tail;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

pub use logs::Kafka;

/// Settings of a cluster and of its topics.
#[derive(Clone)]
pub struct KafkaSettings {
    /// Some of its brokers. They name the others.
    pub brokers: Vec<Broker>,
    pub tls: Option<tls::Client>,
    pub sasl: Option<Sasl>,
    /// The prefix of the names of topics. The name of a log follows, from its last slash on.
    pub topics_prefix: String,
    /// Settings of topics that are created.
    pub made: TopicSettings,
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

/// The settings of topics that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicSettings {
    /// The time for which their records are kept.
    pub age: Duration,
    /// The bytes of records that are kept.
    pub bytes: u64,
    /// The largest message.
    pub message_bytes_max: usize,
}

/// A message as everybody sees it who uses the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// In a header; empty if there is none.
    pub content_type: Bytes,
    /// The other headers, by name.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The value.
    pub value: Bytes,
}

/// The conversion between a record of a log and a message. None: the record has no such form.
#[derive(Debug, Clone, Copy)]
pub struct RecordForm {
    pub message: fn(&Bytes) -> Option<Message>,
    pub record: fn(&Message) -> Option<Bytes>,
}

/// The longest name of a topic.
pub const TOPIC_BYTES_MAX: usize = 249;

/// True if a topic may have this name.
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
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}
