//! A page for each document: its question, the method, the parameters, our tables with the document's figures, the claims, the graphs, and
//! what the figures do not show.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::chart::Chart;
use super::claims::{claims, table as claims_table};
use super::documents::tables;
use super::graphs::graphs;
use super::results::{Measured, Results};
use super::summary::summary;
use super::system::system;
use super::table::Table;
use crate::folder::{self, BUILD, Metadata, OURS, PROGRAM, Row, Summary};

/// What a page says about its document, independent of the results.
struct Document {
    number: &'static str,
    title: &'static str,
    asked: &'static str,
    /// The document's own machine and load.
    setup: &'static str,
    /// What the figures do not show.
    limits: &'static str,
}

const DOCUMENTS: [Document; 5] = [
    Document {
        number: "000",
        title: "An API behind a request interceptor",
        asked: "What does it cost if a service is asked about each request? 100 users send 1 KiB of JSON with a token, without and \
            with an interceptor, and then half of them each way at the same time.",
        setup: "a router with one CPU and concurrency 2; JMeter on two load servers; 900 s, the first 300 s of them as the warm-up",
        limits: "The document's router, enforcer, interceptor and backend are containers on nodes of their own; here they are processes \
            on one machine, so no network lies between them.",
    },
    Document {
        number: "001",
        title: "SOAP and XML policies",
        asked: "What do validation by WSDL, XML Schema and OpenAPI, SOAPAction, XSLT and routing by XPath cost, alone and together, for \
            requests and for replies? Do wrong definitions and wrong messages harm others? Does anything grow within a day?",
        setup: "a gateway with four workers, four CPUs and 8 GB; k6; 900 s after a ramp of 90 s, and 24 hours for endurance",
        limits: "The ramp of the row without policies lasts 960 of its 990 seconds, as in the document's script, so that row is measured \
            with about 54 of its 65 users; a shorter run has a shorter ramp in proportion. Operands and names vary from message to \
            message, but the markup of a row is always the same, and the gateway need not parse again what it has seen: the rows of \
            `costs-soap` that end in `v` have markup that never repeats. No request of ours compiles a definition, so two rows of nginx \
            show what compiling once saves: `nginx-compiles` compiles for each message by libxml2, `nginx` once. A day is run by `scripts/endurance.sh --day`, which judges growth \
            by its slope. The document's figures include the ramp of 90 seconds. Its `Kong Proxy Latency p95` cannot show less than 0.95 ms, \
            because the first bucket of that histogram ends at 1 ms. `Kong Linux Memory` is that of the process at the end of the row here, \
            and of the pod there.",
    },
    Document {
        number: "002",
        title: "Users and sizes behind a token",
        asked: "How do throughput and response times change from 10 to 1,000 users and from 50 B to 100 KiB?",
        setup: "a router with two CPUs and concurrency 4; 900 s",
        limits: "Load, backend and gateway share a machine. Rows in which the generator or the backend had no time left are marked; \
            there the gateway could have done more.",
    },
    Document {
        number: "003",
        title: "Event streams, WebSub and WebSockets",
        asked: "How many event streams, subscribers and WebSockets can be served without an error, and what do they cost?",
        setup: "an all-in-one gateway with two CPUs",
        limits: "All connections come from the loopback interface, which loses nothing. The document's graphs have no table behind them, \
            so only its WebSocket rows stand beside ours.",
    },
    Document {
        number: "004",
        title: "Message flows",
        asked: "What do flows cost that forward, transform, build, enrich, split and gather SOAP messages from 500 B to 100 kB?",
        setup: "a JVM of 2 GB on two CPUs; 60 s, the first 30 s of them as the warm-up, with a ramp of 60 s",
        limits: "Names and numbers vary from message to message, but the markup of a size is always the same, and the gateway need not \
            parse again what it has seen: the rows of `costs-flows` have markup that differs from the one before. Garbage-collection \
            columns are those of JVM peers. The document's users were still being started while it measured.",
    },
];

