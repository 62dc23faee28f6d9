//! The figures of a load test, and whether they can be trusted.
//!
//! Latencies are kept in an HDR histogram of three significant digits; nothing is averaged before. The measurements of several
//! generators are merged histogram by histogram ([`crate::results`]).

mod chart;
mod claims;
mod compare;
mod documents;
mod forest;
mod gc;
mod graphs;
mod own;
mod page;
mod pages;
mod png;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
#[path = "report/tests.rs"]
mod report_tests;
mod results;
mod summary;
mod table;

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

pub use chart::{Chart, Series};
pub use claims::{Claim, Verdict, claims};
pub use compare::CompareArguments;
pub use documents::tables;
pub use graphs::graphs;
pub use page::{ReportArguments, html, markdown};
pub use results::{Measured, Results};
pub use summary::{columns, summary};
pub use table::Table;

/// A larger deviation between the users and throughput times latency means that something was not measured: users that waited
/// for the generator, or lost requests.
const LITTLE_DEVIATION_MAX: f64 = 0.05;
/// A longer wait for a reply is recorded as this one.
const LATENCY_MAX: Duration = Duration::from_secs(600);
const DIGITS: u8 = 3;

/// Filled while the load runs.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub(crate) latencies: Histogram<u64>,
    pub(crate) latency_sum: Duration,
    pub(crate) think_sum: Duration,
    pub(crate) errors: u64,
}

/// The figures of one scenario.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The time that was counted, without the warm-up.
    pub window: Duration,
    /// The average number of users in the window.
    pub users: f64,
    /// Requests in the window, good or not.
    pub requests: u64,
    /// Replies among them that were wrong, and requests without a reply.
    pub errors: u64,
    /// Latency of all requests, as in load-test documents: failed ones took their time too.
    pub latency: Latency,
    /// The pause between a reply and the same user's next request.
    pub think_mean: Duration,
}

/// The time from the first byte sent to the last byte received.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The fastest.
    pub min: Duration,
    /// The mean of all exact values.
    pub mean: Duration,
    /// Half are faster.
    pub p50: Duration,
    /// 90 % are faster.
    pub p90: Duration,
    /// 95 % are faster.
    pub p95: Duration,
    /// 99 % are faster.
    pub p99: Duration,
    /// 99.9 % are faster.
    pub p999: Duration,
    /// The slowest.
    pub max: Duration,
}

impl Recorder {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// If the histogram cannot be made.
    pub fn new() -> Result<Self, hdrhistogram::CreationError> {
        let latencies = Histogram::new_with_bounds(1, nanoseconds(LATENCY_MAX), DIGITS)?;
        Ok(Self { latencies, latency_sum: Duration::ZERO, think_sum: Duration::ZERO, errors: 0 })
    }

    /// Counts a request: whether its reply was the expected one, its latency, and its user's pause.
    pub fn record(&mut self, good: bool, latency: Duration, think: Duration) {
        self.latencies.saturating_record(nanoseconds(latency));
        self.latency_sum += latency;
        self.think_sum += think;
        self.errors += u64::from(!good);
    }

    /// The figures for a window with this average number of users.
    #[must_use]
    pub fn report(&self, scenario: &str, window: Duration, users: f64) -> Report {
        let at = |part: f64| Duration::from_nanos(self.latencies.value_at_quantile(part));
        let requests = self.latencies.len();
        let mean = |sum: Duration| sum.div_f64(requests.max(1) as f64);
        let latency = Latency {
            min: Duration::from_nanos(self.latencies.min()),
            mean: mean(self.latency_sum),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(self.latencies.max()),
        };
        let (errors, think_mean) = (self.errors, mean(self.think_sum));
        let scenario = scenario.to_owned();
        Report { scenario, window, users, requests, errors, latency, think_mean }
    }
}

impl Report {
    /// Requests per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.requests as f64 / self.window.as_secs_f64()
    }

    /// The number of users by Little's law, N = X (R + Z), from throughput, latency and think time.
    #[must_use]
    pub fn users_accounted(&self) -> f64 {
        let cycle = self.latency.mean + self.think_mean;
        self.throughput() * cycle.as_secs_f64()
    }

    /// This number divided by the real number of users.
    #[must_use]
    pub fn little(&self) -> f64 {
        self.users_accounted() / self.users
    }

    /// Errors in a hundred requests.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        self.errors as f64 * 100.0 / self.requests.max(1) as f64
    }

    /// True if the law holds well enough to trust the figures.
    #[must_use]
    pub fn is_believable(&self) -> bool {
        self.requests > 0 && (self.little() - 1.0).abs() <= LITTLE_DEVIATION_MAX
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { min, mean, p50, p90, p95, p99, p999, max } = self.latency;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(f, "{}: {:.1} users over {:?}", self.scenario, self.users, self.window)?;
        writeln!(
            f,
            "  requests    {} ({:.1}/s), {} errors",
            self.requests,
            self.throughput(),
            self.errors
        )?;
        writeln!(f, "  latency ms  min {:.3}  mean {:.3}  max {:.3}", ms(min), ms(mean), ms(max))?;
        writeln!(
            f,
            "              p50 {:.3}  p90 {:.3}  p95 {:.3}  p99 {:.3}  p99.9 {:.3}",
            ms(p50),
            ms(p90),
            ms(p95),
            ms(p99),
            ms(p999)
        )?;
        let verdict = if self.is_believable() { "holds" } else { "DOES NOT HOLD" };
        writeln!(f, "  Little      X (R + Z) / N = {:.3}, {verdict}", self.little())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_of(users: f64) -> Report {
        let mut recorder = Recorder::new().unwrap();
        for micros in 1..=1000 {
            recorder.record(micros != 7, Duration::from_micros(micros), Duration::from_millis(1));
        }
        recorder.report("test", Duration::from_secs(1), users)
    }

    #[test]
    fn three_digits_are_kept() {
        let latency = report_of(1.0).latency;
        for (kept, micros) in [(latency.p50, 500.0), (latency.p99, 990.0), (latency.max, 1000.0)] {
            let deviation = kept.as_secs_f64() * 1e6 / micros - 1.0;
            assert!(deviation.abs() < 0.001, "{kept:?} for {micros} us");
        }
        assert_eq!(latency.mean, Duration::from_nanos(500_500));
    }

    /// 1000 a second, each taking 0.5 ms and followed by 1 ms: that is one and a half users.
    #[test]
    fn little_tells_a_lost_user() {
        assert!((report_of(1.5005).little() - 1.0).abs() < 1e-9);
        assert!(report_of(1.5).is_believable());
        assert!(!report_of(1.7).is_believable());
        assert!(!report_of(1.3).is_believable());
        assert!(report_of(1.7).to_string().contains("1 errors"));
        assert!(report_of(1.7).to_string().contains("DOES NOT HOLD"));
    }
}
