//! The tables of the five documents: their columns in their order, followed by the document's figures and those of the peers.
//!
//! Every row of a document is included, even if it was not measured. Scenarios that belong to no document follow.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use super::own;
use super::results::{Measured, Results};
use super::stream_tables::streams;
use super::system::system;
use super::table::{Table, number};
use crate::folder::{OURS, RowKey, Statistics};
use crate::generator::Streams;
use crate::peers::PeerKind;
use crate::scenarios::{self, Overrides, Scenario};

const PLAIN: &str = include_str!("../../documents/000-plain-and-intercepted.csv");
const MIXED: &str = include_str!("../../documents/000-mixed.csv");
const PERFORMANCE: &str = include_str!("../../documents/001-performance.csv");
const CONCURRENT: &str = include_str!("../../documents/001-concurrent.csv");
const ENDURANCE: &str = include_str!("../../documents/001-endurance.csv");
const MATRIX: &str = include_str!("../../documents/002-matrix.csv");
const WEBSOCKET: &str = include_str!("../../documents/003-websocket.csv");
const FLOWS: &str = include_str!("../../documents/004-results.csv");

const NOT_MEASURED: &str = "N/A";
/// A peer cannot do the work of a row, or the document does not have the row.
const NONE: &str = "-";
/// A peer can do the work of a row, but the row was not run with it.
const NOT_RUN: &str = "not run";

/// The table of a document. `parameters` is the number of its first columns that identify a row.
struct Theirs {
    title: &'static str,
    document: &'static str,
    text: &'static str,
    parameters: usize,
    /// Returns the label to use if this row of the document corresponds to this row of ours, otherwise `None`.
    is: fn(&[&str], &Measured) -> Option<Label>,
    note: &'static str,
}

/// Which requests of a row to use.
enum Label {
    All,
    Named(String),
}

const TABLES: [Theirs; 8] = [
    Theirs {
        title: "Document 000: without and with an interceptor",
        document: "000",
        text: PLAIN,
        parameters: 3,
        is: |cells, row| {
            all_if(
                cells.first() == Some(&row.title.as_str())
                    || match row.key.scenario.as_str() {
                        "plain" => is_without(cells),
                        "intercepted" => !is_without(cells),
                        _ => false,
                    },
            )
        },
        note: "",
    },
    Theirs {
        title: "Document 000: both at once",
        document: "000",
        text: MIXED,
        parameters: 3,
        is: |cells, row| {
            let label = cells.first().copied().unwrap_or("");
            (row.key.scenario == "mixed").then(|| Label::Named(label.to_owned()))
        },
        note: "",
    },
    Theirs {
        title: "Document 001: SOAP and XML",
        document: "001",
        text: PERFORMANCE,
        parameters: 4,
        is: is_001,
        note: NOTE_001,
    },
    Theirs {
        title: "Document 001: right and wrong requests at once",
        document: "001",
        text: CONCURRENT,
        parameters: 4,
        is: |cells, row| {
            all_if(cells.get(1).is_some_and(|n| row.key.scenario == format!("scen{n}concurrent")))
        },
        note: NOTE_001,
    },
    Theirs {
        title: "Document 001: endurance",
        document: "001",
        text: ENDURANCE,
        parameters: 4,
        is: |cells, row| {
            all_if(cells.get(1).is_some_and(|n| {
                [format!("scen{n}endurance100"), format!("scen{n}saxonendurance100")]
                    .contains(&row.key.scenario)
            }))
        },
        note: NOTE_001,
    },
    Theirs {
        title: "Document 002: users and sizes",
        document: "002",
        text: MATRIX,
        parameters: 2,
        is: |cells, row| {
            let (users, bytes) = (row.key.users.to_string(), size(row.key.size));
            all_if(cells.first() == Some(&users.as_str()) && cells.get(1) == Some(&bytes.as_str()))
        },
        note: "",
    },
    Theirs {
        title: "Document 003: WebSocket",
        document: "003",
        text: WEBSOCKET,
        parameters: 3,
        is: |cells, row| {
            let key = &row.key;
            let rate =
                cells.first().is_some_and(|rate| key.scenario == format!("websocket-{rate}"));
            let bytes = format!("{} bytes", key.size);
            let users = key.users.to_string();
            all_if(
                rate && cells.get(1) == Some(&bytes.as_str())
                    && cells.get(2) == Some(&users.as_str()),
            )
        },
        note: "The error rate is (sent - received) / sent; a connection that was not made sends nothing and does not count in it.",
    },
    Theirs {
        title: "Document 004: message flows",
        document: "004",
        text: FLOWS,
        parameters: 5,
        is: |cells, row| {
            let key = &row.key;
            let (users, size, delay) =
                (key.users.to_string(), key.size.to_string(), key.delay.to_string());
            let of = |place: usize| cells.get(place).copied().unwrap_or("");
            let scenario = row.title.split(" (").next() == Some(of(0));
            all_if(scenario && [of(2), of(3), of(4)] == [users.as_str(), &size, &delay])
        },
        note: "The document's users were still being started while it measured: throughput x mean gives 75 and 150 of 100 and 200 \
            users. Its rows with 4 backends called 2. Garbage-collection columns are those of a JVM's log.",
    },
];