/// Terms in the tables, with their explanations.
const GLOSSARY: [(&str, &str); 11] = [
    (
        "Concurrent users",
        "users or connections at once; each sends its next request when it has the reply",
    ),
    (
        "Throughput",
        "requests in a second, good or not, from the first one that began after the warm-up to the last reply",
    ),
    (
        "Average, standard deviation, percentiles",
        "of the time from the first byte sent to the last byte received, from histograms of three digits",
    ),
    ("Error %", "replies that were not the expected ones, late or missing, of all requests"),
    (
        "Little's law",
        "throughput x mean time is the number of users; a row that differs by more than 5 %, and by more than the rounding of the mean, is marked `little`",
    ),
    (
        "Marks",
        "`generator`, `backend`: that process had no time left, so the gateway could have done more. `gateway stopped`, `backend stopped`, `agent lost`, `disk full`, `clock jumped`: the row ended early or its figures are not whole",
    ),
    ("Document: ...", "the reference document's own figure, on its own machines"),
    (
        "p99 corrected",
        "the 99th percentile of all requests of the row, corrected for coordinated omission: with the requests that users would have sent while they waited for a late reply",
    ),
    ("N/A", "nothing was measured"),
    (
        "-",
        "the gateway cannot do this work; in a column of the document: it does not have this row",
    ),
    ("not run", "the gateway can do this work, but this row was not run with it"),
];

/// Writes the pages of all documents that have rows, with their graphs and raw data in the same folder. Returns the files.
///
/// # Errors
///
/// If they cannot be written.
pub(super) fn write(results: &Results, folder: &Path) -> Result<Vec<PathBuf>> {
    let charts = graphs(results);
    let mut files = Vec::new();
    for document in &DOCUMENTS {
        let is_here = |row: &&Measured| row.row.document == document.number;
        if !results.rows.iter().any(|row| is_here(&row)) {
            continue;
        }
        let of = charts.iter().filter(|chart| chart.document == document.number);
        let of: Vec<&Chart> = of.filter(|chart| is_for_readers(chart)).collect();
        for chart in &of {
            chart.write_png(&folder.join("graphs"))?;
        }
        let mut write = |name: String, text: &str| -> Result<()> {
            let file = folder.join(name);
            crate::folder::write_whole(&file, text.as_bytes())?;
            files.push(file);
            Ok(())
        };
        let number = document.number;
        write(format!("{number}.md"), &document.page(results, &of))?;
        let own = Results {
            name: results.name.clone(),
            metadata: results.metadata.clone(),
            stacks: results.stacks.clone(),
            rows: results.rows.iter().filter(is_here).cloned().collect(),
        };
        write(format!("csv/{number}.csv"), &summary(&own))?;
        write(format!("rows/{number}.jsonl"), &raw(&own)?)?;
    }
    Ok(files)
}

/// A row as it was measured, for readers who compute something else.
#[derive(Serialize)]
struct RawRow<'r> {
    /// Its path in the folder of results.
    folder: PathBuf,
    /// `row.json`.
    row: &'r Row,
    /// `results-measurement-summary.json`.
    measurement: &'r Summary,
}

/// Returns all rows, those of all rounds and gateways, as a line of JSON each.
fn raw(results: &Results) -> Result<String> {
    let mut text = String::new();
    for row in &results.rows {
        let raw = RawRow { folder: row.key.path(), row: &row.row, measurement: &row.summary };
        text.push_str(&serde_json::to_string(&raw)?);
        text.push('\n');
    }
    Ok(text)
}

/// Returns whether a page shows a graph. Of those over time, it has those that the documents have: of event streams, and of WebSockets with
/// 100 to 1,000 connections. The HTML report has all graphs.
fn is_for_readers(chart: &Chart) -> bool {
    let has_document = ["sse-", "websocket-5-"].iter().any(|name| chart.name.starts_with(name));
    !chart.is_over_time || (has_document && chart.name.ends_with("-shares"))
}

