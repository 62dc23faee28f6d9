//! The messages between two processes of one store.
//!
//! The two programs may have different versions. Therefore the messages are Protocol Buffers: each program skips the fields that it does
//! not know.

use std::time::Duration;

use bytes::Bytes;
use kit::clock::{self, millis};
use prost::Message;

use crate::watch::Subject;
use crate::{
    Change, CounterValue, Error, Expect, Guard, Keep, Lease, LeaseAnswer, ReadQuery, Record,
    Records, Row, Rows, Scan, Span,
};

/// A call with its number.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CallFrame {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(oneof = "Call", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub(super) call: Option<Call>,
}

/// A call of the store's contract.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Call {
    #[prost(message, tag = "2")]
    Append(AppendCall),
    #[prost(message, tag = "3")]
    Read(ReadCall),
    #[prost(string, tag = "4")]
    Span(String),
    #[prost(message, tag = "5")]
    Trim(TrimCall),
    #[prost(message, tag = "6")]
    Get(GetCall),
    #[prost(message, tag = "7")]
    Scan(ScanCall),
    #[prost(message, tag = "8")]
    Change(ChangeCall),
    #[prost(message, tag = "9")]
    Acquire(AcquireCall),
    #[prost(message, tag = "10")]
    Renew(LeaseMessage),
    #[prost(message, tag = "11")]
    Release(LeaseMessage),
    #[prost(message, tag = "12")]
    Add(AddCall),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AppendCall {
    #[prost(string, tag = "1")]
    pub(super) log: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) records: Vec<Bytes>,
    #[prost(message, optional, tag = "3")]
    pub(super) guard: Option<GuardMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GuardMessage {
    #[prost(string, tag = "1")]
    pub(super) lease: String,
    #[prost(uint64, tag = "2")]
    pub(super) token: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadCall {
    #[prost(string, tag = "1")]
    pub(super) log: String,
    #[prost(uint64, tag = "2")]
    pub(super) after: u64,
    #[prost(uint64, tag = "3")]
    pub(super) records_max: u64,
    #[prost(uint64, tag = "4")]
    pub(super) bytes_max: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrimCall {
    #[prost(string, tag = "1")]
    pub(super) log: String,
    #[prost(uint64, optional, tag = "2")]
    pub(super) age_millis: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) bytes: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) after: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetCall {
    #[prost(string, tag = "1")]
    pub(super) table: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) key: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScanCall {
    #[prost(string, tag = "1")]
    pub(super) table: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) prefix: Bytes,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) after: Option<Bytes>,
    #[prost(uint64, tag = "4")]
    pub(super) rows_max: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChangeCall {
    #[prost(message, repeated, tag = "1")]
    pub(super) changes: Vec<ChangeMessage>,
    #[prost(message, optional, tag = "2")]
    pub(super) guard: Option<GuardMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChangeMessage {
    #[prost(string, tag = "1")]
    pub(super) table: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) value: Option<Bytes>,
    /// The expected version: 0 for no row. `None` if any version will do.
    #[prost(uint64, optional, tag = "4")]
    pub(super) version: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AcquireCall {
    #[prost(string, tag = "1")]
    pub(super) lease: String,
    #[prost(string, tag = "2")]
    pub(super) owner: String,
    #[prost(uint64, tag = "3")]
    pub(super) ttl_millis: u64,
}

/// A lease and its remaining or requested duration.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseMessage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) owner: String,
    #[prost(uint64, tag = "3")]
    pub(super) token: u64,
    #[prost(uint64, tag = "4")]
    pub(super) ttl_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AddCall {
    #[prost(string, tag = "1")]
    pub(super) counter: String,
    #[prost(uint64, tag = "2")]
    pub(super) by: u64,
    #[prost(uint64, tag = "3")]
    pub(super) limit: u64,
    #[prost(uint64, tag = "4")]
    pub(super) window_millis: u64,
}

/// An answer with the number of its call, or a notification, with the number 0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AnswerFrame {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(oneof = "AnswerBody", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    pub(super) body: Option<AnswerBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum AnswerBody {
    #[prost(message, tag = "2")]
    Error(ErrorMessage),
    #[prost(message, tag = "3")]
    Positions(Positions),
    #[prost(message, tag = "4")]
    Records(RecordsMessage),
    #[prost(message, tag = "5")]
    Span(SpanMessage),
    #[prost(message, tag = "6")]
    Row(OptionalRow),
    #[prost(message, tag = "7")]
    Rows(RowsMessage),
    #[prost(message, tag = "8")]
    Versions(Versions),
    #[prost(message, tag = "9")]
    Yours(LeaseMessage),
    /// Somebody else has the lease.
    #[prost(message, tag = "10")]
    Held(LeaseMessage),
    #[prost(bool, tag = "11")]
    Done(bool),
    #[prost(message, tag = "12")]
    Counter(CounterMessage),
    /// Something has changed.
    #[prost(message, tag = "13")]
    Changed(ChangedMessage),
    /// Another process has the store now, so no more calls may be sent here.
    #[prost(bool, tag = "14")]
    Moved(bool),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Positions {
    #[prost(uint64, tag = "1")]
    pub(super) first: u64,
    #[prost(uint64, tag = "2")]
    pub(super) last: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RecordsMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) records: Vec<RecordMessage>,
    #[prost(uint64, tag = "2")]
    pub(super) newest: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RecordMessage {
    #[prost(uint64, tag = "1")]
    pub(super) position: u64,
    #[prost(uint64, tag = "2")]
    pub(super) millis: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) bytes: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SpanMessage {
    #[prost(uint64, tag = "1")]
    pub(super) oldest: u64,
    #[prost(uint64, tag = "2")]
    pub(super) newest: u64,
    #[prost(uint64, tag = "3")]
    pub(super) bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OptionalRow {
    #[prost(message, optional, tag = "1")]
    pub(super) row: Option<RowMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RowMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(uint64, tag = "3")]
    pub(super) version: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RowsMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<RowMessage>,
    #[prost(bool, tag = "2")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Versions {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) versions: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterMessage {
    #[prost(uint64, tag = "1")]
    pub(super) total: u64,
    #[prost(bool, tag = "2")]
    pub(super) granted: bool,
    #[prost(uint64, tag = "3")]
    pub(super) left_millis: u64,
}

/// The log or table that has changed. If neither is set, any may have changed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ChangedMessage {
    #[prost(string, optional, tag = "1")]
    pub(super) log: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) table: Option<String>,
}

