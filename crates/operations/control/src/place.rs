//! Replaces the files of a folder atomically: either all of them or none.
//!
//! The old files are copied before anything is written. After a crash, the next start restores them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The folder with the old files.
const BEFORE: &str = ".before";

/// The end of the name of a folder with old files that are no longer needed.
pub(crate) const OLD: &str = ".old";

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

    /// Removes the copies of the old files.
    pub(crate) fn keep(self) -> io::Result<()> {
        fs::remove_dir_all(self.commit()?)
    }

    /// Makes the replacement permanent even if the copies of the old files cannot be removed afterwards. Returns their new folder.
    fn commit(self) -> io::Result<PathBuf> {
        set_aside(&self.folder.join(BEFORE))
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
    match fs::read_to_string(before.join(CREATED)) {
        Ok(created) => {
            put_back(&before, folder)?;
            let mut created = created.lines();
            created.try_for_each(|name| ignore_missing(fs::remove_file(folder.join(name))))?;
        }
        // Without the list, nothing was written yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::remove_dir_all(&before)
}

/// Renames a folder with old files that are no longer needed, and returns its new path. The next start removes it.
pub(crate) fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    // Harmless: the folder has a name.
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let old = folder.with_file_name(format!("{name}.{}{OLD}", kit::clock::wall().as_nanos()));
    fs::rename(folder, &old)?;
    Ok(old)
}

/// Removes copies of old files that could not be removed before.
pub(crate) fn remove_old(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(BEFORE).and_then(|rest| rest.strip_prefix('.'));
        if rest.is_some_and(|rest| rest.ends_with(OLD)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
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

/// Options for writing a file. A new file is readable only by its owner, since it may have secrets.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Writes a file, and creates its folders. An existing file keeps its permissions and its owner.
pub(crate) fn put(place: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    // Harmless: an existing file was copied before, or is left over from an interrupted change.
    private().create(true).truncate(true).open(place)?.write_all(bytes)
}

pub(crate) fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

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
        // The copies cannot be removed, or a crash happens before.
        begin().commit().unwrap();
        recover(folder.path()).unwrap();
        assert_eq!(state(), [done.clone(), None, done.clone()]);
        begin().keep().unwrap();
        assert_eq!(state(), [done.clone(), None, done]);
        remove_old(folder.path()).unwrap();
        let hidden = fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
    }

    #[test]
    fn a_new_file_is_readable_only_by_its_owner_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        fs::write(at("old"), "old").unwrap();
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o640)).unwrap();
        for name in ["old", "new"] {
            put(&at(name), b"text").unwrap();
        }
        assert_eq!((mode("old"), mode("new")), (0o640, 0o600));
    }

    #[test]
    fn copies_stay_if_the_list_of_new_files_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.yaml"), "old").unwrap();
        let new = [("a.yaml".to_owned(), b"new".to_vec())];
        drop(Replacement::begin(folder.path(), &new, &[]).unwrap());
        // A folder in place of the list is as unreadable as a list on a broken disk.
        fs::remove_file(at(BEFORE).join(CREATED)).unwrap();
        fs::create_dir(at(BEFORE).join(CREATED)).unwrap();
        recover(folder.path()).unwrap_err();
        assert_eq!(fs::read_to_string(at(BEFORE).join("a.yaml")).unwrap(), "old");
    }
}
