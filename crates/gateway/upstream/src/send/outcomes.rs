//! The effects of outcomes on targets: ejection and suspension.

use fault::Kind;
use kit::clock::Instant;
use message::ReplyHead;

use crate::Upstream;
use crate::settings::Suspend;
use crate::target::Target;

impl Upstream {
    /// Counts an outcome for a target, and ejects the target if it fails too often.
    pub(super) fn record_outcome(&self, target: &Target, good: bool, why: impl Fn() -> String) {
        if good {
            return target.succeeded();
        }
        target.record_failing(&why);
        let Some(outlier) = &self.settings.outlier else { return };
        if target.failed(outlier) && self.may_eject(outlier.max_ejected_percent) {
            if outlier.until_probe {
                target.set_healthy(false);
            } else {
                target.eject(outlier.eject);
            }
            target.explain(format!(
                "{} faults in a row, the last: {}",
                outlier.consecutive_faults,
                why()
            ));
            tracing::warn!(upstream = self.settings.name, target = %target.url(), "target ejected: it keeps failing");
        }
    }

    /// Counts a reply for the suspension of its target.
    pub(super) fn record_reply(&self, target: &Target, head: &ReplyHead, began: Instant) {
        let Some(rule) = &self.settings.suspend else { return };
        if rule.on.have_reply(head) {
            self.record_failure(target, rule, began, || replied(head.status));
        } else if target.record_listed_success(began) {
            tracing::info!(upstream = self.settings.name, target = %target.url(), "target replies again after a suspension");
        }
    }

    /// Counts a failure of a kind that suspends targets.
    pub(super) fn record_failure(
        &self,
        target: &Target,
        rule: &Suspend,
        began: Instant,
        why: impl FnOnce() -> String,
    ) {
        if let Some(length) = target.record_listed_failure(rule, began) {
            target.explain(why());
            tracing::warn!(upstream = self.settings.name, target = %target.url(), "target suspended for {length:?}");
        }
    }

    /// True if as many connections are open, including idle ones, as may be in use.
    pub(crate) fn has_enough_open(&self) -> bool {
        self.metrics.connections_open() >= u64::from(self.settings.breaker.connections)
    }

    fn may_eject(&self, max_percent: u32) -> bool {
        let set = self.set.load();
        let is_out = |target: &Target| target.is_ejected() || !target.passes_checks();
        let ejected = set.members().iter().filter(|member| is_out(&member.target)).count();
        (ejected + 1) * 100 <= set.members().len() * usize::try_from(max_percent).unwrap_or(100)
    }
}

/// Returns the reason, for operators, of a state that a reply has caused.
pub(super) fn replied(status: u16) -> String {
    format!("it replied {status}")
}

/// True for a failure of the target, as opposed to the client or our own limits.
pub(super) fn counts_against(kind: Kind) -> bool {
    let unasked = matches!(
        kind,
        Kind::BreakerOpen | Kind::NoTarget | Kind::Unresolved | Kind::TargetSuspended
    );
    kind.side() == fault::Side::Upstream && !unasked
}
