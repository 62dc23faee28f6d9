//! Unpacks archives of bundles into a folder, with limits. No entry is written outside of it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Cursor, Read, Write as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use import::{synapse, zip_names};
use zip::ZipArchive;

use crate::{Failure, place};

/// The result of unpacking.
#[derive(Debug, Default)]
pub(crate) struct UnpackedBundle {
    /// Parts of Synapse artifacts that were approximated or refused.
    pub(crate) notes: Vec<String>,
}

/// The limit of files in one bundle.
const FILES_MAX: usize = 2_000;

/// The limit of entries in a `.tar.gz`. Each file may be preceded by one or two extensions.
const ENTRIES_MAX: usize = 3 * FILES_MAX;

/// The largest unpacked file. A configuration or a schema has a few megabytes at most.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The beginning of the message about an archive with files that are too large.
const TOO_LARGE: &str = "the archive is too large";

/// The limit of the total size of unpacked files.
const ALL_BYTES_MAX: u64 = 128 << 20;

/// The longest path in characters.
const PATH_CHARS_MAX: usize = 240;

/// The limit of the number of segments in a path.
const DEPTH_MAX: usize = 16;

/// The mask of a file's type in its mode.
const KIND: u32 = 0o170_000;

/// The type of a regular file.
const REGULAR: u32 = 0o100_000;

/// The type of a folder.
const FOLDER: u32 = 0o040_000;

/// The first bytes of gzip data, and so of a `.tar.gz`.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The limit of the unpacked size of a `.tar.gz`: its files, each with a head, a long name and padding.
const TAR_BYTES_MAX: u64 = ALL_BYTES_MAX + FILES_MAX as u64 * 4_096;

/// The limit of the size of an extension in a `.tar.gz`: a long name, or records about the next entry.
const EXTENSION_BYTES_MAX: u64 = 64 << 10;

/// Unpacks an archive. The error describes what is wrong with it.
pub(crate) fn unpack(archive: &[u8], folder: &Path) -> Result<UnpackedBundle, String> {
    if archive.starts_with(&GZIP) {
        unpack_tar(archive, folder)
    } else {
        unpack_zip(archive, folder)
    }
}

/// Unpacks a ZIP archive as it is. Unlike [`unpack`], it converts nothing.
pub(crate) fn unpack_plain(archive: &[u8], folder: &Path) -> Result<(), Failure> {
    let mut zip = ZipArchive::new(Cursor::new(archive))
        .map_err(|error| Failure::Invalid(format!("this is not a ZIP archive: {error}")))?;
    if zip.len() > FILES_MAX {
        return Err(Failure::TooLarge(too_many()));
    }
    let checked = zip_names::check_once(archive, zip.central_directory_start(), zip.len());
    checked.map_err(|why| Failure::Invalid(why.to_string()))?;
    let names = names(&mut zip).map_err(Failure::Invalid)?;
    let mut files = Files::new(folder, &names);
    for at in 0..zip.len() {
        let entry =
            zip.by_index(at).map_err(|error| Failure::Invalid(format!("entry {at}: {error}")))?;
        let name = entry.name().to_owned();
        if entry.is_dir() {
            continue;
        }
        let announced = entry.size();
        // Harmless: `zip` has compared the size with the announced one.
        let added = files.add(&name, entry).map(drop);
        added.map_err(|why| {
            if announced > FILE_BYTES_MAX || why.starts_with(TOO_LARGE) {
                Failure::TooLarge(why)
            } else {
                Failure::Invalid(why)
            }
        })?;
    }
    files.end().map(drop).map_err(Failure::Invalid)
}

