//! Paths that differ within a segment, such as `/r/{id}` and `/r/{id}.pdf`, are one to routes, whose parameters are whole
//! segments. What is made of them becomes one route where it is the same, and the document tells their operations apart.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::{Made, MadeRoute};

/// Makes one route of those that match the same requests, or says that they ask for different things.
pub(super) fn join(made: &mut Made) {
    let mut kept: Vec<Option<MadeRoute>> = Vec::new();
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for mut route in std::mem::take(&mut made.routes) {
        let places = alike.entry(shape(&route.route)).or_default();
        // One for `GET` and `HEAD` may be like two others.
        for place in places.iter() {
            let Some(held) = kept.get_mut(*place) else { continue };
            let Some(known) = held.take_if(|known| clash(&known.route, &route.route)) else {
                continue;
            };
            if general(&known) != general(&route) {
                made.errors.push(format!(
                    "`{}` and `{}` match the same requests, since a parameter of a route is a whole segment, and more than their description differs",
                    known.name, route.name
                ));
            }
            route = joined(known, route);
        }
        places.push(kept.len());
        kept.push(Some(route));
    }
    made.routes = kept.into_iter().flatten().collect();
}

/// The path without the names of its parameters.
fn shape(route: &Json) -> String {
    unnamed(route.pointer("/match/path").and_then(Json::as_str).unwrap_or_default())
}

fn unnamed(path: &str) -> String {
    let mut parts = path.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shape, part| {
        let behind = part.split_once('}').map_or(part, |(_, behind)| behind);
        format!("{shape}{{}}{behind}")
    })
}

fn methods(route: &Json) -> Vec<Json> {
    let written = route.pointer("/match/methods").and_then(Json::as_array);
    written.cloned().unwrap_or_default()
}

/// Both are for some method, or for what is no operation.
fn clash(one: &Json, other: &Json) -> bool {
    let (one, other) = (methods(one), methods(other));
    one == other || one.iter().any(|method| other.contains(method))
}

/// All of a route but which operations of the document it is for.
fn general(made: &MadeRoute) -> (Json, bool, &[String]) {
    let mut route = made.route.clone();
    let shape = shape(&route);
    if let Some(matches) = route.get_mut("match").and_then(Json::as_object_mut) {
        matches.remove("methods");
        matches.insert("path".to_owned(), json!(shape));
    }
    if let Some(Json::String(path)) = route.get_mut("rewrite") {
        *path = unnamed(path);
    }
    let others: Vec<&Json> = policies(&made.route).filter(|policy| !is_look(policy)).collect();
    let others = json!(others);
    if let Some(route) = route.as_object_mut() {
        route.insert("policies".to_owned(), others);
    }
    (route, made.open, &made.scopes)
}

/// One route for the requests of both.
fn joined(known: MadeRoute, other: MadeRoute) -> MadeRoute {
    let mut all = methods(&known.route);
    let more: Vec<Json> =
        methods(&other.route).into_iter().filter(|method| !all.contains(method)).collect();
    all.extend(more);
    // One whose path lets nothing pass that the document does not have asks for no look into it, and takes the other's too.
    let asks = |made: &MadeRoute| policies(&made.route).any(is_look);
    let mut one = if asks(&known) && !asks(&other) { other } else { known };
    if let Some(written) = one.route.pointer_mut("/match/methods") {
        *written = json!(all);
    }
    let written = one.route.get_mut("policies").and_then(Json::as_array_mut);
    for policy in written.into_iter().flatten() {
        if let Some(keys) = policy.get_mut("openapi").and_then(Json::as_object_mut) {
            keys.remove("path");
        }
    }
    one
}

fn policies(route: &Json) -> impl Iterator<Item = &Json> {
    route.get("policies").and_then(Json::as_array).into_iter().flatten()
}

/// A policy that looks into the document.
fn is_look(policy: &Json) -> bool {
    policy.get("openapi").is_some()
}
