//! Bundles: folders with configuration and the files that it names. Each is put into service or removed as a whole.
//!
//! A bundle is unpacked in a temporary folder, and then moved to its place after the previous one was moved away. If the
//! configuration with it is refused, or cannot be put into service, everything is moved back. After a crash in between, the next start
//! moves everything back.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::unpack::{self, UnpackedBundle};
use crate::{Control, Failure, Outcome, blocking, lock, place, run_detached};

/// A bundle in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    pub name: String,
    /// Its files, by their paths inside it.
    pub files: Vec<String>,
    /// The number of entries that are not listed, because there are too many or they are too deep.
    pub unlisted: usize,
    /// The size of all files but those in unlisted folders.
    pub bytes: u64,
    /// The time at which it was put there, in seconds since 1970.
    pub since: u64,
}

/// Files of a bundle, by their names in its folder.
pub type BundleFiles = Vec<(String, Vec<u8>)>;

/// The author that the history records for bundles of the catalog.
const CATALOG: &str = "catalog";

/// The longest name.
const NAME_CHARS_MAX: usize = 64;

/// The depth of listed folders. Deeper ones are only counted.
const DEPTH_MAX: usize = 32;

/// The number of listed files of one bundle. Further ones are only counted.
const LISTED_MAX: usize = 10_000;

impl Control {
    /// The bundles in the folder. Empty if no folder is configured.
    pub async fn bundles(&self) -> Result<Vec<Bundle>, Failure> {
        let Some(folder) = self.current().bundles.clone() else { return Ok(Vec::new()) };
        blocking(move || list(&folder)).await?.map_err(|error| unusable(&error))
    }

    /// Puts a bundle into service, replacing the one of the same name. It succeeds or fails as a whole. Also returns notes about
    /// parts that were converted only approximately or not at all.
    pub async fn deploy(
        self: &Arc<Self>,
        name: String,
        archive: Vec<u8>,
        by: String,
    ) -> Result<(Outcome, Vec<String>), Failure> {
        let control = self.clone();
        let notes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = notes.clone();
        let change = async move {
            let _turn = control.turn.lock().await;
            let folder = control.bundle_folder(&name)?;
            let (place, staged) = (folder.join(&name), folder.join(format!(".{name}.new")));
            let unpacking = staged.clone();
            let unpacked = blocking(move || stage(&archive, &unpacking)).await?;
            let UnpackedBundle { notes } = unpacked.map_err(Failure::Invalid)?;
            *lock(&kept) = notes;
            control.swap(place, Some(staged), &by).await
        };
        let outcome = run_detached(change).await?;
        let notes = std::mem::take(&mut *lock(&notes));
        Ok((outcome, notes))
    }

    /// Puts generated files into service as a bundle. Does nothing if they are already in service.
    pub async fn place_bundle(
        self: &Arc<Self>,
        name: String,
        files: BundleFiles,
    ) -> Result<Outcome, Failure> {
        let control = self.clone();
        let change = async move {
            let _turn = control.turn.lock().await;
            let place = control.bundle_folder(&name)?.join(&name);
            let (known, files) = blocking(move || (has_files(&place, &files), files)).await?;
            if known && control.is_unchanged().await? {
                return Ok(Outcome::Unchanged(control.plan().generation));
            }
            let (place, staged) = control.stage_files(&name, files).await?;
            control.swap(place, Some(staged), CATALOG).await
        };
        run_detached(change).await
    }

    /// Refuses files with which the configuration would not compile, without changing anything.
    pub async fn try_bundle(
        self: &Arc<Self>,
        name: String,
        files: BundleFiles,
    ) -> Result<(), Failure> {
        let control = self.clone();
        let attempt = async move {
            let _turn = control.turn.lock().await;
            let (place, staged) = control.stage_files(&name, files).await?;
            let folder = place.parent().unwrap_or(Path::new("")).to_owned();
            let swap = blocking(move || Swap::begin(place, Some(&staged))).await?;
            let swap = swap.map_err(|error| unusable(&error))?;
            let compiled = control.compile(Arc::new(control.files())).await;
            let undone = blocking(move || swap.undo()).await?;
            undone.map_err(|error| unusable(&error))?;
            lock(&control.watched).renew(|file| file.starts_with(&folder));
            compiled.map(drop)
        };
        run_detached(attempt).await
    }

