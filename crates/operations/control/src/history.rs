//! The configurations that were in service, newest first, stored as files beside the configuration file or in the configuration
//! folder.
//!
//! Owns the folder `history/`. Its files are readable only by their owner, since texts may have secrets. If it cannot be
//! written, the history is kept in memory, with one warning.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::archive::NamedFile;
use crate::{lock, place};

/// One configuration that was in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub generation: u64,
    /// When it went into service, in the format of RFC 3339.
    pub time: String,
    /// The operator who sent it; or `file`, `signal`, `start`, `catalog`; or `store`, followed by the author on the other gateway if known.
    pub by: String,
    /// The hash of the configuration, as in its [`Status`](crate::Status).
    pub hash: String,
    /// The number of differences to the previous one.
    pub changes: usize,
}

/// A file of a configuration: its name in the folder, and its text.
pub(crate) type KeptFile = (String, String);

/// The files of one configuration.
pub(crate) type KeptFiles = Arc<KeptContent>;

/// The stored content of one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptContent {
    /// The texts of the configuration itself.
    pub(crate) texts: Vec<KeptFile>,
    /// Files of its folder that it names, such as stylesheets.
    pub(crate) named: Vec<NamedFile>,
    /// The names of files that it names but that are not stored, since they have secrets, are too large, or cannot be read.
    pub(crate) others: Vec<String>,
}

/// The folder of the history: beside a configuration file, or in a configuration folder.
const FOLDER: &str = "history";

/// The longest first line of a file, which is an entry without its texts.
const ENTRY_BYTES_MAX: u64 = 64 << 10;

/// The largest file: all stored files of one configuration, in JSON.
const FILE_BYTES_MAX: u64 = 512 << 20;

pub(crate) struct History {
    folder: PathBuf,
    /// The name of the configuration, since several may have their history in the same folder.
    name: String,
    kept: Mutex<VecDeque<KeptConfiguration>>,
    was_warned: AtomicBool,
}

#[derive(Clone)]
struct KeptConfiguration {
    entry: HistoryEntry,
    /// None if the files are on disk.
    files: Option<KeptFiles>,
}

impl History {
    /// The history of the configuration at this path, as far as it is readable.
    pub(crate) fn open(path: &Path) -> History {
        let (beside, name) = if path.is_dir() {
            (path, "configuration".into())
        } else {
            // Harmless: a configuration that was read has a name.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (path.parent().unwrap_or(Path::new("")), name)
        };
        let history = History {
            folder: beside.join(FOLDER),
            name: name.into_owned(),
            kept: Mutex::default(),
            was_warned: AtomicBool::new(false),
        };
        *lock(&history.kept) = history.found().into();
        history
    }

    /// The entries on disk, newest first. Unreadable files are ignored.
    fn found(&self) -> Vec<KeptConfiguration> {
        let Ok(listed) = fs::read_dir(&self.folder) else { return Vec::new() };
        let prefix = format!("{}-", self.name);
        let is_ours = |path: &PathBuf| {
            // Harmless: a listed file has a name.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".json")
        };
        // Harmless: an unreadable entry is ignored.
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours);
        // Harmless: a file without an entry is ignored.
        let mut found: Vec<KeptConfiguration> = paths
            .filter_map(|path| Some(KeptConfiguration { entry: first_line(&path)?, files: None }))
            .collect();
        found.sort_by_key(|kept| std::cmp::Reverse(kept.entry.generation));
        found
    }

    /// All entries, newest first.
    pub(crate) fn entries(&self) -> Vec<HistoryEntry> {
        lock(&self.kept).iter().map(|kept| kept.entry.clone()).collect()
    }

    pub(crate) fn last(&self) -> Option<HistoryEntry> {
        lock(&self.kept).front().map(|kept| kept.entry.clone())
    }

    /// The generation of the configuration that is in service after a start.
    pub(crate) fn first_generation(&self, hash: &str) -> u64 {
        match self.last() {
            Some(last) if last.hash == hash => last.generation,
            Some(last) => last.generation + 1,
            None => 1,
        }
    }

    /// The files of a generation. None if they are not stored.
    pub(crate) fn files(&self, generation: u64) -> io::Result<Option<KeptFiles>> {
        let found =
            lock(&self.kept).iter().find(|kept| kept.entry.generation == generation).cloned();
        match found {
            None => Ok(None),
            Some(KeptConfiguration { files: Some(files), .. }) => Ok(Some(files)),
            Some(KeptConfiguration { files: None, .. }) => read(&self.file(generation)).map(Some),
        }
    }

    /// Adds the configuration in service, unless its hash equals that of the last entry, and removes all but the newest `max`.
    pub(crate) fn add(&self, entry: HistoryEntry, files: KeptContent, max: usize) {
        let is_same = |last: HistoryEntry| last.hash == entry.hash && !entry.hash.is_empty();
        if max == 0 || self.last().is_some_and(is_same) {
            return;
        }
        let written = self.write(&entry, &files);
        let files = match written {
            Ok(()) => None,
            Err(error) => {
                if !self.was_warned.swap(true, Relaxed) {
                    let folder = self.folder.display();
                    tracing::warn!(%error, %folder, "the history of the configuration is kept only in memory");
                }
                Some(Arc::new(files))
            }
        };
        let mut kept = lock(&self.kept);
        kept.push_front(KeptConfiguration { entry, files });
        let end = max.min(kept.len());
        let forgotten: Vec<KeptConfiguration> = kept.drain(end..).collect();
        drop(kept);
        for kept in forgotten {
            // Harmless: a configuration that is kept only in memory has no file.
            let _ = fs::remove_file(self.file(kept.entry.generation));
        }
    }

    fn file(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("{}-{generation:08}.json", self.name))
    }

    fn write(&self, entry: &HistoryEntry, files: &KeptContent) -> io::Result<()> {
        if !self.folder.is_dir() {
            DirBuilder::new().mode(0o700).create(&self.folder)?;
        }
        let path = self.file(entry.generation);
        let new = path.with_extension("new");
        let texts = files.texts.iter().map(|(name, text)| json!({ "name": name, "text": text }));
        let named = files.named.iter();
        let named =
            named.map(|(name, bytes)| json!({ "name": name, "base64": STANDARD.encode(bytes) }));
        let others = files.others.iter().map(|name| json!({ "name": name }));
        let files: Value = texts.chain(named).chain(others).collect();
        let lines = format!("{}\n{files}\n", entry.to_json());
        // Harmless: an existing file is from an interrupted write.
        let _ = fs::remove_file(&new);
        let mut file = place::private().create_new(true).open(&new)?;
        file.write_all(lines.as_bytes())?;
        fs::rename(&new, &path)
    }
}

