//! Latency histograms with fixed bounds. Owns the bounds and the search for a bucket; never formats anything.
//!
//! A duration is rounded up to whole microseconds. A bound is a whole number of microseconds, so `rounded <= bound` holds
//! exactly when the duration is at or under the bound. Microseconds fit 32 bits for 71 minutes. The scan over 32-bit bounds has
//! no branch, so the compiler turns it into a few vector comparisons.

use std::time::Duration;

use kit::clock::nanos;

use crate::count::Counter;

/// Bounds for waits of clients and upstreams: 50 µs to 60 s, a factor of about 2.2 from one to the next.
pub(crate) const WAIT_MICROS: [u32; 19] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Bounds for the gateway's own time: from 1 µs, its order of magnitude, to 1 s, which would be a defect.
pub(crate) const OWN_MICROS: [u32; 16] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 250_000, 1_000_000];

/// Counts of one worker. `BUCKETS` is the number of bounds plus one for everything above the last.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Histogram<const BUCKETS: usize> {
    nanos: Counter,
    buckets: [Counter; BUCKETS],
}

pub(crate) type WaitHistogram = Histogram<{ WAIT_MICROS.len() + 1 }>;
pub(crate) type OwnHistogram = Histogram<{ OWN_MICROS.len() + 1 }>;

/// The sum over the shards of a histogram, for a scrape.
#[derive(Debug, Clone)]
pub(crate) struct Sum<const BUCKETS: usize> {
    pub(crate) nanos: u64,
    pub(crate) buckets: [u64; BUCKETS],
}

impl<const BUCKETS: usize> Default for Histogram<BUCKETS> {
    fn default() -> Self {
        Histogram {
            nanos: Counter::default(),
            buckets: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl<const BUCKETS: usize> Default for Sum<BUCKETS> {
    fn default() -> Self {
        Sum { nanos: 0, buckets: [0; BUCKETS] }
    }
}

impl WaitHistogram {
    pub(crate) fn record(&self, duration: Duration) {
        self.count(duration, &WAIT_MICROS);
    }
}

impl OwnHistogram {
    pub(crate) fn record(&self, duration: Duration) {
        self.count(duration, &OWN_MICROS);
    }
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    fn count<const BOUNDS: usize>(&self, duration: Duration, bounds: &[u32; BOUNDS]) {
        let nanos = nanos(duration);
        self.nanos.add(nanos);
        if let Some(bucket) = self.buckets.get(position(nanos, bounds)) {
            bucket.add(1);
        }
    }

    /// Adds this shard to a sum.
    pub(crate) fn add_to(&self, sum: &mut Sum<BUCKETS>) {
        sum.nanos = sum.nanos.wrapping_add(self.nanos.get());
        // Harmless: both have the same buckets.
        for (total, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *total = total.wrapping_add(bucket.get());
        }
    }
}

impl<const BUCKETS: usize> Sum<BUCKETS> {
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a sum of seconds needs no more than 52 bits of precision"
    )]
    pub(crate) fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

/// The bucket of a wait.
pub(crate) fn wait_bucket(duration: Duration) -> usize {
    position(nanos(duration), &WAIT_MICROS)
}

/// Index of the first bound at or above the duration.
fn position<const BOUNDS: usize>(nanos: u64, bounds: &[u32; BOUNDS]) -> usize {
    let micros = u32::try_from(nanos.div_ceil(1_000)).unwrap_or(u32::MAX);
    bounds.iter().map(|bound| u32::from(micros > *bound)).sum::<u32>() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bound_at_or_above_it() {
        let cases: &[(u64, Option<u32>)] = &[
            (0, Some(50)),
            (50_000, Some(50)),
            (50_001, Some(100)),
            (1_000_000, Some(1_000)),
            (1_000_001, Some(2_500)),
            (60_000_000_000, Some(60_000_000)),
            (60_000_000_001, None),
            (u64::MAX, None),
        ];
        for &(nanos, bound) in cases {
            assert_eq!(
                WAIT_MICROS.get(position(nanos, &WAIT_MICROS)).copied(),
                bound,
                "{nanos} ns"
            );
        }
    }

    #[test]
    fn the_branch_free_scan_agrees_with_a_plain_search() {
        let mut nanos = 1_u64;
        while nanos < 10_u64.pow(12) {
            let plain = OWN_MICROS.iter().position(|b| nanos <= u64::from(*b) * 1_000);
            assert_eq!(
                position(nanos, &OWN_MICROS),
                plain.unwrap_or(OWN_MICROS.len()),
                "{nanos} ns"
            );
            nanos = nanos * 9 / 8 + 1;
        }
    }

    #[test]
    fn bounds_ascend() {
        assert!(WAIT_MICROS.is_sorted() && OWN_MICROS.is_sorted());
    }

    #[test]
    fn a_sum_adds_shards() {
        let (a, b) = (OwnHistogram::default(), OwnHistogram::default());
        a.record(Duration::from_micros(3));
        b.record(Duration::from_micros(4));
        b.record(Duration::from_secs(2));
        let mut sum = Sum::default();
        a.add_to(&mut sum);
        b.add_to(&mut sum);
        assert_eq!((sum.count(), sum.nanos), (3, 2_000_007_000));
        assert_eq!((sum.buckets[2], sum.buckets[16]), (2, 1));
    }
}
