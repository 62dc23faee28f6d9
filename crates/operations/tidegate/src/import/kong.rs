//! `tidegate import kong`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::import::Mistake;
use ::import::kong::{Options, Source};
use anyhow::{Context as _, anyhow};

use super::{Imported, finish, refuse_unusable};
use crate::log;

/// The maximum size of a file, enough for 100,000 routes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The maximum number of files in all folders.
const FILES_MAX: usize = 10_000;
/// The maximum depth of folders.
const DEPTH_MAX: usize = 16;

pub(super) fn import(
    paths: &[PathBuf],
    into: Option<&Path>,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            sources.push(standard_input(std::io::stdin())?);
        } else {
            read(path, 0, &mut sources)?;
        }
    }
    if sources.is_empty() {
        return Err(anyhow!(
            "there is no file of Kong in `{}`",
            paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" ")
        ));
    }
    let variables = std::env::vars_os();
    // Harmless: a name or a value that is not text cannot occur in a file.
    let variables = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment: HashMap<String, String> =
        variables.filter(|(n, _)| options.shell_variables || n.starts_with("DECK_")).collect();
    let mut imported = match ::import::kong::import(&sources, options, environment) {
        Ok(imported) => imported,
        Err(mistakes) => {
            mistakes.iter().for_each(|line| log::say_error(line));
            return Ok(ExitCode::FAILURE);
        }
    };
    let bytes = imported.configuration.len() as u64;
    if bytes > config::FILE_BYTES_MAX {
        return Err(anyhow!(
            "the configuration would have {bytes} bytes, but the limit is {}: import a part of the files, or use --select-tag",
            config::FILE_BYTES_MAX
        ));
    }
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

fn standard_input(input: impl Read) -> anyhow::Result<Source> {
    let mut text = String::new();
    let read = input.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.context("cannot read standard input")?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(anyhow!("standard input has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(Source { name: "-".to_owned(), text })
}

/// Reads a file, or the files of a folder in the order of their names.
fn read(path: &Path, depth: usize, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    if !path.is_dir() {
        let text = config::read_text(path, FILE_BYTES_MAX);
        let text = text.map_err(|why| anyhow!("cannot read `{}`: {why}", path.display()))?;
        sources.push(Source { name: path.display().to_string(), text });
        return Ok(());
    }
    let failed = || format!("cannot read `{}`", path.display());
    let entries = std::fs::read_dir(path).with_context(failed)?;
    let mut entries: Vec<(OsString, PathBuf)> = entries
        .map(|entry| entry.map(|entry| (entry.file_name(), entry.path())))
        .collect::<Result<_, _>>()
        .with_context(failed)?;
    entries.sort();
    for (name, entry) in entries {
        let name = name.to_string_lossy();
        let is_file = [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
        let is_wanted = entry.is_dir() || is_file;
        if name.starts_with('.') || !is_wanted {
            continue;
        }
        if depth >= DEPTH_MAX || sources.len() >= FILES_MAX {
            return Err(anyhow!("there are too many files or folders in `{}`", path.display()));
        }
        read(&entry, depth + 1, sources)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_read_as_a_whole_or_refused() {
        let text = standard_input(&b"_format_version: '3.0'"[..]).unwrap().text;
        assert_eq!(text, "_format_version: '3.0'");
        let error = standard_input(std::io::repeat(b'#')).unwrap_err();
        assert_eq!(error.to_string(), "standard input has more than 67108864 bytes");
    }
}
