//! The files of a configuration as a ZIP archive: packing and unpacking.
//!
//! An archive has the files of the configuration, and the files of the folder that they name, except files with secrets. Secrets
//! in the texts of the configuration are masked, unless the caller asks for them. A file that is never packed is not removed by an
//! archive without it.

use std::fs::{self, DirBuilder};
use std::io::{self, Cursor, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use config::{LoadedConfig, Sources};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::{Failure, place, unpack};

/// The limit of folder entries that are linked to check an archive.
const ENTRIES_MAX: usize = 10_000;

/// The depth down to which entries are linked one by one. A deeper folder is linked as a whole, and so is a hidden one.
const DEPTH_MAX: usize = 16;

/// The largest packed file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The total size of packed files.
const ALL_BYTES_MAX: u64 = 128 << 20;

/// A file: its name in the folder, and its content.
pub(crate) type NamedFile = (String, Vec<u8>);

/// The files of a configuration itself, without those of bundles: the name of each in its folder, and its text.
pub(crate) fn own_files(path: &Path, sources: &Sources) -> Vec<(String, String)> {
    if path.is_dir() {
        let is_own = |name: &str| Path::new(name).parent() == Some(path);
        let own = sources.iter().filter(|source| is_own(&source.name));
        own.map(|source| (base_name(Path::new(&source.name)), source.text.clone())).collect()
    } else {
        // Harmless: the sources after the first belong to bundles.
        sources.iter().take(1).map(|source| (base_name(path), source.text.clone())).collect()
    }
}

pub(crate) fn base_name(path: &Path) -> String {
    // Harmless: a file that was read has a name.
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of the folder that the configuration names and that have no secrets.
pub(crate) fn named_files(folder: &Path, loaded: &LoadedConfig) -> Vec<NamedFile> {
    kept_files(folder, loaded).0
}

/// The files of [`named_files`], and the names of the other files that the configuration names: those with secrets, those that are too
/// large, and unreadable ones.
pub(crate) fn kept_files(folder: &Path, loaded: &LoadedConfig) -> (Vec<NamedFile>, Vec<String>) {
    let is_source =
        |file: &Path| loaded.report.sources().iter().any(|of| Path::new(&of.name) == file);
    let (mut found, mut others, mut left) = (Vec::new(), Vec::new(), ALL_BYTES_MAX);
    for file in &loaded.files {
        let Ok(below) = file.strip_prefix(folder) else { continue };
        let is_plain = below.components().all(|part| {
            matches!(part, std::path::Component::Normal(name) if !name.to_string_lossy().starts_with('.'))
        });
        // Harmless: a missing file cannot be packed.
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file);
        let Some(bytes) = metadata.map(|metadata| metadata.len()) else { continue };
        if is_source(file) {
            continue;
        }
        let name = below.to_string_lossy().into_owned();
        let is_small = bytes <= FILE_BYTES_MAX && bytes <= left;
        let is_open = is_plain && is_small && !loaded.secret_files.contains(file);
        // Harmless: an unreadable file is among the other files, which an archive does not change.
        let read = if is_open { fs::read(file).ok() } else { None };
        match read.filter(|content| !holds_key(content)) {
            Some(content) => {
                left = left.saturating_sub(bytes);
                found.push((name, content));
            }
            None => others.push(name),
        }
    }
    (found, others)
}

/// True for a file with a private key in PEM.
fn holds_key(bytes: &[u8]) -> bool {
    bytes.windows(11).any(|part| part == b"PRIVATE KEY")
}

/// Packs files into an archive.
pub(crate) fn pack(files: &[NamedFile]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).map_err(io::Error::other)?;
        zip.write_all(bytes)?;
    }
    zip.finish().map(Cursor::into_inner).map_err(io::Error::other)
}

/// The files of an archive. Masks in its texts are replaced with the values in service.
pub(crate) fn unpacked(archive: &[u8], in_service: &Sources) -> Result<Vec<NamedFile>, Failure> {
    let staged = TemporaryFolder::new().map_err(crate::unwritable)?;
    unpack::unpack_plain(archive, &staged.0)?;
    let mut files = Vec::new();
    gather(&staged.0, "", &mut files).map_err(crate::unwritable)?;
    for (name, bytes) in &mut files {
        let path = Path::new(name.as_str());
        if !path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            continue;
        }
        // Harmless: invalid UTF-8 causes a complaint when the file is read.
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        *bytes =
            config::unmasked(text, path, in_service).map_err(Failure::Complaints)?.into_bytes();
    }
    files.sort();
    Ok(files)
}

fn gather(folder: &Path, below: &str, files: &mut Vec<NamedFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), &format!("{name}/"), files)?
        } else {
            files.push((name, fs::read(entry.path())?))
        }
    }
    Ok(())
}

/// A folder that is removed on drop.
pub(crate) struct TemporaryFolder(pub(crate) PathBuf);

impl TemporaryFolder {
    fn new() -> io::Result<TemporaryFolder> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let nanos = kit::clock::wall().subsec_nanos();
        let name = format!("tidegate-{}-{nanos}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(TemporaryFolder(folder))
    }

    /// A copy of the folder with the new files and without the removed ones. All other files are links.
    pub(crate) fn shadow(
        folder: &Path,
        new: &[NamedFile],
        removed: &[String],
    ) -> io::Result<TemporaryFolder> {
        let shadow = TemporaryFolder::new()?;
        for (name, bytes) in new {
            place::put(&shadow.0.join(name), bytes)?;
        }
        let mut links = Links { to: &shadow.0, removed, left: ENTRIES_MAX };
        links.add(&fs::canonicalize(folder)?, "", 0)?;
        Ok(shadow)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "a temporary folder could not be removed");
        }
    }
}

/// Creates links from a shadow to the files of its folder.
struct Links<'f> {
    to: &'f Path,
    removed: &'f [String],
    left: usize,
}

impl Links<'_> {
    fn add(&mut self, folder: &Path, below: &str, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            let place = self.to.join(&name);
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                io::Error::other(format!("the folder has more than {ENTRIES_MAX} entries"))
            })?;
            // A hidden folder, such as `.git`, may be large. Archives have no hidden files, so it is linked as a whole.
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if entry.path().is_dir() && depth < DEPTH_MAX && !is_hidden {
                fs::create_dir_all(&place)?;
                self.add(&entry.path(), &format!("{name}/"), depth + 1)?;
            } else if !place.exists() && !self.removed.contains(&name) {
                symlink(entry.path(), place)?;
            }
        }
        Ok(())
    }
}
