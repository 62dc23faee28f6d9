//! `tidegate store`: inspects and compacts the store of a stopped gateway.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use store::inspect::{self, CheckReport, StoredItem};

use crate::arguments::StoreCommand;
use crate::log;

pub(crate) fn store(what: &StoreCommand) -> anyhow::Result<ExitCode> {
    let (StoreCommand::Check { folder }
    | StoreCommand::Compact { folder }
    | StoreCommand::Export { folder }) = what;
    // The URL may have a password, so it is not repeated.
    if folder.to_str().is_some_and(|text| text.starts_with("postgres")) && !folder.exists() {
        anyhow::bail!(
            "this command inspects folders; inspect a store in PostgreSQL with its own tools: `pg_dump --schema=tidegate` exports it, `pg_amcheck` checks it, and `vacuum` compacts it"
        );
    }
    match what {
        StoreCommand::Check { folder } => check(folder),
        StoreCommand::Compact { folder } => compact(folder),
        StoreCommand::Export { folder } => export(folder),
    }
}

fn check(folder: &Path) -> anyhow::Result<ExitCode> {
    let checked = inspect::check(folder)?;
    log::write_out(said(&checked).trim_end())?;
    Ok(if checked.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of a check as lines.
fn said(checked: &CheckReport) -> String {
    if let Some(why) = &checked.unreadable {
        return format!(
            "DAMAGED: {}: {why}\ndamaged: no gateway can start with it, and it cannot be repaired: restore the whole folder from a backup, or move it away and start with an empty store",
            inspect::TABLES_FILE
        );
    }
    let found = &checked.recovered;
    let mut lines = vec![
        format!("{} logs, {} records, {} rows", found.logs, found.records, checked.rows),
        format!("{} segments, {} bytes", found.segments, found.bytes),
    ];
    if found.torn_bytes > 0 {
        lines.push(format!(
            "torn: {} bytes that were being written when the machine stopped; the next start removes them",
            found.torn_bytes
        ));
    }
    if !checked.is_whole() {
        lines.push(damage(checked));
    }
    lines.push(if checked.is_whole() {
"intact".to_owned()
} else {
"damaged: keep a copy of the folder, then start the gateway: it continues after the lost data".to_owned()
});
    lines.join("\n")
}

/// The damage as lines.
fn damage(checked: &CheckReport) -> String {
    let mut lines = Vec::new();
    for (file, range) in &checked.recovered.damage {
        lines.push(format!(
            "DAMAGED: {file}, bytes {} to {}: their content is lost",
            range.start, range.end
        ));
    }
    for (log, positions) in &checked.recovered.missing {
        let (first, last) = (positions.start(), positions.end());
        lines.push(format!("DAMAGED: the records {first} to {last} of `{log}` are missing: their file was truncated, or replaced with an older one"));
    }
    if let Some(why) = &checked.tables {
        lines.push(format!("DAMAGED: {}: {why}", inspect::TABLES_FILE));
    }
    if checked.damaged_rows > 0 {
        lines.push(format!("DAMAGED: {} rows have a wrong checksum", checked.damaged_rows));
    }
    lines.join("\n")
}

fn compact(folder: &Path) -> anyhow::Result<ExitCode> {
    let (before, after) = inspect::compact(folder)?;
    log::write_out(&format!("{before} bytes before, {after} now"))?;
    Ok(ExitCode::SUCCESS)
}

fn export(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let exported = inspect::export(folder, &mut |item| writeln!(out, "{}", line(&item)))?;
    out.flush().context("standard output")?;
    if exported.is_whole() {
        Ok(ExitCode::SUCCESS)
    } else {
        anyhow::bail!("the export lacks the damaged data\n{}", damage(&exported))
    }
}

/// One item as a JSON object.
fn line(item: &StoredItem<'_>) -> Json {
    match item {
        StoredItem::Record { log, record } => {
            let (key, text) = shown(&record.bytes);
            let milliseconds = kit::clock::millis(record.time);
            let mut object =
                json!({ "log": log, "position": record.position, "time_ms": milliseconds });
            insert(&mut object, key, text);
            object
        }
        StoredItem::Row { table, row } => {
            let mut object = json!({ "table": table, "version": row.version });
            let (key, text) = shown(&row.key);
            insert(&mut object, if key == "text" { "key" } else { "key_base64" }, text);
            let (key, text) = shown(&row.value);
            insert(&mut object, key, text);
            object
        }
    }
}

fn insert(object: &mut Json, key: &str, text: String) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), Json::String(text));
    }
}

/// Bytes as text if they are text, otherwise in base64, with the name of the member.
fn shown(bytes: &[u8]) -> (&'static str, String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => ("text", text.to_owned()),
        Err(_) => ("base64", STANDARD.encode(bytes)),
    }
}
