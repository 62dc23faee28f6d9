//! Reads, counts and removes the rows of a table, such as a table of dead records, in batches.

use std::sync::Arc;

use bytes::Bytes;
use store::{Change, Error, Expect, Row, Scan, Store};

/// The rows of a table in the order of their keys, read in batches. Rows that are added or removed meanwhile may be included or not.
pub struct Rows<'a> {
    store: &'a dyn Store,
    table: &'a str,
    rows_max: usize,
    after: Option<Vec<u8>>,
    is_over: bool,
}

/// The number of rows read at once. The store also accepts at most this number of changes per call.
const ROWS_MAX: usize = 1000;

impl<'a> Rows<'a> {
    pub fn new(store: &'a dyn Store, table: &'a str, rows_max: usize) -> Rows<'a> {
        Rows { store, table, rows_max, after: None, is_over: false }
    }

    /// Returns the next rows, at least one, or `None` after the last row.
    pub async fn next(&mut self) -> Result<Option<Vec<Row>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let scan = Scan { prefix: Vec::new(), after: self.after.take(), rows_max: self.rows_max };
        let found = self.store.scan(self.table, scan).await?;
        self.after = found.rows.last().map(|row| row.key.to_vec());
        self.is_over = !found.more || self.after.is_none();
        Ok((!found.rows.is_empty()).then_some(found.rows))
    }
}

/// Counts the rows of a table. Stops after the batch that reaches `max`, so the result may exceed `max` by less than a batch.
pub async fn count(store: &dyn Store, table: &str, max: usize) -> Result<usize, Error> {
    let (mut rows, mut count) = (Rows::new(store, table, ROWS_MAX), 0);
    while count < max
        && let Some(some) = rows.next().await?
    {
        count += some.len();
    }
    Ok(count)
}

/// Returns the last key of a table, or `None` if the table is empty.
pub async fn last_key(store: &dyn Store, table: &str) -> Result<Option<Bytes>, Error> {
    let (mut rows, mut last) = (Rows::new(store, table, ROWS_MAX), None);
    while let Some(some) = rows.next().await? {
        last = some.last().map(|row| row.key.clone()).or(last);
    }
    Ok(last)
}

/// Removes the rows that are in `table` now, and the rows with the same keys in `others`. Returns the number of rows removed from `table`.
pub async fn remove_all(
    store: &dyn Store,
    table: &Arc<str>,
    others: &[&Arc<str>],
) -> Result<usize, Error> {
    let last = last_key(store, table).await?;
    let mut rows = Rows::new(store, table, ROWS_MAX / (others.len() + 1));
    let mut removed = 0;
    while let Some(some) = rows.next().await? {
        // Harmless: rows with greater keys were added after the call began, so they stay.
        let now = some.iter().take_while(|row| Some(&row.key) <= last.as_ref());
        let keys: Vec<&Bytes> = now.map(|row| &row.key).collect();
        if keys.is_empty() {
            break;
        }
        let tables = || others.iter().copied().chain([table]);
        let changes = keys.iter().flat_map(|key| tables().map(|table| removal(table, key)));
        store.change(changes.collect(), None).await?;
        removed += keys.len();
    }
    Ok(removed)
}

/// Returns the change that removes a row.
pub fn removal(table: &Arc<str>, key: &[u8]) -> Change {
    Change { table: table.clone(), key: key.to_vec(), value: None, expect: Expect::Anything }
}

#[cfg(test)]
mod tests {
    use store::{Memory, Tables as _};

    use super::*;

    async fn put(store: &Memory, table: &str, key: u32) {
        let (table, key) = (table.into(), format!("{key:08}").into_bytes());
        let change = Change { table, key, value: Some("x".into()), expect: Expect::Anything };
        store.change(vec![change], None).await.unwrap();
    }

    /// Returns a store with `count` rows in each of the tables `dead` and `messages`.
    async fn filled(count: u32) -> Memory {
        let store = Memory::new();
        for key in 0..count {
            put(&store, "dead", key).await;
            put(&store, "messages", key).await;
        }
        store
    }

    #[tokio::test(start_paused = true)]
    async fn each_row_is_read_once_in_order() {
        for count in [0, 1, 2, 3, 4, 7] {
            let store = filled(count).await;
            let (mut rows, mut keys) = (Rows::new(&store, "dead", 2), Vec::new());
            while let Some(some) = rows.next().await.unwrap() {
                assert!((1..=2).contains(&some.len()));
                keys.extend(some.into_iter().map(|row| row.key));
            }
            let expected: Vec<Bytes> = (0..count).map(|key| format!("{key:08}").into()).collect();
            assert_eq!(keys, expected);
            assert_eq!(last_key(&store, "dead").await.unwrap(), expected.last().cloned());
            assert_eq!(rows.next().await, Ok(None), "also when asked again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_counted_up_to_about_a_limit() {
        let store = filled(2500).await;
        for (max, expected) in [(0, 0), (1, 1000), (1000, 1000), (1001, 2000), (9999, 2500)] {
            assert_eq!(count(&store, "dead", max).await, Ok(expected), "{max}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_rows_are_removed_from_both_tables() {
        let store = filled(1201).await;
        put(&store, "other", 1).await;
        let (dead, messages) = ("dead".into(), "messages".into());
        assert_eq!(remove_all(&store, &dead, &[&messages]).await, Ok(1201));
        for (table, expected) in [("dead", 0), ("messages", 0), ("other", 1)] {
            assert_eq!(count(&store, table, 9999).await, Ok(expected), "{table}");
        }
        assert_eq!(remove_all(&store, &dead, &[]).await, Ok(0));
    }
}
