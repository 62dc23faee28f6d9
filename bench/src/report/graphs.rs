//! Which graphs a folder of results has.

use super::chart::{Chart, Series, gateway_colour};
use super::results::{Measured, Results};
use crate::folder::{OURS, Statistics};

type Figure = fn(&Statistics) -> Option<f64>;

/// All graphs: by users for each scenario with several numbers of them, and over time for streams.
#[must_use]
pub fn graphs(results: &Results) -> Vec<Chart> {
    let rows = results.typical();
    let mut charts = by_users(&rows);
    charts.extend(by_ramp(&rows));
    for row in rows.iter().filter(|row| row.row.document == "003" && row.key.gateway == OURS) {
        charts.extend(over_time(row));
    }
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
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

fn by_ramp(rows: &[Measured]) -> Option<Chart> {
    let mut gateways: Vec<&str> = rows.iter().map(|row| row.key.gateway.as_str()).collect();
    gateways.sort_unstable();
    gateways.dedup();
    let series = gateways.into_iter().map(|gateway| {
        let of = rows.iter().filter(|row| {
            row.key.gateway == gateway && row.key.scenario.starts_with("websocket-ramp")
        });
        let points = of.map(|row| match &row.row.streams {
            Some(crate::generator::Streams::Websocket(counts)) => {
                Some((row.row.ramp_seconds?, counts.error_rate * 100.0))
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
        title: "Error rate by ramp-up period".to_owned(),
        x: "Ramp-up period in seconds".to_owned(),
        y: "Error rate in %".to_owned(),
        is_log: false,
        series,
    })
}

/// CPU, memory and errors of one row, in seconds from its first sample.
fn over_time(row: &Measured) -> Vec<Chart> {
    let samples = row.gateway();
    let start = samples.first().map(|sample| sample.timestamp).into_iter();
    let Some(start) = start.chain(row.seconds.first().map(|second| second.timestamp)).min() else {
        return Vec::new();
    };
    let at = |timestamp: u64| timestamp.saturating_sub(start) as f64;
    let key = &row.key;
    let named = |name: &str, title: &str, y: &str, points: Vec<(f64, f64)>| Chart {
        name: format!("{}-{}-{}B-{name}", key.folder_name(), key.users, key.size),
        title: format!(
            "{}, {} connections of {}: {title}",
            key.scenario,
            key.users,
            bytes(key.size)
        ),
        x: "Seconds from the start".to_owned(),
        y: y.to_owned(),
        is_log: false,
        series: vec![Series {
            name: key.gateway.clone(),
            colour: gateway_colour(&key.gateway),
            points,
        }],
    };
    let cpu = samples.iter().map(|sample| Some((at(sample.timestamp), sample.cpu_percent?)));
    let memory =
        samples.iter().map(|sample| Some((at(sample.timestamp), sample.rss_kib? as f64 / 1024.0)));
    let errors = row.seconds.iter().filter(|second| second.samples > 0);
    let errors = errors
        .map(|second| (at(second.timestamp), second.errors as f64 * 100.0 / second.samples as f64));
    vec![
        // Harmless: a second without a value has no point.
        named("cpu", "CPU", "CPU in % of one CPU", cpu.flatten().collect()),
        // Harmless: as above.
        named("memory", "memory", "Resident MiB", memory.flatten().collect()),
        named("errors", "errors", "Errors in %", errors.collect()),
    ]
}

fn bytes(size: u32) -> String {
    match size >= 1024 && size.is_multiple_of(1024) {
        true => format!("{} KiB", size / 1024),
        false => format!("{size} B"),
    }
}
