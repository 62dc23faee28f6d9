//! Reads a document into one form, starting at its root: each object is read according to its place, and every reference that has
//! an effect is resolved. A reference that cannot be resolved is an error, and so is a value of the wrong type. Parts without
//! effect, such as examples, are neither copied nor read.

mod discriminator;
mod schema;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::documents::Documents;
use crate::files::{self, Files};
use crate::json_location::JsonLocation;
use crate::model::METHODS;
use crate::{extensions, swagger};

pub(crate) use schema::subschemas;

/// The maximum length of a chain of references; a longer one is a cycle.
pub(crate) const HOPS_MAX: usize = 32;
/// The maximum number of values in the result, where each reference is replaced by a copy of what it leads to.
const VALUES_MAX: usize = 5_000_000;
/// The depth to which references within extensions are followed.
const DEPTH_MAX: usize = 32;

impl Documents {
    /// Reads a document and everything it refers to, or returns all errors. `looks_for` is called with every file that is needed,
    /// even if it cannot be read.
    pub fn read(path: &Path, mut looks_for: impl FnMut(&Path)) -> Result<Documents, Vec<String>> {
        let path = std::path::absolute(path).map_err(|error| vec![error.to_string()])?;
        read(&files::normal(&path), &mut looks_for)
    }
}

fn read(path: &Path, looks_for: &mut dyn FnMut(&Path)) -> Result<Documents, Vec<String>> {
    let mut files = Files::new(looks_for);
    let root = files.root_of(path).map_err(|fault| vec![fault])?;
    let word = |name: &str| files.at(&root)?.get(name).map(crate::model::text);
    let version = match (word("swagger"), word("openapi")) {
        (Some(version), _) if version == "2.0" => Version::Swagger,
        (_, Some(version)) if version.starts_with("3.0") => Version::V30,
        (_, Some(version)) if version.starts_with("3.") => Version::V31,
        _ => {
            let known =
                "OpenAPI 3.0 and 3.1 (`openapi: 3.1.0`) and Swagger 2 (`swagger: \"2.0\"`) are";
            return Err(vec![format!("this is not an OpenAPI version that can be read; {known}")]);
        }
    };
    let mut reader = Reader {
        files,
        version,
        root,
        index: HashMap::new(),
        definitions: Vec::new(),
        children: None,
        faults: Vec::new(),
        said: HashSet::new(),
        values: 0,
    };
    let mut document = reader.document();
    let forms = match version {
        Version::Swagger => swagger::convert(&mut document),
        Version::V30 | Version::V31 => Vec::new(),
    };
    let schemas = reader.read_definitions();
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    let schemas = schemas.into_iter().enumerate();
    let named = schemas.map(|(index, schema)| (index.to_string(), schema)).chain(forms);
    document.insert("$defs".to_owned(), Json::Object(named.collect()));
    let origins = reader.definitions.into_iter().map(|(at, _)| at).collect();
    Ok(Documents::new(reader.root.uri(), Json::Object(document), origins))
}

/// The dialects, which differ in the places of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Swagger,
    V30,
    /// Version 3.1 and later.
    V31,
}

/// The place of a schema, and how it is used there.
type Definition = (JsonLocation, SchemaUse);

/// The part of a value that is a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SchemaUse {
    /// All of it.
    Whole,
    /// For subtypes: without the selection by discriminator.
    Inherited,
    /// The rest of a parameter of Swagger 2, without the members of parameters.
    Parameter,
}

struct Reader<'l> {
    files: Files<'l>,
    version: Version,
    root: JsonLocation,
    /// The schemas that are needed, each once, in the order of their `$defs`.
    definitions: Vec<Definition>,
    index: HashMap<Definition, usize>,
    /// The subtypes of each schema. `None` until a discriminator needs them.
    children: Option<discriminator::Children>,
    faults: Vec<String>,
    /// The faults reported so far, since a fault in a shared part is reported once.
    said: HashSet<String>,
    values: usize,
}

