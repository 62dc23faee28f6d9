//! `summary.csv`: the 83 columns of the reference's `create-summary-csv.sh`, in its order.

use super::results::{Measured, Results};
use super::table::number;
use crate::folder::sar::Kind;

/// The name of the application in the columns.
const APP: &str = "Tidegate";

/// The columns before those of the application.
const REQUEST_COLUMNS: [&str; 23] = [
    "Scenario Name",
    "Heap Size",
    "Concurrent Users",
    "Message Size (Bytes)",
    "Back-end Service Delay (ms)",
    "Label",
    "# Samples",
    "Error Count",
    "Error %",
    "Throughput (Requests/sec)",
    "Average Response Time (ms)",
    "Average Users in the System",
    "Standard Deviation of Response Time (ms)",
    "Minimum Response Time (ms)",
    "Maximum Response Time (ms)",
    "75th Percentile of Response Time (ms)",
    "90th Percentile of Response Time (ms)",
    "95th Percentile of Response Time (ms)",
    "98th Percentile of Response Time (ms)",
    "99th Percentile of Response Time (ms)",
    "99.9th Percentile of Response Time (ms)",
    "Received (KB/sec)",
    "Sent (KB/sec)",
];

/// The columns of sar, in the order of [`Kind::ALL`]. One of the reference's names lacks the closing parenthesis.
const SAR_COLUMNS: [&str; 52] = [
    "Run queue length",
    "Number of tasks",
    "System Load Average - Last 1 minute",
    "System Load Average - Last 5 minutes",
    "System Load Average - Last 15 minutes",
    "Blocked",
    "CPU - User (%)",
    "CPU - Nice (%)",
    "CPU - System (%)",
    "CPU - I/O Wait (%)",
    "CPU - Steal (%)",
    "CPU - Idle (%)",
    "Memory - Free (kB)",
    "Memory - Available (kB)",
    "Memory - Used (kB)",
    "Memory - Used (%)",
    "Memory - Buffers (kB)",
    "Memory - Cached (kB)",
    "Memory - Commit (kB)",
    "Memory - Commit (%)",
    "Memory - Active (kB)",
    "Memory - Inactive (kB)",
    "Memory - Dirty (kB)",
    "Block Device - TPS (transfers/s)",
    "Block Device - Read TPS (kB/s)",
    "Block Device - Write TPS (kB/s)",
    "Block Device - Discard TPS (kB/s)",
    "Block Device - Average Request Size (kB)",
    "Block Device - Average Queue Length",
    "Block Device - Average Time (ms)",
    "Block Device - Utilization (%)",
    "IO - TPS (transfers/s)",
    "IO - Read TPS (requests/s",
    "IO - Write TPS (requests/s)",
    "IO - Discard TPS (requests/s)",
    "IO - Data reads per seconds (blocks/s)",
    "IO - Data writes per seconds (blocks/s)",
    "IO - Data discarded per seconds (blocks/s)",
    "Tasks created per second",
    "Context switches per second",
    "Unused directory cache entries",
    "Number of file handles",
    "Number of inode handlers",
    "Number of pseudo-terminals",
    "Network - Received packets/s",
    "Network - Transmitted packets/s",
    "Network - Received kB/s",
    "Network - Transmitted kB/s",
    "Network - Received compressed packets/s",
    "Network - Transmitted compressed packets/s",
    "Network - Received multicast packets/s",
    "Network - Utilization (%)",
];

/// Names of perf counters without their first hyphen, and their columns.
const PERF_COLUMNS: [(&str, &str); 4] = [
    ("taskclock", "Task clock"),
    ("contextswitches", "Context switches"),
    ("cpumigrations", "CPU Migrations"),
    ("pagefaults", "Page faults"),
];

/// Returns the names of the columns.
#[must_use]
pub fn columns() -> Vec<String> {
    let mut names: Vec<String> = REQUEST_COLUMNS.map(str::to_owned).to_vec();
    names.push(format!("{APP} GC Throughput (%)"));
    names.push(format!("{APP} Memory Footprint (M)"));
    names.push(format!("Average {APP} Memory Footprint After Full GC (M)"));
    names.push(format!("Standard Deviation of {APP} Memory Footprint After Full GC (M)"));
    names.extend(SAR_COLUMNS.map(|name| format!("{APP} - {name}")));
    names.extend(PERF_COLUMNS.map(|(_, name)| format!("{APP} - {name}")));
    names
}

/// Returns the file: a row for each label of each row, with lines that end with CRLF, and without quotes.
#[must_use]
pub fn summary(results: &Results) -> String {
    let mut text = format!("{}\r\n", columns().join(","));
    for row in &results.rows {
        for cells in rows(row) {
            let cells: Vec<String> = cells.iter().map(|cell| bare(cell)).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
    }
    text
}

fn rows(row: &Measured) -> impl Iterator<Item = Vec<String>> {
    row.summary.0.iter().map(|(label, of)| {
        let key = &row.key;
        let mut cells = vec![
            row.title.clone(),
            key.heap.clone(),
            key.users.to_string(),
            key.size.to_string(),
            key.delay.to_string(),
            label.clone(),
            of.samples.to_string(),
            of.errors.to_string(),
            number(of.error_percentage),
            number(of.throughput),
            number(of.mean),
            // The reference truncates the number.
            number(of.users_accounted().map(f64::trunc)),
        ];
        let times = [of.stddev, of.min, of.max, of.p75, of.p90, of.p95, of.p98, of.p99, of.p999];
        cells.extend(times.map(number));
        cells.extend([of.received_kbytes_rate, of.sent_kbytes_rate].map(number));
        let gc = row.gc.as_ref();
        let full = gc.and_then(super::gc::Gc::after_full);
        cells.push(number(gc.map(|gc| gc.throughput_percent)));
        cells.push(number(gc.map(|gc| gc.footprint_mib)));
        cells.push(number(full.map(|(mean, _)| mean)));
        cells.push(number(full.map(|(_, deviation)| deviation)));
        for kind in Kind::ALL {
            let found = row.sar.iter().find(|(one, _)| *one == kind).map(|(_, values)| values);
            let value = |place: usize| found.and_then(|values| *values.get(place)?);
            cells.extend((0..kind.columns().len()).map(|place| number(value(place))));
        }
        let counter = |(name, _)| row.perf.get(name).map_or("N/A".to_owned(), Clone::clone);
        cells.extend(PERF_COLUMNS.map(counter));
        cells
    })
}

/// Removes commas and quotes, because the reference does not quote cells.
fn bare(cell: &str) -> String {
    cell.replace(',', ";").replace(['"', '\r', '\n'], " ")
}
