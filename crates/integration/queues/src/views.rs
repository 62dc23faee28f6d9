//! The messages of a queue as operators see them: waiting messages, and dead ones with their failures. Secrets are masked.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use delivery::Cursor;
use kit::calendar::rfc3339;
use message::{Body, Request, RequestHead};
use serde_json::{Value, json};
use store::{Error, ReadQuery, Record};
use telemetry::trace;

use crate::admin::ActionError;
use crate::dead::read;
use crate::queue::{CURSOR, Dead, Queue, key, number};
use crate::stored;

/// The maximum number of messages on one page.
const PAGE: usize = 100;

/// The maximum number of records read for one page. It is larger than a page, since processed messages stay in the log for about a
/// second.
const RECORDS_READ_MAX: usize = 1000;

/// The maximum number of body bytes shown.
const BODY_BYTES_MAX: usize = 64 << 10;

impl Queue {
    /// Returns the cursor of the queue: which messages have been processed, and which are in progress.
    pub(crate) async fn cursor(&self) -> Result<Cursor, Error> {
        let row = self.entrance.store.get(&self.tables.cursor, CURSOR).await?;
        let Some(row) = row else { return Ok(Cursor::default()) };
        let unread =
            |error| Error::Corrupt(format!("the position of the queue `{}`: {error}", self.name()));
        serde_json::from_slice(&row.value).map_err(unread)
    }

    /// Returns the first messages in the queue with their bodies, for `tidegate test`. Nothing is masked.
    pub async fn held(&self) -> Result<Vec<(RequestHead, Bytes)>, Error> {
        let mut records: Vec<Record> = Vec::new();
        while records.len() < RECORDS_READ_MAX {
            let after = records.last().map_or(0, |record| record.position);
            let records_max = RECORDS_READ_MAX - records.len();
            let read = ReadQuery { records_max, ..ReadQuery::after(after) };
            let found = self.entrance.store.read(&self.entrance.log, read).await?.records;
            if found.is_empty() {
                break;
            }
            records.extend(found);
        }
        let request = |record: &Record| {
            let Request { head, body } = stored::request(&record.bytes)
                .ok_or_else(|| Error::Corrupt(format!("record {}", record.position)))?;
            Ok((head, whole(body)))
        };
        records.iter().map(request).collect()
    }

    /// Returns a page of unprocessed messages in order, beginning after the message with this id.
    pub async fn messages(&self, after: Option<&str>) -> Result<Value, ActionError> {
        let cursor = self.cursor().await?;
        let entrance = &self.entrance;
        let after = after.map(|after| number(after).ok_or(ActionError::Unknown)).transpose()?;
        let mut read = ReadQuery::after(after.unwrap_or(0));
        read.records_max = RECORDS_READ_MAX;
        let found = match entrance.store.read(&entrance.log, read).await {
            Err(Error::Trimmed { oldest }) => {
                let read = ReadQuery { after: oldest.saturating_sub(1), ..read };
                entrance.store.read(&entrance.log, read).await?
            }
            found => found?,
        };
        let (mut messages, mut seen) = (Vec::new(), None);
        for record in &found.records {
            if messages.len() == PAGE {
                break;
            }
            seen = Some(record.position);
            let open = cursor.open.iter().find(|open| open.position == record.position);
            if open.is_none() && record.position <= cursor.head {
                continue;
            }
            let mut message = json!({
                "id": record.position.to_string(),
                "time": rfc3339(record.time),
                "attempts": open.map_or(0, |open| open.attempts),
                "bytes": record.bytes.len(),
            });
            let due = open.map(|open| open.due).filter(|due| *due > 0);
            if let (Some(due), Some(message)) = (due, message.as_object_mut()) {
                message.insert("next".to_owned(), json!(rfc3339(Duration::from_millis(due))));
            }
            if let (Some(request), Some(message)) =
                (stored::request(&record.bytes), message.as_object_mut())
            {
                message.insert("method".to_owned(), json!(text(request.head.method())));
                message.insert("path".to_owned(), json!(trace::target(request.head.target())));
            }
            messages.push(message);
        }
        // A page also ends where a read does, by its number of records or of bytes. The record at `newest` may have been removed from the
        // log already. The next page is then empty.
        let next = seen.filter(|seen| *seen < found.newest).map(|seen| seen.to_string());
        Ok(json!({ "messages": messages, "next": next }))
    }

