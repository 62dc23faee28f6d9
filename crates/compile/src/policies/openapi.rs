//! `openapi` to its policy: operations of the document to checks, their schemas compiled.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use ::policies::openapi::{OpenApiSettings, policy};
use config::{OpenApi, Report, Spanned};
use import::{Documents, JsonLocation, Model, SchemaSide};
use mediation::json_schema::{Schema, Schemas};
use mediation::openapi::{
    self as checks, MediaRange, Object, ParameterTypes, PathItem, SegmentPiece, Statuses, Style,
    Types,
};
use serde_json::Value as Json;

use crate::listeners::bytes;
use crate::policy::RouteScope;

/// The help where a document cannot be read.
pub(crate) const UNREADABLE_HELP: &str =
    "name an OpenAPI document that the gateway may read, or correct it";

/// References within schemas that are followed to find the types of a text.
const DEPTH_MAX: usize = 8;

/// A document as it was read, or why it could not be.
pub(crate) type ReadDocument = Result<OpenApiFile, String>;

/// A document that could be read.
pub(crate) struct OpenApiFile {
    documents: Documents,
    model: Model,
    /// A hash of all of it.
    content: u64,
}

/// Builds the policy; a document's faults are complained about at its name.
pub(crate) fn build(
    keys: &OpenApi,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let settings = settings(keys, place, report).unwrap_or_else(|| OpenApiSettings {
        base_path: String::new(),
        paths: Vec::new(),
        request: false,
        response: false,
        refuses: false,
        verbose: false,
        body_bytes_max: 0,
    });
    policy(settings, place.slots)
}

