//! `tidegate check` and `tidegate explain`.

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use compile::Compiled;
use config::{Loaded, Report};
use telemetry::Telemetry;

use crate::{WRONG_USAGE, log};

pub(crate) fn check(file: Option<&Path>, schema: bool) -> anyhow::Result<ExitCode> {
    let Some(file) = file.filter(|_| !schema) else {
        log::write_out(&serde_json::to_string_pretty(&config::json_schema())?)?;
        return Ok(ExitCode::SUCCESS);
    };
    Ok(match compiled(file) {
        Ok((compiled, _)) => {
            say_report(&compiled.warnings);
            log::write_out(&format!("{}: ok", file.display()))?;
            ExitCode::SUCCESS
        }
        Err(report) => {
            say_report(&report);
            ExitCode::FAILURE
        }
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

pub(crate) fn compiled(file: &Path) -> Result<(Compiled, Loaded), Report> {
    let loaded = config::load(file);
    let compiled = compile::compile(&loaded, None, &Telemetry::new(1))?;
    Ok((compiled, loaded))
}

pub(crate) fn say_report(report: &Report) {
    if !report.is_empty() {
        log::say_error(format!("{report:#}").trim_end());
    }
}
