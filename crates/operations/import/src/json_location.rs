//! Places in the files of a document.

use std::sync::Arc;

use crate::uri::{escaped, escaped_name, path_of};

/// A place in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JsonLocation {
    /// The URI of the file.
    uri: Arc<str>,
    /// The JSON Pointer (RFC 6901).
    pointer: String,
}

impl JsonLocation {
    /// The root of a file.
    pub(crate) fn of_file(uri: &str) -> JsonLocation {
        JsonLocation { uri: uri.into(), pointer: String::new() }
    }

    /// The place of a member or item of the value here.
    pub fn child(&self, name: &str) -> JsonLocation {
        self.below(&format!("/{}", escaped_name(name)))
    }

    /// The place to which a JSON Pointer relative to this place leads.
    pub(crate) fn below(&self, pointer: &str) -> JsonLocation {
        JsonLocation { uri: self.uri.clone(), pointer: format!("{}{pointer}", self.pointer) }
    }

    /// The place in the same file to which a JSON Pointer leads.
    pub(crate) fn elsewhere(&self, pointer: &str) -> JsonLocation {
        JsonLocation { uri: self.uri.clone(), pointer: pointer.to_owned() }
    }

    /// The URI of the file.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The place as a URI with a fragment, as schemas refer to it.
    pub fn reference(&self) -> String {
        format!("{}#{}", self.uri, escaped(&self.pointer, b"/"))
    }
}

impl std::fmt::Display for JsonLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = path_of(&self.uri);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        write!(f, "{}#{}", name.as_deref().unwrap_or(""), self.pointer)
    }
}