const NOTE_001: &str = "Kong Proxy Latency p95 is our own latency as Kong's buckets (1, 2, 5, 7 ms...) and histogram_quantile(0.95) \
    would show it: 0.95 ms if all requests take at most 1 ms. Own latency p95 is the value from our finer buckets.";

/// The tables of all documents that have at least one measured row.
#[must_use]
pub fn tables(results: &Results) -> Vec<Table> {
    let rows = results.typical();
    let peers = results.peers();
    let is_measured = |theirs: &&Theirs| rows.iter().any(|row| row.row.document == theirs.document);
    let mut tables: Vec<Table> =
        TABLES.iter().filter(is_measured).map(|theirs| theirs.table(&rows, &peers)).collect();
    tables.retain(|table| !table.rows.is_empty());
    tables.extend(streams(&rows));
    tables.extend(system(results));
    tables
}

impl Theirs {
    fn table(&self, rows: &[Measured], peers: &[String]) -> Table {
        let mut lines = self.text.lines();
        let names: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
        let mut columns: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let figures = names.get(self.parameters..).unwrap_or(&[]);
        columns.extend(figures.iter().map(|name| format!("Document: {name}")));
        if self.document == "001" {
            columns.push("Own latency p95".to_owned());
        }
        if self.has_requests() {
            columns.push("p99 corrected (ms)".to_owned());
        }
        columns.push("Measured (s)".to_owned());
        columns.push("Marks".to_owned());
        for peer in peers {
            columns.extend(self.peer_figures(peer).iter().map(|name| format!("{peer}: {name}")));
            columns.push(format!("{peer}: Marks"));
        }
        let mut table = Table {
            title: self.title.to_owned(),
            note: self.note.to_owned(),
            columns,
            rows: Vec::new(),
        };
        let of_document: Vec<&Measured> =
            rows.iter().filter(|row| row.row.document == self.document).collect();
        let mut shown = HashSet::new();
        let mut any = false;
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let found = |gateway: &str| {
                let mut of_gateway = of_document
                    .iter()
                    .filter(|row| row.key.gateway == gateway && is_as_documented(row));
                of_gateway.find_map(|row| Some((*row, (self.is)(&cells, row)?)))
            };
            let ours = found(OURS);
            any |= ours.is_some();
            let mut line: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
            line.truncate(self.parameters); // Harmless: the document's figures follow after ours.
            line.extend(figures.iter().map(|name| {
                ours.as_ref()
                    .map_or(NOT_MEASURED.to_owned(), |(row, label)| figure(name, row, label))
            }));
            line.extend(cells.iter().skip(self.parameters).map(|cell| (*cell).to_owned()));
            line.extend(self.ours(ours.as_ref().map(|(row, _)| *row)));
            let mut documented = DOCUMENTED.rows.iter();
            let documented = documented
                .find(|row| row.row.document == self.document && (self.is)(&cells, row).is_some());
            let scenario = documented.map_or("", |row| &row.key.scenario);
            for peer in peers {
                let theirs = found(peer);
                let theirs = theirs.as_ref().map(|(row, label)| (*row, label));
                line.extend(self.peer_cells(peer, scenario, theirs));
            }
            if let Some((row, _)) = ours {
                shown.insert(row.key.clone());
            }
            table.rows.push(line);
        }
        if !any {
            table.rows.clear();
        }
        let others = of_document
            .iter()
            .filter(|row| row.key.gateway == OURS && !shown.contains(&row.key) && self.holds(row));
        table.rows.extend(others.map(|row| self.other(row, &of_document, figures, peers)));
        table
    }

    /// Returns true if a row with other users or sizes than the document's belongs to this table.
    fn holds(&self, row: &Measured) -> bool {
        let scenario = row.key.scenario.as_str();
        match self.title {
            "Document 000: without and with an interceptor" => scenario != "mixed",
            "Document 000: both at once" => scenario == "mixed",
            "Document 001: right and wrong requests at once" => scenario.ends_with("concurrent"),
            "Document 001: endurance" => scenario.ends_with("endurance100"),
            "Document 001: SOAP and XML" => {
                !scenario.ends_with("concurrent") && !scenario.ends_with("endurance100")
            }
            "Document 003: WebSocket" => {
                scenario.starts_with("websocket-") && !scenario.starts_with("websocket-ramp")
            }
            _ => true,
        }
    }

    /// Returns the line of a row that the document does not have.
    fn other(
        &self,
        row: &Measured,
        all: &[&Measured],
        figures: &[&str],
        peers: &[String],
    ) -> Vec<String> {
        let key = &row.key;
        let users = key.users.to_string();
        let title = row.title.clone();
        let mut line = match self.document {
            "000" => vec![title, users, size(key.size)],
            "001" => vec![
                key.scenario.clone(),
                "-".to_owned(),
                format!("{title}, {users} users"),
                "-".to_owned(),
            ],
            "002" => vec![users, size(key.size)],
            "003" => vec![
                key.scenario.trim_start_matches("websocket-").to_owned(),
                format!("{} bytes", key.size),
                users,
            ],
            _ => vec![title, key.heap.clone(), users, key.size.to_string(), key.delay.to_string()],
        };
        line.extend(figures.iter().map(|name| figure(name, row, &Label::All)));
        line.extend(figures.iter().map(|_| NONE.to_owned()));
        line.extend(self.ours(Some(row)));
        line.extend(peers.iter().flat_map(|peer| {
            let is_theirs = |one: &&&Measured| {
                one.key.gateway == *peer
                    && RowKey { gateway: OURS.to_owned(), ..one.key.clone() } == *key
            };
            let theirs = all.iter().find(is_theirs);
            self.peer_cells(peer, &key.scenario, theirs.map(|row| (*row, &Label::All)))
        }));
        line
    }

    /// Returns the columns of a peer. Those of a JVM in document 004 include its garbage collections.
    fn peer_figures(&self, peer: &str) -> &'static [&'static str] {
        match (self.document, peer) {
            ("001", _) => &["Requests per second"],
            ("003", _) => &["Error Rate"],
            ("004", "synapse" | "spring") => &[
                "Throughput (Requests/sec)",
                "GC Throughput (%)",
                "Average Memory Footprint After Full GC (M)",
            ],
            _ => &["Throughput (Requests/sec)"],
        }
    }

    /// Returns the cells of a peer's columns.
    fn peer_cells(
        &self,
        peer: &str,
        scenario: &str,
        row: Option<(&Measured, &Label)>,
    ) -> Vec<String> {
        let names = self.peer_figures(peer);
        let Some((row, label)) = row else {
            let why = if cannot(peer, scenario) { NONE } else { NOT_RUN };
            return vec![why.to_owned(); names.len() + 1];
        };
        let mut cells: Vec<String> = names.iter().map(|name| figure(name, row, label)).collect();
        cells.push(row.marks());
        cells
    }

    /// Returns true if its rows are requests, which are corrected for coordinated omission.
    fn has_requests(&self) -> bool {
        self.document != "003"
    }

    /// Returns the columns for which the document has no counterpart.
    fn ours(&self, row: Option<&Measured>) -> Vec<String> {
        let mut cells = Vec::new();
        if self.document == "001" {
            let own = row.and_then(|row| row.row.own_latency.as_ref());
            cells.push(with_unit(own.and_then(|own| own::quantile_ms(own, 0.95)), "ms", 3));
        }
        if self.has_requests() {
            cells.push(number(row.and_then(|row| Some(row.row.corrected?.p99))));
        }
        cells.push(
            row.map_or(NOT_MEASURED.to_owned(), |row| number(Some(row.row.measured_seconds))),
        );
        cells.push(row.map_or("not measured".to_owned(), Measured::marks));
        cells
    }
}

