//! The names that the directory of a ZIP archive lists. The library that reads archives keeps the last of several entries with one
//! name, and others keep the first, so that nobody could tell which file was meant.

use std::collections::HashSet;

/// A record of the directory (APPNOTE, 4.3.12): its signature, and its length before the name.
const SIGNATURE: &[u8] = b"PK\x01\x02";
const RECORD_BYTES: usize = 46;

/// The places of three lengths in a record: of the name, and of what stands behind it.
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
            return Err(format!("the archive has {:?} twice", String::from_utf8_lossy(name)));
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

/// The name in the first record, and what stands behind that.
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

/// True if the name that was read is the name that stands in the archive. Where that does not say that it is UTF-8, a name beyond ASCII is
/// read as that of an old code page, and no file that refers to it would find it.
#[must_use]
pub fn is_plain(raw: &[u8], read: &str) -> bool {
    raw == read.as_bytes()
}