fn unpack_zip(archive: &[u8], folder: &Path) -> Result<UnpackedBundle, String> {
    let mut zip = ZipArchive::new(Cursor::new(archive))
        .map_err(|error| format!("this is neither a ZIP archive nor a .tar.gz: {error}"))?;
    if zip.len() > FILES_MAX {
        return Err(too_many());
    }
    zip_names::check_once(archive, zip.central_directory_start(), zip.len())?;
    let names = names(&mut zip)?;
    if names.iter().any(|name| name == "artifacts.xml") {
        return convert(archive, folder);
    }
    let mut files = Files::new(folder, &names);
    for at in 0..zip.len() {
        let entry = zip.by_index(at).map_err(|error| format!("entry {at}: {error}"))?;
        let name = entry.name().to_owned();
        if !entry.is_dir() {
            // Harmless: `zip` has compared the size with the announced one.
            let _size = files.add(&name, entry)?;
        }
    }
    files.end()
}

/// Unpacks a `.tar.gz`. It is read twice, so that all names are known before anything is written.
fn unpack_tar(archive: &[u8], folder: &Path) -> Result<UnpackedBundle, String> {
    let mut names = Vec::new();
    each_of_tar(archive, |name, _, _| {
        check(name)?;
        names.push(name.to_owned());
        if names.len() > FILES_MAX { Err(too_many()) } else { Ok(()) }
    })?;
    if names.iter().any(|name| name == "artifacts.xml") {
        return Err("a Composite Application archive is a ZIP archive".to_owned());
    }
    let mut files = Files::new(folder, &names);
    each_of_tar(archive, |name, size, entry| {
        if files.add(name, entry)? < size {
            Err(format!("the archive ends within {name:?}"))
        } else {
            Ok(())
        }
    })?;
    files.end()
}

/// Calls `file` for each file of a `.tar.gz`, with its announced size.
fn each_of_tar(
    archive: &[u8],
    mut file: impl FnMut(&str, u64, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("this .tar.gz cannot be read: {error}");
    let unpacked = BoundedReader { inner: MultiGzDecoder::new(archive), left: TAR_BYTES_MAX };
    let mut tar = tar::Archive::new(unpacked);
    // The name of the next entry, if an extension has it. This code reads extensions itself: the library has no limit for their size.
    let mut long_name = None;
    for (at, entry) in tar.entries().map_err(failed)?.raw(true).enumerate() {
        if at >= ENTRIES_MAX {
            return Err(too_many());
        }
        let mut entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            let bytes = extension(at, &mut entry)?;
            let name = if kind.is_gnu_longname() {
                Some(bytes.strip_suffix(b"\0").unwrap_or(&bytes).to_vec())
            } else {
                name_in_records(at, &bytes)?
            };
            // The last name applies. Records without a path keep a preceding long name.
            long_name = name.or(long_name);
            continue;
        }
        let path = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8(path)
            .map_err(|_invalid| format!("entry {at} has a name that is not UTF-8"))?;
        // tar adds this prefix to the names in the folder that it packs.
        let name = name.strip_prefix("./").unwrap_or(&name);
        if kind.is_file() {
            let size = entry.size();
            file(name, size, &mut entry)?;
        } else if kind.is_dir() {
            let name = name.strip_suffix('/').unwrap_or(name);
            // The folder that was packed may be an entry itself.
            if !name.is_empty() {
                check(name)?;
            }
        } else if !kind.is_pax_global_extensions() {
            // Global extensions are ignored: archives of git commits have one with the commit's id.
            return Err(not_a_file(name));
        }
    }
    // The checksum follows the last entry.
    io::copy(&mut tar.into_inner(), &mut io::sink()).map(drop).map_err(failed)
}

/// The content of an extension.
fn extension(at: usize, entry: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    // Harmless: one more byte than the limit shows that it is exceeded.
    let read = entry.take(EXTENSION_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("entry {at}, an extension: {error}"))?;
    if bytes.len() as u64 > EXTENSION_BYTES_MAX {
        Err(format!(
            "entry {at} is an extension (a long name or pax records) of over {EXTENSION_BYTES_MAX} bytes"
        ))
    } else {
        Ok(bytes)
    }
}