impl Document {
    fn page(&self, results: &Results, charts: &[&Chart]) -> String {
        let mut text = format!("# {} ({})\n\n{}\n\n", self.title, self.number, self.asked);
        text.push_str("## Scenarios\n\n");
        for (name, title, description) in scenarios(results, self.number) {
            let _ = writeln!(text, "- `{name}`, {title}: {description}");
        }
        if let Some(metadata) = &results.metadata {
            text.push_str(&method(results, metadata, self.setup));
            text.push_str(&parameters(results, metadata, self.number));
        }
        text.push_str("\n## Measurements\n\n");
        for (word, meaning) in GLOSSARY {
            let _ = writeln!(text, "- **{word}**: {meaning}.");
        }
        text.push('\n');
        let heading = format!("Document {}", self.number);
        for table in tables(results).iter().filter(|table| table.title.starts_with(&heading)) {
            text.push_str(&table.markdown());
            text.push('\n');
        }
        text.push_str(&self.claims(results));
        if !charts.is_empty() {
            text.push_str("## Graphs\n\n");
        }
        for chart in charts {
            let _ = writeln!(text, "![{}](graphs/{}.png)\n", chart.title, chart.name);
        }
        if let Some(system) = system(results) {
            text.push_str(&system.markdown());
            text.push('\n');
        }
        let _ = write!(text, "## What this does not show\n\n{}\n", self.limits);
        text
    }

    /// Returns the claims of this document.
    fn claims(&self, results: &Results) -> String {
        let own: Vec<_> =
            claims(results).into_iter().filter(|claim| claim.document() == self.number).collect();
        let table = Table { title: "Claims".to_owned(), ..claims_table(&own) };
        format!("{}\n", table.markdown())
    }
}

/// Returns names, titles and descriptions of the scenarios, in the order of the folder, without those of peers.
fn scenarios<'r>(results: &'r Results, document: &str) -> Vec<(&'r str, &'r str, &'r str)> {
    let ran: BTreeSet<String> = results
        .rows
        .iter()
        .filter(|row| row.row.document == document && row.key.gateway == OURS)
        .map(|row| row.key.folder_name())
        .collect();
    let metadata = results.metadata.iter().chain(results.stacks.iter().map(|(_, one)| one));
    let known = metadata.flat_map(|metadata| &metadata.test_scenarios);
    let known = known.filter(|scenario| ran.contains(&scenario.name));
    let mut told: Vec<(&str, &str, &str)> = Vec::new();
    for folder::Scenario { name, display_name, description, .. } in known {
        // The ramps of a scenario have separate folders.
        if !told.iter().any(|(_, title, what)| title == display_name && what == description) {
            told.push((name, display_name, description));
        }
    }
    told
}

fn method(results: &Results, metadata: &Metadata, setup: &str) -> String {
    let servers = match metadata.jmeter_servers {
        0 | 1 => "one generator".to_owned(),
        several => format!("{several} load servers, whose histograms are added"),
    };
    format!(
        "\n## Method\n\nThe gateway and the backends are started anew for each row. {}. The load comes from {servers}; \
         messages differ from request to request. CPUs of gateway, load and backend: `{}`.\n\nIn the document: {setup}.\n",
        times(results, metadata),
        metadata.cpus
    )
}

/// Returns how long rows are run. Folders may differ.
fn times(results: &Results, first: &Metadata) -> String {
    let of = |one: &Metadata| {
        let (all, warm_up) = (one.test_duration, one.warmup_time);
        format!("{all} s are run, the first {warm_up} s of them warm up and do not count")
    };
    let mut folders: Vec<(String, Vec<&str>)> = Vec::new();
    let stacks = results.stacks.iter().map(|(name, one)| (name.as_str(), one));
    for (name, one) in std::iter::once((results.name.as_str(), first)).chain(stacks) {
        let time = of(one);
        match folders.iter_mut().find(|(known, _)| *known == time) {
            Some((_, names)) => names.push(name),
            None => folders.push((time, vec![name])),
        }
    }
    if let [(time, _)] = folders.as_slice() {
        return time.clone();
    }
    let told = folders.iter().map(|(time, names)| format!("{time} ({})", names.join(", ")));
    format!("Rows of different folders differ: {}", told.collect::<Vec<_>>().join("; "))
}

