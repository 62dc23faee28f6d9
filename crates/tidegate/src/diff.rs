//! `tidegate diff`: two configurations, or what serves and what would.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use config::{Difference, Report, Shown};
use serde_json::Value;

use crate::check::{compiled, say_report};
use crate::log;

/// As diff(1): 1 is an answer.
const CANNOT_BE_TOLD: u8 = 2;

/// A gateway compiles what it is asked about, stylesheets and schemas included.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// More than all of a large configuration.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

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
    Ok(config::differences(&old, &new, Shown::Operator))
}

fn wrong(report: &Report) -> anyhow::Error {
    anyhow!("{report:#}")
}

fn against(url: &str, new: &Path) -> anyhow::Result<Vec<Difference>> {
    let text = std::fs::read_to_string(new).map_err(|error| {
        match error.kind() == std::io::ErrorKind::NotFound {
            true => anyhow!("{}: there is no such file", new.display()),
            false => anyhow!("{}: {error}", new.display()),
        }
    })?;
    let (status, body) = ask(url, &text).with_context(|| format!("cannot ask {url}"))?;
    let answer: Value = serde_json::from_str(&body)
        .with_context(|| format!("{url} answers {status}, and not as an admin API does"))?;
    if status != 200 {
        bail!("{}", refusal(&answer));
    }
    let told = answer.get("differences").and_then(Value::as_array).into_iter().flatten();
    let found: Option<Vec<_>> = told.map(Difference::from_json).collect();
    found.context("the gateway tells a kind of difference that is not known here")
}

/// Every complaint, or what else is wrong.
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

/// Posts to the admin API; the status and the body.
fn ask(url: &str, text: &str) -> anyhow::Result<(u16, String)> {
    let authority = url.strip_prefix("http://").context("write it as http://ADDRESS:PORT")?;
    let authority = authority.trim_end_matches('/');
    let address = authority.to_socket_addrs().context("write it as http://ADDRESS:PORT")?.next();
    let address = address.context("no such address")?;
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let head = format!(
        "POST /config/diff HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/yaml\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no whole head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("no status")?, body.to_owned()))
}
