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

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> TakenPart {
        TakenPart { text: String::new(), is_json: true, around: None, head: None }
    }

    #[test]
    fn each_branch_without_a_result_has_one_fault() {
        let results = [Some(part()), None, None, Some(part())];
        let mut failed = vec![(2, Fault::new(Kind::UpstreamReset, "reset"))];
        add_late(&results, Duration::from_secs(3), &mut failed);
        let found: Vec<_> = failed.iter().map(|(at, fault)| (*at, fault.kind)).collect();
        assert_eq!(found, [(2, Kind::UpstreamReset), (1, Kind::GatherTimeout)]);
        assert_eq!(&*failed[1].1.cause, "no result came within 3s");
        add_late(&results, Duration::from_secs(3), &mut failed);
        assert_eq!(failed.len(), 2, "once");
    }

    #[test]
    fn too_few_results_are_the_last_fault_only_if_the_step_keeps_faults() {
        let reset = Fault::new(Kind::UpstreamReset, "reset");
        let failed = [(0, Fault::new(Kind::Template, "first")), (1, reset)];
        assert_eq!(too_few(1, 2, true, &failed).kind, Kind::UpstreamReset);
        assert_eq!(too_few(1, 2, true, &[]).kind, Kind::GatherTimeout);
        let summed = too_few(1, 2, false, &failed);
        assert_eq!(summed.kind, Kind::GatherTimeout);
        assert!(summed.cause.starts_with("1 of 2 results came; the last one failed: "));
        assert!(summed.cause.contains("reset"), "{}", summed.cause);
    }
}
