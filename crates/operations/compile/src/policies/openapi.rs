//! Compiles `openapi`: the operations of a document become checks, with compiled schemas.

mod shapes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ::policies::openapi::{OpenApiSettings, policy};
use ::policies::removed_credentials::{self, CredentialNames};
use config::{OpenApi, Report, Spanned};
use import::{Documents, JsonLocation, SchemaSide};
use mediation::json_schema::{Schema, Schemas};
use mediation::openapi::{
    self as checks, Field, Form, MediaRange, Object, Operations, ParameterTypes, PathItem,
    SegmentPiece, Statuses, Style, Types,
};
use serde_json::Value as Json;

use super::openapi_file::{OpenApiFile, ReadDocument};
use super::{Access, PolicyKind, PolicyPlace};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use shapes::Shapes;

/// The help text of complaints about an unreadable document.
pub(crate) const UNREADABLE_HELP: &str =
    "name an OpenAPI document that the gateway may read, or correct it";

/// The checks of a document's operations, built once and shared by all routes.
struct BuiltChecks {
    operations: Arc<Operations>,
    /// Faults, each with the index of the path that it belongs to.
    faults: Vec<(usize, String)>,
    /// Content types whose schema cannot be enforced, each with the index of its path. They get a warning, since a reader of the document
    /// may assume that the schema is enforced.
    unread: BTreeSet<(usize, String)>,
}

/// Builds the policy. Complaints about a document point at its name in the configuration.
impl PolicyKind for OpenApi {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let settings = settings(self, place, report).unwrap_or_else(|| OpenApiSettings {
            operations: Arc::new(Operations::new(String::new(), Vec::new())),
            only: None,
            request: false,
            response: false,
            refuses: true,
            verbose: false,
            body_bytes_max: 0,
        });
        policy(settings, place.slots)
    }
}

/// The path and the method of each operation, by the index of the path and the index of the operation within it.
type OperationOrder = Vec<Vec<(String, String)>>;

