//! A document with the files it refers to, and places in them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kit::percent;
use serde_json::Value as Json;

use crate::{swagger, upgrade};

/// The maximum size of a file. The largest real documents have some 10 MiB.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum number of files: enough for one per schema of a large API.
const FILES_MAX: usize = 2_000;
/// The maximum length of a chain of references; a longer one is a cycle.
const HOPS_MAX: usize = 32;

/// A document and everything it refers to, in the form of OpenAPI 3.1.
#[derive(Debug, Clone)]
pub struct Documents {
    /// The files by URI.
    files: BTreeMap<String, Json>,
    root: String,
}

/// A place in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JsonLocation {
    /// The URI of the file.
    uri: String,
    /// The JSON Pointer (RFC 6901).
    pointer: String,
}

impl Documents {
    /// Reads a document and everything it refers to. `looks_for` is called with every file that is needed, even if it cannot be
    /// read.
    pub fn read(path: &Path, mut looks_for: impl FnMut(&Path)) -> Result<Documents, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let root = normal(&path);
        let mut files = BTreeMap::new();
        let mut waiting = vec![root.clone()];
        while let Some(path) = waiting.pop() {
            let uri = uri(&path);
            if files.contains_key(&uri) {
                continue;
            }
            if files.len() == FILES_MAX {
                return Err(format!("it refers to more than {FILES_MAX} files"));
            }
            looks_for(&path);
            let document = parse(&path)?;
            references(&document, &mut |reference| {
                waiting.extend(file_of(&path, reference)?);
                Ok(())
            })?;
            files.insert(uri, document);
        }
        let mut documents = Documents { files, root: uri(&root) };
        if documents.is_before_3_1() {
            documents.files.values_mut().for_each(|file| upgrade::lone_references(file, false));
        }
        swagger::convert(&mut documents)?;
        documents.files.values_mut().for_each(upgrade::upgrade);
        Ok(documents)
    }

    fn is_before_3_1(&self) -> bool {
        let root = self.files.get(&self.root);
        let version = |name: &str| root.and_then(|root| root.get(name)).map(crate::model::text);
        version("swagger").is_some()
            || version("openapi").is_some_and(|version| version.starts_with("3.0"))
    }

    /// The root of the document.
    pub fn root(&self) -> JsonLocation {
        JsonLocation { uri: self.root.clone(), pointer: String::new() }
    }

    /// The value at a place.
    pub fn at(&self, spot: &JsonLocation) -> Option<&Json> {
        self.files.get(&spot.uri)?.pointer(&spot.pointer)
    }

    /// The place of a member of the value at `spot`, with references followed.
    pub fn member(&self, spot: &JsonLocation, name: &str) -> Result<Option<JsonLocation>, String> {
        let child = spot.child(name);
        match self.at(&child) {
            Some(_) => self.follow(child).map(Some),
            None => Ok(None),
        }
    }

    /// Follows references until there is none; returns the place itself if it holds none.
    pub fn follow(&self, spot: JsonLocation) -> Result<JsonLocation, String> {
        let mut at = spot;
        for _ in 0..HOPS_MAX {
            let reference = self.at(&at).and_then(|value| value.get("$ref")).and_then(Json::as_str);
            let Some(reference) = reference else { return Ok(at) };
            let next = at.resolve(reference)?;
            if self.at(&next).is_none() {
                return Err(format!("{at} refers to `{reference}`, which does not exist"));
            }
            at = next;
        }
        Err(format!("the references at {at} go in circles"))
    }

    /// The same for a member that is a schema. One that says more beside its reference holds both, and stays where it is.
    pub fn schema(&self, spot: &JsonLocation, name: &str) -> Result<Option<JsonLocation>, String> {
        let child = spot.child(name);
        match self.at(&child) {
            Some(_) => self.follow_schema(child).map(Some),
            None => Ok(None),
        }
    }

    /// Follows the references of a schema up to one that says more beside its own.
    pub fn follow_schema(&self, spot: JsonLocation) -> Result<JsonLocation, String> {
        self.follow(spot.clone())?;
        let mut at = spot;
        for _ in 0..HOPS_MAX {
            match self.referred(&at)? {
                Some(next) if !self.at(&at).is_some_and(says_more) => at = next,
                Some(_) | None => return Ok(at),
            }
        }
        Ok(at)
    }

    /// The place that the value at `spot` refers to, if it does.
    pub fn referred(&self, spot: &JsonLocation) -> Result<Option<JsonLocation>, String> {
        let reference = self.at(spot).and_then(|value| value.get("$ref")).and_then(Json::as_str);
        reference.map(|reference| spot.resolve(reference)).transpose()
    }

    /// The files, by their URIs.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.files.iter().map(|(uri, document)| (uri.as_str(), document))
    }

    pub(crate) fn root_mut(&mut self) -> Option<&mut Json> {
        self.files.get_mut(&self.root)
    }
}

