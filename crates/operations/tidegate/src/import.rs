//! `tidegate import`.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::import::wsdl::RestOptions;
use ::import::{Documents, GeneratedApi, ImportNote, Mistake, Model, Options, Outcome, Table};
use anyhow::{Context as _, anyhow};
use config::Report;
use serde_json::{Map, Value as Json, json};

use crate::arguments::Import;
use crate::log;

mod apictl;
mod kong;

pub(crate) fn import(what: &Import) -> anyhow::Result<ExitCode> {
    match what {
        Import::Openapi { file, name, base_path, upstream, validate } => {
            openapi(file, name, base_path, upstream, *validate)
        }
        Import::Wsdl { file, name, service, port, prefix, upstream, imports } => {
            wsdl(&RestOptions {
                name: name.clone().or_else(|| stem(file)).unwrap_or_else(|| "service".to_owned()),
                file: file.clone(),
                imports: imports.clone(),
                service: service.clone(),
                port: port.clone(),
                prefix: prefix.clone(),
                upstream: upstream.clone(),
            })
        }
        Import::Apictl(options) => apictl::import(options),
        Import::Synapse { path, into } => synapse(path, into.as_deref()),
        Import::Kong {
            paths,
            into,
            select_tags,
            shell_variables,
            listen,
            listen_tls,
            listen_metrics,
        } => {
            let options = ::import::kong::Options {
                select_tags: select_tags.clone(),
                shell_variables: *shell_variables,
                listen: listen.clone(),
                listen_tls: listen_tls.clone(),
                listen_metrics: listen_metrics.clone(),
            };
            kong::import(paths, into.as_deref(), &options)
        }
    }
}

/// The exit code if something was approximated or refused, and the rest was written.
const PARTLY: u8 = 3;

/// The exit code of an import that was written. `complete`: the result is equivalent to the input.
fn written(complete: bool) -> ExitCode {
    if complete { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) }
}

/// True if all of the input was converted.
fn is_complete(table: &Table) -> bool {
    table.rows.iter().all(|row| row.outcome == Outcome::Converted)
}

fn synapse(path: &Path, into: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut imported = ::import::synapse::import(path).map_err(|fault| anyhow!(fault))?;
    let whole = Imported {
        configuration: imported.configuration.clone(),
        files: imported.files.clone(),
        stand_ins: imported.stand_ins.clone(),
    };
    let refuse = |mistakes: &[Mistake]| {
        let refused = imported.refuse(mistakes);
        refused.then(|| imported.configuration.clone())
    };
    let checked = refuse_unusable(whole, refuse)?;
    finish(checked, &imported.table, into)
}

/// The result of an import.
struct Imported {
    configuration: String,
    files: Vec<(String, Vec<u8>)>,
    stand_ins: HashMap<String, String>,
}

/// Writes the result of an import, and prints the table.
fn finish(
    checked: Result<Imported, Report>,
    table: &Table,
    into: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let imported = match checked {
        Ok(imported) => imported,
        Err(report) => {
            say_unusable(&report);
            log::say_error(&table.to_string());
            return Ok(ExitCode::FAILURE);
        }
    };
    match into {
        Some(folder) => write_all(&imported, folder)?,
        None => {
            for (file, _) in &imported.files {
                log::say_error(&format!(
                    "note: the configuration names the file {file}, which --into FOLDER writes beside it"
                ));
            }
            log::write_out(imported.configuration.trim_end())?;
        }
    }
    log::say_error(&table.to_string());
    Ok(written(is_complete(table)))
}

/// Checks the configuration and removes the parts with mistakes, until the rest passes. `refuse` removes parts and returns the new
/// configuration, or `None` if a mistake does not belong to any part. Then the report is returned as the error.
fn refuse_unusable(
    mut imported: Imported,
    mut refuse: impl FnMut(&[Mistake]) -> Option<String>,
) -> anyhow::Result<Result<Imported, Report>> {
    let folder =
        if imported.files.is_empty() { None } else { Some(Scratch::with(&imported.files)?) };
    let name = folder.as_ref().map(|folder| folder.0.join("tidegate.yaml"));
    let name = name.unwrap_or_else(|| PathBuf::from("tidegate.yaml"));
    let mut report = Report::default();
    for _ in 0..ROUNDS_MAX {
        let loaded = config::parse_with(&imported.configuration, &name, &imported.stand_ins);
        report = match compile::compile(&loaded, None, &telemetry::Telemetry::new(1)) {
            Ok(_) => return Ok(Ok(imported)),
            Err(report) => report,
        };
        let mistake = |complaint: &config::Complaint| Mistake {
            line: complaint.at.line,
            column: complaint.at.column,
            what: complaint.what.replace(&format!("{}/", folder_shown(&name)), ""),
        };
        let mistakes: Vec<Mistake> = report.errors().map(mistake).collect();
        match refuse(&mistakes) {
            Some(configuration) => imported.configuration = configuration,
            None => break,
        }
    }
    Ok(Err(report))
}