/// The name for the next entry in pax records. A record that would change how that entry's content is read is refused.
fn name_in_records(at: usize, records: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut name = None;
    for record in tar::PaxExtensions::new(records) {
        let record = record.map_err(|error| format!("entry {at}, pax records: {error}"))?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            key if key == b"size" || key.starts_with(b"GNU.sparse.") => {
                let key = key.escape_ascii();
                return Err(format!(
                    "entry {at} has the pax record `{key}`, which is not supported"
                ));
            }
            // Harmless: other records are times, owners and comments, which a bundle does not need.
            _ => {}
        }
    }
    Ok(name)
}

/// A reader that fails once it has read more bytes than are left.
struct BoundedReader<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("it is too large: it unpacks to over {TAR_BYTES_MAX} bytes"))
        })?;
        Ok(read)
    }
}

/// Writes the files of an archive.
struct Files<'f> {
    folder: &'f Path,
    /// The folder that contains all entries. It is removed from their names.
    top: String,
    /// The number of bytes that may still be written.
    left: u64,
    seen: HashSet<String>,
}

impl<'f> Files<'f> {
    fn new(folder: &'f Path, names: &[String]) -> Files<'f> {
        Files { folder, top: common_folder(names), left: ALL_BYTES_MAX, seen: HashSet::new() }
    }

    /// Writes a file, and returns its size.
    fn add(&mut self, name: &str, entry: impl Read) -> Result<u64, String> {
        let below = name.strip_prefix(&self.top).unwrap_or(name);
        // Some file systems do not distinguish `A` and `a`.
        if !self.seen.insert(below.to_lowercase()) {
            return Err(format!("{name:?} appears twice in the archive"));
        }
        let max = self.left.min(FILE_BYTES_MAX);
        let mut bytes = Vec::new();
        // The announced size may be wrong, so the actual size is checked.
        let read = entry.take(max + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("the entry {name:?}: {error}"))?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > max {
            return Err(format!(
                "{TOO_LARGE} at {name:?}: a file has up to {FILE_BYTES_MAX} bytes, all have up to {ALL_BYTES_MAX}"
            ));
        }
        self.left -= size;
        write(self.folder, below, &bytes)?;
        Ok(size)
    }

    fn end(self) -> Result<UnpackedBundle, String> {
        if self.seen.is_empty() {
            Err("the archive has no files".to_owned())
        } else {
            Ok(UnpackedBundle::default())
        }
    }
}

fn too_many() -> String {
    format!("the archive has more than {FILES_MAX} entries")
}

fn not_a_file(name: &str) -> String {
    format!("the entry {name:?} is a link or a device")
}

/// The names of all files. Refuses names that lead out of the archive, encrypted entries, and entries that are neither files nor
/// folders.
fn names(zip: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for at in 0..zip.len() {
        let entry = zip.by_index_raw(at).map_err(|error| format!("entry {at}: {error}"))?;
        let name = entry.name().to_owned();
        if !zip_names::is_plain(entry.name_raw(), &name) {
            return Err(format!(
                "entry {at} has a name that is not UTF-8, or is not marked as UTF-8"
            ));
        }
        let kind = entry.unix_mode().map_or(0, |mode| mode & KIND);
        if !matches!(kind, 0 | REGULAR | FOLDER) {
            return Err(not_a_file(&name));
        }
        if entry.encrypted() {
            return Err(format!("the entry {name:?} is encrypted"));
        }
        check(name.strip_suffix('/').unwrap_or(&name))?;
        if !entry.is_dir() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Refuses a path that leads out of the bundle, hides a file, or has another meaning on other systems.
fn check(name: &str) -> Result<(), String> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_bad = |part: &&str| {
        part.is_empty()
            || part.starts_with('.')
            || part.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
    };
    if parts.iter().any(is_bad) {
        return Err(format!(
            "the entry {name:?} is hidden, leads out of the archive, or is not a path"
        ));
    }
    if name.chars().count() > PATH_CHARS_MAX || parts.len() > DEPTH_MAX {
        Err(format!("the path {name:?} is too long or too deep"))
    } else {
        Ok(())
    }
}

/// The folder that contains all files of an archive, with its `/`. The bundle is then the content of this folder. Empty if there is
/// no such folder.
fn common_folder(names: &[String]) -> String {
    let first = names.first().and_then(|name| name.split_once('/'));
    let Some((folder, _)) = first else { return String::new() };
    let folder = format!("{folder}/");
    if names.iter().all(|name| name.starts_with(&folder)) { folder } else { String::new() }
}

fn write(folder: &Path, below: &str, bytes: &[u8]) -> Result<(), String> {
    check(below)?;
    let path = folder.join(below);
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let mut file = place::private().create_new(true).open(&path)?;
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| format!("the entry {below:?} cannot be written: {error}"))
}

/// Converts a Composite Application archive to a configuration.
fn convert(archive: &[u8], folder: &Path) -> Result<UnpackedBundle, String> {
    let copy = folder.with_extension("new.car");
    let imported = place::put(&copy, archive)
        .map_err(|error| format!("the archive cannot be kept: {error}"))
        .and_then(|()| synapse::import(&copy));
    // Harmless: the copy is hidden, and the next bundle of this name overwrites it.
    let _ = fs::remove_file(&copy);
    let imported = imported?;
    write(folder, "imported.yaml", imported.part.as_bytes())?;
    for (name, bytes) in &imported.files {
        write(folder, name, bytes)?;
    }
    // Harmless: the copy has a name.
    let own = copy.file_name().unwrap_or_default().to_string_lossy();
    let own = format!("{own}/");
    let rows = imported.table.rows.iter();
    let noted = rows.filter(|row| row.outcome != synapse::Outcome::Converted);
    let notes = noted.map(|row| {
        let word = match row.outcome {
            synapse::Outcome::Refused => "refused",
            synapse::Outcome::Converted | synapse::Outcome::Approximated => "approximated",
        };
        // As a path in the archive, since the name of the copy is internal.
        let place = row.place.to_string();
        let place = place.strip_prefix(&own).unwrap_or(&place);
        format!("{place}: {word}: {}: {}", row.what, row.note)
    });
    Ok(UnpackedBundle { notes: notes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::write::SimpleFileOptions;

    fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// An archive with the entry `ab` instead of `cd`. The writer of archives refuses duplicate names.
    fn renamed(archive: &[u8]) -> Vec<u8> {
        let mut bytes = archive.to_vec();
        for at in 0..bytes.len() - 1 {
            if bytes[at..].starts_with(b"cd") {
                bytes[at..at + 2].copy_from_slice(b"ab");
            }
        }
        bytes
    }

    /// A folder may be listed any number of times, in both archive formats.
    #[test]
    fn folders_may_be_listed_twice() {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for name in ["ab", "cd"] {
            zip.add_directory(name, SimpleFileOptions::default()).unwrap();
        }
        zip.start_file("ab/x.yaml", SimpleFileOptions::default()).unwrap();
        let zip = renamed(&zip.finish().unwrap().into_inner());
        use tar::EntryType::{Directory, Regular};
        let tar = tar_gz(&[
            (Directory, "ab/", b""),
            (Directory, "ab/", b""),
            (Regular, "ab/x.yaml", b""),
        ]);
        for bytes in [zip, tar] {
            let folder = tempfile::tempdir().unwrap();
            unpack(&bytes, folder.path()).unwrap();
            assert!(folder.path().join("x.yaml").exists());
        }
    }

    /// A `.tar.gz` with names that tar itself would not write.
    fn tar_gz(entries: &[(tar::EntryType, &str, &[u8])]) -> Vec<u8> {
        let coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut tar = tar::Builder::new(coder);
        for (kind, name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(bytes.len().try_into().unwrap());
            let place = header.as_old_mut().name.get_mut(..name.len()).unwrap();
            place.copy_from_slice(name.as_bytes());
            if kind.is_symlink() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b/bundle");
        fs::create_dir_all(&inner).unwrap();
        let why = unpack(bytes, &inner).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{why}");
        assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1, "{why}");
        why
    }

    #[test]
    fn files_are_unpacked_into_the_folder() {
        for (entries, files) in [
            (&[("a.yaml", "1"), ("x/b.xsd", "2")][..], ["a.yaml", "x/b.xsd"]),
            (&[("top/a.yaml", "1"), ("top/x/b.xsd", "2")], ["a.yaml", "x/b.xsd"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            unpack(&archive(entries), folder.path()).unwrap();
            for (file, text) in files.iter().zip(["1", "2"]) {
                assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), text);
            }
        }
    }

    #[test]
    fn archives_with_unsafe_names_are_refused() {
        for name in
            ["../a.yaml", "/a.yaml", "x/../../a", "a\\..\\b", "c:/a", ".hidden", "x//y", "x/./y"]
        {
            let why = refused(&archive(&[("b.yaml", ""), (name, "x")]));
            assert!(why.contains("is hidden, leads out") || why.contains("a ZIP"), "{name}: {why}");
        }
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("a.yaml", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        let why = refused(&zip.finish().unwrap().into_inner());
        assert!(why.contains("a link"), "{why}");
        assert!(refused(&archive(&[("a.yaml", ""), ("A.yaml", "")])).contains("twice"));
        assert!(
            refused(&renamed(&archive(&[("ab", ""), ("cd", "")]))).contains("\"ab\" appears twice")
        );
        let car = renamed(&archive(&[("artifacts.xml", ""), ("ab", ""), ("cd", "")]));
        assert!(refused(&car).contains("\"ab\" appears twice"));
        let mut unnamed = archive(&[("a.yaml", ""), ("qq", "")]);
        for at in 0..unnamed.len() - 1 {
            if unnamed[at..].starts_with(b"qq") {
                unnamed[at] = 0xff;
            }
        }
        assert!(refused(&unnamed).contains("not UTF-8"));
        assert!(refused(&archive(&[])).contains("no files"));
        assert!(refused(b"PK nothing").contains("neither a ZIP"));
        let deep = "x/".repeat(40) + "a";
        assert!(refused(&archive(&[(&deep, "")])).contains("too deep"));
    }

    #[test]
    fn archives_that_unpack_to_too_much_are_refused() {
        let large = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
        let bytes = archive(&[("a.yaml", &large)]);
        assert!(bytes.len() < 100_000);
        assert!(refused(&bytes).contains("too large"));
        let names: Vec<String> = (0..=FILES_MAX).map(|number| format!("{number}")).collect();
        let entries: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(refused(&archive(&entries)).contains("entries"));
    }

    #[test]
    fn files_of_tar_archives_are_unpacked_into_the_folder() {
        use tar::EntryType::{Directory, Regular, XGlobalHeader};
        for top in ["", "./", "top/", "./top/"] {
            let named = |below: &str| format!("{top}{below}");
            let bytes = tar_gz(&[
                (XGlobalHeader, "pax_global_header", b"22 comment=0123456789\n"),
                (Directory, if top.is_empty() { "x/" } else { top }, b""),
                (Regular, &named("a.yaml"), b"1"),
                (Directory, &named("x/"), b""),
                (Regular, &named("x/b.xsd"), b"2"),
            ]);
            let folder = tempfile::tempdir().unwrap();
            unpack(&bytes, folder.path()).unwrap_or_else(|error| panic!("{top:?}: {error}"));
            for (file, text) in [("a.yaml", "1"), ("x/b.xsd", "2")] {
                assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), text);
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn long_names_of_tar_archives_are_read() {
        use tar::EntryType::{GNULongName, Regular, XHeader};
        let long = format!("{}/a.yaml", "x".repeat(150));
        let record = format!("13 mtime=1.5\n{} path={long}\n", long.len() + 10);
        for (kind, content) in [(GNULongName, format!("{long}\0")), (XHeader, record)] {
            let other = (Regular, "b.yaml", &b"2"[..]);
            let bytes = tar_gz(&[(kind, "a", content.as_bytes()), (Regular, "short", b"1"), other]);
            let folder = tempfile::tempdir().unwrap();
            unpack(&bytes, folder.path()).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert_eq!(fs::read_to_string(folder.path().join(&long)).unwrap(), "1");
            assert!(folder.path().join("b.yaml").exists(), "the name is only of the next entry");
        }
    }

    #[test]
    fn tar_archives_with_unsafe_names_or_too_much_content_are_refused() {
        use tar::EntryType::{
            Block, Directory, Fifo, GNULongName, Link, Regular, Symlink, XHeader,
        };
        for name in ["../a", "/a", "x/../../a", "a\\..\\b", ".hidden", "x//y", "x/./y"] {
            for kind in [Regular, Directory] {
                let why = refused(&tar_gz(&[(Regular, "b.yaml", b""), (kind, name, b"")]));
                assert!(why.contains("is hidden, leads out"), "{name}: {why}");
            }
        }
        for kind in [Symlink, Link, Block, Fifo] {
            let why = refused(&tar_gz(&[(kind, "a.yaml", b"")]));
            assert!(why.contains("a link"), "{why}");
        }
        let twice = tar_gz(&[(Regular, "a.yaml", b""), (Regular, "A.yaml", b"")]);
        assert!(refused(&twice).contains("twice"));
        assert!(refused(&tar_gz(&[])).contains("no files"));
        let car = tar_gz(&[(Regular, "artifacts.xml", b"<artifacts/>")]);
        assert!(refused(&car).contains("ZIP"));
        let large = vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap() + 1];
        let bytes = tar_gz(&[(Regular, "a.yaml", &large)]);
        assert!(bytes.len() < 200_000);
        assert!(refused(&bytes).contains("too large"));
        let full = vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap()];
        let all: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
            .map(|name| (Regular, name, &*full))
            .into();
        let why = refused(&tar_gz(&all));
        assert!(why.contains("too large: it unpacks to over"), "{why}");
        let good = tar_gz(&[(Regular, "a.yaml", &large[..1 << 20])]);
        for end in [3, 20, good.len() / 2, good.len() - 12] {
            refused(&good[..end]);
        }
        let names: Vec<String> = (0..=FILES_MAX).map(|number| format!("{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (Regular, &**name, &b""[..])).collect();
        assert!(refused(&tar_gz(&many)).contains("entries"));
        let many = vec![(Directory, "a", &b""[..]); ENTRIES_MAX + 1];
        assert!(refused(&tar_gz(&many)).contains("entries"));
        // Extensions have their own limit.
        let long = vec![b'x'; usize::try_from(EXTENSION_BYTES_MAX).unwrap() + 1];
        for kind in [GNULongName, XHeader] {
            let why = refused(&tar_gz(&[(kind, "a", &long), (Regular, "a.yaml", b"")]));
            assert!(
                why.contains("entry 0 is an extension (a long name or pax records) of over 65536"),
                "{why}"
            );
        }
        for (record, why) in [
            (&b"9 size=1\n"[..], "the pax record `size`, which is not supported"),
            (b"22 GNU.sparse.major=1\n", "the pax record `GNU.sparse.major`"),
            (b"13 path=../a\n", "is hidden, leads out"),
            (b"12 path=\xff\xff\xff\n", "not UTF-8"),
            (b"99 path=a\n", "pax records: malformed"),
        ] {
            let told = refused(&tar_gz(&[(XHeader, "p", record), (Regular, "a.yaml", b"")]));
            assert!(told.contains(why), "{told}");
        }
        // The announced content is missing.
        let mut header = tar::Header::new_gnu();
        header.set_path("a.yaml").unwrap();
        header.set_size(1 << 40);
        header.set_cksum();
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        coder.write_all(header.as_bytes()).unwrap();
        coder.write_all(&[b'x'; 1024]).unwrap();
        refused(&coder.finish().unwrap());
    }
}
