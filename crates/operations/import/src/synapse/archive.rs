//! Reads the imported files: one file, a folder, or a Composite Application archive.
//!
//! Owns the bounds on the files, and ensures that no file outside the folder or the archive is read. Nothing is unpacked to disk.

use std::fs;
use std::path::Path;

use crate::zip_entries::{self, bounded};

/// The maximum size of one file: exported artifacts have some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The maximum size of all files together, unpacked.
const ALL_BYTES_MAX: u64 = 256 << 20;

/// The maximum number of files; a large project has some hundred.
const FILES_MAX: usize = 10_000;

/// The maximum depth of folders.
const DEPTH_MAX: usize = 32;

/// Folders of tools, which have no artifacts.
const SKIPPED: [&str; 4] = ["target", "node_modules", ".git", ".settings"];

/// The extensions of artifacts, and of files to which artifacts refer.
const READ: [&str; 10] =
    [".xml", ".dbs", ".xsl", ".xslt", ".xsd", ".wsdl", ".json", ".xquery", ".dmc", ".txt"];

/// A file, with its path below the imported folder.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// A file that is not read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) name: String,
    pub(super) what: &'static str,
    pub(super) why: &'static str,
}

/// All files.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) files: Vec<Source>,
    pub(super) refused: Vec<Unread>,
    bytes: u64,
}

/// Reads a file, a folder or an archive. The error names an unreadable file.
pub(super) fn read(path: &Path) -> Result<Sources, String> {
    let shown = path.display();
    let failed = |error| format!("cannot read `{shown}`: {}", config::reason(&error));
    let about = fs::metadata(path).map_err(failed)?;
    let mut sources = Sources::default();
    if about.is_dir() {
        sources.folder(path, "", 0)?
    } else {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        // Harmless: a file that exists has a name.
        sources.file(path, &name.unwrap_or_default())?;
    }
    sources.files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sources)
}

/// Returns true if a file is an archive with artifacts in it.
fn is_archive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(".car") || name.ends_with(".zip")
}

impl Sources {
    fn folder(&mut self, path: &Path, below: &str, depth: usize) -> Result<(), String> {
        let shown = path.display();
        let failed = |error| format!("cannot read `{shown}`: {}", config::reason(&error));
        if depth > DEPTH_MAX {
            return Err(format!("`{shown}` is deeper than {DEPTH_MAX} folders"));
        }
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let whole = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.folder(&entry.path(), &whole, depth + 1)?;
            } else if kind.is_file() && (is_archive(&name) || is_read(&name)) {
                self.file(&entry.path(), &whole)?;
            } else if !kind.is_dir() && !kind.is_file() && !SKIPPED.contains(&name.as_str()) {
                let why =
                    "it could lead out of the folder or back into it; put a copy in its place";
                self.refused.push(Unread { name: whole, what: "link or device", why });
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &str) -> Result<(), String> {
        let shown = path.display();
        let failed = |error| format!("cannot read `{shown}`: {}", config::reason(&error));
        let file = fs::File::open(path).map_err(failed)?;
        let max = if is_archive(name) { ALL_BYTES_MAX } else { FILE_BYTES_MAX };
        let bytes = bounded(file, max).map_err(|what| format!("cannot read `{shown}`: {what}"))?;
        if is_archive(name) {
            self.archive(&bytes, name).map_err(|what| format!("`{shown}`: {what}"))
        } else {
            self.push(name.to_owned(), bytes)
        }
    }

    /// Reads an archive. If the path of an entry leads out of it, the whole archive is refused.
    fn archive(&mut self, bytes: &[u8], name: &str) -> Result<(), String> {
        zip_entries::each(bytes, FILES_MAX, |within, entry| {
            let whole = format!("{name}/{within}");
            if is_archive(within) {
                let why = "an archive in an archive is not read; a connector's operations have no counterpart";
                self.refused.push(Unread { name: whole, what: "archive", why });
            } else if within.to_ascii_lowercase().ends_with(".jar") {
                let why = "code in Java is not run; an `interceptor` on the route calls a service of yours";
                self.refused.push(Unread { name: whole, what: "mediator in Java", why });
            } else if is_read(within) {
                let bytes = bounded(entry, FILE_BYTES_MAX.min(ALL_BYTES_MAX - self.bytes))
                    .map_err(|what| format!("the entry {within:?}: {what}"))?;
                self.push(whole, bytes)?;
            }
            Ok(())
        })
    }

    fn push(&mut self, name: String, bytes: Vec<u8>) -> Result<(), String> {
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.bytes > ALL_BYTES_MAX {
            return Err(format!("the files have more than {ALL_BYTES_MAX} bytes together"));
        }
        if self.files.len() >= FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files"));
        }
        self.files.push(Source { name, bytes });
        Ok(())
    }
}

fn is_read(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    READ.iter().any(|end| name.ends_with(end))
}
