//! The metrics of queues.

use std::fmt;

use crate::names::{Label, Metric};
use crate::queue::QueueSum;
use crate::scrape::Scrape;
use crate::snapshot::Snapshot;

impl Snapshot {
    pub(super) fn queues(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut stored = scrape.family(Metric::QueueStored)?;
        for sum in &self.queues {
            stored.sample([(Label::Queue, &*sum.name)], sum.stored)?;
        }
        let mut runs = scrape.family(Metric::QueueRuns)?;
        for sum in &self.queues {
            for (outcome, count) in sum.runs {
                let labels = [(Label::Queue, &*sum.name), (Label::Outcome, outcome)];
                runs.sample(labels, count)?;
            }
        }
        let mut depth = scrape.family(Metric::QueueDepth)?;
        for sum in &self.queues {
            let messages = i64::try_from(sum.depth).unwrap_or(i64::MAX);
            depth.sample([(Label::Queue, &sum.name)], messages)?;
        }
        let mut age = scrape.family(Metric::QueueAge)?;
        for sum in &self.queues {
            let seconds = i64::try_from(sum.age).unwrap_or(i64::MAX);
            age.sample([(Label::Queue, &sum.name)], seconds)?;
        }
        self.dead_messages(scrape)
    }

    fn dead_messages(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        type Of = fn(&QueueSum) -> u64;
        let gauges: [(Metric, Of); 3] = [
            (Metric::QueueDead, |sum| sum.dead),
            (Metric::QueueDeadBytes, |sum| sum.dead_bytes),
            (Metric::QueueDeadAge, |sum| sum.dead_age),
        ];
        for (metric, of) in gauges {
            let mut gauge = scrape.family(metric)?;
            for sum in &self.queues {
                let value = i64::try_from(of(sum)).unwrap_or(i64::MAX);
                gauge.sample([(Label::Queue, &sum.name)], value)?;
            }
        }
        let mut removed = scrape.family(Metric::QueueDeadRemoved)?;
        for sum in &self.queues {
            removed.sample([(Label::Queue, &*sum.name)], sum.dead_removed)?;
        }
        Ok(())
    }
}
