//! The faults of branches without a result.

use std::time::Duration;

use fault::{Fault, Kind};

use super::TakenPart;

/// Adds a timeout fault for each branch that has neither a result nor a fault.
pub(super) fn add_late(
    results: &[Option<TakenPart>],
    limit: Duration,
    failed: &mut Vec<(usize, Fault)>,
) {
    let is_open = |at: usize| failed.iter().all(|(of, _)| *of != at);
    let open = results.iter().enumerate().filter(|(at, result)| result.is_none() && is_open(*at));
    let open: Vec<usize> = open.map(|(at, _)| at).collect();
    failed.extend(open.into_iter().map(|at| (at, late(limit))));
}

fn late(limit: Duration) -> Fault {
    Fault::new(Kind::GatherTimeout, format!("no result came within {limit:?}"))
}

/// Returns the fault for too few results. With `keep`, it is the last fault of a branch, if there is one.
pub(super) fn too_few(good: usize, needed: usize, keep: bool, failed: &[(usize, Fault)]) -> Fault {
    let last = failed.last().map(|(_, fault)| fault);
    if let Some(last) = last.filter(|_| keep) {
        return last.clone();
    }
    let why = last.map_or_else(String::new, |fault| format!("; the last one failed: {fault}"));
    Fault::new(Kind::GatherTimeout, format!("{good} of {needed} results came{why}"))
}