/// An error: its kind and its values.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorMessage {
    #[prost(uint32, tag = "1")]
    pub(super) kind: u32,
    #[prost(string, tag = "2")]
    pub(super) why: String,
    #[prost(uint64, tag = "3")]
    pub(super) first: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(super) second: Option<u64>,
}

const AWAY: u32 = 1;
const UNKNOWN: u32 = 2;
const FULL: u32 = 3;
const BUSY: u32 = 4;
const CORRUPT: u32 = 5;
const FENCED: u32 = 6;
const CONFLICT: u32 = 7;
const TRIMMED: u32 = 8;

impl From<Error> for ErrorMessage {
    fn from(error: Error) -> ErrorMessage {
        let of = |kind, why: String| ErrorMessage { kind, why, ..ErrorMessage::default() };
        match error {
            Error::Unavailable(why) => of(AWAY, why),
            Error::OutcomeUnknown(why) => of(UNKNOWN, why),
            Error::Full(why) => of(FULL, why),
            Error::Busy => of(BUSY, String::new()),
            Error::Corrupt(why) => of(CORRUPT, why),
            Error::Fenced => of(FENCED, String::new()),
            Error::Conflict { index, version } => ErrorMessage {
                kind: CONFLICT,
                first: index as u64,
                second: version,
                ..ErrorMessage::default()
            },
            Error::Trimmed { oldest } => {
                ErrorMessage { kind: TRIMMED, first: oldest, ..ErrorMessage::default() }
            }
            // The caller checks sizes before the call, so this happens only if its program has other limits.
            size @ Error::Size { .. } => of(CORRUPT, size.to_string()),
        }
    }
}

impl From<ErrorMessage> for Error {
    fn from(ErrorMessage { kind, why, first, second }: ErrorMessage) -> Error {
        match kind {
            AWAY => Error::Unavailable(why),
            FULL => Error::Full(why),
            BUSY => Error::Busy,
            CORRUPT => Error::Corrupt(why),
            FENCED => Error::Fenced,
            CONFLICT => Error::Conflict { index: whole(first), version: second },
            TRIMMED => Error::Trimmed { oldest: first },
            // An error that only a newer program knows.
            _ => Error::OutcomeUnknown(why),
        }
    }
}

pub(super) fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl From<&Guard> for GuardMessage {
    fn from(guard: &Guard) -> GuardMessage {
        GuardMessage { lease: guard.lease.as_ref().to_owned(), token: guard.token }
    }
}

impl From<GuardMessage> for Guard {
    fn from(guard: GuardMessage) -> Guard {
        Guard { lease: guard.lease.into(), token: guard.token }
    }
}

impl From<Change> for ChangeMessage {
    fn from(Change { table, key, value, expect }: Change) -> ChangeMessage {
        let version = match expect {
            Expect::Anything => None,
            Expect::Nothing => Some(0),
            Expect::Version(version) => Some(version),
        };
        ChangeMessage { table: table.as_ref().to_owned(), key: key.into(), value, version }
    }
}

impl From<ChangeMessage> for Change {
    fn from(ChangeMessage { table, key, value, version }: ChangeMessage) -> Change {
        let expect = match version {
            None => Expect::Anything,
            // Versions begin at 1.
            Some(0) => Expect::Nothing,
            Some(version) => Expect::Version(version),
        };
        Change { table: table.into(), key: key.to_vec(), value, expect }
    }
}

