//! The records and rows of stores of releases: a folder for each release in `tests/releases`, and a file for each crate that stores.
//!
//! Owns the form of these files, and alone writes them: `UPDATE_RELEASE=1` renews those of the current version, as RELEASING.md says.
//! Each line is a record or a row, and tabs separate its fields.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use store::{Change, Expect, Keep, Memory, ReadQuery, Scan, Store};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Record { log: String, position: u64, bytes: Vec<u8> },
    Row { table: String, key: Vec<u8>, value: Vec<u8> },
}

/// Returns the content of a file in each release. An update first writes that of the current version: what a filled store has.
pub(crate) async fn of_all(
    file: &str,
    (logs, tables): (&[&str], &[&str]),
    filled: impl AsyncFnOnce() -> Memory,
) -> Vec<Vec<Item>> {
    if is_update() {
        let items = dump(&filled().await, logs, tables).await;
        let text: String = items.iter().map(line).collect();
        std::fs::create_dir_all(current()).unwrap();
        std::fs::write(current().join(file), text).unwrap();
    }
    folders().iter().map(|folder| read(&folder.join(file))).collect()
}

/// Returns true if the folder of the current version is to be renewed.
pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE_RELEASE").is_some()
}

/// Returns the folder of the current version.
pub(crate) fn current() -> PathBuf {
    root().join(env!("CARGO_PKG_VERSION"))
}

/// Returns the folders of all releases.
pub(crate) fn folders() -> Vec<PathBuf> {
    let folders: Vec<PathBuf> =
        std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(folders.contains(&current()), "scripts/release-store.sh writes {:?}", current());
    folders
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/releases")
}

pub(crate) fn read(file: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.is_empty(), "{}", file.display());
    text.lines().map(item).collect()
}

fn line(item: &Item) -> String {
    match item {
        Item::Record { log, position, bytes } => {
            format!("record\t{log}\t{position}\t{}\n", escaped(bytes))
        }
        Item::Row { table, key, value } => {
            format!("row\t{table}\t{}\t{}\n", escaped(key), escaped(value))
        }
    }
}

fn item(line: &str) -> Item {
    match line.split('\t').collect::<Vec<_>>()[..] {
        ["record", log, position, bytes] => Item::Record {
            log: log.to_owned(),
            position: position.parse().unwrap(),
            bytes: unescaped(bytes),
        },
        ["row", table, key, value] => {
            Item::Row { table: table.to_owned(), key: unescaped(key), value: unescaped(value) }
        }
        _ => panic!("neither a record nor a row: {line}"),
    }
}

/// Writes each byte that is not printable ASCII as `\xHH`, and the backslash too.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\\' | ..b' ' | 0x7f.. => write!(text, "\\x{byte:02x}").unwrap(),
            b' '..=b'~' => text.push(char::from(*byte)),
        }
    }
    text
}

pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap();
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

/// Writes items to a store that has none of these logs and rows.
pub(crate) async fn load(store: &dyn Store, items: &[Item]) {
    for item in items {
        match item {
            Item::Record { log, position, bytes } => {
                skip(store, log, *position).await;
                let added = store.append(log, vec![bytes.clone().into()], None).await.unwrap();
                assert_eq!(*added.start(), *position);
            }
            Item::Row { table, key, value } => {
                let value = Some(value.clone().into());
                let (table, expect) = (table.as_str().into(), Expect::Nothing);
                let change = Change { table, key: key.clone(), value, expect };
                store.change(vec![change], None).await.unwrap();
            }
        }
    }
}

/// Makes `position` the next one of a log: the positions before it are trimmed.
async fn skip(store: &dyn Store, log: &str, position: u64) {
    let newest = store.span(log).await.unwrap().newest;
    for _ in newest + 1..position {
        store.append(log, vec!["trimmed".into()], None).await.unwrap();
    }
    if newest + 1 < position {
        let keep = Keep { after: Some(position - 1), ..Keep::default() };
        store.trim(log, keep).await.unwrap();
    }
}

/// Reads the records of logs and the rows of tables.
pub(crate) async fn dump(store: &dyn Store, logs: &[&str], tables: &[&str]) -> Vec<Item> {
    let mut items = Vec::new();
    for &log in logs {
        let oldest = store.span(log).await.unwrap().oldest;
        let found = store.read(log, ReadQuery::after(oldest - 1)).await.unwrap();
        items.extend(found.records.into_iter().map(|record| Item::Record {
            log: log.to_owned(),
            position: record.position,
            bytes: record.bytes.to_vec(),
        }));
    }
    for &table in tables {
        let found = store.scan(table, Scan { rows_max: 1000, ..Scan::default() }).await.unwrap();
        assert!(!found.more);
        items.extend(found.rows.into_iter().map(|row| Item::Row {
            table: table.to_owned(),
            key: row.key.to_vec(),
            value: row.value.to_vec(),
        }));
    }
    items
}
