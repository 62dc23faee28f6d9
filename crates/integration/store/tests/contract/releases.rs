//! Stores of earlier releases, embedded and in PostgreSQL: everything in them is read, and they can be written to.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sql::Address;
use store::disk::Folder;
use store::{
    Change, Database, Embedded, Error, Expect, LeaseAnswer, Postgres, ReadQuery, Scan, Store,
    Tuning, inspect,
};

use crate::server::Postgres as Server;

#[path = "../../../../../tests/harness/releases.rs"]
mod items;

use items::Item;

/// What the writers of this version store, and what only this suite stores.
const FILES: [&str; 4] = ["hub.txt", "queues.txt", "catalog.txt", OWN_FILE];
const OWN_FILE: &str = "store.txt";
/// The folder with the files of the embedded store, as text.
const EMBEDDED: &str = "embedded";
/// The tables in PostgreSQL.
const POSTGRES: &str = "postgres.sql";

/// Files that a process makes anew when it opens the store.
const TRANSIENT: [&str; 3] = ["lock", "socket", "reserve"];

/// The bytes on one line of a file as text. Lines of zeros are left out.
const LINE: usize = 32;

/// A trimmed log, an append of several records, rows with unusual keys, a lease and a counter.
fn own() -> Vec<Item> {
    let record = |log: &str, position, bytes: &[u8]| {
        let (log, bytes) = (log.to_owned(), bytes.to_vec());
        Item::Record { log, position, bytes }
    };
    let row = |key: &[u8], value: &[u8]| {
        let (key, value) = (key.to_vec(), value.to_vec());
        Item::Row { table: "rows".to_owned(), key, value }
    };
    vec![
        record("trimmed", 4, b"four"),
        record("trimmed", 5, b""),
        record("several", 1, b"one"),
        record("several", 2, &[0xff, 0, b'\n']),
        record("several", 3, b"three"),
        row(b"\0", b""),
        row(b"\xff\xff", &[b'x'; 100]),
        Item::Lease { name: "lease".to_owned(), token: 3 },
        Item::Counter { name: "counter".to_owned(), total: 5 },
    ]
}

fn all_items(folder: &Path) -> Vec<Item> {
    FILES.iter().flat_map(|file| items::read(&folder.join(file))).collect()
}

/// Writes the files of the embedded store of this version: several segments, one of which was compacted.
async fn write_embedded(folder: &Path) {
    let made = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Folder::open(made.path()).unwrap();
        Embedded::open_on(Arc::new(disk), Tuning { segment_bytes: 512 }).unwrap().0
    };
    let all = all_items(folder);
    let (first, second) = all.split_at(all.len() / 2);
    items::load(&open(), first).await;
    inspect::compact(made.path()).unwrap();
    items::load(&open(), second).await;
    let into = folder.join(EMBEDDED);
    // The segments may have other names than before.
    if into.exists() {
        std::fs::remove_dir_all(&into).unwrap();
    }
    std::fs::create_dir_all(&into).unwrap();
    for entry in std::fs::read_dir(made.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !TRANSIENT.contains(&name.as_str()) {
            let text = text_of(&std::fs::read(entry.path()).unwrap());
            std::fs::write(into.join(format!("{name}.txt")), text).unwrap();
        }
    }
}

/// Returns a file as text: its size, and each line that is not all zeros after its offset.
fn text_of(bytes: &[u8]) -> String {
    let mut text = format!("{}\n", bytes.len());
    for (number, line) in bytes.chunks(LINE).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            write!(text, "{:x} ", number * LINE).unwrap();
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
    }
    text
}

fn bytes_of(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for line in lines {
        let (offset, digits) = line.split_once(' ').unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for at in 0..digits.len() / 2 {
            bytes[offset + at] = u8::from_str_radix(&digits[at * 2..at * 2 + 2], 16).unwrap();
        }
    }
    bytes
}

