//! The counters in all metrics.
//!
//! [`Counter`] and [`Gauge`] have a single writer: the worker that owns their shard. `add` is a relaxed load and a relaxed
//! store, so it compiles to an ordinary `add` without the bus lock of `fetch_add` (about 20 cycles each on x86). A second
//! writer would not be unsound, but counts would be lost. [`SharedCounter`] is for the few numbers with several writers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A number that only increases, with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// A number that increases and decreases, with one writer.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

/// A number that several threads write, outside the path of a request.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

/// Keeps the numbers of two workers on different cache lines. The prefetcher of x86 loads pairs of lines, so different
/// workers' numbers are not in one pair either.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Gauge {
    pub fn add(&self, n: i64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn set(&self, n: i64) {
        self.0.store(n, Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

impl SharedCounter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Subtracts `n`, never below zero.
    pub fn subtract(&self, n: u64) {
        self.0.update(Relaxed, Relaxed, |now| now.saturating_sub(n));
    }

    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
