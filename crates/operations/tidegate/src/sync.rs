//! `tidegate dump`, `diff --admin` and `sync`: download the configuration of a running gateway to files, compare files with it, and
//! upload files.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use config::Difference;
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::ask::{self, AdminRequest, Answer, Gateway};
use crate::log;
use crate::operations::Access;

/// The longest wait for an answer. The gateway compiles the configuration first, stylesheets and schemas included.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The limit of files and folders in one archive.
const FILES_MAX: usize = 2_000;

/// The maximum size of a file in an archive.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A configuration in local files, ready for sending.
struct Local {
    path: PathBuf,
    kind: &'static str,
    body: Vec<u8>,
}

/// The result of a comparison, and the tag of the configuration in service.
pub(crate) struct Compared {
    pub(crate) differences: Vec<Difference>,
    tag: Option<String>,
}

/// Why a command has failed.
pub(crate) enum SyncFailure {
    /// The gateway refuses the configuration.
    Refused(String),
    /// No gateway answers, or the operator lacks the permission.
    NotAsked(anyhow::Error),
}

/// Writes the configuration in service into a file or a folder.
pub(crate) fn dump(url: &str, access: &Access, secrets: bool, path: &Path) -> ExitCode {
    exit(dumped(url, access, secrets, path).map(|()| ExitCode::SUCCESS))
}

fn dumped(url: &str, access: &Access, secrets: bool, path: &Path) -> Result<(), SyncFailure> {
    let gateway = gateway(url, access)?;
    let request = if secrets { "GET /config?secrets=true" } else { "GET /config" };
    let headers = [("Accept", "application/zip")];
    let answer = ask(&gateway, &AdminRequest { request, headers: &headers, body: b"" })?;
    let answer = accepted(answer, &|name| name.to_owned())?;
    let is_folder = answer.header("x-configuration") == Some("folder");
    write(&answer.body, is_folder, path).map_err(|why| SyncFailure::Refused(format!("{why:#}")))
}

/// Writes the files of an archive. A single file is written to the path, or into it if it is a folder.
fn write(archive: &[u8], is_folder: bool, path: &Path) -> anyhow::Result<()> {
    let mut zip = ZipArchive::new(Cursor::new(archive)).context("the answer is not an archive")?;
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at)?;
        let name = entry.enclosed_name().context("the archive leads out of its folder")?;
        let place = if is_folder || path.is_dir() { path.join(name) } else { path.to_owned() };
        if let Some(parent) = place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        put(&place, &bytes).with_context(|| format!("cannot write `{}`", place.display()))?;
    }
    Ok(())
}

/// Writes a file. A new file is readable only by its owner, since it may have secrets.
pub(crate) fn put(place: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    // Harmless: the operator names the file to write.
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(place)?;
    file.write_all(bytes)
}

/// The differences between the configuration in service and files.
pub(crate) fn compare(url: &str, access: &Access, path: &Path) -> Result<Compared, SyncFailure> {
    compared(&gateway(url, access)?, &Local::read(path).map_err(SyncFailure::NotAsked)?)
}

/// Puts files into service, if they differ from the configuration in service.
pub(crate) fn sync(url: &str, access: &Access, dry_run: bool, path: &Path) -> ExitCode {
    exit(synced(url, access, dry_run, path))
}

