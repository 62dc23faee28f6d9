//! Folders of results compared: the difference of each row in %, with a confidence interval from its rounds.
//!
//! The other folders are compared with the first one. It measures nothing; [`super::forest`] draws the differences.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::chart::{Chart, Series};
use super::forest::{Forest, Interval};
use super::page;
use super::results::{Measured, Results};
use super::table::{Table, escaped, number};
use crate::folder::{OURS, RowKey};

/// Which folders `bench compare` reads, and where it writes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CompareArguments {
    /// Folders of results; the others are compared with the first
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    pub folders: Vec<PathBuf>,
    /// One file with the tables and graphs
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// How much larger the values of the second series are than those of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Difference {
    /// In percent of the first.
    percent: f64,
    /// The interval that contains the true difference with a probability of 95 %. `None` with fewer than two rounds.
    interval: Option<(f64, f64)>,
}

/// A figure of a row that is compared. Its values are above zero.
struct Figure {
    name: &'static str,
    of: fn(&Measured) -> Option<f64>,
}

const FIGURES: [Figure; 6] = [
    Figure { name: "Throughput (Requests/sec)", of: throughput },
    Figure { name: "Average Response Time (ms)", of: |row| row.statistics(None)?.mean },
    Figure { name: "99th Percentile of Response Time (ms)", of: |row| row.statistics(None)?.p99 },
    Figure { name: "CPU time of a request (us)", of: cpu_of_a_request },
    Figure { name: "CPU (% of one CPU)", of: |row| row.row.streams.as_ref().and(cpu(row)) },
    Figure { name: "Memory (MiB)", of: memory },
];
/// The figures that have a graph of their differences.
const DRAWN: [&str; 3] = [FIGURES[0].name, FIGURES[2].name, FIGURES[3].name];
/// Maximum number of rows in a graph, so that it fits on a page. Further rows go to another graph.
const ROWS_OF_A_GRAPH: usize = 28;

impl CompareArguments {
    /// Writes the requested files, and returns the tables as Markdown.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read, or the folders have no row in common. Nothing is written then.
    pub fn run(&self) -> Result<String> {
        let mut all: Vec<Results> =
            self.folders.iter().map(|folder| Results::read(folder)).collect::<Result<_>>()?;
        name_apart(&mut all, &self.folders);
        let Some((first, others)) = all.split_first() else { anyhow::bail!("no folder") };
        let tables: Vec<Table> = others.iter().map(|other| compared(first, other)).collect();
        for (table, other) in tables.iter().zip(others) {
            anyhow::ensure!(
                !table.rows.is_empty(),
                "{} and {} have no row in common",
                first.name,
                other.name
            );
        }
        let texts: Vec<String> = tables.iter().map(Table::markdown).collect();
        let text = format!("# {}\n\n{}", title(&all), texts.join("\n"));
        if let Some(file) = &self.html {
            crate::folder::write_whole(file, html(&all, &tables)?.as_bytes())?;
        }
        if let Some(file) = &self.markdown {
            crate::folder::write_whole(file, text.as_bytes())?;
        }
        Ok(text)
    }
}

/// Uses the paths of folders as their names if several have the same name.
fn name_apart(all: &mut [Results], folders: &[PathBuf]) {
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    for (results, folder) in all.iter_mut().zip(folders) {
        if names.iter().filter(|name| **name == results.name).count() > 1 {
            results.name = folder.display().to_string();
        }
    }
}

fn title(all: &[Results]) -> String {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    format!("Load tests compared: {}", names.join(", "))
}

/// Returns the rounds of each row, sorted.
fn rounds(results: &Results) -> BTreeMap<RowKey, Vec<&Measured>> {
    let mut rows: BTreeMap<RowKey, Vec<&Measured>> = BTreeMap::new();
    for row in &results.rows {
        rows.entry(RowKey { round: 0, ..row.key.clone() }).or_default().push(row);
    }
    rows
}

/// Returns a table of the rows that both folders have, with each figure.
fn compared(first: &Results, other: &Results) -> Table {
    let (before, after) = (rounds(first), rounds(other));
    let mut rows = Vec::new();
    let (mut apart, mut both) = (0, 0);
    for (key, of_first) in &before {
        let Some(of_other) = after.get(key) else { continue };
        both += 1;
        let in_turn = are_in_turn(of_first, of_other);
        apart += usize::from(!in_turn);
        for figure in &FIGURES {
            let (old, new) = (values(of_first, figure), values(of_other, figure));
            let Some(difference) = difference(&old, &new, in_turn) else { continue };
            rows.push(line(key, figure, [&old, &new], difference, &marks(of_first, of_other)));
        }
    }
    let alone = before.len() + after.len() - 2 * both;
    Table {
        title: format!("{} compared with {}", other.name, first.name),
        note: note(apart, alone),
        columns: columns(&first.name, &other.name),
        rows,
    }
}