/// The scenarios of the documents, and their rows without any figure.
struct Documented {
    scenarios: Vec<Arc<Scenario>>,
    rows: Vec<Measured>,
    keys: HashSet<RowKey>,
}

static DOCUMENTED: LazyLock<Documented> = LazyLock::new(|| {
    // A test shows that the embedded files are valid.
    let scenarios: Vec<Arc<Scenario>> =
        scenarios::all().unwrap_or_default().into_iter().map(Arc::new).collect();
    let rows = scenarios.iter().flat_map(|one| one.rows(&Overrides::default()));
    let rows: Vec<Measured> = rows
        .map(|row| {
            // Harmless: the delays of the documents are seconds.
            let delay = i64::try_from(row.delay.as_millis()).unwrap_or(-1);
            let mut blank = Measured {
                key: RowKey::ours(&row.folder, "", row.users, row.size, delay),
                title: row.scenario.own.title.clone(),
                ..Measured::default()
            };
            row.scenario.document().clone_into(&mut blank.row.document);
            blank
        })
        .collect();
    let keys = rows.iter().map(|row| row.key.clone()).collect();
    Documented { scenarios, rows, keys }
});

/// Returns true if a row was run with the users, size and delay of its document.
fn is_as_documented(row: &Measured) -> bool {
    let key = &row.key;
    let key = RowKey::ours(&key.scenario, "", key.users, key.size, key.delay.max(0));
    DOCUMENTED.keys.contains(&key)
}

