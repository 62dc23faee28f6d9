//! Compiles `hubs.NAME.log.kafka`: topics kept in a Kafka cluster that other systems may use as well.

use std::collections::HashMap;
use std::sync::Arc;

use ::bytes::Bytes;
use ::kafka::{
    Broker, Kafka, KafkaSettings, Mechanism, Message, RecordForm, Sasl, TopicSettings, is_topic,
};
use ::store::{SplitStore, Store};
use config::{HubKafka, HubSaslMechanism, Report, Spanned};

use crate::listeners::bytes;
use crate::policy_builder::PolicyBuilder;
use crate::{names, upstream_tls};

/// The log of a hub.
pub(crate) struct Log {
    settings: KafkaSettings,
    /// A description for operators.
    pub(crate) description: String,
    /// A text that identifies the log. It begins with a separator, so that it can be appended to a name.
    pub(crate) place: String,
    /// A hash of all settings.
    pub(crate) key: u64,
}

/// Bytes of a batch in addition to its event: the batch and record headers, and the largest header fields that an event may have.
const AROUND_EVENT: usize = 20 << 10;

/// Compiles the log of a hub. Returns `None` if the hub uses the store.
pub(crate) fn log(hub: &config::Hub, report: &mut Report) -> Option<Log> {
    let keys = &hub.log.as_ref()?.kafka;
    let brokers = brokers(&keys.brokers, report);
    check_topics(hub, keys, report);
    let tls = keys.tls.as_ref().map(|tls| upstream_tls::client(tls, report));
    let sasl = sasl(keys, report);
    let message_bytes_max = bytes(hub.event_bytes_max.value).saturating_add(AROUND_EVENT);
    let new_topics = TopicSettings {
        age: hub.retention.age.0,
        bytes: hub.retention.bytes.value.0,
        message_bytes_max,
    };
    let prefix = &keys.topics_prefix.value;
    let listed = brokers.iter().map(Broker::to_string).collect::<Vec<_>>().join(", ");
    let place = format!(", in Kafka at {listed}, {prefix}");
    let tls = match tls {
        Some(client) => Some(client?),
        None => None,
    };
    let key = kit::hash::fixed(&(&place, &sasl, &new_topics, format!("{tls:?}")));
    Some(Log {
        description: format!("events in Kafka at {listed}, topics `{prefix}*`"),
        place,
        key,
        settings: KafkaSettings {
            brokers,
            tls,
            sasl,
            topics_prefix: prefix.clone(),
            new_topics,
            form: RecordForm { message, record },
        },
    })
}

/// The prefix of the names of CloudEvents attributes in HTTP headers.
const ATTRIBUTE: &[u8] = b"ce-";

/// The prefix of the names of CloudEvents attributes in headers of Kafka messages (Kafka protocol binding, 3.2.3).
const ATTRIBUTE_IN_KAFKA: &[u8] = b"ce_";

/// Converts a record with an event to a Kafka message.
fn message(record: &Bytes) -> Option<Message> {
    let (said, value) = hub::event_of(record)?;
    let headers = said.lines().map(|(name, line)| {
        let name = renamed(name, ATTRIBUTE, ATTRIBUTE_IN_KAFKA);
        (name.into(), Bytes::copy_from_slice(line))
    });
    Some(Message { headers: headers.collect(), content_type: said.content_type.clone(), value })
}

/// Converts a Kafka message to a record with an event.
fn record(message: &Message) -> Option<Bytes> {
    let lines: Vec<(Vec<u8>, &Bytes)> = message
        .headers
        .iter()
        .map(|(name, value)| (renamed(name, ATTRIBUTE_IN_KAFKA, ATTRIBUTE), value))
        .collect();
    let lines = lines.iter().map(|(name, value)| (&**name, &***value));
    let said = hub::Representation::with_lines(message.content_type.clone(), lines);
    hub::record_of(&said, &message.value)
}