fn note(apart: usize, alone: usize) -> String {
    let mut note = "Values are means of the rounds. The interval has the true difference with a probability of 95 %; it needs two \
        rounds of each folder."
        .to_owned();
    if apart > 0 {
        note.push_str(&format!(
            " The rounds of {apart} rows were not run in turn, so changes of the machine between the runs are part of the difference: \
             `bench run --rounds N --beside DIR=PROGRAM` runs two programs in turn."
        ));
    }
    if alone > 0 {
        note.push_str(&format!(" Rows that only one of the folders has: {alone}."));
    }
    note
}

fn columns(first: &str, other: &str) -> Vec<String> {
    let fixed = ["Scenario", "Gateway", "Heap Size", "Concurrent Users", "Message Size (Bytes)"];
    let more = ["Back-end Service Delay (ms)", "Figure", first, other];
    let last = ["Difference (%)", "95 % interval (%)", "Verdict", "Rounds", "Marks"];
    let all = fixed.iter().chain(&more).chain(&last);
    all.map(|name| (*name).to_owned()).collect()
}

fn line(
    key: &RowKey,
    figure: &Figure,
    [old, new]: [&[f64]; 2],
    difference: Difference,
    marks: &str,
) -> Vec<String> {
    let interval = difference.interval;
    vec![
        key.scenario.clone(),
        key.gateway.clone(),
        key.heap.clone(),
        key.users.to_string(),
        key.size.to_string(),
        key.delay.to_string(),
        figure.name.to_owned(),
        number(mean(old)),
        number(mean(new)),
        number(Some(difference.percent)),
        interval.map_or("N/A".to_owned(), |(low, high)| {
            format!("{} to {}", number(Some(low)), number(Some(high)))
        }),
        verdict(interval).to_owned(),
        format!("{} and {}", old.len(), new.len()),
        marks.to_owned(),
    ]
}

fn verdict(interval: Option<(f64, f64)>) -> &'static str {
    match interval {
        Some((low, _)) if low > 0.0 => "higher",
        Some((_, high)) if high < 0.0 => "lower",
        Some(_) => "no difference shown",
        None => "not known",
    }
}

/// Returns the marks of all rounds of both folders.
fn marks(first: &[&Measured], other: &[&Measured]) -> String {
    let all = first.iter().chain(other).flat_map(|row| row.row.marks.iter().copied());
    let all: std::collections::BTreeSet<crate::folder::Mark> = all.collect();
    all.iter().map(|mark| mark.name()).collect::<Vec<_>>().join(", ")
}

