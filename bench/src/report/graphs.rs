//! The graphs of a folder of results.

use std::collections::BTreeMap;

use super::chart::{Chart, Series, gateway_colour};
use super::results::{Measured, Results};
use crate::folder::{OURS, ProcessSample, RowKey, Statistics};
use crate::generator::Streams;
use crate::run::CoreLists;

type Figure = fn(&Statistics) -> Option<f64>;

/// Returns all graphs: by users for each scenario with several numbers of users, and over time for each row of streams and for the largest
/// row of each other scenario. Peers that ran the same rows stand beside ours.
#[must_use]
pub fn graphs(results: &Results) -> Vec<Chart> {
    let mut rows = results.typical();
    let cores = gateway_cores(results);
    let mut timelines: Vec<Chart> = Vec::new();
    for row in rows.iter().filter(|row| row.row.document == "003" && row.key.gateway == OURS) {
        timelines.extend(over_time(&with_peers(&rows, row)));
        timelines.extend(shares_over_time(row, cores));
    }
    for row in largest(&rows) {
        let all = with_peers(&rows, row);
        if all.len() > 1 {
            timelines.extend(over_time(&all));
        }
        timelines.extend(shares_over_time(row, cores));
    }
    // Graphs over time show where a row ended early. A point of the others cannot show its mark.
    rows.retain(|row| !row.row.ended_early());
    let mut charts = by_users(&rows);
    charts.extend(by_gateway(&rows));
    charts.extend(by_ramp(&rows));
    charts.extend(by_subscribers(&rows, cores));
    charts.extend(timelines);
    charts.retain(|chart| !chart.is_empty());
    charts
}

fn by_users(rows: &[Measured]) -> Vec<Chart> {
    let mut charts = Vec::new();
    let mut scenarios: Vec<&str> = rows.iter().map(|row| row.key.scenario.as_str()).collect();
    scenarios.dedup();
    for scenario in scenarios {
        let of: Vec<&Measured> = rows
            .iter()
            .filter(|row| {
                row.key.scenario == scenario && row.key.gateway == OURS && row.row.streams.is_none()
            })
            .collect();
        let mut users: Vec<u32> = of.iter().map(|row| row.key.users).collect();
        users.sort_unstable();
        users.dedup();
        let Some(first) = of.first().filter(|_| users.len() > 1) else { continue };
        let mut sizes: Vec<u32> = of.iter().map(|row| row.key.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let line = |name: String, colour: usize, size: u32, figure: Figure| {
            let points = of.iter().filter(|row| row.key.size == size).map(|row| {
                Some((f64::from(row.key.users), row.statistics(None).and_then(figure)?))
            });
            // Harmless: a row without the figure has no point.
            Series { name, colour, points: points.flatten().collect() }
        };
        let by_size = |figure: Figure| {
            let lines = sizes.iter().enumerate();
            lines
                .map(|(place, size)| line(bytes(*size), place, *size, figure))
                .collect::<Vec<Series>>()
        };
        let mut chart = |name: String, title: String, y: &str, series: Vec<Series>| {
            let (x, y) = ("Concurrent users".to_owned(), y.to_owned());
            charts.push(Chart {
                name: format!("{scenario}-{name}"),
                document: first.row.document.clone(),
                is_over_time: false,
                title,
                x,
                y,
                is_log: true,
                series,
            });
        };
        let title = &first.title;
        chart(
            "throughput".to_owned(),
            format!("{title}: throughput"),
            "Requests/s",
            by_size(|of| of.throughput),
        );
        chart(
            "mean".to_owned(),
            format!("{title}: mean response time"),
            "Milliseconds",
            by_size(|of| of.mean),
        );
        for size in &sizes {
            let figures: [(&str, Figure); 3] =
                [("p90", |of| of.p90), ("p95", |of| of.p95), ("p99", |of| of.p99)];
            let lines = figures.into_iter().enumerate();
            let series =
                lines.map(|(place, (name, figure))| line(name.to_owned(), place, *size, figure));
            let title = format!("{title}: percentiles at {}", bytes(*size));
            chart(format!("percentiles-{size}B"), title, "Milliseconds", series.collect());
        }
    }
    charts
}

/// Returns graphs of throughput and mean by users with a line for each gateway, for each scenario and size that several of them ran, at
/// least one of them with several numbers of users.
fn by_gateway(rows: &[Measured]) -> Vec<Chart> {
    let mut groups: BTreeMap<(&str, u32), BTreeMap<&str, Vec<&Measured>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.row.streams.is_none()) {
        let group = groups.entry((&row.key.scenario, row.key.size)).or_default();
        group.entry(&row.key.gateway).or_default().push(row);
    }
    let figures: [(&str, &str, &str, Figure); 2] = [
        ("throughput", "throughput", "Requests/s", |of| of.throughput),
        ("mean", "mean response time", "Milliseconds", |of| of.mean),
    ];
    let mut charts = Vec::new();
    for ((scenario, size), gateways) in &groups {
        let ours = gateways.get(OURS).and_then(|rows| rows.first());
        let Some(ours) = ours.filter(|_| gateways.len() > 1) else { continue };
        for (name, title, y, figure) in figures {
            let line = |(gateway, rows): (&&str, &Vec<&Measured>)| {
                let points = rows.iter().map(|row| {
                    Some((f64::from(row.key.users), row.statistics(None).and_then(figure)?))
                });
                // Harmless: a row without the figure has no point.
                let points = points.flatten().collect();
                Series { name: (*gateway).to_owned(), colour: gateway_colour(gateway), points }
            };
            let series: Vec<Series> = gateways.iter().map(line).collect();
            if series.iter().all(|series| series.points.len() < 2) {
                continue;
            }
            charts.push(Chart {
                name: format!("{scenario}-gateways-{name}-{size}B"),
                document: ours.row.document.clone(),
                is_over_time: false,
                title: format!("{}, {}: {title} of the gateways", ours.title, bytes(*size)),
                x: "Concurrent users".to_owned(),
                y: y.to_owned(),
                is_log: true,
                series,
            });
        }
    }
    charts
}

