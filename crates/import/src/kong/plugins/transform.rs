//! `request-transformer` and `response-transformer`.

use serde_json::{Map, Value as Json, json};

use super::super::fields::Verdict;
use super::super::output::literal;
use super::super::tree::Item;
use super::RouteEffect;

/// What one action does to one part of a message, as Kong writes it.
struct Edits<'i> {
    config: &'i Item,
    part: &'static str,
}

impl<'i> Edits<'i> {
    fn list(&self, action: &str) -> Vec<&'i str> {
        self.config.get(action).map_or_else(Vec::new, |action| action.texts(self.part))
    }

    /// Names with the text after their colon.
    fn pairs(&self, action: &str) -> Vec<(&'i str, &'i str)> {
        let pair = |text: &'i str| text.split_once(':').unwrap_or((text, ""));
        self.list(action).into_iter().map(pair).collect()
    }

    fn is_empty(&self) -> bool {
        ["remove", "rename", "replace", "add", "append"]
            .iter()
            .all(|action| self.list(action).is_empty())
    }
}

pub(super) fn request(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let edits = Edits { config, part: "headers" };
    let mut sides = Map::new();
    if let Some(edits) = headers(&edits, true, verdict) {
        sides.insert("request".to_owned(), edits);
        made.policies.push(json!({ "headers": sides }));
    }
    let mut parts = Map::new();
    let query = Edits { config, part: "querystring" };
    if let Some(query) = named(&query, verdict) {
        parts.insert("query".to_owned(), query);
    }
    let body = Edits { config, part: "body" };
    if !body.is_empty() {
        if let Some(json) = json_edits(&body, None, verdict) {
            parts.insert("json".to_owned(), json);
        }
        verdict.nearly("bodies of forms are not changed");
    }
    if !parts.is_empty() {
        made.policies.push(json!({ "transform": { "request": parts } }));
    }
    if let Some(uri) = config.get("replace").and_then(|replace| replace.text("uri")) {
        if uri.contains(['{', '$']) || !uri.starts_with('/') {
            verdict.refuse("`replace.uri` with a template has no counterpart")
        } else {
            drop(made.route.insert("rewrite".to_owned(), json!(uri)))
        }
    }
}

pub(super) fn response(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let edits = Edits { config, part: "headers" };
    if let Some(edits) = headers(&edits, false, verdict) {
        made.policies.push(json!({ "headers": { "response": edits } }));
    }
    let body = Edits { config, part: "json" };
    if !body.is_empty() {
        let types = Edits { config, part: "json_types" };
        if let Some(json) = json_edits(&body, Some(&types), verdict) {
            made.policies.push(json!({ "transform": { "response": { "json": json } } }));
        }
    }
}

/// A value, unless it is a template of Kong's.
fn value(text: &str, verdict: &mut Verdict) -> String {
    if text.contains("$(") {
        verdict.refuse(format!("the template `{text}` has no counterpart"));
    }
    literal(text)
}

/// The actions besides `remove`, with the keys of `headers` and of `transform`'s `query`.
const ACTIONS: [(&str, &str); 4] =
    [("rename", "rename"), ("replace", "replace"), ("add", "default"), ("append", "add")];

fn headers(edits: &Edits<'_>, is_request: bool, verdict: &mut Verdict) -> Option<Json> {
    let mut pairs = ACTIONS.iter().flat_map(|(action, _)| edits.pairs(action));
    if pairs.any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        verdict.refuse("the Host is not changed by a policy here");
    }
    // In the lists of a reply alone, Kong reads `name:value` as one value of a header.
    if !is_request && edits.list("remove").iter().any(|name| name.contains(':')) {
        verdict.refuse("a value of a header is not removed alone here");
    }
    named(edits, verdict)
}

/// Edits of headers or of parameters.
fn named(edits: &Edits<'_>, verdict: &mut Verdict) -> Option<Json> {
    if edits.is_empty() {
        return None;
    }
    let mut out = Map::new();
    for (action, key) in ACTIONS {
        let mut map = Map::new();
        for (name, text) in edits.pairs(action) {
            if map.insert(name.to_owned(), json!(value(text, verdict))).is_some() {
                verdict.refuse(format!("two values of `{name}` have no counterpart"));
            }
        }
        if !map.is_empty() {
            out.insert(key.to_owned(), Json::Object(map));
        }
    }
    let remove = edits.list("remove");
    if !remove.is_empty() {
        out.insert("remove".to_owned(), json!(remove));
    }
    Some(Json::Object(out))
}

/// Edits of JSON. Kong adds only absent members and replaces only present ones; that condition has no counterpart.
///
/// `types` has the types of values by their places in the list of the same action.
fn json_edits(edits: &Edits<'_>, types: Option<&Edits<'_>>, verdict: &mut Verdict) -> Option<Json> {
    let mut out = Map::new();
    let mut set = Map::new();
    if !edits.list("replace").is_empty() || !edits.list("add").is_empty() {
        verdict.nearly("members are set whether they were there or not");
    }
    if !edits.list("append").is_empty() {
        verdict.refuse("values are not appended to arrays here");
    }
    for action in ["replace", "add"] {
        let types = types.map_or_else(Vec::new, |types| types.list(action));
        for (at, (name, text)) in edits.pairs(action).into_iter().enumerate() {
            let text = value(text, verdict);
            let value = typed(&text, types.get(at).copied(), verdict);
            if set.insert(name.to_owned(), value.clone()).is_some_and(|other| other != value) {
                verdict.refuse(format!("two values of `{name}` have no counterpart"));
            }
        }
    }
    let rename: Map<String, Json> =
        edits.pairs("rename").into_iter().map(|(old, new)| (old.to_owned(), json!(new))).collect();
    if !rename.is_empty() {
        out.insert("rename".to_owned(), Json::Object(rename));
    }
    if !edits.list("remove").is_empty() {
        out.insert("remove".to_owned(), json!(edits.list("remove")));
    }
    if !set.is_empty() {
        out.insert("set".to_owned(), Json::Object(set));
    }
    (!out.is_empty()).then_some(Json::Object(out))
}

/// A value of JSON with a type of Kong's; a string if there is none.
fn typed(text: &str, kind: Option<&str>, verdict: &mut Verdict) -> Json {
    match kind {
        Some("number") => match text.parse::<serde_json::Number>() {
            Ok(number) => Json::Number(number),
            Err(_) => {
                verdict.refuse(format!("`{text}` must be a number for its type in `json_types`"));
                json!(text)
            }
        },
        Some("boolean") => json!(text == "true"),
        Some("string") | None => json!(text),
        Some(other) => {
            verdict.refuse(format!("the type `{other}` of JSON has no counterpart"));
            json!(text)
        }
    }
}
