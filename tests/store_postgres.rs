//! `store: { postgres }`: hubs store their data in a database, which may become unavailable and return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{ClosedPort, Gateway, Origin, Postgres, tidegate, until, until_at_last};
use crate::hubs::{bodies, hub, poll, publish};
use crate::queues;
use crate::telemetry::metric;
use crate::websub::{LOOPBACK, confirming, ids, repeats, subscribe, texts};

fn yaml(url: &str) -> String {
    format!("{}store: {{ postgres: \"{url}\" }}\n", hub(""))
}

fn status(gateway: &Gateway, body: &str) -> u16 {
    let head =
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n";
    gateway.wire().ask(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).status()
}

#[test]
fn events_outlive_gateways_and_the_database_going_away() {
    let mut server = Postgres::start();
    let gateway = Gateway::start(yaml(&server.url()));
    publish(&gateway, "sports", "one");
    assert_eq!(bodies(&poll(&gateway, "?after=0")), ["one"]);
    assert!(metric(&gateway, "tidegate_store_records_total").is_some_and(|records| records >= 1.0));
    drop(gateway);

    let gateway = Gateway::start(yaml(&server.url()));
    publish(&gateway, "sports", "two");
    assert_eq!(bodies(&poll(&gateway, "?after=0")), ["one", "two"]);

    server.kill();
    until("publishes are refused", || status(&gateway, "nowhere") == 503);
    gateway.wait_for_log("store: not available");
    server.start_again();
    until("publishes are taken again", || status(&gateway, "three") == 200);
    gateway.wait_for_log("store: available again");
    let events = poll(&gateway, "?after=0");
    let bodies = bodies(&events);
    assert_eq!(bodies.first(), Some(&"one"));
    assert_eq!(bodies.iter().filter(|body| **body == "three").count(), 1, "{bodies:?}");
}

#[test]
fn a_gateway_starts_while_the_database_is_away() {
    let nobody = ClosedPort::any();
    let url = format!("postgres://tester:geheim@{}/postgres?connect_timeout=2", nobody.address);
    let gateway = Gateway::start(yaml(&url));
    gateway.wait_for_log("store: not available");
    assert_eq!(status(&gateway, "nowhere"), 503);
    assert!(!gateway.log().contains("geheim"), "the password is in the log");
}

#[test]
fn two_gateways_share_a_database() {
    let server = Postgres::start();
    let (first, second) =
        (Gateway::start(yaml(&server.url())), Gateway::start(yaml(&server.url())));
    publish(&first, "sports", "one");
    publish(&second, "sports", "two");
    for gateway in [&first, &second] {
        until("both have both", || bodies(&poll(gateway, "?after=0")) == ["one", "two"]);
    }
}

/// Callbacks of both gateways: each event arrives once and in order. After the kill, delivery continues with the event in
/// flight.
#[test]
fn the_deliveries_of_a_killed_gateway_go_on_at_another() {
    let server = Postgres::start();
    let yaml = format!("{}store: {{ postgres: \"{}\" }}\n", hub(LOOPBACK), server.url());
    let (first, second) = (Gateway::start(&yaml), Gateway::start(&yaml));
    // Enough that both gateways have some, whatever their partitions.
    let callbacks: Vec<Origin> = (0..8).map(|_| confirming()).collect();
    for (number, callback) in callbacks.iter().enumerate() {
        subscribe(if number % 2 == 0 { &first } else { &second }, &callback.url(), "");
    }
    let mut published = Vec::new();
    for number in 0..20 {
        let (text, at) = (number.to_string(), if number % 2 == 0 { &first } else { &second });
        published.push((publish(at, "sports", &text), text));
    }
    let all = |published: &[(String, String)]| {
        callbacks.iter().all(|callback| {
            let texts = texts(callback);
            published.iter().all(|(_, text)| texts.contains(text))
        })
    };
    let count = || callbacks.iter().map(|callback| callback.requests().len()).sum();
    until_at_last("both deliver", count, || all(&published));
    for callback in &callbacks {
        assert_eq!(texts(callback), published.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>());
    }

    for number in 20..40 {
        let text = number.to_string();
        published.push((publish(&second, "sports", &text), text));
    }
    drop(first);
    for number in 40..60 {
        let text = number.to_string();
        published.push((publish(&second, "sports", &text), text));
    }
    until_at_last("the other delivers all", count, || all(&published));
    let order: Vec<String> = published.iter().map(|(id, _)| id.clone()).collect();
    for callback in &callbacks {
        // The one whose end was not yet written down when its gateway was killed.
        assert!(repeats(&ids(callback), &order, false) <= 1, "{:?}", ids(callback));
    }
}