/// True for a schema that holds more than its reference: what only describes does not count.
fn says_more(schema: &Json) -> bool {
    let describes = |name: &str| {
        name.starts_with("x-")
            || matches!(
                name,
                "$ref"
                    | "$comment"
                    | "title"
                    | "summary"
                    | "description"
                    | "default"
                    | "deprecated"
                    | "example"
                    | "examples"
                    | "externalDocs"
                    | "readOnly"
                    | "writeOnly"
            )
    };
    schema.as_object().is_some_and(|members| !members.keys().all(|name| describes(name)))
}

impl JsonLocation {
    /// The root of a file.
    pub(crate) fn of_file(uri: &str) -> JsonLocation {
        JsonLocation { uri: uri.to_owned(), pointer: String::new() }
    }

    /// The place of a member or item of the value here.
    pub fn child(&self, name: &str) -> JsonLocation {
        let name = name.replace('~', "~0").replace('/', "~1");
        JsonLocation { uri: self.uri.clone(), pointer: format!("{}/{name}", self.pointer) }
    }

    /// The URI of the file.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The place as a URI with a fragment, as schemas refer to it.
    pub fn reference(&self) -> String {
        format!("{}#{}", self.uri, escaped(&self.pointer, b"/"))
    }

    fn resolve(&self, reference: &str) -> Result<JsonLocation, String> {
        let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let here = path_of(&self.uri);
        let uri = match file_of(&here, reference)? {
            Some(path) if !file.is_empty() => uri(&path),
            _ => self.uri.clone(),
        };
        let pointer = unescaped(fragment);
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(JsonLocation { uri, pointer }),
            false => Err(format!("{self} refers to `{reference}`, which is no JSON pointer")),
        }
    }
}

impl std::fmt::Display for JsonLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = path_of(&self.uri);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        write!(f, "{}#{}", name.unwrap_or_default(), self.pointer)
    }
}

fn parse(path: &Path) -> Result<Json, String> {
    let text = config::read_text(path, FILE_BYTES_MAX);
    let document = text.and_then(|text| config::document(&text, path));
    document.map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

/// All values of `$ref` in a document.
fn references(
    value: &Json,
    see: &mut impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    match value {
        Json::Object(members) => members.iter().try_for_each(|(name, value)| {
            match (name.as_str(), value.as_str()) {
                ("$ref", Some(reference)) => see(reference),
                // Examples may contain anything.
                ("example" | "examples", _) => Ok(()),
                _ => references(value, see),
            }
        }),
        Json::Array(items) => items.iter().try_for_each(|item| references(item, see)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
    }
}

/// The file that a reference points to; none for a reference within its own file.
fn file_of(here: &Path, reference: &str) -> Result<Option<PathBuf>, String> {
    let file = reference.split('#').next().unwrap_or_default();
    if file.is_empty() {
        return Ok(None);
    }
    if file.contains("://") && !file.starts_with("file://") {
        let help = "save it beside the document and refer to that file";
        return Err(format!(
            "it refers to `{reference}`, which would have to be downloaded; {help}"
        ));
    }
    let file = unescaped(file.trim_start_matches("file://"));
    Ok(Some(normal(&here.parent().unwrap_or(Path::new("/")).join(file))))
}

/// The path without `.` and `..`, for comparing URIs.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                path.push(component);
            }
        }
        path
    })
}

fn uri(path: &Path) -> String {
    format!("file://{}", escaped(&path.to_string_lossy(), b"/"))
}

fn path_of(uri: &str) -> PathBuf {
    PathBuf::from(unescaped(uri.trim_start_matches("file://")))
}

/// Percent-encodes bytes that may not stand in a URI.
fn escaped(text: &str, also: &[u8]) -> String {
    percent::encoded(text.as_bytes(), also)
}

fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&percent::decoded(text.as_bytes(), false)).into_owned()
}

impl Documents {
    /// The value that a reference in a file points to.
    pub(crate) fn target(&self, uri: &str, reference: &str) -> Option<&Json> {
        let spot = self.follow(JsonLocation::of_file(uri).resolve(reference).ok()?).ok()?;
        self.at(&spot)
    }
}
