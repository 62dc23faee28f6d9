//! Replaces the configuration file atomically.
//!
//! A file that is itself a mount point, as in containers, cannot be replaced, and neither can one in a folder without
//! write permission. Such a file is overwritten in place, since otherwise a restart would lose the configuration.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// New content in a file beside the one it will replace. If it is dropped without [`Draft::replace`], it is removed.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The new file. None if it cannot be created.
    draft: Option<PathBuf>,
    file: PathBuf,
    text: String,
}

impl Draft {
    /// Writes the content to a new file with the permissions of the old one and, if allowed, its owner. Links are followed, so
    /// that their target is replaced. A full disk is an error.
    pub(crate) fn write(file: &Path, text: &str) -> io::Result<Draft> {
        let file = fs::canonicalize(file)?;
        // Harmless: a file that can be written has a name.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // Hidden, so that it does not count in a folder of configuration files.
        let beside = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let mut draft = Draft { draft: None, file, text: text.to_owned() };
        // Harmless: an existing file is the draft of an interrupted change.
        let created = OpenOptions::new().write(true).create(true).truncate(true).open(&beside);
        let mut new = match created {
            Ok(new) => new,
            Err(error) if is_full(&error) => return Err(error),
            Err(_) => return Ok(draft),
        };
        draft.draft = Some(beside);
        let old = fs::metadata(&draft.file)?;
        // Harmless: only root can change the owner; otherwise the new file is our own, as with an editor.
        let _ = fchown(&new, Some(old.uid()), Some(old.gid()));
        new.set_permissions(old.permissions())?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        Ok(draft)
    }

    /// Replaces the file with the draft.
    pub(crate) fn replace(mut self) -> io::Result<()> {
        let Some(draft) = &self.draft else { return self.overwrite() };
        match fs::rename(draft, &self.file) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return self.overwrite(),
            renamed => renamed?,
        }
        self.draft = None;
        // The rename is in effect. Syncing the folder also makes it durable.
        match self.file.parent().map(File::open) {
            Some(Ok(folder)) => folder.sync_all(),
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl Draft {
    /// Writes the content into the file. The file is not truncated first, so that its space stays reserved and the old content can be
    /// restored after an error.
    fn overwrite(&self) -> io::Result<()> {
        let old = fs::read(&self.file)?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        let put = |content: &[u8]| {
            file.write_all_at(content, 0)?;
            file.set_len(u64::try_from(content.len()).map_err(io::Error::other)?)?;
            file.sync_all()
        };
        put(self.text.as_bytes()).inspect_err(|_| {
            // Harmless: the caller gets the first error.
            let _ = put(&old);
        })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft
            && let Err(error) = fs::remove_file(draft)
        {
            tracing::warn!(%error, file = %draft.display(), "a draft of the configuration could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_target_of_a_link_is_replaced_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.yaml"), folder.path().join("link.yaml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let draft = Draft::write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        draft.replace().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a.yaml", "link.yaml"]);
    }

    #[test]
    fn a_file_without_a_draft_is_overwritten_in_place() {
        let folder = tempfile::tempdir().unwrap();
        // The name of a draft would be too long.
        let name = "a".repeat(250);
        let file = folder.path().join(&name);
        fs::write(&file, "old, and longer").unwrap();
        let draft = Draft::write(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old, and longer");
        draft.replace().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let draft = Draft::write(&file, "newer").unwrap();
        fs::remove_file(&file).unwrap();
        assert!(draft.replace().is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_unused_draft_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "old").unwrap();
        drop(Draft::write(&file, "new").unwrap());
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&file).unwrap()),
            (vec!["a.yaml".to_owned()], "old".to_owned())
        );
        assert!(Draft::write(&folder.path().join("missing.yaml"), "new").is_err());
    }
}