/// The limit of rounds. Removing a part can break others that refer to it, in a chain as long as flows call each
/// other.
const ROUNDS_MAX: usize = 64;

fn folder_shown(file: &Path) -> String {
    file.parent().map_or_else(String::new, |folder| folder.display().to_string())
}

/// A folder for the files of a configuration that is checked before it is written. It is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn with(files: &[(String, Vec<u8>)]) -> anyhow::Result<Scratch> {
        let (process, now) = (std::process::id(), kit::clock::wall().as_nanos());
        let name = format!("tidegate-import-{process}-{now}");
        let folder = std::env::temp_dir().join(name);
        let failed = |path: &Path| format!("{} cannot be written", path.display());
        std::fs::DirBuilder::new().mode(0o700).create(&folder).with_context(|| failed(&folder))?;
        let scratch = Scratch(folder);
        for (name, bytes) in files {
            let path = scratch.0.join(name);
            std::fs::write(&path, bytes).with_context(|| failed(&path))?;
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Harmless: a file that cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn say_unusable(report: &Report) {
    log::say_error("the resulting configuration would not pass `check`, so nothing is written:");
    log::say_error(format!("{report:#}").trim_end());
}

/// Writes the configuration and its files. None of them may exist. They are readable only by their owner, since they may have secrets
/// and private keys.
fn write_all(imported: &Imported, folder: &Path) -> anyhow::Result<()> {
    let configuration = ("tidegate.yaml".to_owned(), imported.configuration.clone().into_bytes());
    let all = imported.files.iter().chain([&configuration]);
    let there = all.clone().find(|(name, _)| folder.join(name).symlink_metadata().is_ok());
    if let Some((name, _)) = there {
        return Err(anyhow!("{} already exists", folder.join(name).display()));
    }
    let failed = |path: &Path| format!("{} cannot be written", path.display());
    std::fs::create_dir_all(folder).with_context(|| failed(folder))?;
    for (name, bytes) in all {
        let path = folder.join(name);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).with_context(|| failed(&path))?;
    }
    Ok(())
}

fn stem(file: &Path) -> Option<String> {
    file.file_stem().map(|stem| ::import::wsdl::slug(&stem.to_string_lossy()))
}

fn wsdl(options: &RestOptions) -> anyhow::Result<ExitCode> {
    let shown = options.file.display().to_string();
    // Without this check, the error would be about an import that cannot be found.
    let opened = std::fs::File::open(&options.file).and_then(|file| file.metadata());
    let unread = match opened {
        Ok(file) => file.is_dir().then(|| "it is a folder".to_owned()),
        Err(error) => Some(config::reason(&error)),
    };
    if let Some(why) = unread {
        return Err(anyhow!("cannot read `{shown}`: {why}"));
    }
    let offered = ::import::wsdl::offer(options);
    let offered = offered.map_err(|faults| anyhow!(faults.join("\n"))).context(shown)?;
    let messages: usize = offered.proofs.iter().map(|proof| proof.messages).sum();
    log::say_error(&format!(
        "{} operations, {messages} messages translated to SOAP and back",
        offered.proofs.len()
    ));
    let table = ::import::rows::of_wsdl(&options.file, &offered);
    write_checked(&::import::yaml(&offered.configuration), &table)
}

