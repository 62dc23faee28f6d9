//! `row.json` and `test_duration.json`: what a row is, and whether its figures can be trusted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::metadata::text;
use super::summary::{Statistics, Summary};
use crate::generator::Streams;

/// The documents, by their numbers.
pub const DOCUMENTS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// One row. The keys after `streams` are left out when they were not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `000` to `004`, or another text if the scenario belongs to no document.
    pub document: String,
    /// Its name.
    pub scenario: String,
    /// Users or connections.
    pub users: u32,
    /// Bytes of a message.
    pub size: u32,
    /// The delay of the backend in milliseconds, or -1 without one.
    pub delay: i64,
    /// From the end of the warm-up to the last sample.
    pub measured_seconds: f64,
    /// Reasons to doubt the figures, or the reason why the row ended early.
    pub marks: Vec<Mark>,
    /// Latencies as users would have seen them who do not wait for earlier replies. `None` without requests.
    pub corrected: Option<Corrected>,
    /// Counts of streams. `None` for requests.
    pub streams: Option<Streams>,
    /// The average number of users during the measurement, if it differs from `users`. In document 001 the ramp is part of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users_mean: Option<f64>,
    /// The share of the users that each label has, if there are several labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub label_users: Vec<(String, f64)>,
    /// The statistics of all labels together, if there are several labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_labels: Option<Statistics>,
    /// The pause of a user between a reply and the next request, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think_ms: f64,
    /// Seconds from the first user to all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_seconds: Option<f64>,
    /// Messages or events that each connection sends or gets in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_per_second: Option<f64>,
    /// The gateway's own part of the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_latency: Option<OwnLatency>,
    /// Bytes that the generator received and sent in the whole run, with the warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// See `received_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Requests in a second over the whole run with its ramp, as document 001 counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_throughput: Option<f64>,
    /// Workers of our gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// When the gateway was started, in seconds since 1970. Each row has a new process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_started: Option<u64>,
    /// What the gateway still used after the load. `None` if it was not sampled then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// What the gateway used during the measurement. `None` if load servers sent the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Maximum relative difference between the number of users by Little's law and the actual number. A row with a larger one is marked.
const LITTLE_DEVIATION_MAX: f64 = 0.05;
/// Half of the last digit of a mean in milliseconds, in seconds.
const MEAN_ROUNDED: f64 = 0.000_005;

impl Row {
    /// Returns true if a mark says that the row did not run to its end, or that its figures are not whole.
    #[must_use]
    pub fn ended_early(&self) -> bool {
        self.marks.iter().any(|mark| mark.is_failure())
    }

    /// Returns true if the number of users by Little's law, which is throughput x (mean + pause) in the figures of the tables, differs by
    /// more than 5 % from the actual number, for all users or for those of a label: users waited for the generator, requests were lost,
    /// or the measurement is so short that the last replies, during which fewer and fewer users are left, are a part of it.
    #[must_use]
    pub fn deviates_from_little(&self, summary: &Summary) -> bool {
        let off = |labels: &mut dyn Iterator<Item = &Statistics>, users: f64| {
            let (mut accounted, mut rounded) = (0.0, 0.0);
            for of in labels {
                let throughput = of.throughput.unwrap_or(0.0);
                accounted += of.users_accounted().unwrap_or(0.0) + throughput * self.think_ms / 1e3;
                rounded += throughput * MEAN_ROUNDED;
            }
            users > 0.0 && (accounted - users).abs() > users * LITTLE_DEVIATION_MAX + rounded
        };
        let users = self.users_mean.unwrap_or(f64::from(self.users));
        let of_label =
            |(label, users): &(String, f64)| off(&mut summary.label(label).into_iter(), *users);
        off(&mut summary.0.iter().map(|(_, of)| of), users) || self.label_users.iter().any(of_label)
    }
}

/// What the gateway used from the end of the warm-up to the end of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of all its threads in microseconds, by the scheduler's count.
    pub cpu_us: f64,
    /// Requests, events, messages or deliveries in that time.
    pub requests: u64,
    /// Resident memory before the load, or with the first hundredth of the users.
    pub idle_rss_kib: u64,
    /// Resident memory at the end of the load.
    pub rss_kib: u64,
    /// The largest resident memory among all samples, of which there are ten per second.
    pub rss_kib_max: u64,
}

impl Cost {
    /// Returns the CPU time for each request in microseconds, or `None` without requests.
    #[must_use]
    pub fn cpu_us_each(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.cpu_us / self.requests as f64)
    }
}

/// What the gateway used before a load, and some seconds after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// From the end of the load to the last sample.
    pub seconds: u64,
    /// CPU before the load, in percent of one CPU.
    pub idle_cpu_percent: f64,
    /// CPU in the last second.
    pub cpu_percent: f64,
    /// Open descriptors before the load.
    pub idle_fds: u64,
    /// Open descriptors in the last second.
    pub fds: u64,
}

/// A reason to doubt a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mark {
    /// The number of users by Little's law differs by more than 5 % from the actual number.
    #[serde(rename = "little")]
    Little,
    /// The generator had no CPU time left.
    #[serde(rename = "generator")]
    Generator,
    /// The backend had no CPU time left.
    #[serde(rename = "backend")]
    Backend,
    /// The backend ended during the row.
    #[serde(rename = "backend stopped")]
    BackendStopped,
    /// The gateway ended during the row.
    #[serde(rename = "gateway stopped")]
    GatewayStopped,
    /// A load server was lost.
    #[serde(rename = "agent lost")]
    AgentLost,
    /// A file could not be written.
    #[serde(rename = "disk full")]
    DiskFull,
    /// The time of day was changed.
    #[serde(rename = "clock jumped")]
    ClockJumped,
}

/// Latencies in milliseconds, corrected for coordinated omission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub struct Corrected {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// The gateway's own part of the latency of requests during the measurement, from its metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnLatency {
    /// Upper bounds in seconds, ascending, each with the number of requests that took at most that long. The last bound is `null`, and its
    /// number is that of all requests.
    pub buckets: Vec<(Option<f64>, u64)>,
    /// The sum of all latencies in seconds.
    pub sum_seconds: f64,
}

/// `test_duration.json`: seconds since 1970, as texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowDuration {
    /// When the first user began.
    #[serde(with = "text")]
    pub start_timestamp: u64,
    /// When the last reply ended.
    #[serde(with = "text")]
    pub end_timestamp: u64,
    /// The time from the start to the end.
    #[serde(with = "text")]
    pub test_duration: u64,
}

impl Mark {
    /// The name in `row.json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mark::Little => "little",
            Mark::Generator => "generator",
            Mark::Backend => "backend",
            Mark::BackendStopped => "backend stopped",
            Mark::GatewayStopped => "gateway stopped",
            Mark::AgentLost => "agent lost",
            Mark::DiskFull => "disk full",
            Mark::ClockJumped => "clock jumped",
        }
    }

    /// True if the row did not run to its end.
    #[must_use]
    pub fn is_failure(self) -> bool {
        !matches!(self, Mark::Little | Mark::Generator | Mark::Backend)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
