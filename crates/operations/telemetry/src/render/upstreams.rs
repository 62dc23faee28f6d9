//! The metrics of upstreams and of their targets.

use std::fmt;

use crate::names::{Label, Metric};
use crate::scrape::Scrape;
use crate::snapshot::{Snapshot, UpstreamSum};
use crate::upstream::{TargetHealth, TargetMetrics};

impl Snapshot {
    pub(super) fn upstreams(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        type Gauge = (Metric, fn(&UpstreamSum) -> i64);
        type Counter = (Metric, fn(&UpstreamSum) -> u64);
        let gauges: [Gauge; 5] = [
            (Metric::UpstreamOpen, |upstream| upstream.connections_open),
            (Metric::UpstreamIdle, |upstream| upstream.connections_idle),
            (Metric::UpstreamActive, |upstream| upstream.requests_active),
            (Metric::UpstreamPending, |upstream| upstream.requests_pending),
            (Metric::UpstreamLeftOut, |upstream| upstream.targets_left_out),
        ];
        let counters: [Counter; 5] = [
            (Metric::UpstreamCreated, |upstream| upstream.connections_created),
            (Metric::UpstreamFailed, |upstream| upstream.connections_failed),
            (Metric::UpstreamRetries, |upstream| upstream.retries),
            (Metric::UpstreamRefused, |upstream| upstream.breaker_refused),
            (Metric::UpstreamLookUpsFailed, |upstream| upstream.look_ups_failed),
        ];
        for (metric, read) in gauges {
            let mut family = scrape.family(metric)?;
            for upstream in &self.upstreams {
                family.sample([(Label::Upstream, &upstream.name)], read(upstream))?;
            }
        }
        for (metric, read) in counters {
            let mut family = scrape.family(metric)?;
            for upstream in &self.upstreams {
                family.sample([(Label::Upstream, &upstream.name)], read(upstream))?;
            }
        }
        Ok(())
    }

    pub(super) fn targets(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut healthy = scrape.family(Metric::TargetHealthy)?;
        for (labels, target) in self.each_target() {
            if let Some(well) = target.health().is_healthy() {
                healthy.sample(labels, i64::from(well))?;
            }
        }
        let mut health = scrape.family(Metric::TargetHealth)?;
        for ([upstream, url], target) in self.each_target() {
            let known = target.health();
            for state in TargetHealth::ALL {
                let labels = [upstream, url, (Label::State, state.name())];
                health.sample(labels, i64::from(state == known))?;
            }
        }
        let mut ejected = scrape.family(Metric::TargetEjected)?;
        for (labels, target) in self.each_target() {
            ejected.sample(labels, i64::from(target.is_ejected()))?;
        }
        let mut ejections = scrape.family(Metric::TargetEjections)?;
        for (labels, target) in self.each_target() {
            ejections.sample(labels, target.ejections())?;
        }
        let mut suspended = scrape.family(Metric::TargetSuspended)?;
        for (labels, target) in self.each_target() {
            suspended.sample(labels, i64::from(target.is_suspended()))?;
        }
        let mut suspensions = scrape.family(Metric::TargetSuspensions)?;
        for (labels, target) in self.each_target() {
            suspensions.sample(labels, target.suspensions())?;
        }
        Ok(())
    }

    fn each_target(&self) -> impl Iterator<Item = ([(Label, &str); 2], &TargetMetrics)> {
        self.upstreams.iter().flat_map(|upstream| {
            upstream.targets.iter().map(|(target, metrics)| {
                ([(Label::Upstream, &*upstream.name), (Label::Target, &**target)], &**metrics)
            })
        })
    }
}