impl HistoryEntry {
    /// The entry in the admin API.
    pub fn to_json(&self) -> Value {
        let HistoryEntry { generation, time, by, hash, changes } = self;
        json!({ "generation": generation, "time": time, "by": by, "hash": hash, "changes": changes })
    }

    fn from_json(told: &Value) -> Option<HistoryEntry> {
        let text = |name: &str| told.get(name)?.as_str().map(str::to_owned);
        Some(HistoryEntry {
            generation: told.get("generation")?.as_u64()?,
            time: text("time")?,
            by: text("by")?,
            hash: text("hash")?,
            changes: told.get("changes")?.as_u64()?.try_into().ok()?,
        })
    }
}

fn first_line(path: &Path) -> Option<HistoryEntry> {
    let mut line = String::new();
    // Harmless: a truncated line is not valid JSON.
    BufReader::new(File::open(path).ok()?.take(ENTRY_BYTES_MAX)).read_line(&mut line).ok()?;
    HistoryEntry::from_json(&serde_json::from_str(&line).ok()?)
}

fn read(path: &Path) -> io::Result<KeptFiles> {
    let mut text = String::new();
    // Harmless: truncated JSON is refused below.
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let damaged = || io::Error::other(format!("{} is damaged", path.display()));
    let (_, files) = text.split_once('\n').ok_or_else(damaged)?;
    let files: Value = serde_json::from_str(files)?;
    let member = |file: &Value, name: &str| file.get(name)?.as_str().map(str::to_owned);
    let mut content = KeptContent::default();
    for file in files.as_array().ok_or_else(damaged)? {
        let name = member(file, "name").ok_or_else(damaged)?;
        match (member(file, "text"), member(file, "base64")) {
            (Some(text), _) => content.texts.push((name, text)),
            (None, Some(base64)) => {
                let bytes = STANDARD.decode(base64).map_err(|_| damaged())?;
                content.named.push((name, bytes));
            }
            (None, None) => content.others.push(name),
        }
    }
    Ok(Arc::new(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn entry(generation: u64, hash: &str) -> HistoryEntry {
        let text = |text: &str| text.to_owned();
        HistoryEntry { generation, time: text("t"), by: text("file"), hash: text(hash), changes: 2 }
    }

    fn files(text: &str) -> KeptContent {
        KeptContent {
            texts: vec![("a.yaml".to_owned(), text.to_owned())],
            named: vec![("x/a.bin".to_owned(), vec![0, 255, 10])],
            others: vec!["key.pem".to_owned()],
        }
    }

    #[test]
    fn the_history_is_read_again_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let history = History::open(&path);
        assert_eq!((history.first_generation("x"), history.entries()), (1, vec![]));
        for (generation, hash) in [(1, "x"), (2, "y"), (3, "y"), (4, "z")] {
            history.add(entry(generation, hash), files(hash), 2);
        }
        // Consecutive equal configurations count once, and only the newest are kept.
        let again = History::open(&path);
        assert_eq!(again.entries(), [entry(4, "z"), entry(2, "y")]);
        assert_eq!(*again.files(2).unwrap().unwrap(), files("y"));
        assert_eq!(again.files(1).unwrap(), None);
        assert_eq!((again.first_generation("z"), again.first_generation("a")), (4, 5));
        assert_eq!(History::open(&folder.path().join("b.yaml")).entries(), []);
        let kept = folder.path().join("history");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&kept), 0o700);
        for file in fs::read_dir(&kept).unwrap() {
            assert_eq!(mode(&file.unwrap().path()), 0o600);
        }
    }

    #[test]
    fn without_a_writable_folder_the_history_is_kept_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("history"), "a file").unwrap();
        let history = History::open(&folder.path().join("a.yaml"));
        history.add(entry(1, "x"), files("x"), 2);
        assert_eq!(*history.files(1).unwrap().unwrap(), files("x"));
    }
}
