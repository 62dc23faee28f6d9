//! URIs of files, and the escapes of URIs and JSON Pointers.

use std::path::{Path, PathBuf};

use kit::percent;

pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", escaped(&path.to_string_lossy(), b"/"))
}

pub(crate) fn path_of(uri: &str) -> PathBuf {
    PathBuf::from(unescaped(uri.trim_start_matches("file://")))
}

/// Escapes a name for a JSON pointer.
pub(crate) fn escaped_name(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Percent-encodes bytes that are not allowed in a URI.
pub(crate) fn escaped(text: &str, also: &[u8]) -> String {
    percent::encoded(text.as_bytes(), also)
}

pub(crate) fn unescaped(text: &str) -> String {
    // Harmless: if the name is not UTF-8, no file has the resulting name, and that is a fault.
    String::from_utf8_lossy(&percent::decoded(text.as_bytes(), false)).into_owned()
}