#[test]
fn messages_of_queues_outlive_gateways_and_the_database_going_away() {
    let mut server = Postgres::start();
    let works = Arc::new(AtomicBool::new(false));
    let answers = works.clone();
    let origin = queues::origin(move |_, _| {
        if answers.load(Ordering::SeqCst) {
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
        }
    });
    let keys = ", retry: { attempts: 100, initial: 100ms, max: 200ms }";
    let url = server.url();
    let yaml = format!("{}store: {{ postgres: \"{url}\" }}\n", queues::yaml(&origin, keys));
    let gateway = Gateway::start(&yaml);
    queues::put(&gateway, "/one", "first");
    until("it is tried", || !queues::texts(&origin).is_empty());
    drop(gateway);
    server.kill();
    server.start_again();
    let before = queues::texts(&origin).len();
    works.store(true, Ordering::SeqCst);
    let gateway = Gateway::start(&yaml);
    until("it is processed", || queues::texts(&origin).len() > before);
    queues::put(&gateway, "/two", "second");
    until("so is the next", || queues::texts(&origin).last().is_some_and(|text| text == "second"));
    assert_eq!(queues::texts(&origin)[before..], ["first", "second"]);
}

#[test]
fn wrong_urls_and_folders_that_are_urls_are_told_without_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    for (keys, expected) in [
        ("postgres: \"mysql://u:geheim@a/b\"", "it does not begin with `postgres://`"),
        ("postgres: \"sqlite:geheim.db\"", "it does not begin with `postgres://`"),
        ("postgres: \"postgres://u:geheim@a:x/b\"", "the URL of the store's database is malformed"),
        ("path: a, postgres: \"postgres://u:geheim@a/b\"", "cannot be combined"),
    ] {
        std::fs::write(&file, format!("{}store: {{ {keys} }}\n", hub(""))).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, Some(1), "{said}");
        assert!(said.contains("gateway.yaml:7:") && said.contains(expected), "{keys}: {said}");
        assert!(!said.contains("geheim"), "{said}");
    }
    let run = tidegate(&["store", "check", "postgres://u:geheim@a/b"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("pg_dump") && !run.stderr.contains("geheim"), "{}", run.stderr);
}

/// With default settings, a server compiles statements that it considers expensive, which takes 50 ms at each
/// execution.
#[test]
fn no_statement_of_the_store_is_compiled_by_the_server() {
    let server = Postgres::start_with(&[
        "jit=on",
        "session_preload_libraries=auto_explain",
        "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on",
    ]);
    let gateway = Gateway::start(yaml(&server.url()));
    for _ in 0..9 {
        publish(&gateway, "sports", "one");
    }
    assert_eq!(bodies(&poll(&gateway, "?after=0")).len(), 9);
    until("the server logs", || server.log().contains("tidegate.records"));
    let log = server.log();
    assert!(!log.contains("JIT:"), "{log}");
    // A way that is switched off has a cost of ten thousand million. Only the version of the tables is read so, once a connection.
    let plans = log.lines().filter(|line| line.contains("(cost=") && !line.contains("on schema"));
    let costs =
        plans.filter_map(|line| line.split_once("(cost=")?.1.split_once("..")?.1.split_once(' '));
    let costs: Vec<f64> = costs.map(|(cost, _)| cost.parse().unwrap()).collect();
    assert!(costs.len() > 20 && costs.iter().all(|cost| *cost < 1e6), "{costs:?}");
}
