//! The files of a ZIP archive in memory, within bounds. The whole archive is refused if a name leads out of it, or if two programs could
//! read a name differently.

use std::io::{Cursor, Read};

use crate::zip_names;

/// Calls `file` with the name and the content of each file of an archive.
pub(crate) fn each(
    bytes: &[u8],
    entries_max: usize,
    mut file: impl FnMut(&str, &mut dyn Read) -> Result<(), String>,
) -> Result<(), String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| format!("it is not an archive that can be read: {error}"))?;
    if archive.len() > entries_max {
        return Err(format!("it has more than {entries_max} entries"));
    }
    zip_names::check_once(bytes, archive.central_directory_start(), archive.len())?;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).map_err(|error| format!("entry {at}: {error}"))?;
        let within = entry.name().to_owned();
        if !zip_names::is_plain(entry.name_raw(), &within) {
            return Err(format!(
                "entry {at} has a name that is not UTF-8, or is not marked as UTF-8"
            ));
        }
        let leaves = entry.enclosed_name().is_none()
            || within.contains('\\')
            || within.starts_with('/')
            || within.split('/').any(|part| part == "..");
        if leaves {
            return Err(format!(
                "the entry {within:?} has an absolute path, or contains `..`, a backslash or NUL"
            ));
        }
        if !entry.is_dir() {
            file(&within, &mut entry)?;
        }
    }
    Ok(())
}

/// Reads all bytes, or fails if there are more than `max`. The announced size of an entry may be wrong, so the actual size is checked.
pub(crate) fn bounded(from: impl Read, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= max) {
        Ok(bytes)
    } else {
        Err(format!("it is larger than {max} bytes"))
    }
}
