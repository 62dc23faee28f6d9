//! The metrics of queues.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{family, labelled_counter, labelled_gauge};
use crate::names::{Label, Metric};
use crate::queue::QueueSum;
use crate::snapshot::Snapshot;

impl Snapshot {
    pub(super) fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut stored = family(encoder, Metric::QueueStored)?;
        for sum in &self.queues {
            labelled_counter(&mut stored, [(Label::Queue, &*sum.name)], sum.stored)?;
        }
        let mut runs = family(encoder, Metric::QueueRuns)?;
        for sum in &self.queues {
            for (outcome, count) in sum.runs {
                let labels = [(Label::Queue, &*sum.name), (Label::Outcome, outcome)];
                labelled_counter(&mut runs, labels, count)?;
            }
        }
        let mut depth = family(encoder, Metric::QueueDepth)?;
        for sum in &self.queues {
            let messages = i64::try_from(sum.depth).unwrap_or(i64::MAX);
            labelled_gauge(&mut depth, [(Label::Queue, &sum.name)], messages)?;
        }
        let mut age = family(encoder, Metric::QueueAge)?;
        for sum in &self.queues {
            let seconds = i64::try_from(sum.age).unwrap_or(i64::MAX);
            labelled_gauge(&mut age, [(Label::Queue, &sum.name)], seconds)?;
        }
        self.dead_messages(encoder)
    }

    fn dead_messages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&QueueSum) -> u64;
        let gauges: [(Metric, Of); 3] = [
            (Metric::QueueDead, |sum| sum.dead),
            (Metric::QueueDeadBytes, |sum| sum.dead_bytes),
            (Metric::QueueDeadAge, |sum| sum.dead_age),
        ];
        for (metric, of) in gauges {
            let mut gauge = family(encoder, metric)?;
            for sum in &self.queues {
                let value = i64::try_from(of(sum)).unwrap_or(i64::MAX);
                labelled_gauge(&mut gauge, [(Label::Queue, &sum.name)], value)?;
            }
        }
        let mut removed = family(encoder, Metric::QueueDeadRemoved)?;
        for sum in &self.queues {
            labelled_counter(&mut removed, [(Label::Queue, &*sum.name)], sum.dead_removed)?;
        }
        Ok(())
    }
}
