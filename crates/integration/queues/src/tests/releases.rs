//! A queue in the stores of all releases: everything is read, and processing continues.

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

const LOGS: &[&str] = &["queue/work"];
const TABLES: &[&str] = &[
    "queue/work/cursor",
    "queue/work/state",
    "queue/work/failures",
    "queue/work/dead",
    "queue/work/messages",
];

/// Fills a store as this version does: a processed message, a dead one, one that failed once, one that waits, and the pause.
async fn filled() -> Memory {
    let (store, runs) = (Memory::new(), Runs::default());
    let first = Node::single(&store, &runs, settings());
    assert_eq!((first.put("/good").await, first.put("/bad/dead").await), (202, 202));
    sleep(Duration::from_secs(10)).await;
    first.tasks.iter().for_each(JoinHandle::abort);
    let hour = Duration::from_secs(3600);
    let retries = Retries { attempts: 2, initial: hour, factor_permille: 1000, max: hour };
    let settings = QueueSettings { retries, order: Order::Free, ..settings() };
    let second = Node::single(&store, &runs, settings);
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

/// Asserts that this version reads an item, and would write it with the same content.
fn assert_read(item: &Item) {
    match item {
        Item::Record { bytes, .. } => assert_message(bytes),
        Item::Row { table, key, value } => match table.rsplit_once('/').unwrap().1 {
            "messages" => assert_message(value),
            "cursor" => kept::assert_kept::<Cursor>(value),
            "failures" => kept::assert_kept::<Vec<AttemptFailure>>(value),
            "dead" => kept::assert_kept::<Dead>(value),
            _ => assert_eq!(key, b"paused"),
        },
    }
}

#[track_caller]
fn assert_message(bytes: &[u8]) {
    let request = stored::request(&Bytes::copy_from_slice(bytes)).unwrap();
    let body = match request.body {
        Body::Whole(body, _) => body,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    };
    assert_eq!(stored::record(&request.head, &body).as_deref(), Some(bytes));
}

async fn continued(items: &[Item]) {
    items.iter().for_each(assert_read);
    let (store, runs) = (Memory::new(), Runs::default());
    items::load(&store, items).await;
    let node = Node::single(&store, &runs, settings());
    let queue = &node.queue;
    sleep(Duration::from_secs(10)).await;
    let view = queue.view().await.unwrap();
    assert_eq!((&view["depth"], &view["dead"]), (&2.into(), &1.into()), "{view}");
    assert_eq!(view["paused"], true);
    assert!(texts(&runs).is_empty(), "the queue is paused");
    queue.resume().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(texts(&runs), ["/bad/retried", "/waiting?x=1"], "one attempt was left");
    let dead = queue.dead(None).await.unwrap();
    let attempts = [0, 1].map(|at| dead["dead"][at]["attempts"].as_u64());
    assert_eq!(attempts, [Some(2), Some(2)], "{dead}");
    queue.retry_dead(dead["dead"][0]["id"].as_str().unwrap()).await.unwrap();
    assert_eq!(node.put("/more").await, 202);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(texts(&runs)[2..], ["/bad/dead", "/bad/dead", "/more"]);
    node.tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn queues_of_all_releases_continue() {
    let scene = async {
        for items in items::of_all("queues.txt", (LOGS, TABLES), filled).await {
            continued(&items).await;
        }
    };
    LocalSet::new().run_until(scene).await;
}