    /// Writes files to a temporary folder. Returns the place of the bundle and the temporary folder.
    async fn stage_files(
        &self,
        name: &str,
        files: BundleFiles,
    ) -> Result<(PathBuf, PathBuf), Failure> {
        let folder = self.bundle_folder(name)?;
        let (place, staged) = (folder.join(name), folder.join(format!(".{name}.new")));
        let writing = staged.clone();
        let written = blocking(move || write_files(&writing, &files)).await?;
        written.map_err(|error| unusable(&error))?;
        Ok((place, staged))
    }

    /// Takes a bundle out of service. This fails if the rest of the configuration needs the bundle.
    pub async fn take_out(self: &Arc<Self>, name: String, by: String) -> Result<Outcome, Failure> {
        let control = self.clone();
        let change = async move {
            let _turn = control.turn.lock().await;
            let place = control.bundle_folder(&name)?.join(&name);
            if !place.is_dir() {
                return Err(Failure::NoBundle(name));
            }
            control.swap(place, None, &by).await
        };
        run_detached(change).await
    }

    /// The folder of bundles, if the name is valid for a bundle.
    fn bundle_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.len() <= NAME_CHARS_MAX
            && name.chars().all(good);
        if !is_name {
            let what = format!(
                "a bundle's name must have up to {NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`, and begin with a letter or digit"
            );
            return Err(Failure::BadName(what));
        }
        let folder = self.current().bundles.clone();
        folder.ok_or_else(|| {
            Failure::Unwritable(
                "no folder for bundles is configured: write `bundles: { folder: bundles }`"
                    .to_owned(),
            )
        })
    }

    /// Moves a bundle to or from its place, and puts the resulting configuration into service.
    async fn swap(
        &self,
        place: PathBuf,
        staged: Option<PathBuf>,
        by: &str,
    ) -> Result<Outcome, Failure> {
        let folder = place.parent().unwrap_or(Path::new("")).to_owned();
        let swap = blocking(move || Swap::begin(place, staged.as_deref())).await?;
        let swap = swap.map_err(|error| unusable(&error))?;
        let input = self.files();
        let result = self.change(input, by).await;
        let keeps = result.is_ok();
        let ended = blocking(move || if keeps { swap.keep() } else { swap.undo() }).await?;
        match ended {
            Ok(()) => {}
            Err(error) if keeps => tracing::error!(%error, "the old bundle could not be removed"),
            Err(error) => tracing::error!(%error, "the old bundle could not be put back"),
        }
        // The watch must not take this move for a change from outside.
        lock(&self.watched).renew(|file| file.starts_with(&folder));
        self.note(&result);
        result
    }
}

/// A replacement of a bundle in progress.
struct Swap {
    place: PathBuf,
    /// The previous bundle, or an empty folder if there was none.
    before: PathBuf,
}

impl Swap {
    fn begin(place: PathBuf, staged: Option<&Path>) -> io::Result<Swap> {
        // Harmless: the place of a bundle is a folder with its name.
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let before = place.with_file_name(format!(".{name}.before"));
        remove(&before)?;
        if place.exists() {
            fs::rename(&place, &before)?
        } else {
            fs::create_dir(&before)?
        }
        let swap = Swap { place, before };
        if let Some(staged) = staged
            && let Err(error) = fs::rename(staged, &swap.place)
        {
            swap.undo()?;
            return Err(error);
        }
        Ok(swap)
    }

    /// Removes the previous bundle.
    fn keep(self) -> io::Result<()> {
        remove(&self.commit()?)
    }

    /// Makes the replacement permanent even if the previous bundle cannot be removed afterwards. Returns its new folder.
    fn commit(self) -> io::Result<PathBuf> {
        place::set_aside(&self.before)
    }

