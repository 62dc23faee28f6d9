//! The contract of every store. The two handles are two nodes that share one store; they may be the same.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::limits::{ITEMS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, RECORD_BYTES_MAX};
use store::{
    Change, Error, Expect, Guard, Keep, Lease, LeaseAnswer, ReadQuery, Row, Scan, Span, Store,
    Watch,
};

type Handle = Arc<dyn Store>;

/// A lease that does not expire in these tests, and one for whose end they wait.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(60);

/// Runs every case. Each case uses its own names, so the store need not be empty.
pub(crate) async fn run(a: Handle, b: Handle) {
    logs(&a, &b).await;
    trimming_forgets_the_oldest(&a, &b).await;
    positions_outlive_their_records(&a).await;
    records_outlive_age_and_bytes(&a).await;
    rows_change_by_version(&a, &b).await;
    versions_never_come_again(&a).await;
    changes_are_all_or_none(&a).await;
    scans_go_in_order(&a).await;
    one_of_many_wins(&a, &b).await;
    watchers_of_tables_wake_up(&a, &b).await;
    leases_have_one_owner(&a, &b).await;
    leases_run_out(&a, &b).await;
    fenced_writes_do_nothing(&a, &b).await;
    counters_have_limits_and_windows(&a, &b).await;
    sizes_are_checked(&a).await;
}

/// The cases of logs without trimming, which also apply to logs in another system.
pub(crate) async fn logs(a: &Handle, b: &Handle) {
    logs_begin_empty(a).await;
    positions_grow(a, b).await;
    reads_are_bounded(a).await;
    concurrent_appends_have_an_order(a, b).await;
    readers_miss_nothing(a, b).await;
    watchers_of_logs_wake_up(a, b).await;
    sizes_of_logs_are_checked(a).await;
    dropped_answers_undo_nothing(a).await;
}

