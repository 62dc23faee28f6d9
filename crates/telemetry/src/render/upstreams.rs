//! The metrics of upstreams and of their targets.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{family, labelled_counter, labelled_gauge};
use crate::names::{Label, Metric};
use crate::snapshot::{Snapshot, UpstreamSum};
use crate::upstream::{TargetHealth, TargetMetrics};

impl Snapshot {
    pub(super) fn upstreams(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
            let mut family = family(encoder, metric)?;
            for upstream in &self.upstreams {
                labelled_gauge(&mut family, [(Label::Upstream, &upstream.name)], read(upstream))?;
            }
        }
        for (metric, read) in counters {
            let mut family = family(encoder, metric)?;
            for upstream in &self.upstreams {
                labelled_counter(&mut family, [(Label::Upstream, &upstream.name)], read(upstream))?;
            }
        }
        Ok(())
    }

    pub(super) fn targets(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut healthy = family(encoder, Metric::TargetHealthy)?;
        for (labels, target) in self.each_target() {
            if let Some(well) = target.health().is_healthy() {
                labelled_gauge(&mut healthy, labels, i64::from(well))?;
            }
        }
        let mut health = family(encoder, Metric::TargetHealth)?;
        for ([upstream, url], target) in self.each_target() {
            let known = target.health();
            for state in TargetHealth::ALL {
                let labels = [upstream, url, (Label::State, state.name())];
                labelled_gauge(&mut health, labels, i64::from(state == known))?;
            }
        }
        let mut ejected = family(encoder, Metric::TargetEjected)?;
        for (labels, target) in self.each_target() {
            labelled_gauge(&mut ejected, labels, i64::from(target.is_ejected()))?;
        }
        let mut ejections = family(encoder, Metric::TargetEjections)?;
        for (labels, target) in self.each_target() {
            labelled_counter(&mut ejections, labels, target.ejections())?;
        }
        let mut suspended = family(encoder, Metric::TargetSuspended)?;
        for (labels, target) in self.each_target() {
            labelled_gauge(&mut suspended, labels, i64::from(target.is_suspended()))?;
        }
        let mut suspensions = family(encoder, Metric::TargetSuspensions)?;
        for (labels, target) in self.each_target() {
            labelled_counter(&mut suspensions, labels, target.suspensions())?;
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