impl Reader<'_> {
    fn fault(&mut self, fault: String) {
        if self.said.insert(fault.clone()) {
            self.faults.push(fault);
        }
    }

    /// Counts a value. Returns false once there are more than [`VALUES_MAX`].
    fn counts(&mut self) -> bool {
        self.values += 1;
        if self.values > VALUES_MAX {
            self.fault(format!(
                "with everything it refers to, it has more than {VALUES_MAX} values"
            ));
        }
        self.values <= VALUES_MAX
    }

    /// The place, followed by each place to which its chain of references leads.
    fn places(&mut self, at: JsonLocation) -> Option<Vec<JsonLocation>> {
        let mut places = vec![at];
        while let Some(last) = places.last().cloned()
            && let Some(reference) = self.files.reference(&last)
        {
            if places.len() > HOPS_MAX {
                self.fault(format!("the references at {last} go in circles"));
                return None;
            }
            match self.files.resolve(&last, &reference) {
                Ok(next) => places.push(next),
                Err(fault) => {
                    self.fault(fault);
                    return None;
                }
            }
        }
        Some(places)
    }

    /// The end of the references at a place.
    fn follow(&mut self, at: JsonLocation) -> Option<JsonLocation> {
        self.places(at)?.pop()
    }

    /// The names of an object's members.
    fn names(&mut self, at: &JsonLocation, what: &str) -> Option<Vec<String>> {
        if !self.counts() {
            return None;
        }
        let members = self.files.at(at).and_then(Json::as_object);
        let names = members.map(|members| members.keys().cloned().collect());
        if names.is_none() {
            self.fault(format!("{at}: {what} must be an object"));
        }
        names
    }

    /// A copy of the value at the end of the references.
    fn plain(&mut self, at: JsonLocation) -> Option<Json> {
        let at = self.follow(at)?;
        self.counts().then(|| self.files.at(&at).cloned()).flatten()
    }

    fn document(&mut self) -> Map<String, Json> {
        let mut made = Map::new();
        let root = self.root.clone();
        // Harmless: `names` reports a value that is not a map.
        for name in self.names(&root, "a document").unwrap_or_default() {
            let at = root.child(&name);
            let value = match name.as_str() {
                "paths" => self.paths(at),
                "components" => self.components(at),
                "securityDefinitions" => self.schemes(at),
                "openapi" | "swagger" | "info" | "servers" | "security" | "host" | "basePath"
                | "schemes" | "consumes" | "produces" => self.plain(at),
                name if extensions::may_have_effect(name) => self.extension(at, 0),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        made
    }

    fn components(&mut self, at: JsonLocation) -> Option<Json> {
        let at = self.follow(at)?;
        self.names(&at, "`components`")?;
        let schemes = at.child("securitySchemes");
        let there = self.files.at(&schemes).is_some();
        let schemes = if there { self.schemes(schemes) } else { None };
        Some(json!({ "securitySchemes": schemes.unwrap_or_else(|| json!({})) }))
    }

    fn schemes(&mut self, at: JsonLocation) -> Option<Json> {
        self.map(at, "security schemes", |reader, at| {
            reader.names(&at, "a security scheme")?;
            reader.plain(at)
        })
    }

    /// An object whose members are all of one kind, under names that the author chose. Each is given at the end of its references.
    fn map(
        &mut self,
        at: JsonLocation,
        what: &str,
        read: impl Fn(&mut Self, JsonLocation) -> Option<Json>,
    ) -> Option<Json> {
        let at = self.follow(at)?;
        let mut made = Map::new();
        for name in self.names(&at, what)? {
            let value = self.follow(at.child(&name)).and_then(|at| read(self, at));
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    fn paths(&mut self, at: JsonLocation) -> Option<Json> {
        let at = self.follow(at)?;
        let mut made = Map::new();
        for template in self.names(&at, "`paths`")? {
            let path = match template.as_str() {
                path if path.starts_with('/') => self.path(at.child(path)),
                other if other.starts_with("x-") => None,
                other => {
                    self.fault(format!("{at}: the path `{other}` does not begin with `/`"));
                    None
                }
            };
            made.extend(path.map(|path| (template, path)));
        }
        Some(Json::Object(made))
    }

    /// The members of an object, including those beside its reference. The latter take precedence, in the order of
    /// `places`.
    fn members(
        &mut self,
        places: &[JsonLocation],
        what: &str,
    ) -> Option<Vec<(String, JsonLocation)>> {
        let mut members: Vec<(String, JsonLocation)> = Vec::new();
        for place in places {
            for name in self.names(place, what)? {
                let known = members.iter().any(|(known, _)| *known == name);
                if known && METHODS.contains(&name.as_str()) {
                    self.fault(format!(
                        "{place}: `{name}` stands here and beside a reference to this"
                    ));
                }
                if !known && name != "$ref" {
                    members.push((name.clone(), place.child(&name)));
                }
            }
        }
        Some(members)
    }

    fn path(&mut self, at: JsonLocation) -> Option<Json> {
        let places = self.places(at)?;
        let mut made = Map::new();
        for (name, at) in self.members(&places, "a path")? {
            let lower = name.to_ascii_lowercase();
            let value = match name.as_str() {
                method if METHODS.contains(&method) => self.operation(at),
                "servers" => self.plain(at),
                "parameters" => self.parameters(&places),
                name if extensions::may_have_effect(name) => self.extension(at, 0),
                other if METHODS.contains(&lower.as_str()) => {
                    self.fault(format!(
                        "{at}: methods are in lower case; write `{lower}` for `{other}`"
                    ));
                    None
                }
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    fn operation(&mut self, at: JsonLocation) -> Option<Json> {
        let places = self.places(at)?;
        let mut made = Map::new();
        for (name, at) in self.members(&places, "an operation")? {
            let value = match name.as_str() {
                "parameters" => self.parameters(&places),
                "requestBody" => self.request_body(at),
                "responses" => self.responses(at),
                "security" | "servers" | "consumes" | "produces" => self.plain(at),
                name if extensions::may_have_effect(name) => self.extension(at, 0),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    /// The parameters of a path or an operation, which may be in several places.
    fn parameters(&mut self, places: &[JsonLocation]) -> Option<Json> {
        let mut list = Vec::new();
        for place in places {
            let at = place.child("parameters");
            if self.files.at(&at).is_none() {
                continue;
            }
            let at = self.follow(at)?;
            let Some(count) = self.files.at(&at).and_then(Json::as_array).map(Vec::len) else {
                self.fault(format!("{at}: `parameters` must be a list"));
                return None;
            };
            for index in 0..count {
                let parameter = self.follow(at.child(&index.to_string()));
                list.extend(parameter.and_then(|at| self.parameter(at)));
            }
        }
        Some(Json::Array(list))
    }

    /// A parameter, or a header of a reply.
    fn parameter(&mut self, at: JsonLocation) -> Option<Json> {
        let mut made = Map::new();
        let names = self.names(&at, "a parameter")?;
        let place = self.files.at(&at).and_then(|value| value.get("in")).and_then(Json::as_str);
        if self.version == Version::Swagger && place != Some("body") {
            made.extend(
                self.schema_there(&at, SchemaUse::Parameter).map(|s| ("schema".to_owned(), s)),
            );
        }
        for name in names {
            let at = at.child(&name);
            let value = match name.as_str() {
                "schema" if made.contains_key("schema") => continue,
                "schema" => self.schema_there(&at, SchemaUse::Whole),
                "content" => self.map(at, "`content`", Self::media_type),
                "name" | "in" | "required" | "style" | "explode" | "allowEmptyValue" | "type"
                | "collectionFormat" => self.plain(at),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    fn request_body(&mut self, at: JsonLocation) -> Option<Json> {
        let at = self.follow(at)?;
        let mut made = Map::new();
        for name in self.names(&at, "`requestBody`")? {
            let at = at.child(&name);
            let value = match name.as_str() {
                "content" => self.map(at, "`content`", Self::media_type),
                "required" => self.plain(at),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    fn responses(&mut self, at: JsonLocation) -> Option<Json> {
        let at = self.follow(at)?;
        let mut made = Map::new();
        let names = self.names(&at, "`responses`")?.into_iter();
        for status in names.filter(|name| !name.starts_with("x-")) {
            let reply = self.follow(at.child(&status)).and_then(|at| self.response(at));
            made.extend(reply.map(|reply| (status, reply)));
        }
        Some(Json::Object(made))
    }

    fn response(&mut self, at: JsonLocation) -> Option<Json> {
        let mut made = Map::new();
        for name in self.names(&at, "a response")? {
            let at = at.child(&name);
            let value = match name.as_str() {
                "content" => self.map(at, "`content`", Self::media_type),
                "headers" => self.map(at, "`headers`", Self::parameter),
                "schema" if self.is_file(&at) => Some(swagger::file()),
                "schema" => self.schema_there(&at, SchemaUse::Whole),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    /// True for the schema of a download in Swagger 2.
    fn is_file(&mut self, at: &JsonLocation) -> bool {
        let at = self.follow(at.clone());
        let kind = at.as_ref().and_then(|at| self.files.at(at)?.get("type")?.as_str());
        kind == Some("file")
    }

    fn media_type(&mut self, at: JsonLocation) -> Option<Json> {
        let mut made = Map::new();
        for name in self.names(&at, "a media type")? {
            let at = at.child(&name);
            let value = match name.as_str() {
                "schema" => self.schema_there(&at, SchemaUse::Whole),
                "encoding" => self.map(at, "`encoding`", Self::plain),
                _ => None,
            };
            made.extend(value.map(|value| (name, value)));
        }
        Some(Json::Object(made))
    }

    /// The value of an extension, with the references in it followed.
    fn extension(&mut self, at: JsonLocation, depth: usize) -> Option<Json> {
        // A reference to a named endpoint stays: `endpoints` looks the name up, since the endpoints may be a list or a map.
        let names_endpoint = |reference: &str| reference.starts_with("#/x-wso2-endpoints/");
        let at = match self.files.reference(&at) {
            Some(reference) if names_endpoint(&reference) => {
                return Some(json!({ "$ref": reference }));
            }
            Some(_) => self.follow(at)?,
            None => at,
        };
        if depth > DEPTH_MAX {
            self.fault(format!("{at}: the references go in circles"));
            return None;
        }
        if !self.counts() {
            return None;
        }
        match self.files.at(&at)? {
            Json::Object(members) => {
                let names: Vec<String> = members.keys().cloned().collect();
                // Harmless: a member is left out only after a fault was reported.
                let read = names.into_iter().filter_map(|name| {
                    let value = self.extension(at.child(&name), depth + 1)?;
                    Some((name, value))
                });
                Some(Json::Object(read.collect()))
            }
            Json::Array(items) => {
                let count = items.len();
                // Harmless: an item is left out only after a fault was reported.
                let read = (0..count)
                    .filter_map(|index| self.extension(at.child(&index.to_string()), depth + 1));
                Some(Json::Array(read.collect()))
            }
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_)) => {
                Some(plain.clone())
            }
        }
    }
}
