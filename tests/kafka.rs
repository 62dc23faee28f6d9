//! `hubs.NAME.log.kafka`: topics of hubs in a broker of Apache Kafka, which others use as well.

use std::path::Path;

use serde_json::json;

use crate::harness::kafka::{Extras, Kafka};
use crate::harness::{Gateway, tidegate, until};
use crate::hubs::{bodies, events, hub, poll, publish, start_in, stream};
use crate::websub::{LOOPBACK, confirming, delivered, subscribe, texts};

/// The keys of a hub whose topics are in Kafka.
fn keys(kafka: &Kafka, prefix: &str) -> String {
    let address = kafka.address();
    format!(
        "{LOOPBACK}, log: {{ kafka: {{ brokers: [\"{address}\"], topics_prefix: \"{prefix}\" }} }}"
    )
}

fn start(kafka: &Kafka, prefix: &str, folder: &Path) -> Gateway {
    start_in(folder, &keys(kafka, prefix))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn events_are_messages_that_others_read() {
    let kafka = Kafka::shared();
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(kafka, "read.", folder.path());
    let ids = ["one", "two", "three"].map(|body| publish(&gateway, "sports", body));
    assert_eq!(ids, ["1", "2", "3"], "an id is the offset and one");
    publish(&gateway, "weather", "rain");
    let all = poll(&gateway, "?after=0");
    assert_eq!(bodies(&all), ["one", "two", "three"]);
    assert_eq!((&all["next"], &all["events"][0]["type"]), (&json!("3"), &json!("text/plain")));
    let since = |event: &serde_json::Value| event["time"].as_str().unwrap().starts_with("20");
    assert!(since(&all["events"][0]), "{all}");
    let (mut wire, _) = stream(&gateway, "", "Last-Event-ID: 1\r\n");
    let seen = events(&mut wire, 2);
    assert_eq!(seen, "id: 2\ndata: two\n\nid: 3\ndata: three\n\n");
    let line = |body: &str| format!("content-type:text/plain\t{body}\n");
    let expected: String = ["one", "two", "three"].map(line).concat();
    assert_eq!(text(kafka.consumed("read.sports", 3)), expected);
    assert_eq!(text(kafka.consumed("read.weather", 1)), line("rain"));
}

#[test]
fn messages_of_others_are_events() {
    let kafka = Kafka::shared();
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(kafka, "foreign.", folder.path());
    let origin = confirming();
    subscribe(&gateway, &format!("{}/cb", origin.url()), "");
    let (mut wire, _) = stream(&gateway, "", "");
    kafka.produce("foreign.sports", "none", "content-type:text/x-goal\tgoal\nx:y\tno type\n");
    assert_eq!(events(&mut wire, 2), "id: 1\ndata: goal\n\nid: 2\ndata: no type\n\n");
    until("both are delivered", || delivered(&origin).len() == 2);
    let first = &delivered(&origin)[0];
    assert_eq!((first.text(), first.get("content-type")), ("goal".to_owned(), Some("text/x-goal")));
    assert_eq!(first.get("x-hub-event-id"), Some("1"));
    assert_eq!(texts(&origin), ["goal", "no type"]);
    publish(&gateway, "sports", "ours");
    until("it is delivered", || delivered(&origin).len() == 3);
    assert_eq!(bodies(&poll(&gateway, "?after=0")), ["goal", "no type", "ours"]);
}

#[test]
fn a_gateway_that_is_started_again_goes_on_where_it_was() {
    let kafka = Kafka::shared();
    let folder = tempfile::tempdir().unwrap();
    let origin = confirming();
    let gateway = start(kafka, "again.", folder.path());
    subscribe(&gateway, &format!("{}/cb", origin.url()), "");
    publish(&gateway, "sports", "one");
    until("it is delivered", || texts(&origin) == ["one"]);
    drop(gateway);
    kafka.produce("again.sports", "none", "a:b\ttwo\na:b\tthree\n");
    let gateway = start(kafka, "again.", folder.path());
    publish(&gateway, "sports", "four");
    until("all are delivered", || texts(&origin).last().is_some_and(|text| text == "four"));
    let mut texts = texts(&origin);
    // Events in flight at the kill may be repeated, with the same id.
    texts.dedup();
    assert_eq!(texts, ["one", "two", "three", "four"]);
}

#[test]
fn a_broker_that_is_away_is_503_and_nothing_is_lost() {
    let mut kafka = Kafka::start(&Extras::default());
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(&kafka, "away.", folder.path());
    let origin = confirming();
    subscribe(&gateway, &format!("{}/cb", origin.url()), "");
    let (mut wire, _) = stream(&gateway, "", "");
    publish(&gateway, "sports", "before");
    assert!(events(&mut wire, 1).ends_with("data: before\n\n"));
    kafka.kill();
    let request =
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nlost";
    assert_eq!(gateway.wire().ask(request).status(), 503);
    assert_eq!(gateway.wire().get("/news/topics/sports?after=0").status(), 503);
    kafka.start_again();
    let request = request.replace("lost", "back");
    until("the broker takes events again", || gateway.wire().ask(&*request).status() == 200);
    until("it is delivered", || texts(&origin).last().is_some_and(|text| text == "back"));
    // The stream went on. A comment goes out where it was silent for long.
    while !events(&mut wire, 1).ends_with("data: back\n\n") {}
    // A publisher that was told 503 while the broker came back may have published without knowing.
    let all = poll(&gateway, "?after=0");
    let mut all = bodies(&all);
    all.dedup();
    assert_eq!(all, ["before", "back"]);
    let mut texts = texts(&origin);
    texts.dedup();
    assert_eq!(texts, ["before", "back"]);
}

#[test]
fn explain_says_where_the_topics_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let log = ", log: { kafka: { brokers: [\"a:9092\", \"b:9092\"], topics_prefix: \"tg.\" } }";
    std::fs::write(&file, hub(log)).unwrap();
    let run = tidegate(&["explain", file.to_str().unwrap(), "GET", "/news/topics/sports"]);
    assert!(
        run.stdout.contains("events in Kafka at a:9092, b:9092, topics `tg.*`"),
        "{}",
        run.stdout
    );
}
