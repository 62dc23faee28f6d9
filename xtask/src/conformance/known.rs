//! Lists of known failures, for all suites that run in process.
//!
//! Owns the lists below `xtask/known`, one for each suite. A line has the id of a case and the reason. A listed case has to fail and any
//! other has to pass, so a list can only shrink. The suite decides what a case means.

use std::collections::BTreeMap;
use std::fs;

use super::{Outcome, workspace};
use crate::Failure;

/// A scored case that was run.
pub(crate) struct Judged {
    /// The id, which has no white space and is unique in the pack.
    pub(crate) id: String,
    pub(crate) passed: bool,
    /// For the file of failures: the expectation and the result.
    pub(crate) complaint: String,
}

/// Compares the results with the list of the suite. The summary is printed above the last line.
pub(crate) fn close(suite: &str, judged: &[Judged], summary: String) -> Result<Outcome, Failure> {
    let path = workspace().join("xtask/known").join(format!("{suite}.txt"));
    let text = fs::read_to_string(&path)
        .map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))?;
    Ok(compare(&read(&text), judged, summary))
}

fn read(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect()
}

fn compare(known: &BTreeMap<&str, &str>, judged: &[Judged], mut summary: String) -> Outcome {
    let mut complaints = String::new();
    let (mut passed, mut new, mut gone) = (0, Vec::new(), Vec::new());
    for case in judged {
        let reason = known.get(case.id.as_str());
        match (case.passed, reason) {
            (true, None) => passed += 1,
            (true, Some(_)) => {
                passed += 1;
                gone.push(case.id.as_str());
            }
            (false, None) => new.push(case.id.as_str()),
            (false, Some(_)) => {}
        }
        if !case.passed {
            let mark = reason.map_or("new".to_owned(), |reason| format!("known: {reason}"));
            complaints.push_str(&format!("{} ({mark})\n  {}\n", case.id, case.complaint));
        }
    }
    let failing = judged.len() - passed;
    summary.push_str(&format!("{failing} fail, {} of them known", failing - new.len()));
    for (ids, what) in [(&new, "fails and is not listed"), (&gone, "passes and is listed")] {
        for id in ids {
            summary.push_str(&format!("\n{id} {what}"));
        }
    }
    Outcome { summary, complaints, passed, failed: new.len() + gone.len(), scored: judged.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_to_be_exact() {
        let case =
            |id: &str, passed| Judged { id: id.to_owned(), passed, complaint: String::new() };
        let cases = [case("a", true), case("b", false), case("c", true), case("d", false)];
        for (list, failed) in
            [("b why\nd", 0), ("# no\n\nb\n", 1), ("b\nc\nd\n", 1), ("a\nc", 4), ("b\nd\nx", 0)]
        {
            let outcome = compare(&read(list), &cases, String::new());
            assert_eq!((outcome.passed, outcome.scored, outcome.failed), (2, 4, failed), "{list}");
        }
    }
}
