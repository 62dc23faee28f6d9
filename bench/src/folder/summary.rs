//! `results-warmup-summary.json` and `results-measurement-summary.json`, with the keys of the reference's splitter.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Map;

/// The label of scenarios that have only one.
pub const LABEL: &str = "HTTP Request";

/// The statistics of each label, in the order of the scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary(pub Vec<(String, Statistics)>);

/// Statistics of one label, rounded to two decimals. Times are in milliseconds. Without samples, the values that would need one are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are the reference's")]
pub struct Statistics {
    pub samples: u64,
    pub errors: u64,
    pub error_percentage: Option<f64>,
    pub throughput: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub mean: Option<f64>,
    pub stddev: Option<f64>,
    pub median: Option<f64>,
    pub p75: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p98: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    #[serde(rename = "receivedKBytesRate")]
    pub received_kbytes_rate: Option<f64>,
    #[serde(rename = "sentKBytesRate")]
    pub sent_kbytes_rate: Option<f64>,
}

/// What statistics are computed from.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'m> {
    /// All samples, good or not, in nanoseconds.
    pub histogram: &'m hdrhistogram::Histogram<u64>,
    /// The mean of the exact values.
    pub mean: Option<Duration>,
    /// Samples that were errors.
    pub errors: u64,
    /// From the start of the first sample to the end of the last one.
    pub window: Duration,
    /// Bytes of replies.
    pub received_bytes: u64,
    /// Bytes of requests.
    pub sent_bytes: u64,
}

impl Statistics {
    /// The statistics of what was measured.
    #[must_use]
    pub fn of(measured: &Measured<'_>) -> Statistics {
        let Measured { histogram, mean, errors, window, received_bytes, sent_bytes } = *measured;
        let samples = histogram.len();
        let some = |value: f64| (samples > 0).then(|| round(value));
        let seconds = window.as_secs_f64();
        let rate = |amount: f64| (samples > 0 && seconds > 0.0).then(|| round(amount / seconds));
        let at = |part: f64| some(histogram.value_at_quantile(part) as f64 / 1e6);
        Statistics {
            samples,
            errors,
            error_percentage: some(errors as f64 * 100.0 / samples.max(1) as f64),
            throughput: rate(samples as f64),
            min: some(histogram.min() as f64 / 1e6),
            max: some(histogram.max() as f64 / 1e6),
            mean: mean.map(|mean| round(mean.as_secs_f64() * 1e3)),
            stddev: some(histogram.stdev() / 1e6),
            median: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            p999: at(0.999),
            received_kbytes_rate: rate(received_bytes as f64 / 1024.0),
            sent_kbytes_rate: rate(sent_bytes as f64 / 1024.0),
        }
    }

    /// The average number of users in the system by Little's law, from the rounded values: throughput x mean.
    #[must_use]
    pub fn users_accounted(&self) -> Option<f64> {
        Some(self.throughput? * self.mean? / 1000.0)
    }
}

impl Summary {
    /// The statistics of one label.
    #[must_use]
    pub fn label(&self, label: &str) -> Option<&Statistics> {
        self.0.iter().find(|(name, _)| name == label).map(|(_, statistics)| statistics)
    }
}

/// Rounds to two decimals, half to even, as the splitter does.
fn round(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

impl Serialize for Summary {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(label, statistics)| (label, statistics)))
    }
}

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Summary, D::Error> {
        let labels = Map::deserialize(from)?;
        let parse = |(label, value)| {
            let statistics = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
            Ok((label, statistics))
        };
        labels.into_iter().map(parse).collect::<Result<_, _>>().map(Summary)
    }
}