/// Returns a name with its prefix `from` replaced by `to`.
fn renamed(name: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    name.strip_prefix(from).map_or(name.to_vec(), |rest| [to, rest].concat())
}

/// Returns the store of a hub whose log is in Kafka.
pub(crate) fn store(log: &Log, builder: &mut PolicyBuilder<'_>) -> Arc<dyn Store> {
    let name = format!("log {:016x}{}", log.key, log.place);
    let logs = builder.reuse_or_build(&name, || Arc::new(Kafka::new(log.settings.clone())));
    Arc::new(SplitStore { logs, rest: builder.store.get_or_default() })
}

fn brokers(written: &Spanned<Vec<Spanned<String>>>, report: &mut Report) -> Vec<Broker> {
    if written.value.is_empty() {
        report.error(
            written.at,
            "a cluster needs at least one broker",
            "write `brokers: [HOST:PORT]`",
        );
    }
    let broker = |broker: &Spanned<String>| {
        let parts = broker.value.rsplit_once(':').filter(|_| names::is_authority(&broker.value));
        // Harmless: an address without a port gets a complaint below.
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = parts else {
            let what = format!("`{}` is not a broker address", broker.value.escape_debug());
            report.error(broker.at, what, "write `HOST:PORT`, such as `kafka-1.internal:9092`");
            return None;
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Broker { host, port })
    };
    // Harmless: `broker` reports invalid addresses.
    written.value.iter().filter_map(broker).collect()
}

/// Checks the names of the hub's topics in Kafka.
fn check_topics(hub: &config::Hub, keys: &HubKafka, report: &mut Report) {
    let prefix = &keys.topics_prefix.value;
    if !prefix.is_empty() && !is_topic(&format!("{prefix}x")) {
        let what = format!("`{}` is not allowed in a Kafka topic name", prefix.escape_debug());
        report.error(keys.topics_prefix.at, what, "use letters, digits, `-`, `_` and `.`");
        return;
    }
    let mut seen = HashMap::new();
    for topic in &hub.topics {
        let name = format!("{prefix}{}", topic.value);
        if !is_topic(&name) {
            let what = format!("`{}` is not a valid Kafka topic name", name.escape_debug());
            let help = "use letters, digits, `-`, `_` and `.`, and at most 249 with the prefix";
            report.error(topic.at, what, help);
            continue;
        }
        // Kafka's metrics map both `.` and `_` to the same character, so it refuses a topic whose name collides with another in this way.
        if let Some(other) = seen.insert(name.replace('_', "."), name.clone())
            && other != name
        {
            let what = format!("Kafka treats the topic names `{other}` and `{name}` as the same");
            report.error(topic.at, what, "use names that differ in more than `.` and `_`");
        }
    }
}

fn sasl(keys: &HubKafka, report: &mut Report) -> Option<Sasl> {
    let written = keys.sasl.as_ref()?;
    if written.user.value.is_empty() || written.user.value.contains('\0') {
        report.error(
            written.user.at,
            "the user name is empty or has a null character",
            "write the user's name",
        );
    }
    if written.password.value.0.is_empty() || written.password.value.0.contains('\0') {
        let help = "write the user's password, preferably as `${NAME}`";
        report.error(written.password.at, "the password is empty or has a null character", help);
    }
    let mechanism = match written.mechanism {
        HubSaslMechanism::Plain => Mechanism::Plain,
        HubSaslMechanism::ScramSha256 => Mechanism::ScramSha256,
        HubSaslMechanism::ScramSha512 => Mechanism::ScramSha512,
    };
    if mechanism == Mechanism::Plain && keys.tls.is_none() {
        let what = "the password is sent to the brokers in plain text, because the connections do not use TLS";
        report.warn(written.password.at, what, "add `tls: {}`, or use `scram-sha-512`");
    }
    let (user, password) = (written.user.value.clone(), written.password.value.0.clone());
    Some(Sasl { user, password, mechanism })
}