fn records(texts: &[&str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
}

fn put(table: &str, key: &str, value: &str, expect: Expect) -> Change {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    Change { table: table.into(), key: key.as_bytes().to_vec(), value, expect }
}

fn delete(table: &str, key: &str, expect: Expect) -> Change {
    Change { table: table.into(), key: key.as_bytes().to_vec(), value: None, expect }
}

/// Reads a whole log as positions and texts.
async fn whole(store: &Handle, log: &str, after: u64) -> Vec<(u64, String)> {
    let read = store.read(log, ReadQuery::after(after)).await.unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    read.records.iter().map(|record| (record.position, text(&record.bytes))).collect()
}

async fn yours(store: &Handle, lease: &str, owner: &str, ttl: Duration) -> Lease {
    match store.acquire(lease, owner, ttl).await.unwrap() {
        LeaseAnswer::Acquired(lease) => lease,
        LeaseAnswer::HeldByOther { owner, .. } => panic!("{lease} is held by {owner}"),
    }
}

/// Waits for a wake-up, at most as long as a bad network would take.
async fn woken(watch: &mut Watch) {
    tokio::time::timeout(Duration::from_secs(10), watch.changed()).await.expect("no wake-up came");
}

async fn logs_begin_empty(a: &Handle) {
    let read = a.read("empty", ReadQuery::after(0)).await.unwrap();
    assert_eq!((read.records.len(), read.newest), (0, 0));
    assert_eq!(a.span("empty").await, Ok(Span { oldest: 1, newest: 0, bytes: 0 }));
    let kept = a.trim("empty", Keep { after: Some(7), ..Keep::default() }).await;
    assert_eq!(kept, Ok(Span { oldest: 1, newest: 0, bytes: 0 }));
}

async fn positions_grow(a: &Handle, b: &Handle) {
    assert_eq!(a.append("grow", records(&["one"]), None).await, Ok(1..=1));
    let more = b.append("grow", records(&["two", "three"]), None).await.unwrap();
    assert!(*more.start() > 1 && *more.end() == more.start() + 1, "{more:?}");
    let other = b.append("other", records(&["one"]), None).await;
    assert_eq!(other, Ok(1..=1), "each log counts by itself");
    let all = whole(a, "grow", 0).await;
    assert_eq!(
        all.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["one", "two", "three"]
    );
    assert_eq!(all, whole(b, "grow", 0).await);
    assert_eq!(whole(a, "grow", all[0].0).await, all[1..]);
    assert_eq!(whole(a, "grow", all[2].0).await, []);
    assert_eq!(whole(a, "grow", all[2].0 + 100).await, [], "the log is empty");
    let times = a.read("grow", ReadQuery::after(0)).await.unwrap().records;
    let times: Vec<_> = times.iter().map(|record| record.time).collect();
    assert!(times.is_sorted() && times[0] > Duration::from_secs(1_600_000_000), "{times:?}");
    assert_eq!(a.append("grow", records(&[""]), None).await.map(|p| *p.end()), Ok(more.end() + 1));
    assert_eq!(whole(a, "grow", *more.end()).await, [(more.end() + 1, String::new())]);
}

async fn reads_are_bounded(a: &Handle) {
    let texts: Vec<Bytes> = (0..100).map(|_| Bytes::from(vec![7; 1000])).collect();
    a.append("bounded", texts, None).await.unwrap();
    for (records_max, bytes_max, expected) in
        [(10, 1 << 20, 10), (1000, 5500, 5), (1000, 1, 1), (1000, 1 << 20, 100), (0, 1 << 20, 0)]
    {
        let read = ReadQuery { after: 0, records_max, bytes_max };
        let read = a.read("bounded", read).await.unwrap();
        assert_eq!(read.records.len(), expected, "{records_max} records, {bytes_max} bytes");
        assert_eq!(read.newest, 100);
    }
}

async fn trimming_forgets_the_oldest(a: &Handle, b: &Handle) {
    a.append("trim", records(&["aa", "bb", "cc", "dd"]), None).await.unwrap();
    let all: Vec<u64> = whole(a, "trim", 0).await.iter().map(|(position, _)| *position).collect();
    let after = Keep { after: Some(all[1]), ..Keep::default() };
    let span = Span { oldest: all[2], newest: all[3], bytes: 4 };
    assert_eq!(a.trim("trim", after).await, Ok(span));
    assert_eq!(a.trim("trim", after).await, Ok(span), "a second time changes nothing");
    let less = Keep { after: Some(1), ..Keep::default() };
    assert_eq!(b.trim("trim", less).await, Ok(span), "trimmed records do not reappear");
    assert_eq!(b.span("trim").await, Ok(span));
    assert_eq!(
        b.read("trim", ReadQuery::after(all[0])).await,
        Err(Error::Trimmed { oldest: all[2] })
    );
    assert_eq!(whole(b, "trim", all[1]).await.len(), 2, "no record after this was trimmed");
    assert_eq!(whole(b, "trim", 0).await.len(), 2, "0 reads from the oldest record");
}

async fn positions_outlive_their_records(a: &Handle) {
    a.append("outlive", records(&["a", "b", "c"]), None).await.unwrap();
    let newest = a.span("outlive").await.unwrap().newest;
    let none = Keep { after: Some(newest), ..Keep::default() };
    let span = Span { oldest: newest + 1, newest, bytes: 0 };
    assert_eq!(a.trim("outlive", none).await, Ok(span));
    assert_eq!(whole(a, "outlive", 0).await, []);
    assert_eq!(whole(a, "outlive", newest).await, []);
    let gone = a.read("outlive", ReadQuery::after(newest - 1)).await;
    assert_eq!(gone, Err(Error::Trimmed { oldest: newest + 1 }));
    let next = a.append("outlive", records(&["d"]), None).await.unwrap();
    assert!(*next.start() > newest, "{next:?} after {newest}");
}

async fn records_outlive_age_and_bytes(a: &Handle) {
    a.append("age", records(&["aaaa", "bbbb", "cccc"]), None).await.unwrap();
    let keep = Keep { bytes: Some(9), age: Some(LONG), ..Keep::default() };
    let span = a.trim("age", keep).await.unwrap();
    assert_eq!((span.newest - span.oldest, span.bytes), (1, 8), "the newest two fit");
    let before = kit::clock::wall();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    // Both clocks advance, since an age depends on both.
    tokio::time::sleep(Duration::from_millis(30)).await;
    while kit::clock::wall() < before + Duration::from_millis(30) {
        assert!(tokio::time::Instant::now() < deadline, "the wall clock does not advance");
        std::thread::yield_now();
    }
    a.append("age", records(&["dddd"]), None).await.unwrap();
    let keep = Keep { age: Some(Duration::from_millis(15)), ..Keep::default() };
    let span = a.trim("age", keep).await.unwrap();
    assert!(
        span.oldest + 1 >= span.newest && span.bytes <= 4,
        "only the newer record is kept: {span:?}"
    );
}

async fn concurrent_appends_have_an_order(a: &Handle, b: &Handle) {
    let appends = (0..64).map(|index| {
        let store = if index % 2 == 0 { a } else { b };
        store.append("concurrent", records(&[&index.to_string(), &index.to_string()]), None)
    });
    let mut expected = Vec::new();
    for (index, answer) in appends.collect::<Vec<_>>().into_iter().enumerate() {
        let positions = answer.await.unwrap();
        expected.extend(positions.map(|position| (position, index.to_string())));
    }
    expected.sort();
    assert_eq!(expected.len(), 128);
    let distinct: std::collections::BTreeSet<u64> = expected.iter().map(|(p, _)| *p).collect();
    assert_eq!(distinct.len(), 128, "no position twice");
    assert_eq!(whole(a, "concurrent", 0).await, expected);
}

/// Readers that continue from the newest position they saw find everything, while two nodes append.
async fn readers_miss_nothing(a: &Handle, b: &Handle) {
    let mut news = b.follow("missed");
    let mut pending = Vec::new();
    for _ in 0..50 {
        pending.push(a.append("missed", records(&["a"]), None));
        pending.push(b.append("missed", records(&["b", "b"]), None));
    }
    let appending = async {
        for answer in pending {
            answer.await.unwrap();
        }
    };
    let reading = async {
        let (mut seen, mut after) = (0, 0);
        while seen < 150 {
            woken(&mut news).await;
            let found = whole(b, "missed", after).await;
            seen += found.len();
            after = found.last().map_or(after, |(position, _)| *position);
        }
        seen
    };
    let ((), seen) = tokio::join!(appending, reading);
    assert_eq!(seen, 150);
    assert_eq!(whole(a, "missed", 0).await.len(), 150);
}

async fn rows_change_by_version(a: &Handle, b: &Handle) {
    assert_eq!(a.get("rows", b"k").await, Ok(None));
    let first = a.change(vec![put("rows", "k", "1", Expect::Nothing)], None).await.unwrap()[0];
    let row = Row { key: "k".into(), value: "1".into(), version: first };
    assert_eq!(b.get("rows", b"k").await, Ok(Some(row)));
    let again = b.change(vec![put("rows", "k", "2", Expect::Nothing)], None).await;
    assert_eq!(again, Err(Error::Conflict { index: 0, version: Some(first) }));
    let second = b.change(vec![put("rows", "k", "2", Expect::Version(first))], None).await;
    let second = second.unwrap()[0];
    assert!(second > first);
    let late = a.change(vec![delete("rows", "k", Expect::Version(first))], None).await;
    assert_eq!(late, Err(Error::Conflict { index: 0, version: Some(second) }));
    a.change(vec![delete("rows", "k", Expect::Version(second))], None).await.unwrap();
    assert_eq!(b.get("rows", b"k").await, Ok(None));
    let gone = a.change(vec![put("rows", "k", "3", Expect::Version(second))], None).await;
    assert_eq!(gone, Err(Error::Conflict { index: 0, version: None }));
    assert!(a.change(vec![delete("rows", "k", Expect::Anything)], None).await.is_ok());
    a.change(vec![put("rows", "k", "", Expect::Anything)], None).await.unwrap();
    assert_eq!(b.get("rows", b"k").await.unwrap().unwrap().value, Bytes::new());
    assert_eq!(b.get("rows2", b"k").await, Ok(None), "tables do not share rows");
}

async fn versions_never_come_again(a: &Handle) {
    let first = a.change(vec![put("again", "k", "1", Expect::Nothing)], None).await.unwrap();
    a.change(vec![delete("again", "k", Expect::Anything)], None).await.unwrap();
    let third = a.change(vec![put("again", "k", "1", Expect::Nothing)], None).await.unwrap();
    assert!(third > first, "{third:?} after {first:?}");
}

async fn changes_are_all_or_none(a: &Handle) {
    a.change(vec![put("all", "old", "0", Expect::Nothing)], None).await.unwrap();
    let wrong = a
        .change(
            vec![
                put("all", "x", "1", Expect::Nothing),
                delete("all", "old", Expect::Anything),
                put("elsewhere", "y", "1", Expect::Version(99)),
            ],
            None,
        )
        .await;
    assert_eq!(wrong, Err(Error::Conflict { index: 2, version: None }));
    assert_eq!(a.get("all", b"x").await, Ok(None));
    assert!(a.get("all", b"old").await.unwrap().is_some());
    let right = vec![
        put("all", "x", "1", Expect::Nothing),
        put("elsewhere", "y", "1", Expect::Nothing),
        delete("all", "old", Expect::Anything),
    ];
    let versions = a.change(right, None).await.unwrap();
    assert_eq!(versions.len(), 3);
    assert!(versions.is_sorted());
    assert!(a.get("all", b"x").await.unwrap().is_some());
    assert!(a.get("elsewhere", b"y").await.unwrap().is_some());
    assert_eq!(a.get("all", b"old").await, Ok(None));
    let twice = vec![put("all", "z", "1", Expect::Nothing), put("all", "z", "2", Expect::Nothing)];
    let twice = a.change(twice, None).await;
    assert!(matches!(twice, Err(Error::Conflict { index: 1, version: Some(_) })), "{twice:?}");
    assert_eq!(a.get("all", b"z").await, Ok(None), "a change sees those before it");
}

/// Prefix, key after which to begin, limit of rows; the expected values, and whether there are more.
type ScanCase = (&'static str, Option<&'static str>, usize, &'static [&'static str], bool);

