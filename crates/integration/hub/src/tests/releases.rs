//! A hub in the stores of earlier releases: everything is read, and deliveries continue.

use std::path::Path;

use super::*;
use crate::event;
use crate::subscription::{Dead, Intent, read, stored};

#[path = "../../../../../tests/harness/releases.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod items;
#[path = "../../../../../tests/harness/kept.rs"]
mod kept;

use items::Item;

const FILE: &str = "hub.txt";
const LOGS: &[&str] = &["hub/news/topic/sports"];
const TABLES: &[&str] =
    &["hub/news/subscriptions", "hub/news/cursors", "hub/news/dead", "hub/news/news"];

/// Callbacks at a port that refuses connections.
const FIRST: &str = "http://127.0.0.1:1/first?token=x";
const SECOND: &str = "http://127.0.0.1:1/second";
const THIRD: &str = "http://127.0.0.1:1/third";

/// Subscriptions that last longer than the release is kept.
fn lasting() -> HubSettings {
    HubSettings { lease_default: items::WINDOW, lease_max: items::WINDOW, ..settings() }
}

fn id(callback: &str, subject: &str) -> Id {
    Id::of(subject, "sports", &Callback::parse(callback).unwrap())
}

/// The ids of dead events, in order.
async fn dead(hub: &Hub) -> Vec<String> {
    let view = hub.dead(Page { after: None }).await.unwrap();
    let all = view["dead"].as_array().unwrap().iter();
    all.map(|dead| dead["id"].as_str().unwrap().to_owned()).collect()
}

