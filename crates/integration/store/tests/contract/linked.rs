//! An embedded store that moves from one process to the next: the suite through its link, and calls during the move.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use store::{Error, LazyStore, Logs, ReadQuery, Tables};

use crate::suite;

const PATIENCE: Duration = Duration::from_secs(10);

/// A store that this process has open.
fn opened(folder: &Path) -> Arc<LazyStore> {
    let store = Arc::new(LazyStore::new(folder));
    store.open().unwrap();
    store
}

/// Moves the store from one process to the next, as in an upgrade.
fn handed(before: &LazyStore, folder: &Path) -> Arc<LazyStore> {
    before.hand_over(PATIENCE, &|| false).unwrap();
    let next = Arc::new(LazyStore::new(folder));
    next.expect_company();
    next.open().unwrap();
    next.serve().unwrap();
    next
}

fn one(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

#[tokio::test]
async fn a_store_that_another_process_has_keeps_the_contract() {
    for is_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let before = opened(folder.path());
        let next = handed(&before, folder.path());
        let (one, other) = if is_first { (before, next) } else { (next, before) };
        suite::run(one, other).await;
    }
}

#[tokio::test]
async fn the_first_of_a_chain_of_processes_reaches_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let first = opened(folder.path());
    let second = handed(&first, folder.path());
    assert_eq!(first.append("l", one("a"), None).await, Ok(1..=1));
    let third = handed(&second, folder.path());
    // The process in the middle ends.
    drop(second);
    let mut watch = first.follow("l");
    assert_eq!(third.append("l", one("b"), None).await, Ok(2..=2));
    tokio::time::timeout(PATIENCE, watch.changed()).await.expect("it is notified of the change");
    assert_eq!(first.append("l", one("c"), None).await, Ok(3..=3));
    let read = first.read("l", ReadQuery::after(0)).await.unwrap();
    assert_eq!(read.records.len(), 3);
    assert!(third.nodes().has_company());
    drop(first);
    crate::until("the last one is alone", || !third.nodes().has_company());
}

/// Appends texts until it is stopped. Returns the acknowledged ones.
fn appending(
    store: Arc<LazyStore>,
    name: &str,
    stop: Arc<AtomicBool>,
) -> thread::JoinHandle<Vec<String>> {
    let name = name.to_owned();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut done = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let text = format!("{name}{}", done.len());
                store.append("l", one(&text), None).await.expect("no call fails");
                store.get("t", b"k").await.expect("no call fails");
                done.push(text);
            }
            done
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let stop: Arc<AtomicBool> = Arc::default();
    let mut stores = vec![opened(folder.path())];
    let mut writers = vec![appending(stores[0].clone(), "0-", stop.clone())];
    for number in 1..=5 {
        let (last, path) = (stores[number - 1].clone(), folder.path().to_owned());
        let next = tokio::task::spawn_blocking(move || handed(&last, &path)).await.unwrap();
        writers.push(appending(next.clone(), &format!("{number}-"), stop.clone()));
        stores.push(next);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::SeqCst);
    let acknowledged: Vec<String> =
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    let last = stores.last().unwrap();
    let read = ReadQuery { records_max: usize::MAX, bytes_max: usize::MAX, after: 0 };
    let mut kept = Vec::new();
    loop {
        let after = kept.len() as u64;
        let found = last.read("l", ReadQuery { after, ..read }).await.unwrap();
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        kept.extend(found.records.iter().map(|record| text(&record.bytes)));
        if found.records.is_empty() {
            break;
        }
    }
    assert_eq!(kept.len(), acknowledged.len(), "each exists once");
    let kept: std::collections::HashSet<String> = kept.into_iter().collect();
    assert!(acknowledged.iter().all(|text| kept.contains(text)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_nobody_took_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.append("l", one("a"), None).await.unwrap();
    let giving = store.clone();
    tokio::task::spawn_blocking(move || giving.hand_over(PATIENCE, &|| false))
        .await
        .unwrap()
        .unwrap();
    assert!(!store.nodes().has(0), "it starts no work");
    let waiting = store.append("l", one("b"), None);
    let reading = store.read("l", ReadQuery::after(0));
    let taking = store.clone();
    let taken = tokio::task::spawn_blocking(move || taking.take_back(&|| false)).await.unwrap();
    assert_eq!(taken.unwrap().records, 1);
    assert_eq!(waiting.await, Ok(2..=2));
    assert!(!reading.await.unwrap().records.is_empty());
    assert!(store.nodes().has(0), "it has its work again");
    // A second upgrade succeeds.
    let next = handed(&store, folder.path());
    assert_eq!(store.append("l", one("c"), None).await, next.span("l").await.map(|_| 3..=3));
}

#[tokio::test]
async fn a_call_does_not_wait_for_ever_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.hand_over(PATIENCE, &|| false).unwrap();
    let began = tokio::time::Instant::now();
    let answer = store.append("l", one("a"), None).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    assert!(began.elapsed() >= Duration::from_secs(5) && began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn one_that_does_not_have_the_store_cannot_give_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = LazyStore::new(folder.path());
    assert!(store.hand_over(PATIENCE, &|| false).is_err());
    assert!(store.take_back(&|| false).is_none());
}