fn synced(url: &str, access: &Access, dry_run: bool, path: &Path) -> Result<ExitCode, SyncFailure> {
    let gateway = gateway(url, access)?;
    let local = Local::read(path).map_err(|why| SyncFailure::Refused(format!("{why:#}")))?;
    let Compared { differences, tag } = compared(&gateway, &local)?;
    if differences.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let said = log::write_out(&compile::explain_differences(&differences));
    said.map_err(SyncFailure::NotAsked)?;
    if dry_run {
        return Ok(ExitCode::FAILURE);
    }
    let tag = tag.unwrap_or_else(|| "*".to_owned());
    let headers = [("Content-Type", local.kind), ("If-Match", &*tag)];
    let question = AdminRequest { request: "PUT /config", headers: &headers, body: &local.body };
    let answer = accepted(ask(&gateway, &question)?, &|name| local.name(name))?;
    let told = answer.json().map_err(SyncFailure::NotAsked)?;
    if let Some(why) = told.get("unwritten").and_then(Value::as_str) {
        log::say_error(&format!(
            "it is in service, but could not be written to its file, so a restart loses it: {why}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn compared(gateway: &Gateway, local: &Local) -> Result<Compared, SyncFailure> {
    let headers = [("Content-Type", local.kind)];
    let question =
        AdminRequest { request: "POST /config/diff", headers: &headers, body: &local.body };
    let answer = accepted(ask(gateway, &question)?, &|name| local.name(name))?;
    let tag = answer.header("etag").map(str::to_owned);
    let differences = differences(&answer).map_err(SyncFailure::NotAsked)?;
    Ok(Compared { differences, tag })
}

fn differences(answer: &Answer) -> anyhow::Result<Vec<Difference>> {
    let told = answer.json()?;
    let told = told.get("differences").and_then(Value::as_array);
    let told = told.context("the gateway's answer has no list of differences")?;
    let found: Option<Vec<_>> = told.iter().map(Difference::from_json).collect();
    found.context("the gateway's answer has an unknown kind of difference")
}

fn gateway(url: &str, access: &Access) -> Result<Gateway, SyncFailure> {
    Gateway::new(url, access, ANSWER_MAX).map_err(SyncFailure::NotAsked)
}

fn ask(gateway: &Gateway, question: &AdminRequest<'_>) -> Result<Answer, SyncFailure> {
    gateway.ask(question).map_err(SyncFailure::NotAsked)
}

/// The answer, if its status is 200.
fn accepted(answer: Answer, renamed: &dyn Fn(&str) -> String) -> Result<Answer, SyncFailure> {
    match answer.status {
        200 => Ok(answer),
        _ if answer.is_forbidden() => {
            Err(SyncFailure::NotAsked(anyhow!("{}", answer.refusal(renamed))))
        }
        _ => Err(SyncFailure::Refused(answer.refusal(renamed))),
    }
}

fn exit(done: Result<ExitCode, SyncFailure>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(SyncFailure::Refused(why)) => {
            log::say_error(why.trim_end());
            ExitCode::FAILURE
        }
        Err(SyncFailure::NotAsked(why)) => ask::report_no_access(&why),
    }
}

impl SyncFailure {
    /// Converts it for a command with one exit code for all failures.
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            SyncFailure::Refused(why) => anyhow!("{why}"),
            SyncFailure::NotAsked(why) => why,
        }
    }
}

impl Local {
    fn read(path: &Path) -> anyhow::Result<Local> {
        let (kind, body) = if path.is_dir() {
            ("application/zip", packed(path)?)
        } else {
            let read = fs::read(path);
            let why = |e| anyhow!("cannot read `{}`: {}", path.display(), config::reason(&e));
            ("application/yaml", read.map_err(why)?)
        };
        Ok(Local { path: path.to_owned(), kind, body })
    }

    /// The local file for a complaint of the gateway.
    fn name(&self, told: &str) -> String {
        if self.path.is_dir() {
            self.path.join(told).display().to_string()
        } else {
            self.path.display().to_string()
        }
    }
}

/// Packs the files of a folder into an archive, without hidden files and the gateway's history.
fn packed(folder: &Path) -> anyhow::Result<Vec<u8>> {
    let mut names = Vec::new();
    gather(folder, "", &mut names)?;
    names.sort();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for name in names {
        let path = folder.join(&name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        zip.start_file(name, SimpleFileOptions::default())?;
        zip.write_all(&bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

fn gather(folder: &Path, below: &str, names: &mut Vec<String>) -> anyhow::Result<()> {
    let listed =
        fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    for entry in listed {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_history = below.is_empty() && name == "history";
        if name.starts_with('.') || is_history {
            continue;
        }
        let name = format!("{below}{name}");
        let meta = fs::metadata(entry.path())?;
        if meta.is_dir() {
            gather(&entry.path(), &format!("{name}/"), names)?;
        } else if meta.len() > FILE_BYTES_MAX {
            bail!("`{}` is larger than {FILE_BYTES_MAX} bytes", entry.path().display());
        } else {
            names.push(name);
        }
        if names.len() > FILES_MAX {
            bail!("`{}` has more than {FILES_MAX} files", folder.display());
        }
    }
    Ok(())
}
