//! Detects changed files in two ways: by stamps, which are cheap and compared at each poll, and by contents, which decide.
//!
//! A stamp follows links, so that it detects both a file renamed over another one and a changed link (as Kubernetes does
//! with a ConfigMap).

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of bytes of a file that are hashed. No configuration accepts larger files, and a device such as `/dev/zero` is
/// endless.
const CONTENT_BYTES_MAX: u64 = 32 << 20;

/// The metadata of files at one time. A missing file has none, and is detected when it appears.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

/// A file's identity and its times of change. Only the system sets the change time, so an editor that restores the
/// modification time is also detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The contents of files at one time, as one hash for each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Contents(Vec<(PathBuf, Option<u128>)>);

impl Stamps {
    pub(crate) fn take(files: &[PathBuf]) -> Stamps {
        Stamps(files.iter().map(|file| (file.clone(), Stamp::of(file))).collect())
    }

    /// New stamps of the same files.
    pub(crate) fn reread(&self) -> Stamps {
        Stamps(self.0.iter().map(|(file, _)| (file.clone(), Stamp::of(file))).collect())
    }

    /// Takes new stamps of some of the files.
    pub(crate) fn renew(&mut self, which: impl Fn(&Path) -> bool) {
        for (file, stamp) in self.0.iter_mut().filter(|(file, _)| which(file)) {
            *stamp = Stamp::of(file);
        }
    }

    /// Stamps of these files: existing ones for known files, new ones for the others.
    pub(crate) fn extended(&self, files: &[PathBuf]) -> Stamps {
        let known = |file: &PathBuf| self.0.iter().find(|(known, _)| known == file);
        let stamp =
            |file: &PathBuf| known(file).map_or_else(|| Stamp::of(file), |(_, stamp)| *stamp);
        Stamps(files.iter().map(|file| (file.clone(), stamp(file))).collect())
    }
}

impl Stamp {
    /// None for a file that is missing or inaccessible.
    fn of(file: &Path) -> Option<Stamp> {
        // Harmless: a missing file differs from an existing one.
        let meta = fs::metadata(file).ok()?;
        Some(Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl Contents {
    pub(crate) fn read(files: &[PathBuf]) -> Contents {
        Contents(files.iter().map(|file| (file.clone(), content_of(file))).collect())
    }

    /// The same files, read again.
    pub(crate) fn reread(&self) -> Contents {
        Contents(self.0.iter().map(|(file, _)| (file.clone(), content_of(file))).collect())
    }

    /// Replaces the content of one file with a text that is about to be written there.
    pub(crate) fn put(&mut self, file: &Path, text: &str) {
        let mut hash = Fnv::default();
        hash.add(text.as_bytes());
        match self.0.iter_mut().find(|(known, _)| known == file) {
            Some((_, known)) => *known = Some(hash.0),
            None => self.0.push((file.to_owned(), Some(hash.0))),
        }
    }

    /// Adopts the contents in `others` for the same files.
    pub(crate) fn correct(&mut self, others: &Contents) {
        for (file, hash) in &mut self.0 {
            if let Some((_, known)) = others.0.iter().find(|(other, _)| other == file) {
                *hash = *known;
            }
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().map(|(file, _)| file)
    }

    /// True if each file that both have has the same content in both.
    pub(crate) fn agrees(&self, other: &Contents) -> bool {
        let same = |(file, hash): &(PathBuf, Option<u128>)| {
            other.0.iter().find(|(known, _)| known == file).is_none_or(|(_, known)| known == hash)
        };
        self.0.iter().all(same)
    }

    /// A hash of all contents, which is the same on every machine with the same contents.
    pub(crate) fn digest(&self) -> String {
        let mut all = Fnv::default();
        for (_, hash) in &self.0 {
            // Zero is used for an unreadable file.
            all.add(&hash.unwrap_or(0).to_le_bytes());
        }
        format!("{:016x}", all.0 >> 64)
    }
}

/// The hash of a file. None if it cannot be read.
fn content_of(path: &Path) -> Option<u128> {
    // Harmless: an unreadable file differs from a readable one.
    hash_of(path).ok()
}

/// The hash of a file's content. For a folder, the hash of the names of its configuration files, and of the bundles in it.
fn hash_of(path: &Path) -> io::Result<u128> {
    let mut hash = Fnv::default();
    if path.is_dir() {
        let listed = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
        let mut paths = listed.collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| config::is_configuration(path));
        let holds = |path: &PathBuf| {
            // Harmless: a bundle that cannot be listed causes a complaint when its folder is read.
            let inside = fs::read_dir(path).into_iter().flatten().flatten();
            inside.map(|entry| entry.path()).any(|path| config::is_configuration(&path))
        };
        paths.extend(config::bundles_in(path)?.into_iter().filter(holds));
        paths.sort();
        for path in paths {
            // Harmless: a listed file has a name.
            hash.add(path.file_name().unwrap_or_default().as_encoded_bytes());
            hash.add(b"/");
        }
    } else {
        // Harmless: a configuration refuses larger files.
        let mut file = config::open(path)?.take(CONTENT_BYTES_MAX);
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece)? {
                0 => break,
                read => hash.add(piece.get(..read).unwrap_or_default()),
            }
        }
    }
    Ok(hash.0)
}

/// FNV-1a with 128 bits. It need not withstand attacks, since the authors of the configuration control the gateway anyway. It
/// has to be the same in every build, unlike the hash of the standard library.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_hash_is_fnv_1a() {
        let mut hash = Fnv::default();
        assert_eq!(hash.0, 0x6c62272e07bb014262b821756295c58d);
        hash.add(b"foobar");
        assert_eq!(hash.0, 0x343e1662793c64bf6f0d3597ba446f18);
    }

    #[test]
    fn every_way_to_change_a_file_shows_in_its_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("one"), "1").unwrap();
        fs::write(at("two"), "2").unwrap();
        symlink(at("one"), at("link")).unwrap();
        let files = [at("one"), at("link"), at("missing")];

        let check = |what: &str, change: &dyn Fn()| {
            let (stamps, contents) = (Stamps::take(&files), Contents::read(&files));
            assert_eq!((stamps.reread(), contents.reread()), (stamps.clone(), contents.clone()));
            change();
            assert_ne!(stamps.reread(), stamps, "{what}");
            assert_ne!(contents.reread(), contents, "{what}");
            assert!(!contents.reread().agrees(&contents), "{what}");
        };
        check("written", &|| fs::write(at("one"), "one").unwrap());
        check("renamed over", &|| {
            fs::write(at("new"), "new").unwrap();
            fs::rename(at("new"), at("one")).unwrap();
        });
        check("link turned", &|| {
            symlink(at("two"), at("turned")).unwrap();
            fs::rename(at("turned"), at("link")).unwrap();
        });
        check("made", &|| fs::write(at("missing"), "").unwrap());
        check("removed", &|| fs::remove_file(at("one")).unwrap());
    }

    #[test]
    fn an_endless_device_has_a_hash() {
        let files = [PathBuf::from("/dev/zero")];
        assert_eq!(Contents::read(&files), Contents::read(&files));
    }

    #[test]
    fn the_content_of_a_folder_is_its_file_names() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().to_owned()];
        let before = Contents::read(&files);
        fs::write(folder.path().join("a.yaml"), "").unwrap();
        let after = Contents::read(&files);
        assert_ne!(before, after);
        assert_ne!(before.digest(), after.digest());
    }

    #[test]
    fn files_that_only_one_side_knows_do_not_disagree() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let contents = Contents::read(std::slice::from_ref(&a));
        assert!(contents.agrees(&Contents::read(&[a, b])));
    }
}
