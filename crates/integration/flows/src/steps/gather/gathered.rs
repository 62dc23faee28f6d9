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
