//! The tables of SSE, WebSub and ramps, for which document 003 has graphs and no table.

use super::documents::percent;
use super::results::Measured;
use super::table::{Table, number};
use crate::generator::Streams;

const SSE: [&str; 12] = [
    "Gateway",
    "Attempted Concurrent Connections",
    "Events/second",
    "Message Size",
    "Failed Connections",
    "Events received",
    "Lost",
    "Duplicated",
    "Reordered",
    "Document: connections",
    "Document: errors",
    "Marks",
];

const WEBSUB: [&str; 9] = [
    "Gateway",
    "Subscribers",
    "Message Size",
    "Undelivered",
    "Bad signatures",
    "Last delivery (ms)",
    "Document: subscribers",
    "Document: errors",
    "Marks",
];

const RAMPS: [&str; 6] = [
    "Gateway",
    "Ramp-up (s)",
    "Attempted Concurrent Connections",
    "Failed Connections",
    "Error Rate",
    "Marks",
];

fn without_rows(title: &str, columns: &[&str]) -> Table {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Table { title: title.to_owned(), columns, ..Table::default() }
}

/// Returns those tables that have rows.
pub(super) fn streams(rows: &[Measured]) -> Vec<Table> {
    let mut sse = without_rows("Document 003: SSE", &SSE);
    let mut websub = without_rows("Document 003: WebSub", &WEBSUB);
    let mut ramps = without_rows("Document 003: ramp-up and error rate", &RAMPS);
    let mut rows: Vec<&Measured> = rows.iter().filter(|row| row.row.document == "003").collect();
    // Folders are sorted by name, in which 10 s comes before 2 s.
    rows.sort_by(|one, other| {
        let ramp = |row: &Measured| row.row.ramp_seconds.unwrap_or(0.0);
        one.key.gateway.cmp(&other.key.gateway).then(ramp(one).total_cmp(&ramp(other)))
    });
    for row in rows {
        let (gateway, size) = (row.key.gateway.clone(), format!("{} bytes", row.key.size));
        match &row.row.streams {
            Some(Streams::Sse(c)) => sse.rows.push(vec![
                gateway,
                c.attempted.to_string(),
                number(row.row.events_per_second),
                size,
                c.failed.to_string(),
                c.received.to_string(),
                c.lost.to_string(),
                c.duplicated.to_string(),
                c.reordered.to_string(),
                "5000".to_owned(),
                "0".to_owned(),
                row.marks(),
            ]),
            Some(Streams::Websub(c)) => websub.rows.push(vec![
                gateway,
                c.subscribers.to_string(),
                size,
                c.undelivered.to_string(),
                c.bad_signatures.to_string(),
                number(c.last_delivery_ms),
                "10000".to_owned(),
                "0".to_owned(),
                row.marks(),
            ]),
            Some(Streams::Websocket(c)) if row.key.scenario.starts_with("websocket-ramp") => {
                ramps.rows.push(vec![
                    gateway,
                    number(row.row.ramp_seconds),
                    c.attempted.to_string(),
                    c.failed.to_string(),
                    percent(c.error_rate),
                    row.marks(),
                ])
            }
            Some(Streams::Websocket(_)) | None => {}
        }
    }
    let mut tables = vec![sse, websub, ramps];
    tables.retain(|table| !table.rows.is_empty());
    tables
}
