//! The store in PostgreSQL: the suite with two nodes, servers that stop and restart, and the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sql::Address;
use store::{
    Change, Counters, Database, Error, Expect, Guard, Keep, LeaseAnswer, Leases, Logs, Postgres,
    ReadQuery, Tables,
};

use crate::server::Postgres as Server;
use crate::suite;

const PATIENCE: Duration = Duration::from_secs(60);

fn open(url: &str) -> Result<Postgres, Error> {
    Postgres::open(&Database { address: Address::parse(url).unwrap(), tls: None })
}

fn one(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

/// Repeats a call until it succeeds, however often the database was unavailable.
async fn patiently<T, F: Future<Output = Result<T, Error>>>(mut call: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match call().await {
            Ok(found) => return found,
            Err(Error::Unavailable(why)) => {
                assert!(tokio::time::Instant::now() < deadline, "{why}")
            }
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn all(store: &Postgres, log: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut after = 0;
    loop {
        let found = patiently(|| store.read(log, ReadQuery::after(after))).await;
        let Some(last) = found.records.last() else { return texts };
        after = last.position;
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        texts.extend(found.records.iter().map(|record| text(&record.bytes)));
    }
}

#[tokio::test]
async fn two_nodes_over_postgres_keep_the_contract() {
    let server = Server::start();
    // Both make the tables at once.
    let (first, second) = (server.url(), server.url());
    let opening = std::thread::spawn(move || open(&first).unwrap());
    let b = open(&second).unwrap();
    let a = opening.join().unwrap();
    assert_eq!((a.away(), b.away()), (None, None));
    suite::run(Arc::new(a.clone()), Arc::new(b.clone())).await;
    assert!(a.measured().commits > 0 && a.measured().appended > 0);
    assert_eq!(server.sql("select version from tidegate.schema"), "1");
    // The sweep removes all rows of trimmed records.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let left = "select count(*) from tidegate.records r join tidegate.logs l on l.id = r.log where r.position < l.oldest";
    while server.sql(left) != "0" {
        assert!(tokio::time::Instant::now() < deadline);
    }
    drop((a, b));
    assert_eq!(
        server.sql("select count(*) from tidegate.nodes"),
        "0",
        "nodes that end remove their rows"
    );
    // A store that is opened again has everything.
    let again = open(&server.url()).unwrap();
    assert_eq!(all(&again, "grow").await, ["one", "two", "three", ""]);
}

#[tokio::test]
async fn tables_of_a_newer_program_are_left_alone() {
    let server = Server::start();
    drop(open(&server.url()).unwrap());
    server.sql("update tidegate.schema set version = 7");
    let Err(Error::Unavailable(why)) = open(&server.url()) else { panic!() };
    assert!(why.contains("version 7") && why.contains("up to 1"), "{why}");
    server.sql("update tidegate.schema set version = 1");
    open(&server.url()).unwrap().append("l", one("x"), None).await.unwrap();
}

/// Two nodes append while the server is killed again and again. Acknowledged records exist once, in the order in which each
/// node got its acknowledgements; refused records exist at most once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "tasks of a test run on its threads")]
async fn nothing_acknowledged_is_lost_or_doubled_when_the_server_dies() {
    let mut server = Server::start();
    let stores = [open(&server.url()).unwrap(), open(&server.url()).unwrap()];
    let ends = Arc::new(AtomicBool::new(false));
    let writers = (0..8).map(|writer| {
        let (store, ends) = (stores[writer % 2].clone(), ends.clone());
        let writing = async move {
            let (mut kept, mut open) = (Vec::new(), 0);
            for number in 0.. {
                let text = format!("{writer}/{number}");
                match store.append("load", one(&text), None).await {
                    Ok(_) => kept.push(text),
                    Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {
                        open += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    Err(other) => panic!("{other}"),
                }
                if ends.load(Ordering::Relaxed) {
                    break;
                }
            }
            (kept, open)
        };
        tokio::spawn(writing)
    });
    let writers: Vec<_> = writers.collect();
    for round in 0..3 {
        let before = patiently(|| stores[0].span("load")).await.newest;
        server.kill();
        tokio::task::block_in_place(|| server.start_again());
        let moved = async {
            while patiently(|| stores[1].span("load")).await.newest < before + 20 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, moved).await.unwrap_or_else(|_| panic!("round {round}"));
    }
    ends.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for (writer, task) in writers.into_iter().enumerate() {
        acknowledged.insert(writer, task.await.unwrap());
    }
    let there = all(&stores[0], "load").await;
    let distinct: std::collections::BTreeSet<&String> = there.iter().collect();
    assert_eq!(distinct.len(), there.len(), "some records exist twice");
    for (writer, (kept, open)) in &acknowledged {
        let front = format!("{writer}/");
        let own: Vec<&String> = there.iter().filter(|text| text.starts_with(&front)).collect();
        let mut rest = own.iter();
        for text in kept {
            assert!(rest.any(|found| *found == text), "{text} is lost or out of order");
        }
        assert!(own.len() <= kept.len() + open, "{writer}: has more records than were written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_at_the_start_and_later_is_waited_for() {
    let mut server = Server::start();
    server.kill();
    let store = open(&server.url()).unwrap();
    assert!(matches!(store.append("l", one("x"), None).await, Err(Error::Unavailable(_))));
    assert!(matches!(store.get("t", b"k").await, Err(Error::Unavailable(_))));
    assert!(matches!(store.away(), Some(Error::Unavailable(why)) if !why.contains("geheim")));
    tokio::task::block_in_place(|| server.start_again());
    patiently(|| store.append("l", one("first"), None)).await;
    assert_eq!(store.away(), None);

    // The listener is notified of other nodes again after the server was restarted.
    let other = open(&server.url()).unwrap();
    let mut news = store.follow("l");
    server.kill();
    tokio::task::block_in_place(|| server.start_again());
    patiently(|| other.append("l", one("second"), None)).await;
    let heard = async {
        while all(&store, "l").await.len() < 2 {
            news.changed().await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    patiently(|| other.append("l", one("third"), None)).await;
    let heard = async {
        while all(&store, "l").await.len() < 3 {
            news.changed().await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
}

#[tokio::test]
async fn what_nobody_told_of_is_found_all_the_same() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).unwrap(), open(&server.url()).unwrap());
    let mut news = b.watch("t");
    let value = Some(Bytes::from_static(b"v"));
    let change = Change { table: "t".into(), key: b"k".to_vec(), value, expect: Expect::Anything };
    a.change(vec![change], None).await.unwrap();
    tokio::time::timeout(PATIENCE, news.changed()).await.unwrap();
    // This sends no notification, as with a pooler.
    server.sql(
        "update tidegate.head set version = version + 1; \
         insert into tidegate.rows select name, 'other', 99, value from tidegate.rows",
    );
    tokio::time::timeout(PATIENCE, async {
        // It may be woken without a change, for instance when it has just begun to listen.
        news.changed().await;
        while b.get("t", b"other").await.unwrap().is_none() {
            news.changed().await;
        }
    })
    .await
    .unwrap();
}

/// A node that stops in the middle of a transaction delays the others for some seconds only, and its writes are fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_holds_nobody_up_for_ever() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).unwrap(), open(&server.url()).unwrap());
    let LeaseAnswer::Acquired(lease) = a.acquire("w", "a", Duration::from_millis(1)).await.unwrap()
    else {
        panic!("it is free")
    };
    let stands = server.hold("set idle_in_transaction_session_timeout = '1s'; begin; select from tidegate.head for update");
    let next = patiently(|| b.acquire("w", "b", Duration::from_secs(60))).await;
    let LeaseAnswer::Acquired(next) = next else { panic!("it has expired: {next:?}") };
    assert!(next.token > lease.token);
    assert_eq!(a.append("l", one("late"), Some(&lease.guard())).await, Err(Error::Fenced));
    b.append("l", one("now"), Some(&next.guard())).await.unwrap();
    let none = Guard { lease: "none".into(), token: 1 };
    assert_eq!(b.append("l", one("no"), Some(&none)).await, Err(Error::Fenced));
    assert_eq!(all(&a, "l").await, ["now"]);
    drop(stands);
}

#[tokio::test]
async fn large_logs_are_trimmed_and_read_in_pieces() {
    let server = Server::start();
    let store = open(&server.url()).unwrap();
    let piece = || (0..1000).map(|_| Bytes::from(vec![b'x'; 100])).collect::<Vec<_>>();
    let appends: Vec<_> = (0..20).map(|_| store.append("l", piece(), None)).collect();
    for append in appends {
        append.await.unwrap();
    }
    assert_eq!(all(&store, "l").await.len(), 20_000);
    let keep = Keep { bytes: Some(100 * 500), ..Keep::default() };
    let span = store.trim("l", keep).await.unwrap();
    assert_eq!((span.oldest, span.newest, span.bytes), (19_501, 20_000, 50_000));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while server.sql("select count(*) from tidegate.records") != "500" {
        assert!(tokio::time::Instant::now() < deadline, "it was not swept");
    }
    assert_eq!(all(&store, "l").await.len(), 500);
    let counted = store.add("c", u64::MAX - 1, u64::MAX, Duration::from_secs(60)).await.unwrap();
    assert_eq!((counted.total, counted.granted), (u64::MAX - 1, true));
    let counted = store.add("c", 1, u64::MAX, Duration::from_secs(60)).await.unwrap();
    assert_eq!(counted.total, u64::MAX);
}