/// Returns the row and those of the peers with the same work, ours first.
fn with_peers<'r>(rows: &'r [Measured], ours: &'r Measured) -> Vec<&'r Measured> {
    let work = |row: &Measured| RowKey { gateway: String::new(), round: 0, ..row.key.clone() };
    let is_same = |row: &&Measured| row.key.gateway != OURS && work(row) == work(ours);
    std::iter::once(ours).chain(rows.iter().filter(is_same)).collect()
}

fn by_ramp(rows: &[Measured]) -> Option<Chart> {
    let mut gateways: Vec<&str> = rows.iter().map(|row| row.key.gateway.as_str()).collect();
    gateways.sort_unstable();
    gateways.dedup();
    let series = gateways.into_iter().map(|gateway| {
        let of = rows.iter().filter(|row| {
            row.key.gateway == gateway && row.key.scenario.starts_with("websocket-ramp")
        });
        let points = of.map(|row| match &row.row.streams {
            Some(Streams::Websocket(counts)) => {
                Some((row.row.ramp_seconds?, counts.error_rate? * 100.0))
            }
            Some(_) | None => None,
        });
        // Harmless: a row without streams has no error rate.
        let mut points: Vec<(f64, f64)> = points.flatten().collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series { name: gateway.to_owned(), colour: gateway_colour(gateway), points }
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    (!series.is_empty()).then(|| Chart {
        name: "websocket-ramp".to_owned(),
        document: "003".to_owned(),
        is_over_time: false,
        title: "Error rate by ramp-up period".to_owned(),
        x: "Ramp-up period in seconds".to_owned(),
        y: "Error rate in %".to_owned(),
        is_log: false,
        series,
    })
}

/// Returns the number of the gateway's CPUs.
fn gateway_cores(results: &Results) -> f64 {
    let metadata = results.metadata.as_ref();
    let lists = metadata.and_then(|metadata| metadata.cpus.parse::<CoreLists>().ok());
    lists.map_or(1, |lists| lists.gateway_count()).max(1) as f64
}

/// Returns the row of each scenario of requests with the most users, and among these with the largest messages.
fn largest(rows: &[Measured]) -> Vec<&Measured> {
    let mut largest: BTreeMap<(&str, &str), &Measured> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.key.gateway == OURS && row.row.document != "003") {
        let place = largest.entry((&row.row.document, &row.key.scenario)).or_insert(row);
        let size = |row: &Measured| (row.key.users, row.key.size);
        if size(row) > size(place) {
            *place = row;
        }
    }
    largest.into_values().collect()
}

/// Figures of one process as shares of what it may use.
struct Shares {
    cores: f64,
    memory_kib: Option<f64>,
}

impl Shares {
    fn of(row: &Measured, cores: f64) -> Shares {
        let heap = &row.key.heap;
        let unit = if heap.ends_with(['G', 'g']) { 1 << 20 } else { 1 << 10 };
        let amount = heap.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        // Harmless: a folder of another program may have other names, and then the graph has no memory.
        let memory_kib =
            amount.parse::<u32>().ok().map(|amount| f64::from(amount) * f64::from(unit));
        Shares { cores, memory_kib }
    }

    fn cpu(&self, sample: &ProcessSample) -> Option<f64> {
        Some(sample.cpu_percent? / self.cores)
    }

    fn memory(&self, sample: &ProcessSample) -> Option<f64> {
        Some(sample.rss_kib? as f64 * 100.0 / self.memory_kib?)
    }
}

/// Returns a graph of errors, CPU and memory by the number of a hub's subscribers.
fn by_subscribers(rows: &[Measured], cores: f64) -> Option<Chart> {
    let is_hub = |row: &&Measured| matches!(row.row.streams, Some(Streams::Websub(_)));
    let rows: Vec<&Measured> =
        rows.iter().filter(is_hub).filter(|row| row.key.gateway == OURS).collect();
    let highest = |row: &Measured, of: fn(&Shares, &ProcessSample) -> Option<f64>| {
        let shares = Shares::of(row, cores);
        row.gateway().iter().filter_map(|sample| of(&shares, sample)).reduce(f64::max)
    };
    let errors = |row: &Measured| row.statistics(None)?.error_percentage;
    let series = |name: &str, colour: usize, of: &dyn Fn(&Measured) -> Option<f64>| {
        let points = rows.iter().map(|row| Some((f64::from(row.key.users), of(row)?)));
        // Harmless: a row without the figure has no point.
        Series { name: name.to_owned(), colour, points: points.flatten().collect() }
    };
    (rows.len() > 1).then(|| Chart {
        name: "websub-subscribers".to_owned(),
        document: "003".to_owned(),
        is_over_time: false,
        title: "WebSub: errors, CPU and memory by subscribers".to_owned(),
        x: "Subscribers".to_owned(),
        y: "%".to_owned(),
        is_log: true,
        series: vec![
            series("errors", 1, &errors),
            series("highest CPU", 0, &|row| highest(row, Shares::cpu)),
            series("highest memory", 2, &|row| highest(row, Shares::memory)),
        ],
    })
}

fn clients(row: &Measured) -> &'static str {
    if row.row.document == "003" { "connections" } else { "users" }
}

