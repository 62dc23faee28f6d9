//! `tidegate check` and `tidegate explain`.

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use compile::CompiledPlan;
use config::{LoadedConfig, Report};
use serde_json::json;
use telemetry::Telemetry;

use crate::arguments::Format;
use crate::{WRONG_USAGE, log};

pub(crate) fn schema() -> anyhow::Result<ExitCode> {
    log::write_out(&serde_json::to_string_pretty(&config::json_schema())?)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check(file: &Path, strict: bool, format: Format) -> anyhow::Result<ExitCode> {
    let report = match compiled(file) {
        Ok((compiled, _)) => compiled.warnings,
        Err(report) => report,
    };
    let is_good = if strict { report.is_empty() } else { !report.has_errors() };
    match format {
        Format::Json => {
            let told = json!({ "file": file, "ok": is_good });
            let told = control::view::with_complaints(told, "complaints", &report);
            log::write_out(&serde_json::to_string_pretty(&told)?)?;
        }
        Format::Text => {
            say_report(&report);
            if is_good {
                log::write_out(&format!("{}: ok", file.display()))?;
            }
        }
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

pub(crate) fn explain(
    file: &Path,
    client: IpAddr,
    method: Option<&str>,
    url: Option<&str>,
    headers: &[(String, String)],
) -> anyhow::Result<ExitCode> {
    let (compiled, loaded) = match compiled(file) {
        Ok(compiled) => compiled,
        Err(report) => {
            say_report(&report);
            return Ok(ExitCode::FAILURE);
        }
    };
    match (method, url) {
        (Some(method), Some(url)) => {
            match compile::explain_request(&compiled.plan, client, method, url, headers) {
                Ok(text) => log::write_out(text.trim_end())?,
                Err(why) => {
                    log::say_error(&why);
                    return Ok(ExitCode::from(WRONG_USAGE));
                }
            }
        }
        (_, _) => log::write_out(compile::explain(&loaded, &compiled.plan).trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn compiled(file: &Path) -> Result<(CompiledPlan, LoadedConfig), Report> {
    let loaded = config::load(file);
    let compiled = compile::compile(&loaded, None, &Telemetry::new(1))?;
    Ok((compiled, loaded))
}

pub(crate) fn say_report(report: &Report) {
    if !report.is_empty() {
        log::say_error(format!("{report:#}").trim_end());
    }
}