fn values(rows: &[&Measured], figure: &Figure) -> Vec<f64> {
    let values = rows.iter().map(|row| (figure.of)(row));
    // Harmless: the number of rounds that have the figure is a column.
    values.flatten().filter(|value| value.is_finite() && *value > 0.0).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the throughput, or `None` for streams, whose rate is set by the load.
fn throughput(row: &Measured) -> Option<f64> {
    if row.row.streams.is_some() {
        return None;
    }
    row.throughput()
}

/// Returns the gateway's samples of the measurement.
fn measured(row: &Measured) -> &[crate::folder::ProcessSample] {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a run")]
    let seconds = row.row.measured_seconds.max(0.0) as usize;
    let samples = row.gateway();
    samples.get(samples.len().saturating_sub(seconds)..).unwrap_or(samples)
}

fn cpu(row: &Measured) -> Option<f64> {
    let samples = measured(row).iter().map(|sample| sample.cpu_percent);
    // Harmless: a second in which the process did not exist has no value.
    mean(&samples.flatten().collect::<Vec<f64>>())
}

fn cpu_of_a_request(row: &Measured) -> Option<f64> {
    let rate = row.throughput().filter(|rate| *rate > 0.0)?;
    Some(cpu(row)? * 1e4 / rate)
}

fn memory(row: &Measured) -> Option<f64> {
    let highest = row.gateway().iter().filter_map(|sample| sample.rss_kib).max()?;
    Some(highest as f64 / 1024.0)
}

/// Returns true if each round of one folder ran before the next round of the other, so that changes of the machine affected both equally.
fn are_in_turn(first: &[&Measured], other: &[&Measured]) -> bool {
    let starts =
        |rows: &[&Measured]| rows.iter().map(|row| row.started).collect::<Option<Vec<_>>>();
    let (Some(first), Some(other)) = (starts(first), starts(other)) else { return false };
    let pairs: Vec<(u64, u64)> =
        first.iter().zip(&other).map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    first.len() == other.len() && pairs.is_sorted_by(|one, next| one.1 < next.0)
}

/// Returns the difference of two series, or `None` if a series is empty. Logarithms are compared, because differences of speed are ratios.
/// If the rounds ran in turn, the values of each round are compared in pairs.
fn difference(first: &[f64], other: &[f64], in_turn: bool) -> Option<Difference> {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (first, other) = (logs(first), logs(other));
    let by = mean(&other)? - mean(&first)?;
    let percent = |log: f64| log.exp_m1() * 100.0;
    let half = if in_turn && first.len() == other.len() {
        let pairs: Vec<f64> = first.iter().zip(&other).map(|(old, new)| new - old).collect();
        let spread = variance(&pairs).map(|of| (of / pairs.len() as f64).sqrt());
        spread.map(|spread| spread * student(pairs.len() as f64 - 1.0))
    } else {
        apart(&first, &other)
    };
    let interval = half.map(|half| (percent(by - half), percent(by + half)));
    Some(Difference { percent: percent(by), interval })
}

/// Returns half of the interval for series whose rounds do not form pairs (Welch's t-test).
fn apart(first: &[f64], other: &[f64]) -> Option<f64> {
    let part = |of: &[f64]| Some((variance(of)? / of.len() as f64, of.len() as f64 - 1.0));
    let ((one, one_free), (two, two_free)) = (part(first)?, part(other)?);
    let sum = one + two;
    if sum == 0.0 {
        return Some(0.0);
    }
    let free = sum.powi(2) / (one.powi(2) / one_free + two.powi(2) / two_free);
    Some(sum.sqrt() * student(free))
}

/// Returns the variance of a sample, or `None` with fewer than two values.
fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (values.len() > 1).then(|| squares / (values.len() as f64 - 1.0))
}

/// Returns the 0.975 quantile of Student's distribution with `free` degrees of freedom. Between two entries of the table, it returns the
/// larger quantile.
fn student(free: f64) -> f64 {
    const TABLE: [(f64, f64); 16] = [
        (1.0, 12.706),
        (2.0, 4.303),
        (3.0, 3.182),
        (4.0, 2.776),
        (5.0, 2.571),
        (6.0, 2.447),
        (7.0, 2.365),
        (8.0, 2.306),
        (9.0, 2.262),
        (10.0, 2.228),
        (12.0, 2.179),
        (15.0, 2.131),
        (20.0, 2.086),
        (30.0, 2.042),
        (60.0, 2.000),
        (120.0, 1.980),
    ];
    let below = TABLE.iter().rev().find(|(at, _)| *at <= free);
    below.or(TABLE.first()).map_or(f64::INFINITY, |(_, quantile)| *quantile)
}

/// Returns the tables and graphs as one file that loads nothing.
fn html(all: &[Results], tables: &[Table]) -> Result<String> {
    let mut body = format!("<h1>{}</h1>\n", escaped(&title(all)));
    for other in all.iter().skip(1) {
        body.push_str("<div class=\"graphs\">\n");
        if let Some(first) = all.first() {
            for forest in forests(first, other) {
                body.push_str(&format!("<figure class=\"forest\">{}</figure>\n", forest.svg()?));
            }
        }
        body.push_str("</div>\n");
    }
    let mut figures = String::new();
    for chart in by_users(all) {
        if let Some(svg) = chart.svg()? {
            figures.push_str(&format!("<figure>{svg}</figure>\n"));
        }
    }
    if !figures.is_empty() {
        body.push_str("<h2>Throughput of all folders</h2>\n");
        body.push_str(&format!("<div class=\"graphs\">\n{figures}</div>\n"));
    }
    tables.iter().for_each(|table| body.push_str(&table.html()));
    Ok(page::whole(&escaped(&title(all)), &body))
}