fn parameters(results: &Results, metadata: &Metadata, document: &str) -> String {
    let rows = || results.rows.iter().filter(|row| row.row.document == document);
    let list = |of: fn(&Measured) -> i64| {
        let values: BTreeSet<i64> = rows().map(of).collect();
        values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
    };
    let gateways: BTreeSet<&str> = rows().map(|row| row.key.gateway.as_str()).collect();
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let table = Table {
        title: "Parameters".to_owned(),
        columns: ["Parameter", "Values"].map(str::to_owned).to_vec(),
        rows: vec![
            line("Gateways", gateways.into_iter().collect::<Vec<_>>().join(", ")),
            line("Tidegate", programs(results)),
            line("Gateway's memory", metadata.heap_sizes.join(", ")),
            line("Concurrent users", list(|row| row.key.users.into())),
            line("Message sizes in bytes", list(|row| row.key.size.into())),
            line("Back-end delays in ms", list(|row| row.key.delay)),
            line("Rows", rows().count().to_string()),
        ],
        ..Table::default()
    };
    format!("\n{}", table.markdown())
}

/// Returns version, build, size and hash of our program, for each folder with another one.
fn programs(results: &Results) -> String {
    let metadata = results.metadata.iter().chain(results.stacks.iter().map(|(_, one)| one));
    let program = |metadata: &Metadata| {
        let of = |name: &str| metadata.versions.get(name).cloned();
        let unknown = "commit not recorded".to_owned();
        let parts = [of("Tidegate"), of(BUILD).or(Some(unknown)), of(PROGRAM)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    };
    let programs: BTreeSet<String> = metadata.map(program).collect();
    programs.into_iter().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_each_folder_are_told() {
        let of = |test_duration, warmup_time| Metadata {
            test_duration,
            warmup_time,
            ..Metadata::default()
        };
        let first = of(4, 1);
        let mut results = Results {
            name: "results".to_owned(),
            metadata: None,
            stacks: vec![("users".to_owned(), of(4, 1))],
            rows: Vec::new(),
        };
        let same = "4 s are run, the first 1 s of them warm up and do not count";
        assert_eq!(times(&results, &first), same);
        results.stacks.push(("beside".to_owned(), of(8, 5)));
        assert_eq!(
            times(&results, &first),
            "Rows of different folders differ: 4 s are run, the first 1 s of them warm up and do not count (results, users); 8 s are \
             run, the first 5 s of them warm up and do not count (beside)"
        );
    }

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/page-002.txt");

    /// Update the file with `UPDATE_EXPECT=1 cargo test -p bench a_page_has`.
    #[test]
    fn a_page_has_scenarios_method_parameters_measurements_and_tables() {
        let place = tempfile::tempdir().unwrap();
        let results = super::super::report_tests::filled(&place.path().join("results"));
        let out = place.path().join("pages");
        let files = write(&results, &out).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(
            names,
            [
                "001.md",
                "001.csv",
                "001.jsonl",
                "002.md",
                "002.csv",
                "002.jsonl",
                "004.md",
                "004.csv",
                "004.jsonl"
            ]
        );
        let raw = std::fs::read_to_string(out.join("rows/002.jsonl")).unwrap();
        let first: serde_json::Value = serde_json::from_str(raw.lines().next().unwrap()).unwrap();
        assert_eq!(first["folder"], "jwt@nginx/2G_heap/10_users/50B/0ms_sleep");
        assert_eq!((&first["row"]["users"], raw.lines().count()), (&10.into(), 25));
        assert_eq!(first["measurement"]["HTTP Request"]["throughput"], 7000.0);
        let csv = std::fs::read_to_string(out.join("csv/002.csv")).unwrap();
        assert_eq!(csv.lines().count(), 26);
        let page = std::fs::read_to_string(out.join("002.md")).unwrap();
        for graph in page.split("](graphs/").skip(1) {
            let name = graph.split(')').next().unwrap();
            assert!(out.join("graphs").join(name).exists(), "{name}");
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(GOLDEN, &page).unwrap();
        }
        assert!(
            std::fs::read_to_string(GOLDEN).unwrap() == page,
            "UPDATE_EXPECT=1 writes {GOLDEN}"
        );
    }
}