async fn scans_go_in_order(a: &Handle) {
    let keys = ["a", "a/", "a/1", "a/10", "a/2", "b", "b/\u{ff}"];
    let changes = keys.iter().rev().map(|key| put("scan", key, key, Expect::Nothing)).collect();
    a.change(changes, None).await.unwrap();
    let bytes = vec![0xff_u8, 0xff, 1];
    let high = Change { key: bytes, ..put("scan", "", "high", Expect::Nothing) };
    a.change(vec![high], None).await.unwrap();
    let cases: &[ScanCase] = &[
        ("", None, 100, &["a", "a/", "a/1", "a/10", "a/2", "b", "b/\u{ff}", "high"], false),
        ("", None, 3, &["a", "a/", "a/1"], true),
        ("", Some("a/1"), 2, &["a/10", "a/2"], true),
        ("a/", None, 100, &["a/", "a/1", "a/10", "a/2"], false),
        ("a/", None, 4, &["a/", "a/1", "a/10", "a/2"], false),
        ("a/", Some("a/1"), 1, &["a/10"], true),
        ("a/", Some("a/zz"), 100, &[], false),
        ("b", Some("a"), 100, &["b", "b/\u{ff}"], false),
        ("c", None, 100, &[], false),
        ("a", None, 0, &[], true),
    ];
    for (prefix, after, rows_max, expected, more) in cases {
        let after = after.map(|after| after.as_bytes().to_vec());
        let scan = Scan { prefix: prefix.as_bytes().to_vec(), after, rows_max: *rows_max };
        let rows = a.scan("scan", scan.clone()).await.unwrap();
        let values = rows.rows.iter().map(|row| std::str::from_utf8(&row.value).unwrap());
        assert_eq!(values.collect::<Vec<_>>(), *expected, "{scan:?}");
        assert_eq!(rows.more, *more, "{scan:?}");
    }
    let high = Scan { prefix: vec![0xff, 0xff], after: None, rows_max: 10 };
    assert_eq!(a.scan("scan", high).await.unwrap().rows.len(), 1);
    let nowhere = Scan { rows_max: 10, ..Scan::default() };
    assert_eq!(a.scan("scan2", nowhere).await.unwrap().rows, []);
}