fn openapi(
    file: &Path,
    name: &Option<String>,
    base_path: &Option<String>,
    upstream: &Option<String>,
    validate: bool,
) -> anyhow::Result<ExitCode> {
    let shown = file.display().to_string();
    let documents = Documents::read(file, |_| {});
    let documents =
        documents.map_err(|faults| anyhow!(faults.join("\n"))).context(shown.clone())?;
    let model = Model::read(&documents);
    let model = model.map_err(|faults| anyhow!(faults.join("\n"))).context(shown.clone())?;
    let name = name.clone().or_else(|| stem(file)).unwrap_or_else(|| "api".to_owned());
    let options = Options {
        document: file.to_owned(),
        base_path: base_path.clone(),
        upstream: upstream.as_ref().map(|_| name.clone()),
        request: validate,
        // Operations that need tokens need an issuer, which the document does not have. A note tells the user to fill it in.
        issuers: vec!["main".to_owned()],
        // The document does not have the numbers of limits, either. The user has to fill them in.
        plan_unknown: json!({ "requests": 100, "per": "1m" }).as_object().cloned(),
        name,
        ..Options::default()
    };
    let made = ::import::expand(&documents, &model, &options);
    if !made.errors.is_empty() {
        // The key of an API in a configuration is an argument of this command.
        let here = |fault: &String| fault.replace("`upstream: NAME`", "`--upstream URL`");
        made.errors.iter().map(here).for_each(|fault| log::say_error(&format!("{shown}: {fault}")));
        return Ok(ExitCode::FAILURE);
    }
    let asks = made.routes.iter().any(|route| asks_for_token(&route.route));
    let issuers = asks.then(|| unknown_issuer(documents.root()));
    let table = ::import::rows::of_openapi(file, &model, &made, issuers.as_slice());
    let configuration = configuration(made, upstream.as_deref(), &options.name);
    write_checked(&::import::yaml(&configuration), &table)
}

/// The note about a document with operations that need tokens.
fn unknown_issuer(root: ::import::JsonLocation) -> ImportNote {
    let note = "the document does not name the issuer of its tokens: replace `https://idp.example` in `issuers`";
    ImportNote {
        location: root,
        outcome: Outcome::Approximated,
        what: "issuers".to_owned(),
        note: note.to_owned(),
        text: note.to_owned(),
    }
}

/// Writes a configuration with the rows about its parts. If `check` would refuse it, reports why and writes nothing.
fn write_checked(configuration: &str, table: &Table) -> anyhow::Result<ExitCode> {
    // Its paths are relative to the working directory.
    let loaded = config::parse(configuration, Path::new("tidegate.yaml"));
    let compiled = compile::compile(&loaded, None, &telemetry::Telemetry::new(1));
    if let Err(report) = compiled {
        say_unusable(&report);
        return Ok(ExitCode::FAILURE);
    }
    log::write_out(configuration.trim_end())?;
    log::say_error(&table.to_string());
    Ok(written(is_complete(table)))
}

/// A whole configuration. If routes ask for tokens, its `issuers` are placeholders, which the user has to replace.
fn configuration(made: GeneratedApi, upstream: Option<&str>, name: &str) -> Json {
    let given = upstream.map(|url| (name.to_owned(), json!({ "targets": [url] })));
    let upstreams: Map<String, Json> = made.upstreams.into_iter().chain(given).collect();
    let asks = made.routes.iter().any(|route| asks_for_token(&route.route));
    let routes: Map<String, Json> =
        made.routes.into_iter().map(|made| (made.name, made.route)).collect();
    let mut all = Map::new();
    // Harmless: an upstream without targets has no address.
    let targets = upstreams.values().filter_map(|upstream| upstream.get("targets")?.as_array());
    let url = |target: &'_ Json| target.get("url").unwrap_or(target).as_str().map(str::to_owned);
    // Harmless: each target has a URL.
    let targets: Vec<String> = targets.flatten().filter_map(url).collect();
    let address = ::import::listen_beside(targets.iter().map(String::as_str));
    all.insert("listen".to_owned(), json!({ "public": { "address": address } }));
    if asks {
        let issuer =
            json!({ "issuer": "https://idp.example", "jwks": "https://idp.example/jwks.json" });
        all.insert("issuers".to_owned(), json!({ "main": issuer }));
    }
    all.insert("upstreams".to_owned(), Json::Object(upstreams));
    all.insert("routes".to_owned(), Json::Object(routes));
    Json::Object(all)
}

fn asks_for_token(route: &Json) -> bool {
    let policies = route.get("policies").and_then(Json::as_array);
    // Harmless: a route may have no policies.
    policies.into_iter().flatten().any(|policy| policy.get("jwt").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn imported_files_are_readable_only_by_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let imported = Imported {
            configuration: "listen: {}\n".to_owned(),
            files: vec![("a.key".to_owned(), b"PRIVATE KEY".to_vec())],
            stand_ins: HashMap::new(),
        };
        write_all(&imported, folder.path()).unwrap();
        for name in ["tidegate.yaml", "a.key"] {
            let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}
