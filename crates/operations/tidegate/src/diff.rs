//! `tidegate diff`: compares two configurations, or the one in service with a new one, by content or by the results of recorded
//! requests.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use config::{Difference, Report, ShownValue};

use crate::check::{compiled, say_report};
use crate::operations::Access;
use crate::{cases, log, sync};

/// The exit code of an error, as in diff(1), where 1 means a difference.
const CANNOT_COMPARE: u8 = 2;

pub(crate) fn diff(
    files: &[PathBuf],
    admin: Option<&str>,
    access: &Access,
) -> anyhow::Result<ExitCode> {
    let found = match (admin, files) {
        (None, [old, new]) => between(old, new),
        (Some(url), [new]) => sync::compare(url, access, new)
            .map(|compared| compared.differences)
            .map_err(sync::SyncFailure::into_error),
        (None, _) => Err(anyhow!("name two configurations, or --admin URL and one")),
        (Some(_), _) => Err(anyhow!("with --admin URL name one configuration, the new one")),
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            let why = format!("{why:#}");
            log::say_error(why.trim_end());
            return Ok(ExitCode::from(CANNOT_COMPARE));
        }
    };
    if found.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(why) = log::write_out(&compile::explain_differences(&found)) {
        log::say_error(&format!("{why:#}"));
        return Ok(ExitCode::from(CANNOT_COMPARE));
    }
    Ok(ExitCode::FAILURE)
}

/// Compares by the results of the requests in a file.
pub(crate) fn replay(files: &[PathBuf], file: &Path) -> ExitCode {
    let changed = match files {
        [old, new] => replayed(old, new, file),
        _ => Err(anyhow!("name two configurations")),
    };
    match changed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(why) => {
            log::say_error(format!("{why:#}").trim_end());
            ExitCode::from(CANNOT_COMPARE)
        }
    }
}

fn replayed(old: &Path, new: &Path, file: &Path) -> anyhow::Result<bool> {
    let (_, old) = compiled(old).map_err(|report| wrong(&report))?;
    let (_, new) = compiled(new).map_err(|report| wrong(&report))?;
    cases::replay(&old, &new, file)
}

/// The old configuration has to be readable, and the new one has to be valid.
fn between(old: &Path, new: &Path) -> anyhow::Result<Vec<Difference>> {
    let old = config::load(old);
    if old.report.has_errors() {
        return Err(wrong(&old.report));
    }
    let (new_compiled, new) = compiled(new).map_err(|report| wrong(&report))?;
    say_report(&new_compiled.warnings);
    Ok(config::differences(&old, &new, ShownValue::Operator))
}

fn wrong(report: &Report) -> anyhow::Error {
    anyhow!("{report:#}")
}
