//! Replaces the files of a folder atomically: either all of them or none.
//!
//! The old files are copied before anything is written. After a crash, the next start restores them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder with the old files.
const BEFORE: &str = ".before";

/// The file in that folder with the names of files that did not exist before, one per line.
const CREATED: &str = ".created";

/// A replacement that was neither committed nor undone yet.
pub(crate) struct Replacement {
    folder: PathBuf,
}

impl Replacement {
    /// Writes the files `new`, and removes the files `removed`. All names are relative to the folder.
    pub(crate) fn begin(
        folder: &Path,
        new: &[(String, Vec<u8>)],
        removed: &[String],
    ) -> io::Result<Replacement> {
        recover(folder)?;
        let before = folder.join(BEFORE);
        fs::create_dir(&before)?;
        let replacement = Replacement { folder: folder.to_owned() };
        match replacement.write(new, removed) {
            Ok(()) => Ok(replacement),
            Err(error) => {
                replacement.undo()?;
                Err(error)
            }
        }
    }

    fn write(&self, new: &[(String, Vec<u8>)], removed: &[String]) -> io::Result<()> {
        let mut created = String::new();
        for name in new.iter().map(|(name, _)| name).chain(removed) {
            let (place, aside) = (self.folder.join(name), self.folder.join(BEFORE).join(name));
            if !place.exists() {
                created.push_str(&format!("{name}\n"));
                continue;
            }
            if let Some(parent) = aside.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&place, &aside)?;
        }
        fs::write(self.folder.join(BEFORE).join(CREATED), created)?;
        for (name, bytes) in new {
            put(&self.folder.join(name), bytes)?;
        }
        removed.iter().try_for_each(|name| ignore_missing(fs::remove_file(self.folder.join(name))))
    }

    /// Commits: removes the copies of the old files.
    pub(crate) fn keep(self) -> io::Result<()> {
        fs::remove_dir_all(self.folder.join(BEFORE))
    }

    /// Restores the old files.
    pub(crate) fn undo(self) -> io::Result<()> {
        recover(&self.folder)
    }
}

/// Restores the old files of a replacement that was neither committed nor undone.
pub(crate) fn recover(folder: &Path) -> io::Result<()> {
    let before = folder.join(BEFORE);
    if !before.is_dir() {
        return Ok(());
    }
    // Harmless: without the list, nothing was written yet.
    if let Ok(created) = fs::read_to_string(before.join(CREATED)) {
        put_back(&before, folder)?;
        created.lines().try_for_each(|name| ignore_missing(fs::remove_file(folder.join(name))))?;
    }
    fs::remove_dir_all(&before)
}

fn put_back(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            put_back(&entry.path(), &place)?;
        } else if entry.file_name() != CREATED {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

/// Writes a file, and creates its folders. An existing file keeps its permissions and its owner.
pub(crate) fn put(place: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(place, bytes)
}

fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_replaced_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).ok();
        fs::create_dir(at("x")).unwrap();
        fs::write(at("a.yaml"), "old").unwrap();
        fs::write(at("x/b.xsl"), "old").unwrap();
        let new =
            [("a.yaml".to_owned(), b"new".to_vec()), ("y/c.yaml".to_owned(), b"new".to_vec())];
        let removed = ["x/b.xsl".to_owned()];
        let begin = || Replacement::begin(folder.path(), &new, &removed).unwrap();
        let state = || [read("a.yaml"), read("x/b.xsl"), read("y/c.yaml")];
        let (old, done) = (Some("old".to_owned()), Some("new".to_owned()));
        begin().undo().unwrap();
        assert_eq!(state(), [old.clone(), old.clone(), None]);
        // A crash.
        drop(begin());
        assert_eq!(state(), [done.clone(), None, done.clone()]);
        recover(folder.path()).unwrap();
        assert_eq!(state(), [old.clone(), old, None]);
        begin().keep().unwrap();
        assert_eq!(state(), [done.clone(), None, done]);
        assert!(!at(BEFORE).exists());
    }
}
