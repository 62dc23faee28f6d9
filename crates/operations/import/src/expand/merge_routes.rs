//! Paths that differ only within a segment, such as `/r/{id}` and `/r/{id}.pdf`, are the same to routes, whose parameters are
//! whole segments. Such paths become one route if everything else is equal, and the OpenAPI document tells their operations
//! apart.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::{GeneratedApi, GeneratedRoute, NotedTier};

/// Joins routes that match the same requests, or adds an error if they differ in more than that.
pub(super) fn join(made: &mut GeneratedApi) {
    let mut kept: Vec<Option<GeneratedRoute>> = Vec::new();
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for mut route in std::mem::take(&mut made.routes) {
        let places = alike.entry(shape(&route.route)).or_default();
        // A route for `GET` and `HEAD` may clash with two others.
        for place in places.iter() {
            let Some(held) = kept.get_mut(*place) else { continue };
            let Some(known) = held.take_if(|known| clash(&known.route, &route.route)) else {
                continue;
            };
            if general(&known) != general(&route) {
                made.errors.push(format!(
                    "`{}` and `{}` match the same requests, since a parameter of a route is a whole segment, but they differ in more than their operations",
                    known.name, route.name
                ));
            }
            route = joined(known, route);
        }
        places.push(kept.len());
        kept.push(Some(route));
    }
    // Harmless: the place of a route that was joined with another is empty.
    made.routes = kept.into_iter().flatten().collect();
}

/// The path without the names of its parameters, and the conditions on the query.
fn shape(route: &Json) -> String {
    let path = unnamed(route.pointer("/match/path").and_then(Json::as_str).unwrap_or(""));
    match route.pointer("/match/query") {
        Some(query) => format!("{path} {query}"),
        None => path,
    }
}

/// A path without the names of its parameters.
pub(super) fn unnamed(path: &str) -> String {
    let mut parts = path.split('{');
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |shape, part| {
        let behind = part.split_once('}').map_or(part, |(_, behind)| behind);
        format!("{shape}{{}}{behind}")
    })
}

fn methods(route: &Json) -> Vec<Json> {
    let written = route.pointer("/match/methods").and_then(Json::as_array);
    written.map_or_else(Vec::new, Vec::clone)
}

/// True if both routes accept a common method, or if both are for undescribed requests.
fn clash(one: &Json, other: &Json) -> bool {
    let (one, other) = (methods(one), methods(other));
    one == other || one.iter().any(|method| other.contains(method))
}

/// What a route requires of its clients: scopes, alternative credentials, whether credentials are optional, and the
/// tier.
type Credentials<'m> = (&'m [String], bool, bool, &'m Option<NotedTier>);

/// Everything of a route except which operations of the document it serves.
fn general(made: &GeneratedRoute) -> (Json, bool, Credentials<'_>) {
    let mut route = made.route.clone();
    let shape = shape(&route);
    if let Some(matches) = route.get_mut("match").and_then(Json::as_object_mut) {
        matches.remove("methods");
        matches.insert("path".to_owned(), json!(shape));
    }
    if let Some(Json::String(path)) = route.get_mut("rewrite") {
        *path = unnamed(path);
    }
    let others: Vec<&Json> = policies(&made.route).filter(|policy| !is_openapi(policy)).collect();
    let others = json!(others);
    if let Some(route) = route.as_object_mut() {
        route.insert("policies".to_owned(), others);
    }
    (route, made.open, (&made.scopes, made.alternatives, made.optional, &made.tier))
}

/// One route for the requests of both.
fn joined(known: GeneratedRoute, other: GeneratedRoute) -> GeneratedRoute {
    let mut all = methods(&known.route);
    let more: Vec<Json> =
        methods(&other.route).into_iter().filter(|method| !all.contains(method)).collect();
    all.extend(more);
    // A route whose path matches only described requests may lack the `openapi` policy. If only one of the routes has it, that
    // route is kept.
    let asks = |made: &GeneratedRoute| policies(&made.route).any(is_openapi);
    let mut one = if asks(&known) && !asks(&other) { other } else { known };
    if let Some(written) = one.route.pointer_mut("/match/methods") {
        *written = json!(all);
    }
    let written = one.route.get_mut("policies").and_then(Json::as_array_mut);
    // Harmless: a route may have no policies.
    for policy in written.into_iter().flatten() {
        if let Some(keys) = policy.get_mut("openapi").and_then(Json::as_object_mut) {
            keys.remove("path");
        }
    }
    one
}

fn policies(route: &Json) -> impl Iterator<Item = &Json> {
    // Harmless: a route may have no policies.
    route.get("policies").and_then(Json::as_array).into_iter().flatten()
}

/// True for the policy that reads the document.
fn is_openapi(policy: &Json) -> bool {
    policy.get("openapi").is_some()
}
