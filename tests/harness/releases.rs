//! What stores of releases contain: one folder for each release in `tests/releases`, one file for each writer.
//!
//! A released folder is never changed. `UPDATE_RELEASE=1` makes the tests write the folder of the current version: RELEASING.md says
//! when. In a file, each line is an item, and its fields are separated by tabs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{Change, Expect, Keep, LeaseAnswer, ReadQuery, Scan, Store};

/// One item of a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Record {
        log: String,
        position: u64,
        bytes: Vec<u8>,
    },
    Row {
        table: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// A lease, and the last token that was given out.
    Lease {
        name: String,
        token: u64,
    },
    /// A counter whose window does not end in the time of the tests, and its sum.
    Counter {
        name: String,
        total: u64,
    },
}

/// The window of stored counters: a hundred years.
pub(crate) const WINDOW: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Returns true if the folder of the current version is to be written.
pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE_RELEASE").is_some()
}

/// Returns the folder of the current version.
pub(crate) fn current() -> PathBuf {
    root().join(env!("CARGO_PKG_VERSION"))
}

/// Returns the folders of all releases.
pub(crate) fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root()).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/releases")
}

/// Reads a file of items.
pub(crate) fn read(file: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(file).unwrap();
    let items: Vec<Item> = text.lines().map(item).collect();
    assert!(!items.is_empty(), "{}", file.display());
    items
}

/// Writes a file of items.
pub(crate) fn write(file: &Path, items: &[Item]) {
    let mut text = String::new();
    for item in items {
        match item {
            Item::Record { log, position, bytes } => {
                writeln!(text, "record\t{log}\t{position}\t{}", escaped(bytes)).unwrap();
            }
            Item::Row { table, key, value } => {
                writeln!(text, "row\t{table}\t{}\t{}", escaped(key), escaped(value)).unwrap();
            }
            Item::Lease { name, token } => writeln!(text, "lease\t{name}\t{token}").unwrap(),
            Item::Counter { name, total } => writeln!(text, "counter\t{name}\t{total}").unwrap(),
        }
    }
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn item(line: &str) -> Item {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[..] {
        ["record", log, position, bytes] => Item::Record {
            log: log.to_owned(),
            position: position.parse().unwrap(),
            bytes: unescaped(bytes),
        },
        ["row", table, key, value] => {
            Item::Row { table: table.to_owned(), key: unescaped(key), value: unescaped(value) }
        }
        ["lease", name, token] => {
            Item::Lease { name: name.to_owned(), token: token.parse().unwrap() }
        }
        ["counter", name, total] => {
            Item::Counter { name: name.to_owned(), total: total.parse().unwrap() }
        }
        _ => panic!("not an item: {line}"),
    }
}

/// Writes each byte that is not visible ASCII as `\xHH`, and so the backslash.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\\' | ..b' ' | 0x7f.. => write!(text, "\\x{byte:02x}").unwrap(),
            b' '..=b'~' => text.push(char::from(*byte)),
        }
    }
    text
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Writes items to a store that has none of their logs and tables. Earlier positions of a log are filled and trimmed, and consecutive
/// records are one append.
pub(crate) async fn load(store: &dyn Store, items: &[Item]) {
    for some in items.chunk_by(is_next) {
        match &some[0] {
            Item::Record { log, position, .. } => {
                let records = some.iter().filter_map(|item| {
                    let Item::Record { bytes, .. } = item else { return None };
                    Some(bytes.clone().into())
                });
                skip(store, log, *position).await;
                let positions = store.append(log, records.collect(), None).await.unwrap();
                assert_eq!(*positions.start(), *position);
            }
            Item::Row { table, key, value } => {
                let change = Change {
                    table: table.as_str().into(),
                    key: key.clone(),
                    value: Some(value.clone().into()),
                    expect: Expect::Nothing,
                };
                store.change(vec![change], None).await.unwrap();
            }
            Item::Lease { name, token } => {
                let mut given = 0;
                while given < *token {
                    let answer = store.acquire(name, "owner", Duration::from_secs(60)).await;
                    let Ok(LeaseAnswer::Acquired(lease)) = answer else { panic!("{answer:?}") };
                    store.release(&lease).await.unwrap();
                    given = lease.token;
                }
                assert_eq!(given, *token);
            }
            Item::Counter { name, total } => {
                assert!(store.add(name, *total, *total, WINDOW).await.unwrap().granted);
            }
        }
    }
}

/// Returns true if two items are consecutive records of a log.
fn is_next(one: &Item, other: &Item) -> bool {
    let Item::Record { log, position, .. } = one else { return false };
    let Item::Record { log: next_log, position: next, .. } = other else { return false };
    log == next_log && position + 1 == *next
}

/// Makes `position` the next one of a log.
async fn skip(store: &dyn Store, log: &str, position: u64) {
    let newest = store.span(log).await.unwrap().newest;
    let missing = position.checked_sub(newest + 1).unwrap();
    if missing > 0 {
        for _ in 0..missing {
            store.append(log, vec!["trimmed".into()], None).await.unwrap();
        }
        let keep = Keep { after: Some(position - 1), ..Keep::default() };
        store.trim(log, keep).await.unwrap();
    }
}

/// Reads the records of logs and the rows of tables.
pub(crate) async fn dump(store: &dyn Store, logs: &[&str], tables: &[&str]) -> Vec<Item> {
    let mut items = Vec::new();
    for log in logs {
        let oldest = store.span(log).await.unwrap().oldest;
        let found = store.read(log, ReadQuery::after(oldest - 1)).await.unwrap();
        items.extend(found.records.into_iter().map(|record| Item::Record {
            log: (*log).to_owned(),
            position: record.position,
            bytes: record.bytes.to_vec(),
        }));
    }
    for table in tables {
        let found = store.scan(table, Scan { rows_max: 1000, ..Scan::default() }).await.unwrap();
        assert!(!found.more);
        items.extend(found.rows.into_iter().map(|row| Item::Row {
            table: (*table).to_owned(),
            key: row.key.to_vec(),
            value: row.value.to_vec(),
        }));
    }
    items
}