    /// Returns a dead message: its head, its body, its times, and the failure of each attempt.
    pub async fn dead_message(&self, id: &str) -> Result<Value, ActionError> {
        let message = number(id).ok_or(ActionError::Unknown)?;
        let store = &self.entrance.store;
        let row = store.get(&self.tables.dead, &key(message)).await?;
        let dead = row.as_ref().map(read).ok_or(ActionError::Unknown)?;
        let record = store.get(&self.tables.messages, &key(message)).await?;
        let mut view = shown(&dead);
        let request = record.and_then(|row| stored::request(&row.value));
        if let (Some(request), Some(view)) = (request, view.as_object_mut()) {
            view.extend(content(request));
        }
        Ok(view)
    }
}

fn shown(dead: &Dead) -> Value {
    let time = |millis: u64| (millis > 0).then(|| rfc3339(Duration::from_millis(millis)));
    let failures = dead.failures.iter().map(|failure| {
        let (fault, cause) = failure.fault.split_once(": ").unwrap_or((&failure.fault, ""));
        json!({ "time": time(failure.at), "fault": fault, "cause": cause })
    });
    json!({
        "id": dead.message.to_string(),
        "last": dead.last,
        "time": time(dead.stored),
        "died": time(dead.died),
        "attempts": failures.collect::<Vec<Value>>(),
    })
}

/// Returns the head and the body of a message for display. Secrets are masked, and a long body is truncated.
fn content(request: Request) -> serde_json::Map<String, Value> {
    let head = &request.head;
    let mut headers = std::collections::BTreeMap::<String, String>::new();
    for (name, value) in head.headers.iter() {
        let value = if trace::is_secret(name) { trace::MASK.to_owned() } else { text(value) };
        let line = headers.entry(text(name).to_ascii_lowercase());
        line.and_modify(|known| *known = format!("{known}, {value}")).or_insert(value);
    }
    let mut shown = serde_json::Map::new();
    shown.insert("method".to_owned(), json!(text(head.method())));
    shown.insert("path".to_owned(), json!(trace::target(head.target())));
    shown.insert("content_type".to_owned(), json!(headers.get("content-type")));
    shown.insert("headers".to_owned(), json!(headers));
    let body = whole(request.body);
    shown.insert("bytes".to_owned(), json!(body.len()));
    let is_cut = body.len() > BODY_BYTES_MAX;
    let begin = body.get(..BODY_BYTES_MAX).unwrap_or(&body);
    let readable = match std::str::from_utf8(begin) {
        Ok(text) => Some(text),
        // The body may have been cut within a character.
        Err(error) if is_cut && error.error_len().is_none() => {
            // Harmless: the bytes before that character are valid text.
            begin.get(..error.valid_up_to()).and_then(|begin| std::str::from_utf8(begin).ok())
        }
        Err(_) => None,
    };
    match readable {
        Some(text) => shown.insert("body".to_owned(), json!(trace::masked(text))),
        None => shown.insert("base64".to_owned(), json!(STANDARD.encode(begin))),
    };
    shown.insert("truncated".to_owned(), json!(is_cut));
    shown
}

/// Returns the body of a stored message, which is always in memory.
fn whole(body: Body) -> Bytes {
    match body {
        Body::Whole(bytes, _) => bytes,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    }
}

fn text(bytes: &[u8]) -> String {
    // Harmless: the text is only displayed.
    String::from_utf8_lossy(bytes).into_owned()
}
