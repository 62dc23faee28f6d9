//! `tidegate explain fault NAME`: prints a section of the runbook.

use std::process::ExitCode;

use crate::{WRONG_USAGE, log};

/// Embedded, so that its text matches the version of the program.
const RUNBOOK: &str = include_str!("../../../../docs/guide/runbook.md");

/// The heading of the part with faults.
const FAULTS: &str = "\n## Faults\n";

pub(crate) fn fault(name: &str) -> anyhow::Result<ExitCode> {
    match paragraph(name) {
        Some(text) => {
            log::write_out(text)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let report = config::Report::new(config::Sources::default());
            let near = report.suggest(name, names());
            let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            log::say_error(&format!("there is no fault `{name}`{meant}"));
            Ok(ExitCode::from(WRONG_USAGE))
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    let faults = RUNBOOK.split_once(FAULTS).map_or("", |(_, faults)| faults);
    // Harmless: a line that is not a heading has no name.
    faults.lines().filter_map(|line| line.strip_prefix("### "))
}

fn paragraph(name: &str) -> Option<&'static str> {
    let (_, faults) = RUNBOOK.split_once(FAULTS)?;
    let mut parts = faults.split("\n### ");
    let part = parts.find(|part| part.lines().next() == Some(name))?;
    Some(part.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_paragraph() {
        for kind in fault::Kind::ALL {
            let text = paragraph(kind.label());
            assert!(text.is_some_and(|text| text.lines().count() > 4), "{}", kind.label());
        }
        assert_eq!(names().count(), fault::Kind::ALL.len());
    }
}
