//! `tidegate check` and `tidegate explain`.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use compile::{CompiledPlan, ExplainedRequest};
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
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The request for `explain`, as given on the command line.
pub(crate) struct AskedRequest {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) client: IpAddr,
    /// The body, `@` and the file that has it, or `@-` for standard input.
    pub(crate) data: Option<String>,
}

pub(crate) fn explain(file: &Path, asked: Option<&AskedRequest>) -> anyhow::Result<ExitCode> {
    let (compiled, loaded) = match compiled(file) {
        Ok(compiled) => compiled,
        Err(report) => {
            say_report(&report);
            return Ok(ExitCode::FAILURE);
        }
    };
    let Some(asked) = asked else {
        log::write_out(compile::explain(&loaded, &compiled.plan).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    match explained(&compiled, asked) {
        Ok(text) => log::write_out(text.trim_end())?,
        Err(why) => {
            log::say_error(&why);
            return Ok(ExitCode::from(WRONG_USAGE));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn explained(compiled: &CompiledPlan, asked: &AskedRequest) -> Result<String, String> {
    let body = asked.data.as_deref().map(body).transpose()?;
    let AskedRequest { method, url, headers, client, .. } = asked;
    let body = body.as_deref();
    let asked = ExplainedRequest { client: *client, method, url, headers, body };
    compile::explain_request(&compiled.plan, &asked)
}

/// The body that an argument describes.
fn body(data: &str) -> Result<Vec<u8>, String> {
    let Some(file) = data.strip_prefix('@') else { return Ok(data.as_bytes().to_vec()) };
    let read = match file {
        "-" => read_bounded(std::io::stdin().lock()),
        file => File::open(file).and_then(read_bounded),
    };
    let bytes =
        read.map_err(|error| format!("cannot read `{file}`: {}", config::reason(&error)))?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|bytes| bytes <= BODY_BYTES_MAX);
    if fits { Ok(bytes) } else { Err(format!("`{file}` is larger than {BODY_BYTES_MAX} bytes")) }
}

/// The largest body: the limit of a flow, which is more than other policies read.
const BODY_BYTES_MAX: u64 = 17 * 1024 * 1024;

fn read_bounded(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Harmless: a longer body is refused.
    from.take(BODY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
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
