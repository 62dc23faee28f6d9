//! A queue in the stores of earlier releases: everything is read, and processing continues.

use std::path::Path;

use bytes::Bytes;
use delivery::Cursor;

use super::*;
use crate::queue::AttemptFailure;
use crate::stored;

#[path = "../../../../../tests/harness/releases.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest")]
mod items;
#[path = "../../../../../tests/harness/kept.rs"]
mod kept;

use items::Item;

const FILE: &str = "queues.txt";
const LOGS: &[&str] = &["queue/work"];
const TABLES: &[&str] = &[
    "queue/work/cursor",
    "queue/work/state",
    "queue/work/failures",
    "queue/work/dead",
    "queue/work/messages",
];

fn node(store: &Memory, runs: &Runs, settings: QueueSettings) -> Node {
    Node::of(store, "a", runs, Nodes::single(), settings)
}

/// Fills a store as this version does: a processed message, a dead one, one that failed once, one that waits, and the pause.
async fn filled() -> Memory {
    let (store, runs) = (Memory::new(), Runs::default());
    let first = node(&store, &runs, settings());
    assert_eq!((first.put("/good").await, first.put("/bad/dead").await), (202, 202));
    sleep(Duration::from_secs(10)).await;
    first.tasks.iter().for_each(JoinHandle::abort);
    let hour = Duration::from_secs(3600);
    let retries = Retries { attempts: 2, initial: hour, factor_permille: 1000, max: hour };
    let second = node(&store, &runs, QueueSettings { retries, order: Order::Free, ..settings() });
    assert_eq!(second.put_with("/bad/retried", b"\0one").await, 202);
    sleep(Duration::from_secs(10)).await;
    second.queue.pause().await.unwrap();
    let mut head = RequestHead::new(Protocol::Http11, b"PUT", b"/waiting?x=1");
    head.headers.add("Content-Type", b"text/plain").unwrap();
    second.queue.entrance.put(&head, b"two\n").await.unwrap();
    second.tasks.iter().for_each(JoinHandle::abort);
    assert_eq!(texts(&runs), ["/good", "/bad/dead", "/bad/dead", "/bad/retried"]);
    store
}

/// Asserts that this version reads each item, and would write it with the same content.
fn assert_read(items: &[Item]) {
    for item in items {
        match item {
            Item::Record { bytes, .. } => assert_record(bytes),
            Item::Row { table, value, .. } if table.ends_with("/messages") => assert_record(value),
            Item::Row { table, value, .. } if table.ends_with("/cursor") => {
                let cursor: Cursor = serde_json::from_slice(value).unwrap();
                kept::assert_kept(value, &serde_json::to_vec(&cursor).unwrap());
            }
            Item::Row { table, value, .. } if table.ends_with("/failures") => {
                let failures: Vec<AttemptFailure> = serde_json::from_slice(value).unwrap();
                kept::assert_kept(value, &serde_json::to_vec(&failures).unwrap());
            }
            Item::Row { table, value, .. } if table.ends_with("/dead") => {
                let dead: Dead = serde_json::from_slice(value).unwrap();
                kept::assert_kept(value, &serde_json::to_vec(&dead).unwrap());
            }
            Item::Row { table, key, .. } => {
                assert!(table.ends_with("/state") && key == b"paused", "{table}");
            }
            Item::Lease { .. } | Item::Counter { .. } => panic!("{item:?}"),
        }
    }
}

#[track_caller]
fn assert_record(bytes: &[u8]) {
    let request = stored::request(&Bytes::copy_from_slice(bytes)).unwrap();
    let body = match request.body {
        Body::Whole(body, _) => body,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    };
    assert_eq!(stored::record(&request.head, &body).as_deref(), Some(bytes));
}

async fn continued(folder: &Path) {
    let items = items::read(&folder.join(FILE));
    assert_read(&items);
    let (store, runs) = (Memory::new(), Runs::default());
    items::load(&store, &items).await;
    let node = node(&store, &runs, settings());
    let queue = &node.queue;
    sleep(Duration::from_secs(10)).await;
    let view = queue.view().await.unwrap();
    assert_eq!((&view["depth"], &view["dead"]), (&2.into(), &1.into()), "{view}");
    assert_eq!(view["paused"], true);
    let messages = queue.messages(None).await.unwrap();
    let path = |at: usize| messages["messages"][at]["path"].as_str().map(str::to_owned);
    assert_eq!((path(0).as_deref(), path(2)), (Some("/bad/retried"), None), "{messages}");
    assert!(texts(&runs).is_empty(), "the queue is paused");
    queue.resume().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(texts(&runs), ["/bad/retried", "/waiting?x=1"], "one attempt was left");
    let dead = queue.dead(None).await.unwrap();
    assert_eq!(
        (&dead["dead"][0]["attempts"], &dead["dead"][1]["attempts"]),
        (&2.into(), &2.into())
    );
    queue.retry_dead(dead["dead"][0]["id"].as_str().unwrap()).await.unwrap();
    assert_eq!(node.put("/more").await, 202);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(texts(&runs)[2..], ["/bad/dead", "/bad/dead", "/more"]);
    node.tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn queues_of_all_releases_continue() {
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