async fn one_of_many_wins(a: &Handle, b: &Handle) {
    let tries = (0..40).map(|index| {
        let store = if index % 2 == 0 { a } else { b };
        store.change(vec![put("race", "k", &index.to_string(), Expect::Nothing)], None)
    });
    let mut winners = 0;
    for answer in tries.collect::<Vec<_>>() {
        match answer.await {
            Ok(_) => winners += 1,
            Err(Error::Conflict { index: 0, version: Some(_) }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(winners, 1);
}

async fn watchers_of_logs_wake_up(a: &Handle, b: &Handle) {
    let mut log = b.follow("watched");
    a.append("watched", records(&["one"]), None).await.unwrap();
    while whole(b, "watched", 0).await.is_empty() {
        woken(&mut log).await;
    }
    a.append("watched", records(&["two"]), None).await.unwrap();
    a.append("watched", records(&["three"]), None).await.unwrap();
    while whole(b, "watched", 0).await.len() < 3 {
        woken(&mut log).await;
    }
}

async fn watchers_of_tables_wake_up(a: &Handle, b: &Handle) {
    let mut table = b.watch("watched");
    a.change(vec![put("watched", "k", "v", Expect::Anything)], None).await.unwrap();
    woken(&mut table).await;
    assert!(b.get("watched", b"k").await.unwrap().is_some());
}

async fn leases_have_one_owner(a: &Handle, b: &Handle) {
    let first = yours(a, "one", "a", LONG).await;
    assert_eq!((first.name.as_ref(), first.owner.as_ref()), ("one", "a"));
    assert!(first.until > kit::clock::now());
    for (store, owner) in [(b, "b"), (a, "a")] {
        match store.acquire("one", owner, LONG).await.unwrap() {
            LeaseAnswer::HeldByOther { owner, left } => {
                assert_eq!(owner.as_ref(), "a");
                assert!(left > LONG / 2 && left <= LONG, "{left:?}");
            }
            LeaseAnswer::Acquired(lease) => panic!("given twice: {lease:?}"),
        }
    }
    let renewed = a.renew(&first, 2 * LONG).await.unwrap();
    assert_eq!(renewed.token, first.token);
    assert!(renewed.until > first.until);
    a.release(&renewed).await.unwrap();
    let second = yours(b, "one", "b", LONG).await;
    assert!(second.token > first.token, "{second:?} after {first:?}");
    assert_eq!(a.renew(&first, LONG).await, Err(Error::Fenced));
    a.release(&first).await.unwrap();
    assert!(b.renew(&second, LONG).await.is_ok(), "the old owner released nothing");
    yours(a, "two", "a", LONG).await;
}

async fn leases_run_out(a: &Handle, b: &Handle) {
    let first = yours(a, "short", "a", SHORT).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let second = loop {
        assert!(tokio::time::Instant::now() < deadline, "it never expires");
        match b.acquire("short", "b", LONG).await.unwrap() {
            LeaseAnswer::Acquired(lease) => break lease,
            LeaseAnswer::HeldByOther { left, .. } => tokio::time::sleep(left).await,
        }
    };
    assert!(kit::clock::now() >= first.until - SHORT / 10, "not before it expires");
    assert!(second.token > first.token);
    assert_eq!(a.renew(&first, LONG).await, Err(Error::Fenced));

    let late = yours(a, "late", "a", SHORT).await;
    tokio::time::sleep_until(late.until + SHORT).await;
    let renewed = a.renew(&late, LONG).await.expect("no other owner took it");
    assert_eq!(renewed.token, late.token);
}

async fn fenced_writes_do_nothing(a: &Handle, b: &Handle) {
    let first = yours(a, "fence", "a", LONG).await;
    let guard = first.guard();
    a.append("fenced", records(&["one"]), Some(&guard)).await.unwrap();
    a.change(vec![put("fenced", "k", "1", Expect::Anything)], Some(&guard)).await.unwrap();
    let renewed = a.renew(&first, LONG).await.unwrap();
    a.release(&renewed).await.unwrap();
    let free = a.append("fenced", records(&["free"]), Some(&guard)).await;
    assert_eq!(free, Err(Error::Fenced), "given back");
    let second = yours(b, "fence", "b", LONG).await;
    let late = a.append("fenced", records(&["late"]), Some(&guard)).await;
    assert_eq!(late, Err(Error::Fenced));
    let late = a.change(vec![put("fenced", "k", "2", Expect::Anything)], Some(&guard)).await;
    assert_eq!(late, Err(Error::Fenced));
    let never = Guard { lease: "never".into(), token: 1 };
    assert_eq!(a.append("fenced", records(&["no"]), Some(&never)).await, Err(Error::Fenced));
    b.append("fenced", records(&["two"]), Some(&second.guard())).await.unwrap();
    let texts: Vec<_> = whole(a, "fenced", 0).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(a.get("fenced", b"k").await.unwrap().unwrap().value, Bytes::from("1"));
}

async fn counters_have_limits_and_windows(a: &Handle, b: &Handle) {
    for (store, by, total, granted) in
        [(a, 0, 0, true), (a, 3, 3, true), (b, 2, 5, true), (a, 1, 5, false), (b, 0, 5, true)]
    {
        let counted = store.add("count", by, 5, LONG).await.unwrap();
        assert_eq!((counted.total, counted.granted), (total, granted), "{by}");
        assert!(counted.remaining <= LONG && counted.remaining > LONG / 2, "{counted:?}");
    }
    let wider = a.add("count", 1, 6, LONG).await.unwrap();
    assert_eq!((wider.total, wider.granted), (6, true), "the limit is the caller's");

    assert_eq!(a.add("window", 5, 5, SHORT).await.unwrap().total, 5);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !b.add("window", 4, 5, SHORT).await.unwrap().granted {
        assert!(tokio::time::Instant::now() < deadline, "the window never ends");
        tokio::time::sleep(SHORT / 4).await;
    }
    let next = a.add("other count", 1, u64::MAX, LONG).await.unwrap();
    assert_eq!(next.total, 1);
}

/// The size of the refused value, and the largest possible size.
fn size_of(refused: Result<(), Error>) -> (usize, usize) {
    match refused {
        Err(Error::Size { size, max: Some(max), .. }) => (size, max),
        other => panic!("{other:?}"),
    }
}

async fn sizes_of_logs_are_checked(a: &Handle) {
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    for name in ["", long.as_str()] {
        let expected = (name.len(), NAME_BYTES_MAX);
        let appended = a.append(name, records(&["x"]), None).await;
        assert_eq!(size_of(appended.map(drop)), expected);
        assert_eq!(size_of(a.read(name, ReadQuery::after(0)).await.map(drop)), expected);
    }
    let large = vec![Bytes::from(vec![0; RECORD_BYTES_MAX + 1])];
    let appended = a.append("large", large, None).await;
    assert_eq!(size_of(appended.map(drop)), (RECORD_BYTES_MAX + 1, RECORD_BYTES_MAX));
    assert_eq!(size_of(a.append("large", Vec::new(), None).await.map(drop)), (0, ITEMS_MAX));
    let many = vec![Bytes::new(); ITEMS_MAX + 1];
    let appended = a.append("large", many, None).await;
    assert_eq!(size_of(appended.map(drop)), (ITEMS_MAX + 1, ITEMS_MAX));
    assert_eq!(a.span("large").await.unwrap().newest, 0, "nothing was written");
}

async fn sizes_are_checked(a: &Handle) {
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    for name in ["", long.as_str()] {
        let expected = (name.len(), NAME_BYTES_MAX);
        assert_eq!(size_of(a.get(name, b"k").await.map(drop)), expected);
        let change = put(name, "k", "v", Expect::Anything);
        assert_eq!(size_of(a.change(vec![change], None).await.map(drop)), expected);
        assert_eq!(size_of(a.acquire(name, "o", LONG).await.map(drop)), expected);
        assert_eq!(size_of(a.add(name, 1, 1, LONG).await.map(drop)), expected);
    }
    let fitting = "n".repeat(NAME_BYTES_MAX);
    assert!(a.append(&fitting, records(&["x"]), None).await.is_ok());
    let change = put("large", &"k".repeat(KEY_BYTES_MAX + 1), "v", Expect::Anything);
    let changed = a.change(vec![change], None).await;
    assert_eq!(size_of(changed.map(drop)), (KEY_BYTES_MAX + 1, KEY_BYTES_MAX));
    let key = "k".repeat(KEY_BYTES_MAX);
    a.change(vec![put("large", &key, "v", Expect::Nothing)], None).await.unwrap();
    assert!(a.get("large", key.as_bytes()).await.unwrap().is_some());
}

async fn dropped_answers_undo_nothing(a: &Handle) {
    let mut news = a.follow("dropped");
    drop(a.append("dropped", records(&["one"]), None));
    while whole(a, "dropped", 0).await.is_empty() {
        woken(&mut news).await;
    }
}
