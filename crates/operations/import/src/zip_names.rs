//! The names in the directory of a ZIP archive. For duplicate names, the library uses the last entry and other programs use the
//! first, so an archive with duplicates is ambiguous.

use std::collections::HashSet;

/// A record of the directory (APPNOTE, 4.3.12): its signature, and its length before the name.
const SIGNATURE: &[u8] = b"PK\x01\x02";
const RECORD_BYTES: usize = 46;

/// The offsets of three lengths in a record: of the name, and of the two parts after it.
const LENGTHS: [usize; 3] = [28, 30, 32];

/// Refuses an archive that has a file twice. `directory` is where its directory begins, and `count` the number of entries that
/// were read.
pub fn check_once(archive: &[u8], directory: u64, count: usize) -> Result<(), String> {
    let mut names = HashSet::new();
    let start = usize::try_from(directory).unwrap_or(usize::MAX);
    let mut rest = archive.get(start..).unwrap_or_default();
    while let Some((name, behind)) = first(rest) {
        if !names.insert(name) && !name.ends_with(b"/") {
            // Harmless: the name is only reported.
            let name = String::from_utf8_lossy(name);
            return Err(format!("{name:?} appears twice in the archive"));
        }
        rest = behind;
    }
    if names.len() > count {
        // An extra field may give an entry another name.
        Err("the archive has two files of one name".to_owned())
    } else {
        Ok(())
    }
}

/// The name in the first record, and the following records.
fn first(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let (record, rest) = records.split_at_checked(RECORD_BYTES)?;
    if !record.starts_with(SIGNATURE) {
        return None;
    }
    let length = |at: usize| {
        let bytes = record.get(at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_le_bytes(*bytes)))
    };
    let [name, extra, comment] = LENGTHS.map(length);
    let (name, rest) = rest.split_at_checked(name?)?;
    Some((name, rest.get(extra? + comment?..)?))
}

/// True if the decoded name is the one in the archive. If a name is not marked as UTF-8, characters beyond ASCII are decoded with an old
/// code page, and references to the file would fail.
#[must_use]
pub fn is_plain(raw: &[u8], read: &str) -> bool {
    raw == read.as_bytes()
}
