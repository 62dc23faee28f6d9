//! A model of the store's content, as known to a program from the answers of the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::Positions;
use crate::{Change, Error, Keep, Record, Row, Span};

#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    logs: HashMap<String, LogModel>,
    /// The possible values of each key. `None` means that there is no row.
    rows: BTreeMap<Vec<u8>, Vec<Option<Bytes>>>,
    /// The last known version of each key's row.
    versions: HashMap<Vec<u8>, u64>,
    highest_version: u64,
    token: u64,
}

#[derive(Debug, Clone, Default)]
struct LogModel {
    /// Acknowledged records, and records that were read. They have to stay.
    known: BTreeMap<u64, Bytes>,
    /// The records of appends whose outcome is unknown.
    open: Vec<Vec<Bytes>>,
    /// The highest position ever seen.
    newest: u64,
    /// Records below this position may have been trimmed.
    trimmed_at_most: u64,
    /// Records below this position certainly were trimmed.
    trimmed: u64,
}

impl Model {
    pub(super) fn newest(&self, log: &str) -> u64 {
        self.logs.get(log).map_or(0, |log| log.newest)
    }

    pub(super) fn version(&self, key: &[u8]) -> u64 {
        self.versions.get(key).copied().unwrap_or(0)
    }

    pub(super) fn appended(
        &mut self,
        log: &str,
        records: Vec<Bytes>,
        answer: Result<Positions, Error>,
    ) {
        let log = self.logs.entry(log.to_owned()).or_default();
        match answer {
            Ok(positions) => {
                assert!(*positions.start() > log.newest, "{positions:?} was used before");
                assert_eq!(positions.clone().count(), records.len());
                log.newest = *positions.end();
                log.known.extend(positions.zip(records));
            }
            Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => log.open.push(records),
            Err(Error::Full(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn trimmed(
        &mut self,
        log: &str,
        keep: Keep,
        oldest: u64,
        answer: Result<(), Error>,
        span: Option<Span>,
    ) {
        let log = self.logs.entry(log.to_owned()).or_default();
        log.trimmed_at_most = log.trimmed_at_most.max(oldest);
        assert!(keep.age.is_none(), "no record is that old");
        if let (Some(bytes), Ok(()), Some(span)) = (keep.bytes, &answer, span) {
            assert!(span.bytes <= bytes, "{span:?} after {keep:?}");
            let before = log.known.range(..span.oldest).next_back();
            let more = before.map_or(bytes + 1, |(_, record)| span.bytes + record.len() as u64);
            assert!(more > bytes, "one more would have fitted: {span:?} after {keep:?}");
        }
        if let (Some(after), Ok(()), Some(span)) = (keep.after, &answer, span) {
            assert_eq!(span.oldest, after.saturating_add(1).min(span.newest + 1).max(span.oldest));
            assert!(span.oldest >= (after + 1).min(span.newest + 1), "{span:?} after {keep:?}");
        }
        if answer.is_ok() {
            log.trimmed = log.trimmed.max(oldest);
        }
    }

    /// Compares a whole log with the model.
    pub(super) fn compare_log(&mut self, name: &str, found: &[Record], span: Option<Span>) {
        let log = self.logs.entry(name.to_owned()).or_default();
        assert!(found.is_sorted_by(|a, b| a.position < b.position), "positions grow");
        assert!(found.is_sorted_by_key(|record| record.time), "times do not decrease");
        let by_position: BTreeMap<u64, &Bytes> =
            found.iter().map(|record| (record.position, &record.bytes)).collect();
        let oldest = by_position.keys().next().copied();
        assert!(
            oldest.is_none_or(|oldest| oldest >= log.trimmed),
            "{name}: trimmed records are back"
        );
        log.known =
            log.known.split_off(&oldest.unwrap_or(log.trimmed_at_most).min(log.trimmed_at_most));
        for (position, bytes) in &log.known {
            assert_eq!(
                by_position.get(position),
                Some(&bytes),
                "{name}: record {position} is lost"
            );
        }
        for (position, bytes) in &by_position {
            if log.known.contains_key(position) {
                continue;
            }
            let open = log.open.iter_mut().position(|open| open.first() == Some(*bytes));
            let group = open.map(|index| log.open.remove(index));
            let group =
                group.unwrap_or_else(|| panic!("{name}: record {position} was never appended"));
            assert!(*position > log.newest, "{name}: position {position} was used before");
            for (index, record) in group.into_iter().enumerate() {
                let position = position + index as u64;
                assert_eq!(by_position.get(&position), Some(&&record), "{name}: half an append");
                log.newest = log.newest.max(position);
                log.known.insert(position, record);
            }
        }
        if let Some(span) = span {
            assert!(oldest.is_none_or(|oldest| oldest >= span.oldest), "{name}: {span:?}");
            assert!(span.newest >= found.last().map_or(0, |record| record.position));
            let bytes: u64 = found.iter().map(|record| record.bytes.len() as u64).sum();
            assert_eq!(span.bytes, bytes, "{name}: {span:?}");
        }
    }

    /// Compares a log of a damaged store. Records may be missing, but must not differ. Returns the number of missing
    /// records.
    pub(super) fn compare_damaged(&self, log: &str, found: &[Record]) -> usize {
        let Some(log) = self.logs.get(log) else { return 0 };
        let positions: BTreeSet<u64> = found.iter().map(|record| record.position).collect();
        for record in found {
            assert_eq!(log.known.get(&record.position), Some(&record.bytes));
        }
        log.known.keys().filter(|position| !positions.contains(position)).count()
    }

    pub(super) fn changed(&mut self, changes: &[Change], answer: Result<Vec<u64>, Error>) {
        let mut after: BTreeMap<&[u8], Option<Bytes>> = BTreeMap::new();
        for change in changes {
            after.insert(&change.key, change.value.clone());
        }
        match answer {
            Ok(versions) => {
                assert!(versions[0] > self.highest_version, "{versions:?}");
                self.highest_version = *versions.last().unwrap();
                for (change, version) in changes.iter().zip(versions) {
                    self.versions.insert(change.key.clone(), version);
                }
                after.into_iter().for_each(|(key, value)| {
                    self.rows.insert(key.to_vec(), vec![value]);
                });
            }
            Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {
                for (key, value) in after {
                    self.rows.entry(key.to_vec()).or_insert_with(|| vec![None]).push(value);
                }
            }
            Err(Error::Full(_) | Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Compares a table with the model.
    pub(super) fn compare_rows(&mut self, rows: &[Row]) {
        let found: BTreeMap<&[u8], &Row> = rows.iter().map(|row| (row.key.as_ref(), row)).collect();
        for (key, possible) in &mut self.rows {
            let row = found.get(key.as_slice());
            let value = row.map(|row| row.value.clone());
            assert!(possible.contains(&value), "{key:?} is {value:?}, not one of {possible:?}");
            // A value that was read has to stay.
            *possible = vec![value];
            if let Some(row) = row {
                self.highest_version = self.highest_version.max(row.version);
                self.versions.insert(key.clone(), row.version);
            }
        }
        assert!(found.keys().all(|key| self.rows.contains_key(*key)), "a row was never written");
    }

    pub(super) fn leased(&mut self, token: u64) {
        assert!(token > self.token, "token {token} was given before");
        self.token = token;
    }
}
