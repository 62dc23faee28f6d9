//! The files of a document as they were written, and the places that references in them lead to.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::json_location::JsonLocation;
use crate::uri::{escaped_name, path_of, unescaped, uri};

/// The maximum size of a file. The largest real documents have some 10 MiB.
pub(crate) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum number of files: enough for one per schema of a large API.
const FILES_MAX: usize = 2_000;

/// The files that were needed so far, by their URIs. For a file that cannot be read, this is the error.
pub(crate) struct Files<'l> {
    files: BTreeMap<Arc<str>, Result<Arc<SourceFile>, String>>,
    /// Called with every file that is needed, even if it cannot be read.
    looks_for: &'l mut dyn FnMut(&Path),
}

/// A parsed file, with the names of places in it.
pub(crate) struct SourceFile {
    pub(crate) json: Json,
    anchors: Vec<Anchor>,
    /// The places of `$id`s by their absolute URIs.
    ids: BTreeMap<String, String>,
}

/// The name of a place in a file: `$anchor` or `$dynamicAnchor`.
struct Anchor {
    name: String,
    pointer: String,
}

impl<'l> Files<'l> {
    pub(crate) fn new(looks_for: &'l mut dyn FnMut(&Path)) -> Files<'l> {
        Files { files: BTreeMap::new(), looks_for }
    }

    /// Reads a file, unless it was read before; returns its root.
    pub(crate) fn root_of(&mut self, path: &Path) -> Result<JsonLocation, String> {
        let uri: Arc<str> = uri(path).into();
        if !self.files.contains_key(&uri) {
            if self.files.len() >= FILES_MAX {
                return Err(format!("it refers to more than {FILES_MAX} files"));
            }
            (self.looks_for)(path);
            self.files.insert(uri.clone(), parse(path, &uri).map(Arc::new));
        }
        match self.files.get(&uri) {
            Some(Err(fault)) => Err(fault.clone()),
            Some(Ok(_)) | None => Ok(JsonLocation::of_file(&uri)),
        }
    }

    /// A file, or `None` if it could not be read. That fault was reported when it was read.
    fn read(&self, uri: &str) -> Option<&Arc<SourceFile>> {
        // Harmless: the fault was reported when the file was read.
        self.files.get(uri)?.as_ref().ok()
    }

    /// A file that was read.
    pub(crate) fn file(&self, uri: &str) -> Option<Arc<SourceFile>> {
        Some(self.read(uri)?.clone())
    }

    /// The value at a place.
    pub(crate) fn at(&self, location: &JsonLocation) -> Option<&Json> {
        self.read(location.uri())?.json.pointer(location.pointer())
    }

    /// The `$ref` of the value at a place.
    pub(crate) fn reference(&self, location: &JsonLocation) -> Option<String> {
        self.at(location)?.get("$ref")?.as_str().map(str::to_owned)
    }

    /// The place to which a reference leads. The error has the place of the reference.
    pub(crate) fn resolve(
        &mut self,
        at: &JsonLocation,
        reference: &str,
    ) -> Result<JsonLocation, String> {
        let (target, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = unescaped(fragment);
        let resource = self.resource(at, target).map_err(|fault| format!("{at}: {fault}"))?;
        let found = if fragment.is_empty() {
            Some(resource)
        } else if fragment.starts_with('/') {
            let root = JsonLocation::of_file(resource.uri());
            // Many documents write pointers from the root of the file, even within a schema that has an `$id`.
            [resource, root]
                .into_iter()
                .map(|root| root.below(&fragment))
                .find(|location| self.at(location).is_some())
        } else {
            match self.anchor(&resource, &fragment) {
                Some(found) => Some(found),
                None => {
                    return Err(format!(
                        "{at} refers to `{reference}`, which is not a JSON pointer and names no `$anchor`"
                    ));
                }
            }
        };
        let found = found.filter(|location| self.at(location).is_some());
        found.ok_or_else(|| format!("{at} refers to `{reference}`, which does not exist"))
    }

    /// The root for a reference without its fragment: a file, or a schema with an `$id`.
    fn resource(&mut self, at: &JsonLocation, target: &str) -> Result<JsonLocation, String> {
        let own = self.enclosing_id(at);
        if target.is_empty() {
            return Ok(match own {
                Some((_, pointer)) => JsonLocation::of_file(at.uri()).below(&pointer),
                None => JsonLocation::of_file(at.uri()),
            });
        }
        let base = own.map_or_else(|| at.uri().to_owned(), |(id, _)| id);
        let named = [xsd::join(&base, target), target.to_owned()];
        if let Some(found) = named.iter().find_map(|id| self.with_id(id)) {
            return Ok(found);
        }
        let path = file_of(&path_of(at.uri()), target)?;
        self.root_of(&path)
    }

    /// The innermost `$id` around a place, with its own place.
    fn enclosing_id(&self, at: &JsonLocation) -> Option<(String, String)> {
        let file = self.read(at.uri())?;
        let around = |pointer: &str| {
            at.pointer()
                .strip_prefix(pointer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let ids = file.ids.iter().filter(|(_, pointer)| around(pointer));
        let innermost = ids.max_by_key(|(_, pointer)| pointer.len());
        innermost.map(|(id, pointer)| (id.clone(), pointer.clone()))
    }

    fn with_id(&self, id: &str) -> Option<JsonLocation> {
        self.files.iter().find_map(|(uri, file)| {
            // Harmless: a file that cannot be read is a fault already.
            let pointer = file.as_ref().ok()?.ids.get(id)?;
            Some(JsonLocation::of_file(uri).below(pointer))
        })
    }

    /// The place of an anchor in a resource.
    fn anchor(&self, resource: &JsonLocation, name: &str) -> Option<JsonLocation> {
        let file = self.read(resource.uri())?;
        let anchors = file.anchors.iter().filter(|anchor| anchor.name == name);
        let within = anchors.filter(|anchor| anchor.pointer.starts_with(resource.pointer()));
        // If nested resources repeat the name, the outermost anchor is the resource's own.
        let found = within.min_by_key(|anchor| anchor.pointer.len())?;
        Some(JsonLocation::of_file(resource.uri()).below(&found.pointer))
    }

    /// The only place in all files with a dynamic anchor of this name, or `None` if there is no such place or more than one.
    pub(crate) fn dynamic_anchor(&self, name: &str) -> Option<JsonLocation> {
        // Harmless: a file that cannot be read is a fault already.
        let files = self.files.iter().filter_map(|(uri, file)| Some((uri, file.as_ref().ok()?)));
        let mut all = files.flat_map(|(uri, file)| {
            let named = file.anchors.iter().filter(|anchor| anchor.name == name);
            named.map(move |anchor| JsonLocation::of_file(uri).below(&anchor.pointer))
        });
        all.next().filter(|_| all.next().is_none())
    }
}

fn parse(path: &Path, uri: &str) -> Result<SourceFile, String> {
    let failed = |error: String| format!("cannot read `{}`: {error}", path.display());
    let text = config::read_text(path, FILE_BYTES_MAX).map_err(failed)?;
    let json = config::document(&text, path).map_err(failed)?;
    let mut file = SourceFile { json: Json::Null, anchors: Vec::new(), ids: BTreeMap::new() };
    if text.contains("$id") || text.contains("$anchor") || text.contains("$dynamicAnchor") {
        mark(&json, "", uri, false, &mut file);
    }
    file.json = json;
    Ok(file)
}

/// Records the names of places. If `is_names` is true, the members of this object have names that the author chose, not keywords.
fn mark(value: &Json, pointer: &str, base: &str, is_names: bool, file: &mut SourceFile) {
    let members = match value {
        Json::Object(members) => members,
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                mark(item, &format!("{pointer}/{index}"), base, false, file);
            }
            return;
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return,
    };
    let mut base = base.to_owned();
    if !is_names {
        let text = |name: &str| members.get(name).and_then(Json::as_str);
        if let Some(id) = text("$id") {
            base = xsd::join(&base, id);
            file.ids.insert(base.clone(), pointer.to_owned());
        }
        // Harmless: a schema may have neither.
        for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
            let (name, pointer) = (name.to_owned(), pointer.to_owned());
            file.anchors.push(Anchor { name, pointer });
        }
    }
    for (name, member) in members {
        let is_literal =
            matches!(name.as_str(), "example" | "examples" | "default" | "enum" | "const");
        if is_names || !is_literal {
            let names = !is_names && holds_names(name);
            mark(member, &format!("{pointer}/{}", escaped_name(name)), &base, names, file);
        }
    }
}

/// True for keywords whose value is an object with names that the author chose.
fn holds_names(member: &str) -> bool {
    matches!(
        member,
        "properties"
            | "patternProperties"
            | "dependentSchemas"
            | "$defs"
            | "definitions"
            | "schemas"
            | "responses"
            | "parameters"
            | "headers"
            | "requestBodies"
            | "pathItems"
            | "paths"
            | "content"
    )
}

/// The file that a reference points to.
fn file_of(here: &Path, file: &str) -> Result<PathBuf, String> {
    if file.contains("://") && !file.starts_with("file://") {
        let help = "save it beside the document and refer to that file";
        return Err(format!("it refers to `{file}`, which would have to be downloaded; {help}"));
    }
    let file = unescaped(file.trim_start_matches("file://"));
    Ok(normal(&here.parent().unwrap_or(Path::new("/")).join(file)))
}

/// The path without `.` and `..`, for comparing URIs.
pub(crate) fn normal(path: &Path) -> PathBuf {
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
