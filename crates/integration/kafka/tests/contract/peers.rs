//! Batches that other clients write, data that is deleted, and listeners that require authentication.

use std::time::Duration;

use kafka::{Kafka, Mechanism, Sasl};
use store::{Error, Logs, ReadQuery};

use crate::broker::{self, Extras};
use crate::{one, settings, whole};

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_others_are_read_however_they_are_packed() {
    let broker = broker::Kafka::shared();
    let logs = Kafka::new(settings(&broker.address()));
    // The request creates the topic.
    assert_eq!(logs.span("packed").await.unwrap().newest, 0);
    let mut expected = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let long = "the same ".repeat(200);
        let lines = format!("content-type:text/plain\t{long}{codec}\nx:y\tplain\n");
        broker.produce("tg.packed", codec, &lines);
        expected.push(format!("text/plain|{long}{codec}"));
        expected.push("plain".to_owned());
    }
    let all: Vec<String> = whole(&logs, "packed").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(all, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kafka_forgets_is_trimmed() {
    let broker = broker::Kafka::shared();
    let logs = Kafka::new(settings(&broker.address()));
    for text in ["a", "b", "c", "d"] {
        logs.append("trimmed", one(text), None).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("offsets.json");
    let offsets =
        r#"{"partitions": [{"topic": "tg.trimmed", "partition": 0, "offset": 2}], "version": 1}"#;
    std::fs::write(&file, offsets).unwrap();
    broker.tool("DeleteRecordsCommand", &["--offset-json-file", file.to_str().unwrap()], b"");
    let span = logs.span("trimmed").await.unwrap();
    assert_eq!((span.oldest, span.newest), (3, 4));
    let kept = [(3, "c".to_owned()), (4, "d".to_owned())];
    assert_eq!(whole(&logs, "trimmed").await, kept, "a wait of 0 returns the existing records");
    let gone = logs.read("trimmed", ReadQuery::after(1)).await;
    assert_eq!(gone, Err(Error::Trimmed { oldest: 3 }));
    assert_eq!(logs.read("trimmed", ReadQuery::after(2)).await.unwrap().records.len(), 2);
    let beyond = logs.read("trimmed", ReadQuery::after(9)).await.unwrap();
    assert_eq!((beyond.records.len(), beyond.newest), (0, 4));
    let trim = store::Keep { after: Some(4), ..store::Keep::default() };
    assert_eq!(logs.trim("trimmed", trim).await.unwrap().oldest, 3, "Kafka decides what is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_several_partitions_is_no_log() {
    let broker = broker::Kafka::shared();
    let create = ["--create", "--topic", "tg.many", "--partitions", "3"];
    broker.tool("TopicCommand", &create, b"");
    let logs = Kafka::new(settings(&broker.address()));
    let expected = "the topic tg.many has 3 partitions; the gateway needs a topic with exactly one";
    let expected = expected.to_owned();
    assert_eq!(logs.append("many", one("x"), None).await, Err(Error::Unavailable(expected)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_topic_does_not_take_is_too_large() {
    let broker = broker::Kafka::shared();
    let create = [
        "--create",
        "--topic",
        "tg.small",
        "--partitions",
        "1",
        "--config",
        "max.message.bytes=2000",
    ];
    broker.tool("TopicCommand", &create, b"");
    let logs = Kafka::new(settings(&broker.address()));
    let (small, large) = ("s".repeat(1200), "l".repeat(3000));
    // Together they are too large, so each is sent separately.
    let appends =
        [&small, &small, &large, &small].map(|text| logs.append("small", one(text), None));
    let mut answers = Vec::new();
    for append in appends {
        answers.push(append.await.map_err(|error| matches!(error, Error::Size { .. })));
    }
    assert_eq!(answers, [Ok(1..=1), Ok(2..=2), Err(true), Ok(3..=3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_are_told_who_one_is() {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
    let identity = Some((certificate.as_str(), key.as_str()));
    let broker = broker::Kafka::start(&Extras { identity, ..Extras::default() });
    let spec = tls::ClientSpec {
        ca: Some(certificate.as_bytes().to_vec()),
        verify: true,
        ..tls::ClientSpec::default()
    };
    let tls = tls::Client::new(&spec).unwrap();
    let client = |mechanism, password: &str| {
        let mut settings = settings(&broker.secure_address());
        settings.tls = Some(tls.clone());
        let (user, password) = ("tester".to_owned(), password.to_owned());
        settings.sasl = Some(Sasl { user, password, mechanism });
        Kafka::new(settings)
    };
    let mechanisms = [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512];
    for (mechanism, position) in mechanisms.into_iter().zip(1..) {
        let logs = client(mechanism, "geheim");
        assert_eq!(logs.append("secure", one("x"), None).await, Ok(position..=position));
        let logs = client(mechanism, "falsch");
        let Err(Error::Unavailable(why)) = logs.append("secure", one("x"), None).await else {
            panic!()
        };
        assert!(why.contains("SASL") || why.contains("uthentication"), "{why}");
    }
    let without = Kafka::new(settings(&broker.secure_address()));
    let asked =
        tokio::time::timeout(Duration::from_secs(60), without.span("secure")).await.unwrap();
    assert!(matches!(asked, Err(Error::Unavailable(_))), "{asked:?}");
}
