//! Latencies: a histogram of nanoseconds with three digits, and their exact sum.
//!
//! Owns the addition, correction and serialisation of histograms. Percentiles are never averaged.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Latencies of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
}

/// Maximum latency that is recorded: an hour, which is also the longest response time that a load may permit.
pub(super) const LATENCY_MAX: Duration = Duration::from_secs(3600);
/// Number of significant digits. The reference's splitter keeps two.
const DIGITS: u8 = 3;

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { histogram: empty(), sum_ns: 0 }
    }
}

impl Latencies {
    /// Records a latency.
    pub fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(nanoseconds(latency));
        self.sum_ns += latency.as_nanos();
    }

    /// Adds the latencies of another histogram.
    pub fn add(&mut self, other: &Latencies) {
        // Both histograms have the same bounds, so adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok());
        self.sum_ns += other.sum_ns;
    }

    /// Removes all latencies.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
    }

    /// Returns the number of latencies.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Returns the mean of the exact values, or `None` without a value.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let nanoseconds = self.sum_ns.checked_div(u128::from(self.len()))?;
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// The standard deviation.
    #[must_use]
    pub fn stddev(&self) -> Duration {
        Duration::from_secs_f64(self.histogram.stdev() / 1e9)
    }

    /// Returns the smallest value that is not below this share of all latencies, such as 0.99.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(part))
    }

    /// Returns the shortest latency.
    #[must_use]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.histogram.min())
    }

    /// Returns the longest latency.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }

    /// Returns the latencies of users who send at this interval, whether or not the previous reply has arrived. While a user waits for a
    /// slow reply, it does not send the requests that would have been slow too (coordinated omission). This adds them.
    #[must_use]
    pub fn corrected(&self, interval: Duration) -> Latencies {
        let interval_ns = nanoseconds(interval);
        let mut corrected = self.clone();
        if interval_ns == 0 {
            return corrected;
        }
        for value in self.histogram.iter_recorded() {
            let count = value.count_at_value();
            let value = self.histogram.median_equivalent(value.value_iterated_to());
            let mut missing = value.saturating_sub(interval_ns);
            while missing >= interval_ns {
                corrected.histogram.saturating_record_n(missing, count);
                corrected.sum_ns += u128::from(missing) * u128::from(count);
                missing -= interval_ns;
            }
        }
        corrected
    }

    /// The histogram, in nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// The number of latencies for each value of the histogram, in nanoseconds and ascending. It is small, whereas a histogram takes memory for
/// all possible values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts {
    /// Values and their counts.
    pub values: Vec<(u64, u64)>,
}

impl Counts {
    /// Returns the counts of a histogram.
    #[must_use]
    pub fn of(latencies: &Latencies) -> Counts {
        let values = latencies.histogram.iter_recorded();
        let values = values.map(|value| (value.value_iterated_to(), value.count_at_value()));
        Counts { values: values.collect() }
    }

    /// The number of latencies.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.values.iter().map(|(_, count)| count).sum()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Counts) {
        let mut values = BTreeMap::from_iter(std::mem::take(&mut self.values));
        for (value, count) in &other.values {
            *values.entry(*value).or_default() += count;
        }
        self.values = values.into_iter().collect();
    }

    /// The histogram.
    ///
    /// # Errors
    ///
    /// If a value exceeds the longest latency.
    pub fn to_histogram(&self) -> Result<Histogram<u64>, String> {
        let mut histogram = empty();
        for (value, count) in &self.values {
            let recorded = histogram.record_n(*value, *count);
            recorded.map_err(|error| format!("a latency of {value} ns: {error}"))?;
        }
        Ok(histogram)
    }
}

/// The form in which latencies are sent to other machines.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    sum_ns: u64,
    counts: Counts,
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sum_ns = u64::try_from(self.sum_ns).unwrap_or(u64::MAX);
        Sent { sum_ns, counts: Counts::of(self) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latencies, D::Error> {
        let Sent { sum_ns, counts } = Sent::deserialize(deserializer)?;
        let histogram = counts.to_histogram().map_err(D::Error::custom)?;
        Ok(Latencies { histogram, sum_ns: sum_ns.into() })
    }
}

/// Creates an empty histogram. Its bounds are constants, and every test that records a latency checks them.
#[allow(clippy::expect_used, reason = "the bounds are constants and valid")]
fn empty() -> Histogram<u64> {
    bounded().expect("valid bounds")
}

fn bounded() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_bounds(1, nanoseconds(LATENCY_MAX), DIGITS)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(milliseconds: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        milliseconds.into_iter().for_each(|ms| latencies.record(Duration::from_millis(ms)));
        latencies
    }

    fn is_near(time: Duration, ms: f64) -> bool {
        (time.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.002
    }

    /// Of 1 to 100 ms and 901 to 1000 ms the 90th percentile is 980 ms; the mean of both percentiles would be 540 ms.
    #[test]
    fn histograms_are_added_and_percentiles_are_not_averaged() {
        let mut all = of(1..=100);
        all.add(&of(901..=1000));
        assert_eq!(all.len(), 200);
        assert!(is_near(all.quantile(0.9), 980.0) && is_near(all.quantile(0.5), 100.0));
        assert_eq!(all.mean(), Some(Duration::from_micros(500_500)));
        assert_eq!(Latencies::default().mean(), None);
    }

    #[test]
    fn what_is_sent_is_what_was_recorded() {
        let one = of((1..=1000).chain([59_999, 3_600_000]));
        let json = serde_json::to_string(&one).unwrap();
        let read: Latencies = serde_json::from_str(&json).unwrap();
        assert_eq!(read, one);
        assert_eq!((read.min(), read.max(), read.mean()), (one.min(), one.max(), one.mean()));
        for wrong in [
            "{}",
            r#"{"sum_ns":1,"counts":[[1]]}"#,
            r#"{"sum_ns":1,"counts":[[18446744073709551615,1]]}"#,
            r#"{"sum_ns":-1,"counts":[]}"#,
        ] {
            assert!(serde_json::from_str::<Latencies>(wrong).is_err(), "{wrong}");
        }
    }

    /// The example of HdrHistogram: 100 s of replies within 1 ms, then one that takes 100 s.
    #[test]
    fn a_stall_hides_the_requests_that_were_not_sent() {
        let mut stalled = of(std::iter::repeat_n(1, 100_000));
        stalled.record(Duration::from_secs(100));
        assert!(is_near(stalled.quantile(0.99), 1.0));
        let corrected = stalled.corrected(Duration::from_millis(1));
        assert!(is_near(corrected.quantile(0.99), 98_000.0), "{:?}", corrected.quantile(0.99));
        assert!(is_near(corrected.quantile(0.49), 1.0));
        assert_eq!(stalled.corrected(Duration::ZERO), stalled);
    }
}