/// Returns a graph for each figure, with the differences and their intervals.
fn forests(first: &Results, other: &Results) -> Vec<Forest> {
    let (before, after) = (rounds(first), rounds(other));
    let mut forests = Vec::new();
    for figure in FIGURES.iter().filter(|figure| DRAWN.contains(&figure.name)) {
        let intervals = before.iter().map(|(key, old)| {
            let new = after.get(key)?;
            let in_turn = are_in_turn(old, new);
            let difference = difference(&values(old, figure), &values(new, figure), in_turn)?;
            Some(Interval {
                label: label(key),
                at: difference.percent,
                interval: difference.interval,
            })
        });
        // Harmless: the table's note says how many rows only one folder has.
        let intervals: Vec<Interval> = intervals.flatten().collect();
        for rows in intervals.chunks(ROWS_OF_A_GRAPH) {
            forests.push(Forest {
                title: format!("{}: {} compared with {}", figure.name, other.name, first.name),
                x: "Difference in %".to_owned(),
                rows: rows.to_vec(),
            });
        }
    }
    forests
}

fn label(key: &RowKey) -> String {
    let gateway = if key.gateway == OURS { String::new() } else { format!("@{}", key.gateway) };
    format!("{}{gateway}, {} users, {} B", key.scenario, key.users, key.size)
}

/// Returns graphs of the throughput by users: one for each scenario and size, with a line for each folder.
fn by_users(all: &[Results]) -> Vec<Chart> {
    let typical: Vec<Vec<Measured>> = all.iter().map(Results::typical).collect();
    let mut charts: BTreeMap<(String, u32), Chart> = BTreeMap::new();
    for (place, (rows, results)) in typical.iter().zip(all).enumerate() {
        for row in rows.iter().filter(|row| row.key.gateway == OURS) {
            let Some(rate) = row.throughput() else { continue };
            let key = (row.key.scenario.clone(), row.key.size);
            let chart = charts.entry(key).or_insert_with(|| Chart {
                name: format!("{}-{}B-compared", row.key.scenario, row.key.size),
                document: row.row.document.clone(),
                is_over_time: false,
                title: format!("{}, {} B: throughput", row.title, row.key.size),
                x: "Concurrent users".to_owned(),
                y: "Requests/s".to_owned(),
                is_log: true,
                series: Vec::new(),
            });
            let point = (f64::from(row.key.users), rate);
            match chart.series.iter_mut().find(|series| series.colour == place) {
                Some(series) => series.points.push(point),
                None => chart.series.push(Series {
                    name: results.name.clone(),
                    colour: place,
                    points: vec![point],
                }),
            }
        }
    }
    let several = |chart: &Chart| chart.series.iter().any(|series| series.points.len() > 1);
    charts.into_values().filter(several).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_ratios_and_rounds_in_turn_are_compared_in_pairs() {
        // The machine slows down by half, and the second series is 10 % faster in each round.
        let (old, new) = ([100.0, 80.0, 50.0], [110.0, 88.0, 55.0]);
        let found = difference(&old, &new, true).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((found.percent - 10.0).abs() < 1e-9 && (high - low).abs() < 1e-9, "{found:?}");
        let (low, high) = difference(&old, &new, false).unwrap().interval.unwrap();
        assert!(low < -30.0 && high > 60.0, "{low} to {high}");
        assert_eq!(difference(&[100.0], &[50.0], true).unwrap().interval, None);
        assert_eq!(difference(&[], &[1.0], true), None);
        let back = difference(&new, &old, true).unwrap();
        assert!((back.percent + 100.0 / 11.0).abs() < 1e-9);
    }

    /// Computed by hand: the logarithms of 1, 2 and of 2, 4 have a mean difference of ln 2, and variances of 0.2402 each. With two degrees
    /// of freedom, the quantile is 4.303.
    #[test]
    fn the_interval_of_series_apart_is_that_of_welch() {
        let (low, high) = difference(&[1.0, 2.0], &[2.0, 4.0], false).unwrap().interval.unwrap();
        let half = 4.303 * (0.240_226_5_f64 / 2.0 * 2.0).sqrt();
        assert!((low - ((2.0_f64.ln() - half).exp() - 1.0) * 100.0).abs() < 0.01, "{low}");
        assert!((high - ((2.0_f64.ln() + half).exp() - 1.0) * 100.0).abs() < 2.0, "{high}");
        assert_eq!((student(0.5), student(2.9), student(1e9)), (12.706, 4.303, 1.980));
    }

    #[test]
    fn a_verdict_needs_an_interval_without_zero() {
        let verdicts = [Some((0.1, 2.0)), Some((-2.0, -0.1)), Some((-1.0, 1.0)), None];
        assert_eq!(verdicts.map(verdict), ["higher", "lower", "no difference shown", "not known"]);
    }
}