/// Returns a document's operations, to be found by request and without checks, and the path and the method of each.
pub(super) fn searched(
    document: &Spanned<config::FilePath>,
    base: Option<&str>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<(Arc<Operations>, OperationOrder)> {
    let read = read(document, place, report);
    let complain = |fault: &String| report.error(document.at, fault.as_str(), UNREADABLE_HELP);
    let read = read.as_ref().as_ref().map_err(|faults| faults.iter().for_each(complain)).ok()?;
    let built = checks_of(read, base, false, false, place);
    let built = built.map_err(|fault| report.error(document.at, fault, "correct the document"));
    let built = built.ok()?;
    let order = read.model.paths.iter().map(|path| {
        let named = path.operations.iter();
        named.map(|operation| (path.template.clone(), operation.method.clone())).collect()
    });
    Some((built.operations.clone(), order.collect()))
}

/// Adapts a policy that removes credentials from requests, so that an `openapi` below it still sees them as received.
pub(crate) fn seen_below(built: plan::Policy, route: &config::Route, at: usize) -> plan::Policy {
    let validates = |policy: &Spanned<config::Policy>| matches!(policy.value.applied(), config::Policy::OpenApi(keys) if keys.request);
    let row = route.policies.get(at).map(|policy| super::facts(&policy.value, &[]));
    let Some(row) = row.filter(|_| route.policies.iter().skip(at + 1).any(validates)) else {
        return built;
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    if row.access != Access::Identifies {
        return built;
    }
    let names = CredentialNames { headers: owned(&row.removes), queries: owned(&row.secrets) };
    removed_credentials::recording_removed(built, names)
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
        Err(faults) => {
            for fault in faults {
                report.error(document.at, fault.as_str(), UNREADABLE_HELP);
            }
            return None;
        }
    };
    let base = keys.base_path.as_ref().map(|base| base.value.as_str());
    let built = match checks_of(read, base, keys.request, keys.response, place) {
        Ok(built) => built,
        Err(fault) => {
            report.error(document.at, fault, "correct the document");
            return None;
        }
    };
    let only = match &keys.path {
        None => None,
        Some(only) => match built.operations.index_of(&only.value) {
            Some(index) => Some(index),
            None => {
                let known = read.model.paths.iter().map(|path| path.template.as_str());
                let meant = report.suggest(&only.value, known);
                let what = crate::names::unknown("path in the document", &only.value, meant);
                report.error(only.at, what, "write a path as the document does");
                return None;
            }
        },
    };
    let is_of_it = |at: usize| only.is_none_or(|only| only == at);
    for (_, fault) in built.faults.iter().filter(|(at, _)| is_of_it(*at)) {
        report.error(document.at, fault.as_str(), "correct the document");
    }
    for (_, media_type) in built.unread.iter().filter(|(at, _)| is_of_it(*at)) {
        let what = format!(
            "the schema of `{media_type}` is not enforced: bodies of that type are not read"
        );
        report.warn(document.at, what, "have the service check what is in them");
    }
    Some(OpenApiSettings {
        operations: built.operations.clone(),
        only,
        request: keys.request,
        response: keys.response,
        refuses: keys.paths,
        verbose: keys.verbose,
        body_bytes_max: bytes(keys.body_bytes_max),
    })
}

/// Reads a document once for all routes.
fn read(
    document: &Spanned<config::FilePath>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Arc<ReadDocument> {
    let path = document.value.as_path();
    if let Some(known) = place.builder.documents.get(path) {
        return known.clone();
    }
    let read = OpenApiFile::read(path, |path| report.depends_on(path.to_owned()));
    let read = Arc::new(read);
    place.builder.documents.insert(path.to_owned(), read.clone());
    read
}

/// Returns the checks of a document's operations. They are taken over from another route or from the previous plan if the document is the
/// same.
fn checks_of(
    read: &OpenApiFile,
    base: Option<&str>,
    request: bool,
    response: bool,
    place: &mut RouteScope<'_, '_>,
) -> Result<Arc<BuiltChecks>, String> {
    let base = crate::paths::as_matched(base.unwrap_or("").trim_end_matches('/'));
    let key = format!("openapi {:x} {request} {response} {base}", read.content);
    place.builder.try_reuse_or_build(&key, || {
        let sides = [(SchemaSide::Request, request), (SchemaSide::Response, response)];
        let [request, response] =
            sides.map(|(side, wanted)| wanted.then(|| SideSchemas::new(read, side)).transpose());
        let documents = &read.documents;
        let (request, response) = (request?, response?);
        let mut building = OperationsBuilder {
            documents,
            request,
            response,
            path: 0,
            faults: Vec::new(),
            unread: BTreeSet::new(),
        };
        let paths = read.model.paths.iter().enumerate();
        let paths = paths.map(|(at, path)| building.path(at, path)).collect();
        Ok(Arc::new(BuiltChecks {
            operations: Arc::new(Operations::new(base, paths)),
            faults: building.faults,
            unread: building.unread,
        }))
    })
}

/// The schemas of a document for the messages of one side, by location. Each is compiled, or has the error of its compilation.
struct SideSchemas {
    all: HashMap<JsonLocation, Result<Schema, String>>,
    anything: Schema,
}

impl SideSchemas {
    fn new(read: &OpenApiFile, side: SchemaSide) -> Result<SideSchemas, String> {
        let schemas = Schemas::new([read.documents.of_side(side)], true)?;
        let operations = read.model.paths.iter().flat_map(|path| &path.operations);
        let locations: BTreeSet<&JsonLocation> = match side {
            SchemaSide::Request => operations.flat_map(request_schemas).collect(),
            SchemaSide::Response => operations.flat_map(reply_schemas).collect(),
        };
        let uris: Vec<String> = locations.iter().map(|location| location.reference()).collect();
        let compiled = schemas.compile_each(&uris).into_iter();
        // Harmless: the compiler returns one result for each URI.
        let all = locations.into_iter().cloned().zip(compiled).collect();
        Ok(SideSchemas { all, anything: schemas.compile(&Json::Bool(true))? })
    }
}

/// Returns the locations of an operation's request schemas.
fn request_schemas(operation: &import::Operation) -> Vec<&JsonLocation> {
    let parameters = operation.parameters.iter().filter_map(|parameter| parameter.schema.as_ref());
    let content = operation.body.iter().flat_map(|body| &body.content);
    parameters.chain(content.filter_map(|content| content.schema.as_ref())).collect()
}

/// Returns the locations of an operation's reply schemas.
fn reply_schemas(operation: &import::Operation) -> Vec<&JsonLocation> {
    let replies = operation.replies.iter();
    let headers = operation.replies.iter().flat_map(|reply| &reply.headers);
    let content = replies.flat_map(|reply| &reply.content);
    let headers = headers.filter_map(|header| header.schema.as_ref());
    headers.chain(content.filter_map(|content| content.schema.as_ref())).collect()
}

/// Builds the checks of a document's operations.
struct OperationsBuilder<'a> {
    documents: &'a Documents,
    request: Option<SideSchemas>,
    response: Option<SideSchemas>,
    /// The index of the path that is being built.
    path: usize,
    faults: Vec<(usize, String)>,
    unread: BTreeSet<(usize, String)>,
}

impl OperationsBuilder<'_> {
    fn path(&mut self, at: usize, path: &import::Path) -> PathItem {
        self.path = at;
        let (written, query) = path.template.split_once('?').unwrap_or((&path.template, ""));
        let (template, open) = match written.strip_suffix("/*") {
            Some(front) => (front, true),
            None => (written, false),
        };
        let segments = match template {
            "" if open => Vec::new(),
            _ => template.trim_start_matches('/').split('/').map(pieces).collect(),
        };
        let operations = path.operations.iter().map(|operation| self.operation(operation));
        PathItem {
            template: path.template.as_str().into(),
            segments,
            open,
            operations: operations.collect(),
            query: conditions(query),
        }
    }

    fn operation(&mut self, operation: &import::Operation) -> checks::Operation {
        let side = SchemaSide::Request;
        // OpenAPI ignores header parameters of these names.
        let parameters = operation.parameters.iter().filter(|parameter| {
            let ignored = ["accept", "content-type", "authorization"];
            parameter.place != "header"
                || !ignored.contains(&parameter.name.to_ascii_lowercase().as_str())
        });
        // Harmless: `parameter` reports parameters that cannot be checked.
        let parameters =
            parameters.filter_map(|parameter| self.parameter(parameter, side)).collect();
        let body = operation.body.as_ref().filter(|_| self.request.is_some()).map(|body| {
            let content = body.content.iter().map(|content| self.content(content, side));
            checks::RequestBody { required: body.required, content: content.collect() }
        });
        let replies = if self.response.is_some() {
            // Harmless: `reply` reports an invalid status.
            operation.replies.iter().filter_map(|reply| self.reply(reply)).collect()
        } else {
            Vec::new()
        };
        checks::Operation { method: operation.method.clone(), parameters, body, replies }
    }

    fn reply(&mut self, reply: &import::Reply) -> Option<checks::Reply> {
        let status = reply.status.to_ascii_uppercase();
        let statuses = match status.strip_suffix("XX") {
            _ if status == "DEFAULT" => Some(Statuses::Default),
            // Harmless: an invalid status is reported below.
            Some(class) => kit::digits::whole(class).map(Statuses::Class),
            // Harmless: an invalid status is reported below.
            None => kit::digits::whole(&status).map(Statuses::One),
        };
        let Some(statuses) = statuses else {
            self.fault(format!("`{}` is not a response status", reply.status));
            return None;
        };
        let side = SchemaSide::Response;
        let content = reply.content.iter().map(|content| self.content(content, side)).collect();
        // Harmless: `parameter` reports parameters that cannot be checked.
        let headers = reply.headers.iter().filter_map(|header| self.parameter(header, side));
        Some(checks::Reply { statuses, headers: headers.collect(), content })
    }

    fn content(&mut self, content: &import::Content, side: SchemaSide) -> checks::Content {
        let schema = content.schema.as_ref();
        let form = match (schema, content.media_type.as_str()) {
            (Some(location), "application/x-www-form-urlencoded") => {
                let object = self.shapes().object(location, 0, 0);
                let encoding = content.encoding.iter();
                // Harmless: a member without a style uses the default style.
                let fields = encoding.filter_map(|said| self.field(said, &object)).collect();
                Form { object, fields }
            }
            _ => Form::default(),
        };
        let schema = schema.and_then(|location| self.schema(location, side));
        if schema.is_some() && content.media_type.starts_with("multipart/") {
            self.unread.insert((self.path, content.media_type.clone()));
        }
        checks::Content { range: MediaRange(content.media_type.clone()), schema, form }
    }

    /// Returns the format of a form member for which the document specifies a style. Without a style, a member that is an object is sent as
    /// JSON.
    fn field(&mut self, said: &import::FieldEncoding, object: &Object) -> Option<Field> {
        let is_styled = said.style.is_some() || said.explode.is_some();
        if !is_styled && !said.json {
            return None;
        }
        let shape = object.members.iter().find(|(name, _)| **name == *said.name);
        let style = self.style_named(said.style.as_deref(), &said.name, Style::Form);
        Some(Field {
            name: said.name.as_str().into(),
            style,
            explode: said.explode.unwrap_or(style == Style::Form),
            shape: shape?.1.clone(),
            json: said.json && !is_styled,
            may_be_empty: false,
        })
    }

    /// Returns the check of a parameter, or `None` if its side is not validated or its schema has a fault. A parameter without a schema
    /// accepts any value.
    fn parameter(
        &mut self,
        parameter: &import::Parameter,
        side: SchemaSide,
    ) -> Option<checks::Parameter> {
        let location = parameter.schema.as_ref();
        let schema = match location {
            Some(location) => self.schema(location, side)?,
            None => self.anything(side)?,
        };
        let place = match parameter.place.as_str() {
            "path" => checks::ParameterLocation::Path,
            "query" => checks::ParameterLocation::Query,
            "cookie" => checks::ParameterLocation::Cookie,
            _ => checks::ParameterLocation::Header,
        };
        let style = self.style(parameter, place);
        let shape = location.map_or(ParameterTypes::Plain(Types::default()), |location| {
            self.shapes().shape(location, 0, 0)
        });
        let field = Field {
            name: parameter.name.as_str().into(),
            style,
            explode: parameter.explode.unwrap_or(style == Style::Form),
            shape,
            json: parameter.json,
            may_be_empty: parameter.may_be_empty,
        };
        Some(checks::Parameter { place, required: parameter.required, field, schema })
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
                self.fault(format!("the style `{other}` of `{of}` is unknown"));
                default
            }
        }
    }

    fn fault(&mut self, fault: String) {
        let fault = (self.path, fault);
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn shapes(&self) -> Shapes<'_> {
        Shapes { documents: self.documents }
    }

    fn of_side(&self, side: SchemaSide) -> Option<&SideSchemas> {
        match side {
            SchemaSide::Request => self.request.as_ref(),
            SchemaSide::Response => self.response.as_ref(),
        }
    }

    fn schema(&mut self, location: &JsonLocation, side: SchemaSide) -> Option<Schema> {
        match self.of_side(side)?.all.get(location) {
            Some(Ok(schema)) => Some(schema.clone()),
            Some(Err(fault)) => {
                let fault = format!("{}: {fault}", self.documents.origin(location));
                self.fault(fault);
                None
            }
            None => {
                self.fault(format!("{location}: this schema was not compiled"));
                None
            }
        }
    }

    fn anything(&self, side: SchemaSide) -> Option<Schema> {
        Some(self.of_side(side)?.anything.clone())
    }
}

/// Returns the conditions on the query that a path with `?` expresses.
fn conditions(query: &str) -> Vec<(Box<str>, Option<Box<str>>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let condition = |pair: &str| match pair.split_once('=') {
        // A parameter in place of a value accepts any value.
        Some((name, value)) if !value.is_empty() && !value.starts_with('{') => {
            (name.into(), Some(value.into()))
        }
        Some((name, _)) => (name.into(), None),
        None => (pair.into(), None),
    };
    pairs.map(condition).collect()
}

/// Parses a segment of a path: `{id}`, `{name}.{end}` or a text.
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
