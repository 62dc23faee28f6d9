//! `tidegate ctl support`: an archive for someone who helps from elsewhere.
//!
//! Most of its files come from the admin API, which masks secrets. The log is a file that the operator names, and is copied unchanged.

use std::fs::{self, File};
use std::io::{Cursor, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::ask::{self, AdminRequest, Gateway, NO_ACCESS};
use crate::{log, sync};

/// The files of the archive that come from the admin API, each with its path there.
const PARTS: &[(&str, &str)] = &[
    ("configuration.yaml", "/config"),
    ("plan.json", "/plan"),
    ("history.json", "/config/history"),
    ("metrics.txt", "/metrics"),
    ("refusals.json", "/refusals?limit=1000"),
    ("certificates.json", "/certificates"),
    ("flows.json", "/flows"),
    ("queues.json", "/queues"),
    ("hubs.json", "/hubs"),
    ("schedules.json", "/schedules"),
    ("ready.json", "/readyz"),
];

/// How much of the end of a log is included.
const LOG_BYTES_MAX: u64 = 4 << 20;

pub(crate) fn support(
    gateway: &Gateway,
    out: &Path,
    own_log: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, bytes: &[u8]| -> anyhow::Result<()> {
        zip.start_file(name, SimpleFileOptions::default())?;
        Ok(zip.write_all(bytes)?)
    };
    add("version.txt", concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes())?;
    let mut missing = String::new();
    for (name, path) in PARTS {
        let request = format!("GET {path}");
        let asked = gateway.ask(&AdminRequest { request: &request, ..AdminRequest::default() });
        match asked {
            Ok(answer) if answer.is_forbidden() => {
                log::say_error(&answer.refusal(&|name| name.to_owned()));
                return Ok(ExitCode::from(NO_ACCESS));
            }
            Ok(answer) if answer.status == 200 => add(name, &answer.body)?,
            Ok(answer) => missing.push_str(&format!("{path}: {}\n", answer.status)),
            Err(why) => return Ok(ask::report_no_access(&why)),
        }
    }
    if let Some(path) = own_log {
        let end = end_of(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        add("log.txt", &end)?;
    }
    if !missing.is_empty() {
        add("missing.txt", missing.as_bytes())?;
    }
    let archive = zip.finish()?.into_inner();
    sync::put(out, &archive).with_context(|| format!("cannot write `{}`", out.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let begin = fs::metadata(path)?.len().saturating_sub(LOG_BYTES_MAX);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    // Harmless: lines written meanwhile may be missing.
    file.take(LOG_BYTES_MAX).read_to_end(&mut end)?;
    Ok(end)
}
