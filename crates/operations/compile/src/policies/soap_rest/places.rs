//! Determines path, method and parameters of each operation.

use std::cmp::Reverse;

use ::policies::soap_rest::{OperationPath, PathSegment, RequestParameter};
use config::{At, Report, RestMethod, RestOperation, SoapRest, Spanned};
use wsdl::typed::{Api, OfferedParameter, Operation, OperationPlace};

use super::{action, own_path};
use crate::paths;
use crate::policy::RouteScope;

/// Returns the path and method of an operation as the OpenAPI document shows them.
pub(super) fn offered(place: &OperationPath) -> OperationPlace {
    let parameter = |one: &RequestParameter| OfferedParameter {
        name: one.name.to_string(),
        in_path: one.segment.is_some(),
        parameter: one.parameter.clone(),
    };
    let parameters = place.parameters.as_ref();
    OperationPlace {
        method: place.method.to_string(),
        path: place.path.to_string(),
        parameters: parameters.map(|all| all.iter().map(parameter).collect()),
    }
}

/// Returns the paths and methods of all operations, in the order in which requests are compared with them.
pub(super) fn places(
    keys: &SoapRest,
    api: &Api,
    document: Option<&str>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Vec<OperationPath>> {
    for (name, _) in keys.operations.iter() {
        let known = || api.operations().iter().map(Operation::name);
        if !known().any(|known| known == name.value) {
            let meant = report.suggest(&name.value, known());
            let what = crate::names::unknown("operation", &name.value, meant);
            report.error(name.at, what, "name an operation of the WSDL");
        }
    }
    let mut places: Vec<OperationPath> = Vec::new();
    for (index, operation) in api.operations().iter().enumerate() {
        let own = keys.operations.get(operation.name()).map(|own| &own.value);
        let path = own.and_then(|own| own.path.as_ref());
        let at = path.map_or(keys.wsdl.at, |path| path.at);
        let counted = place.operation(operation.name());
        let made = operation_path(keys, api, index, operation, counted, own, report)?;
        if document == Some(&*made.path) {
            let what = format!("`{}` is the path of the OpenAPI document", made.path);
            let help = "give the operation another path, or the document with `openapi`";
            report.error(at, what, help);
        }
        let same = |known: &&OperationPath| {
            known.method == made.method && shape(&known.path) == shape(&made.path)
        };
        if let Some(other) = places.iter().find(same) {
            let other = api.operations().get(other.operation).map_or("", Operation::name);
            let what = format!("`{other}` is at `{} {}` already", made.method, made.path);
            report.error(at, what, "give one of them another path or method");
        }
        places.push(made);
    }
    // Paths without parameters come first, then paths with more literal segments.
    let literals = |place: &OperationPath| {
        // Harmless: `segments` is missing only for paths without parameters, which all come first.
        let segments = place.segments.as_deref().unwrap_or_default();
        segments.iter().filter(|one| matches!(one, PathSegment::Literal(_))).count()
    };
    places.sort_by(|one, other| {
        let order = |place: &OperationPath| (place.segments.is_some(), Reverse(literals(place)));
        let names = (&one.path, &one.method).cmp(&(&other.path, &other.method));
        order(one).cmp(&order(other)).then(names)
    });
    Some(places)
}

/// Returns a path without the names of its parameters.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|part| if name_of(part).is_some() { "{}" } else { part });
    segments.collect::<Vec<_>>().join("/")
}

/// Returns the name of the parameter that a segment consists of.
fn name_of(segment: &str) -> Option<&str> {
    let name = segment.strip_prefix('{')?.strip_suffix('}')?;
    (!name.is_empty() && !name.contains(['{', '}'])).then_some(name)
}

