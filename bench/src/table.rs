//! Results as the table of the load-test documents.

use std::fmt::Write as _;
use std::time::Duration;

use crate::results::Results;

/// The scenario, and the eleven columns of the documents in their order.
const COLUMNS: [&str; 12] = [
    "Scenario Name",
    "Concurrent Users",
    "Message Size (Bytes)",
    "Total requests",
    "Average Response Time (ms)",
    "Throughput (Requests/sec)",
    "Error %",
    "Error Count",
    "Little's law verification",
    "90th Percentile of Response Time (ms)",
    "95th Percentile of Response Time (ms)",
    "99th Percentile of Response Time (ms)",
];

/// A Markdown row for each result; below them the results for which Little's law does not hold.
#[must_use]
pub fn rows(results: &[Results]) -> String {
    let mut text = format!("| {} |\n|", COLUMNS.join(" | "));
    text.push_str(" --- |");
    text.push_str(&" ---: |".repeat(COLUMNS.len() - 1));
    text.push('\n');
    for one in results {
        let report = one.report();
        let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let latency = &report.latency;
        let cells = [
            one.scenario.clone(),
            format!("{}", (report.users * 100.0).round() / 100.0),
            size(one.payload_bytes),
            report.requests.to_string(),
            ms(latency.mean),
            format!("{:.2}", report.throughput()),
            format!("{:.2}", report.error_percent()),
            report.errors.to_string(),
            format!("{:.2}", report.users_accounted()),
            ms(latency.p90),
            ms(latency.p95),
            ms(latency.p99),
        ];
        // Writing to a String does not fail.
        let _always_ok = writeln!(text, "| {} |", cells.join(" | ").replace('\n', " "));
    }
    text
}

/// The doubts about these results, one a line.
#[must_use]
pub fn doubts(results: &[Results]) -> String {
    let mut text = String::new();
    for report in results.iter().map(Results::report).filter(|report| !report.is_believable()) {
        let (accounted, users) = (report.users_accounted(), report.users);
        let name = &report.scenario;
        let _always_ok =
            writeln!(text, "{name}: Little's law accounts for {accounted:.1} of {users:.1} users");
    }
    text
}

/// A size as the documents write it: 50B, 1KiB.
fn size(bytes: usize) -> String {
    match bytes {
        0 => "0B".to_owned(),
        _ if bytes.is_multiple_of(1024) => format!("{}KiB", bytes / 1024),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Recorder;

    fn results(users: f64) -> Results {
        let mut recorder = Recorder::new().unwrap();
        for n in 0..600_u32 {
            recorder.record(n % 100 != 0, Duration::from_millis(100), Duration::ZERO);
        }
        let (from, to) = (Duration::from_secs(300), Duration::from_secs(360));
        Results { scenario: "plain".to_owned(), users, payload_bytes: 50, from, to, recorder }
    }

    #[test]
    fn the_columns_are_those_of_the_documents() {
        let table = rows(&[results(1.0)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "| Scenario Name | Concurrent Users | Message Size (Bytes) | Total requests | Average Response Time (ms) | Throughput (Requests/sec) | Error % | Error Count | Little's law verification | 90th Percentile of Response Time (ms) | 95th Percentile of Response Time (ms) | 99th Percentile of Response Time (ms) |"
        );
        assert_eq!(lines[1].matches("---").count(), 12);
        let row = lines[2];
        assert!(
            row.starts_with("| plain | 1 | 50B | 600 | 100.00 | 10.00 | 1.00 | 6 | 1.00 | "),
            "{row}"
        );
        assert_eq!(row.matches(" | ").count(), 11);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_result_without_its_users_is_doubted() {
        assert_eq!(doubts(&[results(1.0), results(1.04)]), "");
        let told = doubts(&[results(1.0), results(2.0)]);
        assert_eq!(told, "plain: Little's law accounts for 1.0 of 2.0 users\n");
    }
}