impl ReadCall {
    pub(super) fn query(&self) -> ReadQuery {
        ReadQuery {
            after: self.after,
            records_max: whole(self.records_max),
            bytes_max: whole(self.bytes_max),
        }
    }
}

impl TrimCall {
    pub(super) fn keep(&self) -> Keep {
        Keep {
            after: self.after,
            age: self.age_millis.map(Duration::from_millis),
            bytes: self.bytes,
        }
    }
}

impl ScanCall {
    pub(super) fn scan(&self) -> Scan {
        Scan {
            prefix: self.prefix.to_vec(),
            after: self.after.as_ref().map(|after| after.to_vec()),
            rows_max: whole(self.rows_max),
        }
    }
}

impl LeaseMessage {
    /// Returns the lease. Its duration is counted from now.
    pub(super) fn lease(self) -> Lease {
        let now = clock::now();
        // Harmless: if the time cannot be represented, the lease counts as ended.
        let until = now.checked_add(Duration::from_millis(self.ttl_millis)).unwrap_or(now);
        Lease { name: self.name.into(), owner: self.owner.into(), token: self.token, until }
    }

    pub(super) fn of(lease: &Lease, ttl: Duration) -> LeaseMessage {
        LeaseMessage {
            name: lease.name.as_ref().to_owned(),
            owner: lease.owner.as_ref().to_owned(),
            token: lease.token,
            ttl_millis: millis(ttl),
        }
    }
}

impl From<LeaseAnswer> for AnswerBody {
    fn from(answer: LeaseAnswer) -> AnswerBody {
        match answer {
            LeaseAnswer::Acquired(lease) => AnswerBody::Yours(LeaseMessage::of(
                &lease,
                lease.until.saturating_duration_since(clock::now()),
            )),
            LeaseAnswer::HeldByOther { owner, left } => AnswerBody::Held(LeaseMessage {
                owner: owner.as_ref().to_owned(),
                ttl_millis: millis(left),
                ..LeaseMessage::default()
            }),
        }
    }
}

impl From<Records> for RecordsMessage {
    fn from(found: Records) -> RecordsMessage {
        let records = found.records.into_iter().map(|record| RecordMessage {
            position: record.position,
            millis: millis(record.time),
            bytes: record.bytes,
        });
        RecordsMessage { records: records.collect(), newest: found.newest }
    }
}

impl From<RecordsMessage> for Records {
    fn from(found: RecordsMessage) -> Records {
        let records = found.records.into_iter().map(|record| Record {
            position: record.position,
            time: Duration::from_millis(record.millis),
            bytes: record.bytes,
        });
        Records { records: records.collect(), newest: found.newest }
    }
}

impl From<Span> for SpanMessage {
    fn from(Span { oldest, newest, bytes }: Span) -> SpanMessage {
        SpanMessage { oldest, newest, bytes }
    }
}

impl From<SpanMessage> for Span {
    fn from(SpanMessage { oldest, newest, bytes }: SpanMessage) -> Span {
        Span { oldest, newest, bytes }
    }
}

impl From<Row> for RowMessage {
    fn from(Row { key, value, version }: Row) -> RowMessage {
        RowMessage { key, value, version }
    }
}

impl From<RowMessage> for Row {
    fn from(RowMessage { key, value, version }: RowMessage) -> Row {
        Row { key, value, version }
    }
}

impl From<Rows> for RowsMessage {
    fn from(Rows { rows, more }: Rows) -> RowsMessage {
        RowsMessage { rows: rows.into_iter().map(RowMessage::from).collect(), more }
    }
}

impl From<RowsMessage> for Rows {
    fn from(RowsMessage { rows, more }: RowsMessage) -> Rows {
        Rows { rows: rows.into_iter().map(Row::from).collect(), more }
    }
}

impl From<CounterValue> for CounterMessage {
    fn from(CounterValue { total, granted, remaining }: CounterValue) -> CounterMessage {
        CounterMessage { total, granted, left_millis: millis(remaining) }
    }
}

impl From<CounterMessage> for CounterValue {
    fn from(counter: CounterMessage) -> CounterValue {
        let remaining = Duration::from_millis(counter.left_millis);
        CounterValue { total: counter.total, granted: counter.granted, remaining }
    }
}

impl ChangedMessage {
    pub(super) fn of(subject: Option<Subject>) -> ChangedMessage {
        match subject {
            None => ChangedMessage::default(),
            Some(Subject::Log(log)) => ChangedMessage { log: Some(log), table: None },
            Some(Subject::Table(table)) => ChangedMessage { log: None, table: Some(table) },
        }
    }

    pub(super) fn subject(self) -> Option<Subject> {
        self.log.map(Subject::Log).or(self.table.map(Subject::Table))
    }
}
