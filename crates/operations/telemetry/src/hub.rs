//! Metrics of one topic of a hub: its events and their deliveries.

use crate::count::{Gauge, SharedCounter};
use crate::operation::BETWEEN;
use crate::shards::Shards;

/// Counts of one topic. Several workers may write them.
#[derive(Debug)]
pub struct TopicMetrics {
    published: SharedCounter,
    outcomes: [SharedCounter; DeliveryOutcome::ALL.len()],
    /// One gauge for each worker, since workers have different subscriptions.
    lag: Shards<Gauge>,
}

/// The outcome of an attempt to deliver an event to a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The subscriber has accepted it.
    Success,
    /// It will be retried.
    Failure,
    /// It failed for the last time.
    Dead,
    /// It exceeded the limits of the hub, and was not sent.
    Limited,
    /// It was dropped from the log before it could be sent.
    Expired,
}

impl DeliveryOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [DeliveryOutcome; 5] = [
        DeliveryOutcome::Success,
        DeliveryOutcome::Failure,
        DeliveryOutcome::Dead,
        DeliveryOutcome::Limited,
        DeliveryOutcome::Expired,
    ];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            DeliveryOutcome::Success => "success",
            DeliveryOutcome::Failure => "failure",
            DeliveryOutcome::Dead => "dead",
            DeliveryOutcome::Limited => "limited",
            DeliveryOutcome::Expired => "expired",
        }
    }
}

/// The values of [`TopicMetrics`] at a scrape.
#[derive(Debug)]
pub(crate) struct TopicSum {
    pub(crate) hub: Box<str>,
    pub(crate) topic: Box<str>,
    pub(crate) published: u64,
    pub(crate) outcomes: [(&'static str, u64); DeliveryOutcome::ALL.len()],
    pub(crate) lag: i64,
}

impl TopicMetrics {
    pub(crate) fn new(workers: usize) -> Self {
        TopicMetrics {
            published: SharedCounter::default(),
            outcomes: Default::default(),
            lag: Shards::new(workers),
        }
    }

    /// Counts an event that was published.
    pub fn published(&self) {
        self.published.add(1);
    }

    /// Counts an attempt to deliver an event.
    pub fn delivered(&self, outcome: DeliveryOutcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.add(1);
        }
    }

    /// Sets the number of events that a worker's slowest subscription has not received yet.
    pub fn set_lag(&self, worker: usize, events: u64) {
        self.lag.of(worker).set(i64::try_from(events).unwrap_or(i64::MAX));
    }

    pub(crate) fn sum(&self, name: &str) -> Option<TopicSum> {
        let (hub, topic) = name.split_once(BETWEEN)?;
        let count = |outcome: DeliveryOutcome| {
            let count = self.outcomes.get(outcome as usize);
            (outcome.label(), count.map_or(0, SharedCounter::get))
        };
        Some(TopicSum {
            hub: hub.into(),
            topic: topic.into(),
            published: self.published.get(),
            outcomes: DeliveryOutcome::ALL.map(count),
            // Harmless: without a worker no lag exists.
            lag: self.lag.all().map(Gauge::get).max().unwrap_or_default(),
        })
    }
}
