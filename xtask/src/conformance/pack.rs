//! A pack: a `.tar.gz` with `manifest.jsonl` and the files it names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::Failure;

/// Maximum size of the unpacked files. Packs are a few MiB, so a larger archive is not a pack.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// A pack in memory.
pub(crate) struct Pack {
    /// The objects of the manifest, one per line, in its order.
    pub(crate) cases: Vec<Value>,
    /// The other files, by their paths in the archive.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Pack {
    /// Opens and reads a pack.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let broken = |error: String| Failure::Broken(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(|error| broken(error.to_string()))?;
        let mut files = unpack(file).map_err(|error| broken(error.to_string()))?;
        let manifest =
            files.remove("manifest.jsonl").ok_or_else(|| broken("no manifest.jsonl".to_owned()))?;
        let cases = lines(&manifest).map_err(broken)?;
        Ok(Self { cases, files })
    }
}

/// The files of an archive, by their paths in it.
pub(crate) fn unpack(file: impl Read) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(UNPACKED_BYTES_MAX));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(path, bytes);
    }
    Ok(files)
}

fn lines(manifest: &[u8]) -> Result<Vec<Value>, String> {
    let text = std::str::from_utf8(manifest).map_err(|error| error.to_string())?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| format!("manifest line {}: {error}", at + 1))
        })
        .collect()
}
