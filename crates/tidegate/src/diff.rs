//! `tidegate diff`: two configurations, or the one in service and a new one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use config::{Difference, Report, ShownValue};
use serde_json::Value;

use crate::check::{compiled, say_report};
use crate::{ask, log};

/// The exit code of an error, as in diff(1): 1 is an answer.
const CANNOT_BE_TOLD: u8 = 2;

/// A gateway compiles the configuration for the answer, stylesheets and schemas included.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(crate) fn diff(files: &[PathBuf], admin: Option<&str>) -> anyhow::Result<ExitCode> {
    let found = match (admin, files) {
        (None, [old, new]) => between(old, new),
        (Some(url), [new]) => against(url, new),
        (None, _) => Err(anyhow!("name two configurations, or --admin URL and one")),
        (Some(_), _) => Err(anyhow!("with --admin URL name one configuration, the new one")),
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            let why = format!("{why:#}");
            log::say_error(why.trim_end());
            return Ok(ExitCode::from(CANNOT_BE_TOLD));
        }
    };
    if found.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(why) = log::write_out(&compile::explain_differences(&found)) {
        log::say_error(&format!("{why:#}"));
        return Ok(ExitCode::from(CANNOT_BE_TOLD));
    }
    Ok(ExitCode::FAILURE)
}

/// The old one has to be readable, the new one has to be good.
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

fn against(url: &str, new: &Path) -> anyhow::Result<Vec<Difference>> {
    let text = std::fs::read_to_string(new)
        .map_err(|error| anyhow!("cannot read `{}`: {}", new.display(), config::reason(&error)))?;
    let answer = ask::ask(url, "POST /config/diff", &text, ANSWER_MAX);
    let (status, body) = answer.with_context(|| ask::cannot_ask(url))?;
    let answer: Value = serde_json::from_str(&body)
        .with_context(|| format!("{url} answers {status}, and not as an admin API does"))?;
    if status != 200 {
        bail!("{}", refusal(&answer));
    }
    let told = answer.get("differences").and_then(Value::as_array);
    let told = told.with_context(|| format!("{url} answers without a list of differences"))?;
    let found: Option<Vec<_>> = told.iter().map(Difference::from_json).collect();
    found.context("the gateway tells a kind of difference that is not known here")
}

/// Every complaint, or another problem.
fn refusal(problem: &Value) -> String {
    let text = |of: &Value, name: &str| match of.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let complaint = |one: &Value| {
        let place = ["file", "line", "column"].map(|name| text(one, name)).join(":");
        format!("{place}: {}\n  help: {}", text(one, "message"), text(one, "help"))
    };
    match problem.get("complaints").and_then(Value::as_array) {
        Some(complaints) => complaints.iter().map(complaint).collect::<Vec<_>>().join("\n"),
        None => text(problem, "detail"),
    }
}
