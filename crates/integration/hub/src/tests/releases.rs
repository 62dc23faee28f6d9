//! A hub in the stores of all releases: everything is read, and deliveries continue.

use super::*;
use crate::event;
use crate::subscription::{Dead, Intent, stored};

#[path = "../../../../../tests/harness/releases.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod items;
#[path = "../../../../../tests/harness/kept.rs"]
mod kept;

use items::Item;

const LOGS: &[&str] = &["hub/news/topic/sports"];
const TABLES: &[&str] =
    &["hub/news/subscriptions", "hub/news/cursors", "hub/news/dead", "hub/news/news"];

/// Callbacks at a port that refuses connections.
const FIRST: &str = "http://127.0.0.1:1/first?token=x";
const SECOND: &str = "http://127.0.0.1:1/second";
const THIRD: &str = "http://127.0.0.1:1/third";

/// A hundred years: subscriptions last longer than a release is tested.
const LASTING: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

fn node(store: &Memory) -> Node {
    let settings = HubSettings { lease_default: LASTING, lease_max: LASTING, ..settings() };
    Node::of(store, Nodes::single(), settings)
}

/// Returns the ids of dead events of a subscription.
fn ids(callback: &str, subject: &str, events: &[u64]) -> Vec<String> {
    let id = Id::of(subject, "sports", &Callback::parse(callback).unwrap());
    events.iter().map(|event| format!("{id}-{event}")).collect()
}

async fn until_dead(hub: &Hub, expected: &[String]) {
    let began = kit::clock::now();
    loop {
        let view = hub.dead(Page { after: None }).await.unwrap();
        let dead = view["dead"].as_array().unwrap().iter();
        let mut dead: Vec<&str> = dead.map(|dead| dead["id"].as_str().unwrap()).collect();
        dead.sort_by_key(|id| expected.iter().position(|expected| expected == id));
        if dead == expected {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{dead:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fills a store as this version does: a subscription with two dead events, one that waits for its third attempt of an event, one that
/// is not confirmed, events in both formats, and the pause.
async fn filled() -> Memory {
    let store = Memory::new();
    let node = node(&store);
    let hub = node.hub.clone();
    assert_eq!(node.ask("subscribe", FIRST).await, 200);
    assert_eq!(node.publish("one").await, Ok(1));
    let type_ = Bytes::from_static(b"application/json");
    let lines = [(&b"content-language"[..], &b"en"[..])];
    let representation = Representation::with_lines(type_, lines.into_iter());
    let topic = hub.topic(b"sports").unwrap();
    let published = hub.publish(topic, &representation, &Bytes::from_static(b"{\"n\":2}")).await;
    assert_eq!(published.unwrap(), 2);
    until_dead(&hub, &ids(FIRST, "", &[1, 2])).await;
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
        until: Some(LASTING.as_secs()),
        terms: terms.clone(),
        from: 0,
        intent: None,
    };
    let (callback, intent) = (THIRD.to_owned(), Some(Intent::Subscribe(terms).into()));
    let third = Subscription { callback, until: None, from: 3, intent, ..second.clone() };
    let id = |callback: &str| Id::of("ann", "sports", &Callback::parse(callback).unwrap());
    let put = |table: &Arc<str>, key: Vec<u8>, value: Option<Bytes>| {
        let (table, expect) = (table.clone(), Expect::Nothing);
        Change { table, key, value, expect }
    };
    let open = delivery::OpenRecord { attempts: 2, due: 12_345, ..delivery::OpenRecord::new(1) };
    let cursor = Cursor { head: 2, open: vec![open] };
    let position = positions::written([(id(SECOND), 0, (&cursor, true))].into_iter());
    let group = Group { topic: 0, first: id(SECOND).first() };
    let changes = vec![
        put(&hub.tables.subscriptions, id(SECOND).key(), stored(&second)),
        put(&hub.tables.subscriptions, id(THIRD).key(), stored(&third)),
        put(&hub.tables.cursors, group.key("sports"), position),
    ];
    hub.store.change(changes, None).await.unwrap();
    store
}

/// Asserts that this version reads an item, and would write it with the same content.
fn assert_read(item: &Item) {
    match item {
        Item::Record { bytes, .. } => {
            let record = Bytes::copy_from_slice(bytes);
            let (representation, body) = event::parts(&record).unwrap();
            assert_eq!(event::record(&representation, &body), Some(record));
        }
        Item::Row { table, key, value } => match table.rsplit_once('/').unwrap().1 {
            "subscriptions" => kept::assert_kept::<Subscription>(value),
            "dead" => kept::assert_kept::<Dead>(value),
            "cursors" => {
                let places: Vec<(Id, StoredPosition)> = positions::read(value).collect();
                let again = places.iter().map(|(id, place)| {
                    let StoredPosition { from, cursor, is_failing } = place;
                    (*id, *from, (cursor, *is_failing))
                });
                assert_eq!(positions::written(again).as_deref(), Some(&**value), "{key:?}");
            }
            _ => assert_eq!(key, b"paused"),
        },
    }
}

async fn continued(items: &[Item]) {
    items.iter().for_each(assert_read);
    let store = Memory::new();
    items::load(&store, items).await;
    let node = node(&store);
    let hub = node.hub.clone();
    assert_eq!(hub.view().await.unwrap()["paused"], true);
    let mut expected = ids(FIRST, "", &[1, 2]);
    until_dead(&hub, &expected).await;
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
    assert_eq!(node.publish("four").await, Ok(4));
    expected.extend(ids(FIRST, "", &[3, 4]));
    expected.extend(ids(SECOND, "ann", &[1, 3, 4]));
    until_dead(&hub, &expected).await;
    hub.retry_dead(&expected[0]).await.unwrap();
    until_dead(&hub, &expected[1..]).await;
    until_dead(&hub, &expected).await;
    node.kill();
}

#[tokio::test]
async fn hubs_of_all_releases_continue() {
    let scene = async {
        for items in items::of_all("hub.txt", (LOGS, TABLES), filled).await {
            continued(&items).await;
        }
    };
    LocalSet::new().run_until(scene).await;
}
