//! Metrics of one flow, or of one of its steps: runs, faults, and where the time went.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kit::clock::micros;

use crate::count::Counter;
use crate::operation::BETWEEN;
use crate::reason::{REASONS_MAX, Reasons};
use crate::shards::Shards;

/// Counts of one flow or step.
#[derive(Debug)]
pub struct FlowMetrics {
    shards: Shards<FlowShard>,
    reasons: Arc<Reasons>,
}

/// One worker's counts.
#[derive(Debug, Default)]
#[repr(align(64))]
struct FlowShard {
    runs: Counter,
    own_micros: Counter,
    call_micros: Counter,
    /// The number of dropped copies.
    dropped: Counter,
    /// Created with the first fault.
    faults: OnceLock<Box<Faults>>,
    /// Faults of branches, whether or not their step failed. Created with the first one.
    branch_faults: OnceLock<Box<Faults>>,
}

/// Counts by reason.
type Faults = [Counter; REASONS_MAX];

/// The values of [`FlowMetrics`] at a scrape.
#[derive(Debug)]
pub(crate) struct FlowSum {
    pub(crate) flow: Box<str>,
    /// None for the flow as a whole.
    pub(crate) step: Option<Box<str>>,
    pub(crate) runs: u64,
    pub(crate) own_micros: u64,
    pub(crate) call_micros: u64,
    pub(crate) dropped: u64,
    pub(crate) faults: Vec<(&'static str, u64)>,
    pub(crate) branch_faults: Vec<(&'static str, u64)>,
}

/// The counts of a flow or a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowNumbers {
    pub runs: u64,
    /// The time of its own work.
    pub own: Duration,
    /// The time in calls of upstreams.
    pub in_calls: Duration,
    /// Counts by reason, without zeros.
    pub faults: Vec<(&'static str, u64)>,
}

impl FlowMetrics {
    pub(crate) fn new(workers: usize, reasons: Arc<Reasons>) -> Self {
        FlowMetrics { shards: Shards::new(workers), reasons }
    }

    /// Counts one run on the worker that ran it: the time of its own work, the time in calls of upstreams, and the label of its
    /// fault.
    pub fn record(
        &self,
        worker: usize,
        own: Duration,
        in_calls: Duration,
        fault: Option<&'static str>,
    ) {
        let shard = self.shards.of(worker);
        shard.runs.add(1);
        shard.own_micros.add(micros(own));
        shard.call_micros.add(micros(in_calls));
        if let Some(label) = fault {
            self.add(&shard.faults, label);
        }
    }

    /// Counts a fault of separate work, such as a copy.
    pub fn fault(&self, worker: usize, label: &'static str) {
        self.add(&self.shards.of(worker).faults, label);
    }

    /// Counts a branch that failed.
    pub fn branch_fault(&self, worker: usize, label: &'static str) {
        self.add(&self.shards.of(worker).branch_faults, label);
    }

    /// Counts a dropped copy.
    pub fn dropped(&self, worker: usize) {
        self.shards.of(worker).dropped.add(1);
    }

    fn add(&self, faults: &OnceLock<Box<Faults>>, label: &'static str) {
        let faults = faults.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
        if let Some(counter) = faults.get(self.reasons.index(label)) {
            counter.add(1);
        }
    }

    /// The counts so far.
    pub fn numbers(&self) -> FlowNumbers {
        let sum = self.sum("");
        let of =
            |micros: fn(&FlowSum) -> u64| Duration::from_micros(sum.as_ref().map_or(0, micros));
        FlowNumbers {
            runs: sum.as_ref().map_or(0, |sum| sum.runs),
            own: of(|sum| sum.own_micros),
            in_calls: of(|sum| sum.call_micros),
            faults: sum.as_ref().map_or_else(Vec::new, |sum| sum.faults.clone()),
        }
    }

    pub(crate) fn sum(&self, name: &str) -> Option<FlowSum> {
        self.shards.all().next()?;
        let (flow, step) = match name.split_once(BETWEEN) {
            Some((flow, step)) => (flow, Some(step.into())),
            None => (name, None),
        };
        let of = |counter: fn(&FlowShard) -> &Counter| {
            self.shards.all().map(|shard| counter(shard).get()).sum::<u64>()
        };
        let by_reason = |faults: fn(&FlowShard) -> Option<&Box<Faults>>| {
            let sums = (0..REASONS_MAX).map(|index| {
                // Harmless: a shard without faults counts none.
                let counters = self.shards.all().filter_map(|shard| faults(shard)?.get(index));
                (self.reasons.label(index), counters.map(Counter::get).sum::<u64>())
            });
            sums.filter(|(_, count)| *count > 0).collect()
        };
        Some(FlowSum {
            flow: flow.into(),
            step,
            runs: of(|shard| &shard.runs),
            own_micros: of(|shard| &shard.own_micros),
            call_micros: of(|shard| &shard.call_micros),
            dropped: of(|shard| &shard.dropped),
            faults: by_reason(|shard| shard.faults.get()),
            branch_faults: by_reason(|shard| shard.branch_faults.get()),
        })
    }
}