/// Returns the time of a row's first sample.
fn begin(row: &Measured) -> Option<u64> {
    let first = row.gateway().first().map(|sample| sample.timestamp);
    first.into_iter().chain(row.seconds.first().map(|second| second.timestamp)).min()
}

/// Returns a graph of errors, CPU and memory: CPU relative to the gateway's CPUs, memory relative to its limit.
fn shares_over_time(row: &Measured, cores: f64) -> Option<Chart> {
    let start = begin(row)?;
    let (key, shares) = (&row.key, Shares::of(row, cores));
    let clients = clients(row);
    let at = |timestamp: u64| timestamp.saturating_sub(start) as f64;
    let samples = row.gateway().iter();
    let line = |of: fn(&Shares, &ProcessSample) -> Option<f64>| {
        let points = samples.clone().map(|one| Some((at(one.timestamp), of(&shares, one)?)));
        // Harmless: a second without a value has no point.
        points.flatten().collect::<Vec<(f64, f64)>>()
    };
    let series = |name: String, colour, points| Series { name, colour, points };
    Some(Chart {
        name: format!("{}-{}-{}B-shares", key.folder_name(), key.users, key.size),
        document: row.row.document.clone(),
        is_over_time: true,
        title: format!(
            "{}, {} {clients}, {}: errors, CPU and memory",
            key.scenario,
            key.users,
            bytes(key.size)
        ),
        x: "Seconds from the start".to_owned(),
        y: "%".to_owned(),
        is_log: false,
        series: vec![
            series("errors".to_owned(), 1, errors(row, start)),
            series("CPU".to_owned(), 0, line(Shares::cpu)),
            series(format!("memory of {}", key.heap), 2, line(Shares::memory)),
        ],
    })
}

fn errors(row: &Measured, start: u64) -> Vec<(f64, f64)> {
    let seconds = row.seconds.iter().filter(|second| second.samples > 0);
    let errors = seconds.map(|second| {
        let at = second.timestamp.saturating_sub(start) as f64;
        (at, second.errors as f64 * 100.0 / second.samples as f64)
    });
    errors.collect()
}

/// Returns graphs of CPU and memory in their own units, with a line for each gateway, by seconds from the first sample of its row.
fn over_time(rows: &[&Measured]) -> Vec<Chart> {
    let Some(ours) = rows.first() else { return Vec::new() };
    let key = &ours.key;
    let clients = clients(ours);
    let named = |name: &str, title: &str, y: &str, of: fn(&ProcessSample) -> Option<f64>| {
        let series = rows.iter().map(|row| {
            let start = begin(row).unwrap_or(0);
            let samples = row.gateway().iter();
            let points =
                samples.map(|one| Some((one.timestamp.saturating_sub(start) as f64, of(one)?)));
            let gateway = &row.key.gateway;
            // Harmless: a second without a value has no point.
            let points = points.flatten().collect();
            Series { name: gateway.clone(), colour: gateway_colour(gateway), points }
        });
        Chart {
            name: format!("{}-{}-{}B-{name}", key.folder_name(), key.users, key.size),
            document: ours.row.document.clone(),
            is_over_time: true,
            title: format!(
                "{}, {} {clients}, {}: {title}",
                key.scenario,
                key.users,
                bytes(key.size)
            ),
            x: "Seconds from the start".to_owned(),
            y: y.to_owned(),
            is_log: false,
            series: series.collect(),
        }
    };
    vec![
        named("cpu", "CPU", "CPU in % of one CPU", |one| one.cpu_percent),
        named("memory", "memory", "Resident MiB", |one| Some(one.rss_kib? as f64 / 1024.0)),
    ]
}

fn bytes(size: u32) -> String {
    if size >= 1024 && size.is_multiple_of(1024) {
        format!("{} KiB", size / 1024)
    } else {
        format!("{size} B")
    }
}
