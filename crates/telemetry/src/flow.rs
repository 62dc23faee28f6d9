//! Metrics of one flow, or of one of its steps: runs, faults, and where the time went.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
    /// Made with the first fault.
    faults: OnceLock<Box<[Counter; REASONS_MAX]>>,
}

/// The values of [`FlowMetrics`] at a scrape.
#[derive(Debug)]
pub(crate) struct FlowSum {
    pub(crate) flow: Box<str>,
    /// None: of the flow as a whole.
    pub(crate) step: Option<Box<str>>,
    pub(crate) runs: u64,
    pub(crate) own_micros: u64,
    pub(crate) call_micros: u64,
    pub(crate) faults: Vec<(&'static str, u64)>,
}

impl FlowMetrics {
    pub(crate) fn new(workers: usize, reasons: Arc<Reasons>) -> Self {
        FlowMetrics { shards: Shards::new(workers), reasons }
    }

    /// Counts one run, on the worker that ran it: the time that its own work took, the time in calls of upstreams, and the label
    /// of the fault that it ended in.
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
            let faults =
                shard.faults.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
            if let Some(counter) = faults.get(self.reasons.index(label)) {
                counter.add(1);
            }
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
        let faults = (0..REASONS_MAX).map(|index| {
            let counters = self.shards.all().filter_map(|shard| shard.faults.get()?.get(index));
            (self.reasons.label(index), counters.map(Counter::get).sum::<u64>())
        });
        Some(FlowSum {
            flow: flow.into(),
            step,
            runs: of(|shard| &shard.runs),
            own_micros: of(|shard| &shard.own_micros),
            call_micros: of(|shard| &shard.call_micros),
            faults: faults.filter(|(_, count)| *count > 0).collect(),
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