async fn until_dead(hub: &Hub, expected: &[String]) {
    let began = kit::clock::now();
    let mut expected = expected.to_vec();
    expected.sort();
    while dead(hub).await != expected {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", dead(hub).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fills a store as this version does: subscriptions with and without a confirmation, events in both formats, positions, dead events,
/// a dead event to send again, and the pause.
async fn filled() -> Memory {
    let store = Memory::new();
    let node = Node::of(&store, Nodes::single(), lasting());
    let hub = node.hub.clone();
    assert_eq!(node.ask("subscribe", FIRST).await, 200);
    assert_eq!(node.publish("one").await, Ok(1));
    until_dead(&hub, &[format!("{}-1", id(FIRST, ""))]).await;
    let type_ = Bytes::from_static(b"application/json");
    let lines = [(&b"content-language"[..], &b"en"[..])];
    let representation = Representation::with_lines(type_, lines.into_iter());
    let topic = hub.topic(b"sports").unwrap();
    let second = hub.publish(topic, &representation, &Bytes::from_static(b"{\"n\":2}")).await;
    assert_eq!(second.unwrap(), 2);
    until_dead(&hub, &[1, 2].map(|event| format!("{}-{event}", id(FIRST, "")))).await;
    hub.pause().await.unwrap();
    assert_eq!(node.publish("three \u{e9}\0").await, Ok(3));
    node.kill();
    let terms = Terms {
        asked: "sports".to_owned(),
        secret: Some("geheim".to_owned()),
        lease_seconds: 3600,
        base: "http://hub/news".to_owned(),
    };
    let second = Subscription {
        subject: "ann".to_owned(),
        plan: Some("Gold".to_owned()),
        topic: "sports".to_owned(),
        callback: SECOND.to_owned(),
        until: Some(items::WINDOW.as_secs()),
        terms: terms.clone(),
        from: 0,
        intent: None,
    };
    let third = Subscription {
        callback: THIRD.to_owned(),
        until: None,
        from: 3,
        intent: Some(Intent::Subscribe(terms).into()),
        ..second.clone()
    };
    let put = async |table: &Arc<str>, key: Vec<u8>, value: Option<Bytes>| {
        let (table, expect) = (table.clone(), Expect::Nothing);
        hub.store.change(vec![Change { table, key, value, expect }], None).await.unwrap();
    };
    for one in [second, third] {
        put(&hub.tables.subscriptions, id(&one.callback, "ann").key(), stored(&one)).await;
    }
    // The first event waits for its third attempt.
    let open = delivery::OpenRecord { attempts: 2, due: 12_345, ..delivery::OpenRecord::new(1) };
    let cursor = Cursor { head: 2, open: vec![open] };
    let second = id(SECOND, "ann");
    let value = positions::written([(second, 0, (&cursor, true))].into_iter());
    let group = Group { topic: 0, first: second.first() };
    put(&hub.tables.cursors, group.key("sports"), value).await;
    store
}

/// Asserts that this version reads each item, and would write it with the same content.
fn assert_read(items: &[Item]) {
    for item in items {
        match item {
            Item::Record { bytes, .. } => {
                let record = Bytes::copy_from_slice(bytes);
                let (representation, body) = event::parts(&record).unwrap();
                assert_eq!(event::record(&representation, &body), Some(record));
            }
            Item::Row { table, key, value } if table.ends_with("/cursors") => {
                let places: Vec<_> = positions::read(value).collect();
                let again = places
                    .iter()
                    .map(|(id, place)| (*id, place.from, (&place.cursor, place.is_failing)));
                assert_eq!(positions::written(again).as_deref(), Some(&**value), "{key:?}");
            }
            Item::Row { table, value, .. } if table.ends_with("/subscriptions") => {
                let read = read::<Subscription>(value).unwrap();
                kept::assert_kept(value, &stored(&read).unwrap());
            }
            Item::Row { table, value, .. } if table.ends_with("/dead") => {
                kept::assert_kept(value, &stored(&read::<Dead>(value).unwrap()).unwrap());
            }
            Item::Row { table, key, .. } => {
                assert!(table.ends_with("/news") && key == b"paused", "{table}");
            }
            Item::Lease { .. } | Item::Counter { .. } => panic!("{item:?}"),
        }
    }
}

async fn continued(folder: &Path) {
    let items = items::read(&folder.join(FILE));
    assert_read(&items);
    let store = Memory::new();
    items::load(&store, &items).await;
    let node = Node::of(&store, Nodes::single(), lasting());
    let hub = node.hub.clone();
    assert_eq!(hub.view().await.unwrap()["paused"], true);
    let (first, second) = (id(FIRST, ""), id(SECOND, "ann"));
    let mut expected: Vec<String> = [1, 2].map(|event| format!("{first}-{event}")).to_vec();
    assert_eq!(dead(&hub).await, expected);
    let subscriptions = hub.subscriptions(Page { after: None }).await.unwrap();
    assert_eq!(subscriptions["subscriptions"].as_array().unwrap().len(), 3, "{subscriptions}");
    let feed = hub.feed(hub.topic(b"sports").unwrap());
    let mut bodies = Vec::new();
    for after in 0..3 {
        let read = feed.read_log(after, ReadBounds::ONE).await.unwrap();
        bodies.extend(read.iter().map(|event| event.body.clone()));
    }
    assert_eq!(bodies, ["one", "{\"n\":2}", "three \u{e9}\0"]);
    // Each subscription continues at its position: the second one has yet to get its open event.
    hub.resume().await.unwrap();
    expected.extend([format!("{first}-3"), format!("{second}-1"), format!("{second}-3")]);
    until_dead(&hub, &expected).await;
    assert_eq!(node.publish("four").await, Ok(4));
    expected.extend([format!("{first}-4"), format!("{second}-4")]);
    until_dead(&hub, &expected).await;
    hub.retry_dead(&expected[0]).await.unwrap();
    until_dead(&hub, &expected[1..]).await;
    until_dead(&hub, &expected).await;
    node.kill();
}

#[tokio::test]
async fn hubs_of_all_releases_continue() {
    let scene = async {
        if items::is_update() {
            let written = items::dump(&filled().await, LOGS, TABLES).await;
            items::write(&items::current().join(FILE), &written);
        }
        for folder in items::all() {
            continued(&folder).await;
        }
    };
    LocalSet::new().run_until(scene).await;
}
