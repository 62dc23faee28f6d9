//! A document in its normalized form, and places in documents.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::files::{self, escaped, escaped_name, path_of};
use crate::normal;

/// A document in the form of OpenAPI 3.1, with everything in referenced files that has an effect. Only its schemas have references,
/// and these lead to its `$defs`.
#[derive(Debug, Clone)]
pub struct Documents {
    uri: Arc<str>,
    document: Json,
    /// The places from which the `$defs` were read, in the order of their numbers.
    origins: Vec<JsonLocation>,
}

/// A place in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JsonLocation {
    /// The URI of the file.
    uri: Arc<str>,
    /// The JSON Pointer (RFC 6901).
    pointer: String,
}

impl Documents {
    /// Reads a document and everything it refers to, or returns all errors. `looks_for` is called with every file that is needed,
    /// even if it cannot be read.
    pub fn read(path: &Path, mut looks_for: impl FnMut(&Path)) -> Result<Documents, Vec<String>> {
        let path = std::path::absolute(path).map_err(|error| vec![error.to_string()])?;
        normal::read(&files::normal(&path), &mut looks_for)
    }

    pub(crate) fn new(uri: &str, document: Json, origins: Vec<JsonLocation>) -> Documents {
        Documents { uri: uri.into(), document, origins }
    }

    /// The root of the document.
    pub fn root(&self) -> JsonLocation {
        JsonLocation::of_file(&self.uri)
    }

    /// The whole document.
    pub fn document(&self) -> &Json {
        &self.document
    }

    /// The value at a place.
    pub fn at(&self, location: &JsonLocation) -> Option<&Json> {
        self.document.pointer(&location.pointer)
    }

    /// The place to which the `$ref` of the value at `location` leads, or `None` if the value has no `$ref`.
    pub fn referred(&self, location: &JsonLocation) -> Option<JsonLocation> {
        let reference = self.at(location)?.get("$ref")?.as_str()?;
        let pointer = reference.strip_prefix('#')?;
        Some(JsonLocation { uri: location.uri.clone(), pointer: pointer.to_owned() })
    }

    /// The place of a member that is a schema. If the member is nothing but a reference, returns the place to which it leads.
    pub fn schema(&self, location: &JsonLocation, name: &str) -> Option<JsonLocation> {
        let child = location.child(name);
        self.at(&child).is_some().then(|| self.follow(child))
    }

    /// Follows a reference that has no other members.
    pub fn follow(&self, location: JsonLocation) -> JsonLocation {
        let alone = |value: &Json| value.as_object().is_some_and(|members| members.len() == 1);
        match self.referred(&location).filter(|_| self.at(&location).is_some_and(alone)) {
            Some(target) => target,
            None => location,
        }
    }

    /// The place in the files from which the value was read, for messages.
    pub fn origin(&self, location: &JsonLocation) -> String {
        let defined = location.pointer.strip_prefix("/$defs/").and_then(|rest| {
            let (index, below) = rest.split_once('/').unwrap_or((rest, ""));
            // Harmless: a place without a recorded origin is reported as it is.
            let origin = self.origins.get(index.parse::<usize>().ok()?)?;
            let divider = if below.is_empty() { "" } else { "/" };
            Some(format!("{origin}{divider}{below}"))
        });
        defined.unwrap_or_else(|| location.to_string())
    }
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
