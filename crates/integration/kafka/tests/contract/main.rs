//! Tests the contract of logs with an Apache Kafka broker, and the effects of other clients on its topics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by the real clock"
)]

#[path = "../../../../../tests/harness/kafka.rs"]
#[allow(dead_code, reason = "the black-box suite uses the rest")]
mod broker;
#[path = "../../../../../tests/harness/closed_port.rs"]
#[allow(dead_code, reason = "the black-box suite uses the rest")]
mod closed_port;
mod lossy;
mod peers;
#[path = "../../../store/tests/contract/suite.rs"]
#[allow(dead_code, reason = "Kafka keeps no tables")]
mod suite;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka::{Broker, Kafka, KafkaSettings, Message, RecordForm, Sasl, TopicSettings};
use store::{Error, LazyStore, Logs, ReadQuery, SplitStore};

/// Returns the settings of a client, for a broker's address.
fn settings(address: &str) -> KafkaSettings {
    let (host, port) = address.rsplit_once(':').unwrap();
    KafkaSettings {
        brokers: vec![Broker { host: host.to_owned(), port: port.parse().unwrap() }],
        tls: None,
        sasl: None::<Sasl>,
        topics_prefix: "tg.".to_owned(),
        new_topics: TopicSettings {
            age: Duration::from_secs(3600),
            bytes: 1 << 30,
            message_bytes_max: 1 << 20,
        },
        form: RecordForm {
            message: |record| {
                Some(Message {
                    content_type: Bytes::new(),
                    headers: Vec::new(),
                    value: record.clone(),
                })
            },
            record: |message| {
                let parts = [&*message.content_type, &*message.value];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                Some(parts.collect::<Vec<_>>().join(&b'|').into())
            },
        },
    }
}

fn one(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

/// Returns a whole log, as positions and texts.
async fn whole(logs: &dyn Logs, log: &str) -> Vec<(u64, String)> {
    let read = logs.read(log, ReadQuery::after(0)).await.unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    read.records.iter().map(|record| (record.position, text(&record.bytes))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_keeps_the_contract_of_logs() {
    let broker = broker::Kafka::shared();
    let handle = || -> Arc<dyn store::Store> {
        let logs = Arc::new(Kafka::new(settings(&broker.address())));
        Arc::new(SplitStore { logs, rest: Arc::new(LazyStore::new(Path::new("nowhere"))) })
    };
    suite::logs(&handle(), &handle()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_goes_and_comes_again() {
    let mut broker = broker::Kafka::start(&broker::Extras::default());
    let logs = Kafka::new(settings(&broker.address()));
    let mut news = logs.follow("hub/news/topic/away");
    assert_eq!(logs.append("away", one("one"), None).await, Ok(1..=1));
    broker.kill();
    let lost = logs.append("away", one("lost"), None).await;
    assert!(matches!(lost, Err(Error::Unavailable(_) | Error::OutcomeUnknown(_))), "{lost:?}");
    assert!(matches!(logs.read("away", ReadQuery::after(1)).await, Err(Error::Unavailable(_))));
    assert!(matches!(logs.span("away").await, Err(Error::Unavailable(_))));
    broker.start_again();
    // The broker's own records exist before it answers, but it may take longer until the leader is known.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let position = loop {
        match logs.append("away", one("two"), None).await {
            Ok(positions) => break *positions.end(),
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(whole(&logs, "away").await, [(1, "one".to_owned()), (position, "two".to_owned())]);
    // A waiting reader is also notified if it uses another log name for the same topic.
    let woken = async {
        while whole(&logs, "hub/news/topic/away").await.len() < 2 {
            news.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), woken).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_said_at_once() {
    let nobody = closed_port::ClosedPort::any();
    let logs = Kafka::new(settings(&nobody.address.to_string()));
    for _ in 0..2 {
        let Err(Error::Unavailable(why)) = logs.append("x", one("x"), None).await else { panic!() };
        assert!(why.starts_with("no broker of Kafka answers: 127.0.0.1:"), "{why}");
    }
    let Err(Error::Unavailable(why)) = logs.span("a b").await else { panic!() };
    assert_eq!(why, "`tg.a b` is not a Kafka topic name");
}