    /// Moves everything back.
    fn undo(self) -> io::Result<()> {
        remove(&self.place)?;
        match fs::read_dir(&self.before)?.next() {
            Some(_) => fs::rename(&self.before, &self.place),
            None => fs::remove_dir(&self.before),
        }
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    place::ignore_missing(fs::remove_dir_all(folder))
}

/// True if a folder has exactly these files.
fn has_files(folder: &Path, files: &BundleFiles) -> bool {
    // Harmless: an unreadable folder is written again.
    let count = fs::read_dir(folder).map_or(0, Iterator::count);
    count == files.len() && has_all(folder, files)
}

/// True if a folder has these files, and possibly others.
pub(crate) fn has_all(folder: &Path, files: &[(String, Vec<u8>)]) -> bool {
    let is_there = |(name, bytes): &(String, Vec<u8>)| {
        fs::read(folder.join(name)).is_ok_and(|known| known == *bytes)
    };
    files.iter().all(is_there)
}

fn write_files(staged: &Path, files: &BundleFiles) -> io::Result<()> {
    remove(staged)?;
    fs::create_dir_all(staged)?;
    for (name, bytes) in files {
        // The files may contain credentials for upstreams.
        let mut file = place::private().create_new(true).open(staged.join(name))?;
        file.write_all(bytes)?;
    }
    Ok(())
}

/// Unpacks an archive into a folder. If the archive is invalid, the folder is removed.
fn stage(archive: &[u8], staged: &Path) -> Result<UnpackedBundle, String> {
    let failed = |error: io::Error| format!("{}: {error}", staged.display());
    remove(staged).map_err(failed)?;
    fs::create_dir_all(staged).map_err(failed)?;
    let unpacked = unpack::unpack(archive, staged);
    if unpacked.is_err() {
        remove(staged).map_err(failed)?;
    }
    unpacked
}

/// Moves back the folders of a replacement that a crash has interrupted, and removes what could not be removed before.
pub(crate) fn recover(folder: &Path) {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        // There is no folder before the first bundle.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let folder = folder.display();
            return tracing::error!(%error, %folder, "interrupted changes of bundles cannot be searched for");
        }
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix('.') else { continue };
        if let Some(bundle) = name.strip_suffix(".before") {
            match (Swap { place: folder.join(bundle), before: entry.path() }).undo() {
                Ok(()) => {
                    tracing::warn!(
                        bundle,
                        "the change of a bundle was interrupted and has been undone"
                    );
                }
                Err(error) => {
                    tracing::error!(%error, bundle, "the interrupted change of a bundle cannot be undone");
                }
            }
        } else if (name.ends_with(".new") || name.ends_with(place::OLD))
            && let Err(error) = remove(&entry.path())
        {
            let folder = entry.path();
            tracing::error!(%error, folder = %folder.display(), "an old bundle or a part of a new one cannot be removed");
        }
    }
}

fn list(folder: &Path) -> io::Result<Vec<Bundle>> {
    let mut bundles = Vec::new();
    for path in config::bundles_in(folder)? {
        let mut bundle = Bundle {
            // Harmless: a listed folder has a name.
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            files: Vec::new(),
            unlisted: 0,
            bytes: 0,
            since: 0,
        };
        let changed = fs::metadata(&path)?.modified()?;
        bundle.since = changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        add_files(&path, "", 0, &mut bundle)?;
        bundle.files.sort();
        bundles.push(bundle);
    }
    Ok(bundles)
}

fn add_files(folder: &Path, below: &str, depth: usize, bundle: &mut Bundle) -> io::Result<()> {
    if depth == DEPTH_MAX {
        bundle.unlisted += 1;
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name().to_string_lossy().into_owned());
        if kind.is_dir() {
            add_files(&entry.path(), &format!("{below}{name}/"), depth + 1, bundle)?;
            continue;
        }
        bundle.bytes += entry.metadata()?.len();
        if bundle.files.len() < LISTED_MAX {
            bundle.files.push(format!("{below}{name}"))
        } else {
            bundle.unlisted += 1
        }
    }
    Ok(())
}

fn unusable(error: &io::Error) -> Failure {
    Failure::Unwritable(format!("the folder of bundles: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_is_permanent_before_the_old_bundle_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let put = |name: &str, text: &str| {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join("a.yaml"), text).unwrap();
        };
        let begin = |text: &str| {
            put(".b.new", text);
            Swap::begin(at("b"), Some(&at(".b.new"))).unwrap()
        };
        let restart = || {
            recover(folder.path());
            let names = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name());
            assert_eq!(names.collect::<Vec<_>>(), ["b"]);
            fs::read_to_string(at("b").join("a.yaml")).unwrap()
        };
        put("b", "one");
        // A crash before the end of the change.
        drop(begin("two"));
        assert_eq!(restart(), "one");
        // The old bundles cannot be removed, or a crash happens before.
        begin("two").commit().unwrap();
        begin("three").commit().unwrap();
        assert_eq!(restart(), "three");
        begin("four").undo().unwrap();
        assert_eq!(restart(), "three");
        begin("four").keep().unwrap();
        assert_eq!(restart(), "four");
    }
}