/// Returns true if a peer cannot do the work of a scenario.
fn cannot(peer: &str, scenario: &str) -> bool {
    let peer = PeerKind::ALL.into_iter().find(|kind| kind.name() == peer);
    let scenario = DOCUMENTED.scenarios.iter().find(|one| one.name == scenario);
    peer.zip(scenario).is_some_and(|(peer, scenario)| !crate::run::can_do(peer, scenario))
}

/// Returns the value of a document's column for a row of ours.
fn figure(column: &str, row: &Measured, label: &Label) -> String {
    let of = match label {
        Label::All => row.statistics(None),
        Label::Named(name) => row.statistics(Some(name)),
    };
    let take = |field: fn(&Statistics) -> Option<f64>| number(of.and_then(field));
    let ms = |field: fn(&Statistics) -> Option<f64>| with_unit(of.and_then(field), "ms", 2);
    let own = row.row.own_latency.as_ref();
    match column {
        "Total requests" => of.map_or(NOT_MEASURED.to_owned(), |of| of.samples.to_string()),
        "Error Count" => of.map_or(NOT_MEASURED.to_owned(), |of| of.errors.to_string()),
        "Error %" => take(|of| of.error_percentage),
        "Throughput (Requests/sec)" => take(|of| of.throughput),
        "Average Response Time (ms)" => take(|of| of.mean),
        "Little's law verification" => take(Statistics::users_accounted),
        "Standard Deviation of Response Time (ms)" => take(|of| of.stddev),
        "90th Percentile of Response Time (ms)" => take(|of| of.p90),
        "95th Percentile of Response Time (ms)" => take(|of| of.p95),
        "99th Percentile of Response Time (ms)" => take(|of| of.p99),
        "Requests per second" => {
            with_unit(row.rate().filter(|_| !row.summary.0.is_empty()), "rps", 0)
        }
        "Kong Proxy Latency p95" => {
            with_unit(own.and_then(|own| own::as_kong_ms(own, 0.95)), "ms", 2)
        }
        "K6 Avg" => ms(|of| of.mean),
        "K6 p95" => ms(|of| of.p95),
        "K6 p99" => ms(|of| of.p99),
        "Kong Linux Memory" => {
            let rss = row.gateway().iter().rev().find_map(|sample| sample.rss_kib);
            with_unit(rss.map(|kib| kib as f64 / f64::from(1 << 20)), "GiB", 2)
        }
        "Data Sent" => gigabytes(row.row.sent_bytes),
        "Data Rcvd" => gigabytes(row.row.received_bytes),
        "Failed Connections" => match &row.row.streams {
            Some(Streams::Websocket(counts)) => counts.failed.to_string(),
            Some(Streams::Sse(counts)) => counts.failed.to_string(),
            Some(Streams::Websub(_)) | None => NOT_MEASURED.to_owned(),
        },
        "Error Rate" => match &row.row.streams {
            Some(Streams::Websocket(counts)) => percent(counts.error_rate),
            Some(Streams::Sse(_) | Streams::Websub(_)) | None => NOT_MEASURED.to_owned(),
        },
        name if name.contains("GC Throughput") => {
            number(row.gc.as_ref().map(|gc| gc.throughput_percent))
        }
        name if name.contains("After Full GC") => {
            let full = row.gc.as_ref().and_then(super::gc::Gc::after_full);
            number(full.map(|(mean, _)| mean))
        }
        _ => NOT_MEASURED.to_owned(),
    }
}

