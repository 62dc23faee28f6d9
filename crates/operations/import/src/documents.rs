//! A document in its normalized form.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::json_location::JsonLocation;

/// A document in the form of OpenAPI 3.1, with everything in referenced files that has an effect. Only its schemas have references,
/// and these lead to its `$defs`.
#[derive(Debug, Clone)]
pub struct Documents {
    uri: Arc<str>,
    document: Json,
    /// The places from which the `$defs` were read, in the order of their numbers.
    origins: Vec<JsonLocation>,
}

impl Documents {
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
        self.document.pointer(location.pointer())
    }

    /// The place to which the `$ref` of the value at `location` leads, or `None` if the value has no `$ref`.
    pub fn referred(&self, location: &JsonLocation) -> Option<JsonLocation> {
        let reference = self.at(location)?.get("$ref")?.as_str()?;
        let pointer = reference.strip_prefix('#')?;
        Some(location.elsewhere(pointer))
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
        let defined = location.pointer().strip_prefix("/$defs/").and_then(|rest| {
            let (index, below) = rest.split_once('/').unwrap_or((rest, ""));
            // Harmless: a place without a recorded origin is reported as it is.
            let origin = self.origins.get(index.parse::<usize>().ok()?)?;
            let divider = if below.is_empty() { "" } else { "/" };
            Some(format!("{origin}{divider}{below}"))
        });
        defined.unwrap_or_else(|| location.to_string())
    }
}