/// Asserts that a store has these items and no others in their logs and tables, and then writes to all of them.
async fn continued(store: &dyn Store, expected: &[Item]) {
    let (mut logs, mut tables) = (Vec::new(), Vec::new());
    for item in expected {
        match item {
            Item::Record { log, .. } => logs.push(log.as_str()),
            Item::Row { table, .. } => tables.push(table.as_str()),
            Item::Lease { name, token } => {
                let answer = store.acquire(name, "owner", Duration::from_secs(60)).await;
                let Ok(LeaseAnswer::Acquired(lease)) = answer else { panic!("{answer:?}") };
                assert!(lease.token > *token, "{lease:?}");
                store.release(&lease).await.unwrap();
            }
            Item::Counter { name, total } => {
                let read = store.add(name, 0, *total, items::WINDOW).await.unwrap();
                assert_eq!(read.total, *total);
                let more = store.add(name, 1, *total, items::WINDOW).await.unwrap();
                assert!(!more.granted, "its window has not ended");
            }
        }
    }
    logs.sort_unstable();
    logs.dedup();
    tables.sort_unstable();
    tables.dedup();
    let mut found = items::dump(store, &logs, &tables).await;
    found.sort();
    let is_kept = |item: &&Item| matches!(item, Item::Record { .. } | Item::Row { .. });
    let mut kept: Vec<Item> = expected.iter().filter(is_kept).cloned().collect();
    kept.sort();
    assert_eq!(found, kept);
    for log in logs {
        write_to_log(store, log).await;
    }
    write_to_rows(store, &tables).await;
}

async fn write_to_log(store: &dyn Store, log: &str) {
    let before = store.span(log).await.unwrap();
    if before.oldest > 2 {
        let read = store.read(log, ReadQuery::after(1)).await;
        assert_eq!(read, Err(Error::Trimmed { oldest: before.oldest }));
    }
    let last = store.read(log, ReadQuery::after(before.newest - 1)).await.unwrap().records;
    let more = store.append(log, vec!["more".into()], None).await.unwrap();
    assert!(*more.start() > before.newest);
    let read = store.read(log, ReadQuery::after(before.newest)).await.unwrap().records;
    assert_eq!((read.len(), &read[0].bytes[..]), (1, &b"more"[..]));
    assert!(read[0].time >= last[0].time);
}

/// Writes all rows again, each on the condition that it has the version that was read.
async fn write_to_rows(store: &dyn Store, tables: &[&str]) {
    let mut changes = Vec::new();
    for table in tables {
        let found = store.scan(table, Scan { rows_max: 1000, ..Scan::default() }).await.unwrap();
        changes.extend(found.rows.into_iter().map(|row| Change {
            table: (*table).into(),
            key: row.key.to_vec(),
            value: Some("more".into()),
            expect: Expect::Version(row.version),
        }));
    }
    let newest = changes.iter().map(|change| match change.expect {
        Expect::Version(version) => version,
        Expect::Anything | Expect::Nothing => 0,
    });
    let newest = newest.max().unwrap();
    let versions = store.change(changes.clone(), None).await.unwrap();
    assert!(versions.iter().all(|version| *version > newest));
    let again = store.change(changes, None).await;
    assert_eq!(again, Err(Error::Conflict { index: 0, version: versions.first().copied() }));
}

#[tokio::test]
async fn embedded_stores_of_all_releases_are_read_and_written() {
    if items::is_update() {
        items::write(&items::current().join(OWN_FILE), &own());
        write_embedded(&items::current()).await;
    }
    for folder in items::all() {
        let made = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder.join(EMBEDDED)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = bytes_of(&std::fs::read_to_string(&path).unwrap());
            std::fs::write(made.path().join(path.file_stem().unwrap()), bytes).unwrap();
        }
        let checked = inspect::check(made.path()).unwrap();
        assert!(checked.is_whole() && checked.recovered.torn_bytes == 0, "{checked:?}");
        let (store, report) = Embedded::open(made.path()).unwrap();
        assert!(report.segments > 1, "{report:?}");
        continued(&store, &all_items(&folder)).await;
        drop(store);
        // Everything that was written is there after another start, and all segments can be rewritten.
        inspect::compact(made.path()).unwrap();
        let checked = inspect::check(made.path()).unwrap();
        assert!(checked.is_whole(), "{checked:?}");
        let (again, after) = Embedded::open(made.path()).unwrap();
        assert_eq!(after.logs, report.logs);
        assert!(after.records > report.records, "{after:?}");
        drop(again);
    }
}

#[tokio::test]
async fn tables_of_all_releases_are_read_and_written() {
    let open = |server: &Server| {
        let address = Address::parse(&server.url()).unwrap();
        Postgres::open(&Database { address, tls: None }).unwrap()
    };
    if items::is_update() {
        let server = Server::start();
        items::load(&open(&server), &all_items(&items::current())).await;
        std::fs::write(items::current().join(POSTGRES), server.dump("tidegate")).unwrap();
    }
    for folder in items::all() {
        let server = Server::start();
        server.sql(&std::fs::read_to_string(folder.join(POSTGRES)).unwrap());
        continued(&open(&server), &all_items(&folder)).await;
    }
}
