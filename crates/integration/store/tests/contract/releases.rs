//! The stores of all releases, embedded and in PostgreSQL: everything in them is read, and they can be written to.

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
#[allow(dead_code, reason = "the tests of hub, queues and catalog use the rest")]
mod items;

use items::Item;

/// What hub, queues and catalog store.
const FILES: [&str; 3] = ["hub.txt", "queues.txt", "catalog.txt"];
/// The folder with the files of the embedded store.
const EMBEDDED: &str = "embedded";
/// The tables in PostgreSQL.
const POSTGRES: &str = "postgres.sql";

/// Files that a process makes anew when it opens the store.
const TRANSIENT: [&str; 3] = ["lock", "socket", "reserve"];

/// The bytes on one line of a file as text. Lines of zeros are left out.
const LINE: usize = 32;

/// The last token of the lease, and the sum of the counter.
const COUNT: u64 = 3;
/// The window of the counter: a hundred years.
const WINDOW: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Returns what a store has. Beside the files, these are a trimmed log and unusual keys.
fn stored(folder: &Path) -> Vec<Item> {
    let record = |position, bytes: &[u8]| {
        let (log, bytes) = ("trimmed".to_owned(), bytes.to_vec());
        Item::Record { log, position, bytes }
    };
    let row = |key: &[u8], value: &[u8]| {
        let (key, value) = (key.to_vec(), value.to_vec());
        Item::Row { table: "rows".to_owned(), key, value }
    };
    let mut items =
        vec![record(4, b"four"), record(5, b""), row(b"\0", b""), row(b"\xff\xff", &[b'x'; 100])];
    items.extend(FILES.iter().flat_map(|file| items::read(&folder.join(file))));
    items.sort();
    items
}

/// Acquires the lease and releases it. Returns the token.
async fn lease(store: &dyn Store) -> u64 {
    let answer = store.acquire("lease", "owner", Duration::from_secs(60)).await;
    let Ok(LeaseAnswer::Acquired(lease)) = answer else { panic!("{answer:?}") };
    store.release(&lease).await.unwrap();
    lease.token
}

/// Writes items, and what no item stands for: several records in one append, the lease and the counter.
async fn fill(store: &dyn Store, items: &[Item]) {
    items::load(store, items).await;
    store.append("several", vec!["one".into(), "two".into()], None).await.unwrap();
    while lease(store).await < COUNT {}
    assert!(store.add("counter", COUNT, COUNT, WINDOW).await.unwrap().granted);
}

/// Writes the files of the embedded store as text: several segments, some of which were compacted.
async fn write_embedded(folder: &Path) {
    let made = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Folder::open(made.path()).unwrap();
        Embedded::open_on(Arc::new(disk), Tuning { segment_bytes: 512 }).unwrap().0
    };
    let items = stored(folder);
    let (first, second) = items.split_at(items.len() / 2);
    items::load(&open(), first).await;
    inspect::compact(made.path()).unwrap();
    fill(&open(), second).await;
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
    let mut lines = vec![bytes.len().to_string()];
    for (number, line) in bytes.chunks(LINE).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            lines.push(format!("{}\t{}", number * LINE, items::escaped(line)));
        }
    }
    lines.join("\n") + "\n"
}

fn bytes_of(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for line in lines {
        let (offset, line) = line.split_once('\t').unwrap();
        let line = items::unescaped(line);
        bytes[offset.parse().unwrap()..][..line.len()].copy_from_slice(&line);
    }
    bytes
}

/// Asserts that a store has what is expected and nothing else in its logs and tables, and then writes to all of it.
async fn continued(store: &dyn Store, expected: &[Item]) {
    let (mut logs, mut tables) = (Vec::new(), Vec::new());
    for item in expected {
        match item {
            Item::Record { log, .. } => logs.push(log.as_str()),
            Item::Row { table, .. } => tables.push(table.as_str()),
        }
    }
    logs.dedup();
    tables.dedup();
    let mut found = items::dump(store, &logs, &tables).await;
    found.sort();
    assert_eq!(found, expected);
    let trimmed = store.read("trimmed", ReadQuery::after(1)).await;
    assert_eq!(trimmed, Err(Error::Trimmed { oldest: 4 }));
    let several = store.read("several", ReadQuery::after(0)).await.unwrap().records;
    let several: Vec<&[u8]> = several.iter().map(|record| &*record.bytes).collect();
    assert_eq!(several, [b"one", b"two"]);
    logs.push("several");
    for log in logs {
        let newest = store.span(log).await.unwrap().newest;
        let added = store.append(log, vec!["more".into()], None).await.unwrap();
        assert_eq!(*added.start(), newest + 1);
        let both = store.read(log, ReadQuery::after(newest - 1)).await.unwrap().records;
        assert!(both[1].bytes == "more" && both[1].time >= both[0].time, "{both:?}");
    }
    write_rows(store, &tables).await;
    assert!(lease(store).await > COUNT);
    let counted = store.add("counter", 1, COUNT, WINDOW).await.unwrap();
    assert_eq!((counted.total, counted.granted), (COUNT, false), "its window has not ended");
}

/// Writes all rows again, on the condition that each has the version that was read.
async fn write_rows(store: &dyn Store, tables: &[&str]) {
    let mut changes = Vec::new();
    let mut newest = 0;
    for table in tables {
        let scan = Scan { rows_max: 1000, ..Scan::default() };
        for row in store.scan(table, scan).await.unwrap().rows {
            newest = newest.max(row.version);
            changes.push(Change {
                table: (*table).into(),
                key: row.key.to_vec(),
                value: Some("more".into()),
                expect: Expect::Version(row.version),
            });
        }
    }
    let versions = store.change(changes.clone(), None).await.unwrap();
    assert!(versions.iter().all(|version| *version > newest));
    let again = store.change(changes, None).await;
    assert_eq!(again, Err(Error::Conflict { index: 0, version: versions.first().copied() }));
}

#[tokio::test]
async fn embedded_stores_of_all_releases_are_read_and_written() {
    if items::is_update() {
        write_embedded(&items::current()).await;
    }
    for folder in items::folders() {
        let made = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder.join(EMBEDDED)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = bytes_of(&std::fs::read_to_string(&path).unwrap());
            std::fs::write(made.path().join(path.file_stem().unwrap()), bytes).unwrap();
        }
        let checked = inspect::check(made.path()).unwrap();
        assert!(checked.is_whole() && checked.recovered.torn_bytes == 0, "{checked:?}");
        let (store, before) = Embedded::open(made.path()).unwrap();
        assert!(before.segments > 1, "{before:?}");
        continued(&store, &stored(&folder)).await;
        drop(store);
        // All segments can be rewritten, and everything that was written is there after another start.
        inspect::compact(made.path()).unwrap();
        assert!(inspect::check(made.path()).unwrap().is_whole());
        let (_again, after) = Embedded::open(made.path()).unwrap();
        assert_eq!(after.logs, before.logs);
        assert!(after.records > before.records, "{after:?}");
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
        fill(&open(&server), &stored(&items::current())).await;
        std::fs::write(items::current().join(POSTGRES), server.dump("tidegate")).unwrap();
    }
    for folder in items::folders() {
        let server = Server::start();
        server.sql_file(&folder.join(POSTGRES));
        continued(&open(&server), &stored(&folder)).await;
    }
}
