//! The 95th percentile of the gateway's own latency: computed from its buckets, and as Kong's coarser buckets would show it.

use crate::folder::OwnLatency;

/// The bounds of `kong_kong_latency_ms`, in milliseconds.
const KONG_BOUNDS_MS: [f64; 17] = [
    1.0, 2.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0, 500.0, 750.0, 1000.0,
    3000.0, 6000.0,
];

/// Returns a quantile in milliseconds, computed from the gateway's buckets. Returns `None` without requests, or beyond the last bound.
#[must_use]
pub(super) fn quantile_ms(own: &OwnLatency, part: f64) -> Option<f64> {
    histogram_quantile(&bounded(own), total(own), part)
}

/// Returns the result of `histogram_quantile` if the same requests are counted in Kong's buckets. Counts between our bounds are
/// interpolated.
#[must_use]
pub(super) fn as_kong_ms(own: &OwnLatency, part: f64) -> Option<f64> {
    let ours = bounded(own);
    let counts = KONG_BOUNDS_MS.map(|bound| (bound, at_most(&ours, bound, total(own))));
    histogram_quantile(&counts, total(own), part)
}

fn total(own: &OwnLatency) -> f64 {
    own.buckets.last().map_or(0.0, |(_, count)| *count as f64)
}

fn bounded(own: &OwnLatency) -> Vec<(f64, f64)> {
    let bounded =
        own.buckets.iter().map(|(bound, count)| Some((bound.as_ref()? * 1e3, *count as f64)));
    // Harmless: the bucket without a bound is the total.
    bounded.flatten().collect()
}

/// Returns how many requests took at most this long.
fn at_most(buckets: &[(f64, f64)], bound: f64, total: f64) -> f64 {
    let (mut low, mut below) = (0.0, 0.0);
    for (high, count) in buckets {
        if *high >= bound {
            return below + (count - below) * (bound - low) / (high - low);
        }
        (low, below) = (*high, *count);
    }
    total
}

/// Computes a quantile as Prometheus does: linear within a bucket, and from 0 in the first one.
fn histogram_quantile(buckets: &[(f64, f64)], total: f64, part: f64) -> Option<f64> {
    let rank = part * total;
    let (mut low, mut below) = (0.0, 0.0);
    for (high, count) in buckets {
        if *count >= rank && *count > below {
            return Some(low + (high - low) * (rank - below) / (count - below));
        }
        (low, below) = (*high, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests take at most 0.1 ms. The true value is at most 0.1 ms, but Kong always shows 0.95 ms.
    #[test]
    fn coarse_buckets_show_the_part_and_not_the_latency() {
        let fast = OwnLatency {
            buckets: vec![(Some(0.00005), 0), (Some(0.0001), 1000), (None, 1000)],
            sum_seconds: 0.08,
        };
        assert!((quantile_ms(&fast, 0.95).unwrap() - 0.0975).abs() < 1e-9);
        assert!((as_kong_ms(&fast, 0.95).unwrap() - 0.95).abs() < 1e-9);
        let slow = OwnLatency {
            buckets: vec![(Some(0.001), 500), (Some(0.002), 1000), (None, 1000)],
            sum_seconds: 1.0,
        };
        assert!((as_kong_ms(&slow, 0.95).unwrap() - 1.9).abs() < 1e-9);
        let over = OwnLatency { buckets: vec![(Some(0.001), 1), (None, 100)], sum_seconds: 9.0 };
        assert_eq!(quantile_ms(&over, 0.95), None);
        assert_eq!(as_kong_ms(&OwnLatency::default(), 0.95), None);
    }
}