/// Returns the path, the method and the parameters of one operation. Returns `None` if its action cannot be sent.
fn operation_path(
    keys: &SoapRest,
    api: &Api,
    index: usize,
    operation: &Operation,
    counted: u32,
    own: Option<&RestOperation>,
    report: &mut Report,
) -> Option<OperationPath> {
    let path = own.and_then(|own| own.path.as_ref());
    let at = path.map_or(keys.wsdl.at, |path| path.at);
    let method = own.map_or(RestMethod::Post, |own| own.method.value);
    let takes_parameters = matches!(method, RestMethod::Get | RestMethod::Delete);
    let written = path.map_or_else(|| own_path(operation), |path| paths::as_matched(&path.value));
    let segments: Vec<&str> = written.trim_start_matches('/').split('/').collect();
    let plain: String = segments.iter().filter(|one| name_of(one).is_none()).copied().collect();
    if !written.starts_with('/')
        || !paths::is_target(&format!("/{plain}"))
        || plain.contains(['?', '{', '*'])
    {
        let what = format!("`{}` is not a path", written.escape_debug());
        report.error(at, what, "write it as it is sent, such as `/orders` or `/orders/{id}`");
    }
    let named = segments.iter().any(|one| name_of(one).is_some());
    if named && !takes_parameters {
        let what = format!("`{written}` has parameters, and the operation takes a body");
        report.error(at, what, "write `method: GET` or `DELETE`, or a path without parameters");
    }
    if !http1::is_header_value(action(api, operation).as_bytes()) {
        let what = format!("the action of `{}` is not allowed in a header value", operation.name());
        report.error(keys.wsdl.at, what, "correct the WSDL");
        return None;
    }
    let parameters = match (takes_parameters, own) {
        (true, Some(own)) => Some(parameters(api, operation, own, &segments, at, report)),
        (true, None) | (false, None) => None,
        (false, Some(own)) => {
            if let Some((name, _)) = own.parameters.iter().next() {
                let what = "an operation with a body cannot have parameters";
                report.error(name.at, what, "write `method: GET` or `DELETE`, or remove them");
            }
            None
        }
    };
    let segments = named.then(|| {
        let segment = |one: &&str| match name_of(one) {
            Some(_) => PathSegment::Parameter,
            None => PathSegment::Literal((*one).into()),
        };
        segments.iter().map(segment).collect()
    });
    Some(OperationPath {
        segments,
        parameters: parameters.map(Into::into),
        path: written.into(),
        method: method.word().into(),
        operation: index,
        counted,
        action: action(api, operation),
    })
}

/// Returns the parameters of an operation that is called without a body.
fn parameters(
    api: &Api,
    operation: &Operation,
    own: &RestOperation,
    segments: &[&str],
    at: At,
    report: &mut Report,
) -> Vec<RequestParameter> {
    let segment_of = |name: &str| segments.iter().position(|one| name_of(one) == Some(name));
    let mut all: Vec<RequestParameter> = Vec::new();
    for (name, Spanned { value, at, .. }) in own.parameters.iter() {
        match api.parameter(operation, value) {
            Ok(parameter) => {
                let (name, segment) = (name.value.as_str().into(), segment_of(&name.value));
                all.push(RequestParameter { name, segment, parameter });
            }
            Err(why) => {
                let what = format!("`{}` leads to no value: {why}", value.escape_debug());
                report.error(*at, what, "name the elements from the root of the request down");
            }
        }
    }
    for (name, parameter) in api.parameters(operation) {
        let is_given =
            all.iter().any(|known| *known.name == *name || known.parameter.is_same(&parameter));
        if !is_given {
            let segment = segment_of(&name);
            all.push(RequestParameter { name: name.into(), segment, parameter });
        }
    }
    // Harmless: a literal segment has no name.
    for name in segments.iter().filter_map(|one| name_of(one)) {
        if !all.iter().any(|known| *known.name == *name) {
            let known: Vec<&str> = all.iter().map(|known| &*known.name).collect();
            let what = format!("`{{{name}}}` is not a value of the request");
            let help = format!(
                "name one of {}, or map it to an element in `parameters`",
                known.join(", ")
            );
            report.error(at, what, help);
        }
    }
    for known in all.iter().filter(|known| known.segment.is_some() && known.parameter.is_many()) {
        let what = format!("`{{{}}}` is an array, but a path parameter has one value", known.name);
        report.error(at, what, "remove it from the path to pass it in the query");
    }
    let lacking = api.lacking(operation, all.iter().map(|known| &known.parameter));
    if !lacking.is_empty() {
        let lacking: Vec<String> = lacking.iter().map(|name| format!("`{name}`")).collect();
        let what = format!(
            "`{}` needs {}, which no parameter can give",
            operation.name(),
            lacking.join(", ")
        );
        report.error(at, what, "name values in them with `parameters`, or write `method: POST`");
    }
    all
}