fn settings(
    keys: &OpenApi,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<OpenApiSettings> {
    let document = &keys.document;
    let read = read(document, place, report);
    let read = match &*read {
        Ok(read) => read,
        Err(fault) => {
            report.error(document.at, fault.as_str(), UNREADABLE_HELP);
            return None;
        }
    };
    let OpenApiFile { documents, model, .. } = read;
    let wanted =
        |path: &&import::Path| keys.path.as_ref().is_none_or(|only| only.value == path.template);
    let paths: Vec<&import::Path> = model.paths.iter().filter(wanted).collect();
    if let (Some(only), true) = (&keys.path, paths.is_empty()) {
        let known = model.paths.iter().map(|path| path.template.as_str());
        let meant = report.suggest(&only.value, known);
        let what = crate::names::unknown("path in the document", &only.value, meant);
        report.error(only.at, what, "write a path as the document does");
        return None;
    }
    let sides = [(SchemaSide::Request, keys.request), (SchemaSide::Response, keys.response)];
    let [request, response] = sides.map(|(side, wanted)| {
        let schemas = schemas(read, side, wanted, place);
        schemas.map_err(|fault| report.error(document.at, fault, "correct the document")).ok()
    });
    let mut building = OperationsBuilder {
        documents,
        request: request?,
        response: response?,
        known: HashMap::new(),
        faults: Vec::new(),
        unread: BTreeSet::new(),
    };
    let paths = paths.into_iter().map(|path| building.path(path)).collect();
    for fault in building.faults {
        report.error(document.at, fault, "correct the document");
    }
    for media_type in building.unread {
        let what = format!(
            "the schema of `{media_type}` is not enforced: bodies of that type are not read"
        );
        report.warn(document.at, what, "have the service check what is in them");
    }
    let base = keys.base_path.as_ref().map(|base| base.value.trim_end_matches('/'));
    Some(OpenApiSettings {
        base_path: crate::paths::as_matched(base.unwrap_or_default()),
        paths,
        request: keys.request,
        response: keys.response,
        refuses: keys.paths,
        verbose: keys.verbose,
        body_bytes_max: bytes(keys.body_bytes_max),
    })
}

/// Reads a document, once for all routes.
fn read(
    document: &Spanned<config::FilePath>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Arc<ReadDocument> {
    let path = document.value.as_path();
    if let Some(known) = place.builder.documents.get(path) {
        return known.clone();
    }
    let read = Documents::read(path, |path| report.depends_on(path.to_owned()));
    let read = read.and_then(|documents| {
        let model = Model::read(&documents).map_err(|faults| faults.join("; "))?;
        Ok(OpenApiFile { content: hash(&documents), documents, model })
    });
    let read = Arc::new(read);
    place.builder.documents.insert(path.to_owned(), read.clone());
    read
}

fn hash(documents: &Documents) -> u64 {
    let all: Vec<String> =
        documents.files().map(|(uri, document)| format!("{uri} {document}")).collect();
    BuildHasherDefault::<DefaultHasher>::default().hash_one(all)
}

/// One side's schemas, taken over from the plan before if the document says the same.
fn schemas(
    read: &OpenApiFile,
    side: SchemaSide,
    wanted: bool,
    place: &mut RouteScope<'_, '_>,
) -> Result<Option<Arc<Schemas>>, String> {
    if !wanted {
        return Ok(None);
    }
    let key = format!("openapi schemas {side:?} {:x}", read.content);
    let make = || Schemas::new(read.documents.of_side(side), true).map(Arc::new);
    place.builder.kept(&key, make).map(Some)
}

/// A document's operations on their way to checks.
struct OperationsBuilder<'a> {
    documents: &'a Documents,
    request: Option<Arc<Schemas>>,
    response: Option<Arc<Schemas>>,
    known: HashMap<(SchemaSide, JsonLocation), Option<Schema>>,
    faults: Vec<String>,
    /// Content types with a schema that no body of theirs is held to, and that one might take to be enforced.
    unread: BTreeSet<String>,
}

impl OperationsBuilder<'_> {
    fn path(&mut self, path: &import::Path) -> PathItem {
        let (template, open) = match path.template.strip_suffix("/*") {
            Some(front) => (front, true),
            None => (path.template.as_str(), false),
        };
        let segments = match template {
            "" if open => Vec::new(),
            _ => template.trim_start_matches('/').split('/').map(pieces).collect(),
        };
        let operations = path.operations.iter().map(|operation| self.operation(operation));
        PathItem { segments, open, operations: operations.collect() }
    }

    fn operation(&mut self, operation: &import::Operation) -> checks::Operation {
        let side = SchemaSide::Request;
        // OpenAPI ignores header parameters of these names.
        let parameters = operation.parameters.iter().filter(|parameter| {
            let ignored = ["accept", "content-type", "authorization"];
            parameter.place != "header"
                || !ignored.contains(&parameter.name.to_ascii_lowercase().as_str())
        });
        let parameters =
            parameters.filter_map(|parameter| self.parameter(parameter, side)).collect();
        let body = operation.body.as_ref().filter(|_| self.request.is_some()).map(|body| {
            let content = body.content.iter().map(|content| self.content(content, side));
            checks::RequestBody { required: body.required, content: content.collect() }
        });
        let replies = match self.response.is_some() {
            true => operation.replies.iter().filter_map(|reply| self.reply(reply)).collect(),
            false => Vec::new(),
        };
        checks::Operation { method: operation.method.clone(), parameters, body, replies }
    }

    fn reply(&mut self, reply: &import::Reply) -> Option<checks::Reply> {
        let status = reply.status.to_ascii_uppercase();
        let statuses = match status.strip_suffix("XX") {
            _ if status == "DEFAULT" => Some(Statuses::Default),
            Some(class) => class.parse().ok().map(Statuses::Class),
            None => status.parse().ok().map(Statuses::One),
        };
        let Some(statuses) = statuses else {
            self.faults.push(format!("`{}` is no status of a response", reply.status));
            return None;
        };
        let side = SchemaSide::Response;
        let content = reply.content.iter().map(|content| self.content(content, side)).collect();
        let headers = reply.headers.iter().filter_map(|header| self.parameter(header, side));
        Some(checks::Reply { statuses, headers: headers.collect(), content })
    }

    fn content(&mut self, content: &import::Content, side: SchemaSide) -> checks::Content {
        let schema = content.schema.as_ref();
        let mut form = match (schema, content.media_type.as_str()) {
            (Some(spot), "application/x-www-form-urlencoded") => self.object(spot, 0),
            _ => Object::default(),
        };
        for (name, written) in &content.joined {
            let style = self.style_named(written.as_deref(), name, Style::Form);
            form.joined.push((name.as_str().into(), style));
        }
        let schema = schema.and_then(|spot| self.schema(spot, side));
        if schema.is_some() && content.media_type.starts_with("multipart/") {
            self.unread.insert(content.media_type.clone());
        }
        checks::Content { range: MediaRange(content.media_type.clone()), schema, form }
    }

    /// Nothing for one without a schema, and for one that is not checked.
    fn parameter(
        &mut self,
        parameter: &import::Parameter,
        side: SchemaSide,
    ) -> Option<checks::Parameter> {
        let spot = parameter.schema.as_ref();
        let schema = match spot {
            Some(spot) => self.schema(spot, side)?,
            None => self.anything(side)?,
        };
        let place = match parameter.place.as_str() {
            "path" => checks::ParameterLocation::Path,
            "query" => checks::ParameterLocation::Query,
            "cookie" => checks::ParameterLocation::Cookie,
            _ => checks::ParameterLocation::Header,
        };
        let style = self.style(parameter, place);
        Some(checks::Parameter {
            name: parameter.name.as_str().into(),
            place,
            required: parameter.required,
            style,
            explode: parameter.explode.unwrap_or(style == Style::Form),
            shape: spot.map_or(ParameterTypes::Plain(Types::default()), |spot| self.shape(spot, 0)),
            schema,
            json: parameter.json,
            may_be_empty: parameter.may_be_empty,
        })
    }

    fn style(&mut self, parameter: &import::Parameter, place: checks::ParameterLocation) -> Style {
        let default = match place {
            checks::ParameterLocation::Path | checks::ParameterLocation::Header => Style::Simple,
            checks::ParameterLocation::Query | checks::ParameterLocation::Cookie => Style::Form,
        };
        self.style_named(parameter.style.as_deref(), &parameter.name, default)
    }

    fn style_named(&mut self, written: Option<&str>, of: &str, default: Style) -> Style {
        match written {
            None => default,
            Some("simple") => Style::Simple,
            Some("label") => Style::Label,
            Some("matrix") => Style::Matrix,
            Some("form") => Style::Form,
            Some("spaceDelimited") => Style::SpaceDelimited,
            Some("pipeDelimited") => Style::PipeDelimited,
            Some("tabDelimited") => Style::TabDelimited,
            Some("deepObject") => Style::DeepObject,
            Some(other) => {
                self.faults.push(format!("the style `{other}` of `{of}` is not known"));
                default
            }
        }
    }

    fn schema(&mut self, spot: &JsonLocation, side: SchemaSide) -> Option<Schema> {
        let schemas = match side {
            SchemaSide::Request => self.request.as_ref()?,
            SchemaSide::Response => self.response.as_ref()?,
        };
        let key = (side, spot.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let compiled = schemas.at(&spot.reference());
        let compiled = compiled.map_err(|fault| self.faults.push(format!("{spot}: {fault}"))).ok();
        self.known.insert(key, compiled.clone());
        compiled
    }

    fn anything(&mut self, side: SchemaSide) -> Option<Schema> {
        let schemas = match side {
            SchemaSide::Request => self.request.as_ref()?,
            SchemaSide::Response => self.response.as_ref()?,
        };
        schemas.compile(&Json::Bool(true)).ok()
    }

    /// The form in which text is read under a schema.
    fn shape(&self, spot: &JsonLocation, depth: usize) -> ParameterTypes {
        let types = self.type_names(spot, depth);
        let has = |name: &str| types.iter().any(|known| known == name);
        match () {
            () if has("array") => {
                let items = self.items(spot, depth);
                ParameterTypes::List(
                    items.map(|items| self.types(&items, depth + 1)).unwrap_or_default(),
                )
            }
            () if has("object") => ParameterTypes::Object(self.object(spot, depth)),
            () => ParameterTypes::Plain(self.types(spot, depth)),
        }
    }

    fn types(&self, spot: &JsonLocation, depth: usize) -> Types {
        let types = self.type_names(spot, depth);
        let has = |name: &str| types.iter().any(|known| known == name);
        Types {
            number: has("number") || has("integer"),
            boolean: has("boolean"),
            null: has("null"),
            anything: self.documents.at(spot).is_some_and(says_nothing),
        }
    }

    /// Every `type` that a schema names, its parts included.
    fn type_names(&self, spot: &JsonLocation, depth: usize) -> Vec<String> {
        let mut names = Vec::new();
        let Some(value) = self.documents.at(spot).filter(|_| depth < DEPTH_MAX) else {
            return names;
        };
        match value.get("type") {
            Some(Json::String(one)) => names.push(one.clone()),
            Some(Json::Array(several)) => {
                names.extend(several.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            _ if value.get("properties").is_some() => names.push("object".to_owned()),
            _ => {
                let listed = value.get("enum").and_then(Json::as_array).into_iter().flatten();
                let values = listed.chain(value.get("const"));
                names.extend(values.filter_map(scalar).map(str::to_owned));
            }
        }
        for part in self.parts(spot) {
            names.extend(self.type_names(&part, depth + 1));
        }
        names
    }

    /// The schemas that `allOf` and its kin put together.
    fn parts(&self, spot: &JsonLocation) -> Vec<JsonLocation> {
        let lists = ["allOf", "anyOf", "oneOf"].map(|name| spot.child(name));
        let parts = lists.iter().flat_map(|list| {
            let count = self.documents.at(list).and_then(Json::as_array).map_or(0, Vec::len);
            (0..count).map(|at| list.child(&at.to_string()))
        });
        let parts = parts.filter_map(|part| self.documents.follow_schema(part).ok());
        let referred = self.documents.referred(spot).ok().flatten();
        parts.chain(referred).collect()
    }

    /// The schema of an array's items, which a part of its own may have.
    fn items(&self, spot: &JsonLocation, depth: usize) -> Option<JsonLocation> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let own = self.documents.schema(spot, "items").ok().flatten();
        own.or_else(|| self.parts(spot).iter().find_map(|part| self.items(part, depth + 1)))
    }

    fn object(&self, spot: &JsonLocation, depth: usize) -> Object {
        let mut object = Object::default();
        if depth >= DEPTH_MAX {
            return object;
        }
        let properties = spot.child("properties");
        let names = self.documents.at(&properties).and_then(Json::as_object);
        for name in names.into_iter().flat_map(|members| members.keys()) {
            if let Ok(at) = self.documents.follow_schema(properties.child(name)) {
                object.members.push((name.as_str().into(), self.shape(&at, depth + 1)));
            }
        }
        match self.documents.schema(spot, "additionalProperties") {
            Ok(Some(others)) => object.others = self.types(&others, depth + 1),
            // Properties named by patterns are not looked at here.
            _ => {
                object.others.anything =
                    self.documents.at(&spot.child("patternProperties")).is_none()
            }
        }
        for part in self.parts(spot) {
            object.members.extend(self.object(&part, depth + 1).members);
        }
        object
    }
}

/// A schema that takes every value, or none.
fn says_nothing(schema: &Json) -> bool {
    let words =
        ["title", "description", "default", "example", "examples", "deprecated", "nullable"];
    match schema {
        Json::Bool(_) => true,
        Json::Object(members) => {
            members.keys().all(|name| words.contains(&name.as_str()) || name.starts_with("x-"))
        }
        Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => false,
    }
}

/// The type of a value that a text may mean.
fn scalar(value: &Json) -> Option<&'static str> {
    match value {
        Json::Null => Some("null"),
        Json::Bool(_) => Some("boolean"),
        Json::Number(_) => Some("number"),
        Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// A segment of a path: `{id}`, `{name}.{end}` or a text.
fn pieces(segment: &str) -> Vec<SegmentPiece> {
    let mut pieces = Vec::new();
    let mut rest = segment;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        if !before.is_empty() {
            pieces.push(SegmentPiece::literal(before));
        }
        pieces.push(SegmentPiece::Parameter(name.into()));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(SegmentPiece::literal(rest));
    }
    pieces
}
