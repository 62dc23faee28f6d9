//! The outcome of the branches of a `scatter` or `split`: `$gather` in later steps, a line of the log, and a count.

use fault::Fault;
use policy::Exchange;
use serde_json::{Value as Json, json};
use telemetry::FlowMetrics;

use crate::error_parts::{code, detail};

/// The branches of one gather.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Indices of the branches whose results are in the message. Empty if they are all branches.
    there: Vec<usize>,
    /// The branches that failed, in the order of the branches.
    failed: Vec<(usize, Fault)>,
    total: usize,
}

/// Maximum number of branches that a log line names.
const TOLD_MAX: usize = 10;

/// Maximum number of characters of a fault in a log line.
const TOLD_CHARS_MAX: usize = 200;

impl Gathered {
    pub(super) fn new(
        total: usize,
        there: impl Fn(usize) -> bool,
        mut failed: Vec<(usize, Fault)>,
    ) -> Gathered {
        failed.sort_by_key(|(at, _)| *at);
        let there = if failed.is_empty() && (0..total).all(&there) {
            Vec::new()
        } else {
            (0..total).filter(|at| there(*at)).collect()
        };
        Gathered { there, failed, total }
    }

    /// `$gather.failed`
    pub(crate) fn failed(&self) -> Json {
        let each = self.failed.iter().map(|(at, fault)| {
            let (kind, detail) = (fault.kind.label(), detail(fault));
            json!({ "branch": at + 1, "code": code(fault), "kind": kind, "detail": detail })
        });
        each.collect()
    }

    /// `$gather.branches`: the numbers of the branches whose results are there, in the order of the results.
    pub(crate) fn branches(&self) -> Json {
        if self.there.is_empty() && self.failed.is_empty() {
            (1..=self.total).collect()
        } else {
            self.there.iter().map(|at| at + 1).collect()
        }
    }

    /// Counts the failed branches. If their step did not fail, a line of the log names them.
    pub(super) fn tell(&self, ex: &Exchange, metrics: &FlowMetrics, label: &str, is_kept: bool) {
        for (_, fault) in &self.failed {
            metrics.branch_fault(ex.caller.worker, fault.kind.label());
        }
        if self.failed.is_empty() || !is_kept {
            return;
        }
        // Harmless: the dots at the end tell that there are more.
        let told = self.failed.iter().take(TOLD_MAX).map(|(at, fault)| {
            // Harmless: the beginning of a fault is enough in the log.
            let fault: String = fault.to_string().chars().take(TOLD_CHARS_MAX).collect();
            format!("{} ({})", at + 1, fault.replace(char::is_control, " "))
        });
        let told: Vec<String> = told.collect();
        let more = if self.failed.len() > TOLD_MAX { ", ..." } else { "" };
        tracing::warn!(
            request_id = ex.id.as_str(),
            step = label,
            "{} of {} branches failed: {}{more}",
            self.failed.len(),
            self.total,
            told.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use fault::Kind;

    use super::*;

    #[test]
    fn branches_are_numbered_from_one_in_their_order() {
        let fault = |kind| Fault::new(kind, "cause");
        for (there, failed, branches, numbers) in [
            (&[0, 1, 2][..], &[][..], json!([1, 2, 3]), json!([])),
            (&[0, 2], &[1], json!([1, 3]), json!([2])),
            // A branch that was not waited for has neither a result nor a fault.
            (&[0], &[], json!([1]), json!([])),
            (&[], &[2, 0], json!([]), json!([1, 3])),
        ] {
            let failed = failed.iter().map(|at| (*at, fault(Kind::UpstreamStatus)));
            let gathered = Gathered::new(3, |at| there.contains(&at), failed.collect());
            assert_eq!(gathered.branches(), branches);
            let told = gathered.failed();
            let of = told.as_array().unwrap().iter().map(|one| one["branch"].clone());
            assert_eq!(of.collect::<Json>(), numbers);
        }
    }

    #[test]
    fn a_fault_is_told_with_its_kind_its_number_and_its_detail() {
        let status = Fault::new(Kind::UpstreamStatus, "upstream a replied with status 500");
        let failed = vec![(0, status.with_code(500_000)), (1, Fault::new(Kind::Template, "why"))];
        let gathered = Gathered::new(2, |_| false, failed);
        let expected = json!([
            {
                "branch": 1,
                "code": 500_000,
                "kind": Kind::UpstreamStatus.label(),
                "detail": "upstream a replied with status 500",
            },
            { "branch": 2, "code": 0, "kind": Kind::Template.label(), "detail": "why" },
        ]);
        assert_eq!(gathered.failed(), expected);
    }
}