fn all_if(is: bool) -> Option<Label> {
    is.then_some(Label::All)
}

fn is_without(cells: &[&str]) -> bool {
    cells.first().is_some_and(|name| name.contains("without"))
}

/// Matches the names of k6's scenarios with the services and numbers of the table.
fn is_001(cells: &[&str], row: &Measured) -> Option<Label> {
    let [service, number, _, library, ..] = cells else { return None };
    let name = match *service {
        "calculator" if *library == "saxon" => format!("scen{number}saxon"),
        "calculator" => format!("scen{number}"),
        "go-bench-suite" => format!("scengobench{number}"),
        _ => format!("scenhttpbin{number}"),
    };
    all_if(row.key.scenario == name)
}

/// Formats a size as in the documents: 50B, 1KiB.
fn size(bytes: u32) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{}KiB", bytes / 1024)
    } else {
        format!("{bytes}B")
    }
}

/// Formats a share as a percentage: 0.1 as 10%.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or(NOT_MEASURED.to_owned(), |share| format!("{}%", number(Some(share * 100.0))))
}

/// Formats bytes in GB as in the documents. Seconds of a quick run are a small part of one.
fn gigabytes(bytes: Option<u64>) -> String {
    let gigabytes = bytes.map(|bytes| bytes as f64 / 1e9);
    let decimals = if gigabytes.is_some_and(|value| value < 1.0) { 4 } else { 2 };
    with_unit(gigabytes, "GB", decimals)
}

fn with_unit(value: Option<f64>, unit: &str, decimals: usize) -> String {
    match value.filter(|value| value.is_finite()) {
        Some(value) => format!("{value:.decimals$} {unit}"),
        None => NOT_MEASURED.to_owned(),
    }
}
