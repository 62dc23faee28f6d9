//! `request-transformer` and `response-transformer`.

use serde_json::{Map, Value as Json, json};

use super::super::fields::Verdict;
use super::super::output::literal;
use super::super::tree::Item;
use super::RouteEffect;

/// The edits of one part of a message, in Kong's notation.
#[derive(Clone, Copy)]
struct Edits<'i> {
    config: &'i Item,
    part: &'static str,
    /// The only action to convert, if restricted to one.
    only: Option<&'static str>,
    /// Whether values may be templates. Values for replies are literal.
    has_templates: bool,
}

/// The headers in which Kong describes the way of a request, overwriting other values. `X-Forwarded-For` is not among them: Kong appends
/// to it, so edits of it have an effect.
const KONGS_OWN: [&str; 6] = [
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-real-ip",
];

const EACH: [&str; 5] = ["remove", "rename", "replace", "add", "append"];

impl<'i> Edits<'i> {
    fn of(config: &'i Item, part: &'static str) -> Edits<'i> {
        Edits { config, part, only: None, has_templates: true }
    }

    fn list(&self, action: &str) -> Vec<&'i str> {
        if self.only.is_some_and(|only| only != action) {
            return Vec::new();
        }
        self.config.get(action).map_or_else(Vec::new, |action| action.texts(self.part))
    }

    /// The names, each with the text after its colon. Blanks around the name and the value of a header mean nothing, and are removed. A
    /// header without a value is not edited.
    fn pairs(&self, action: &str) -> Vec<(&'i str, &'i str)> {
        let pair = |text: &'i str| text.split_once(':').unwrap_or((text, ""));
        let pairs = self.list(action).into_iter().map(pair);
        if self.part == "headers" {
            let pairs = pairs.filter(|(_, text)| !text.is_empty());
            pairs.map(|(name, text)| (name.trim(), text.trim())).collect()
        } else {
            pairs.collect()
        }
    }

    fn value(&self, text: &str, verdict: &mut Verdict) -> String {
        if self.has_templates { value(text, verdict) } else { literal(text) }
    }

    /// True if this is a line of a request that Kong replaces after all plugins, so that an edit has no effect.
    fn is_kongs_own(&self, name: &str) -> bool {
        let is_it = |own: &&str| name.eq_ignore_ascii_case(own);
        self.part == "headers" && self.has_templates && KONGS_OWN.iter().any(is_it)
    }

    fn is_empty(&self) -> bool {
        EACH.iter().all(|action| self.list(action).is_empty())
    }
}

pub(super) fn request(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let edits = Edits::of(config, "headers");
    // Kong sends a replaced Host to the upstream. It never adds one, since a request always has a Host.
    let hosts = edits.pairs("replace").into_iter().filter(|(name, _)| is_host(name));
    for (_, host) in hosts {
        if host.contains(['$', '{']) {
            verdict.refuse(format!("Tidegate has no template `{host}`"));
        }
        made.route.insert("host".to_owned(), json!(host.trim()));
    }
    let mut sides = Map::new();
    if let Some(edits) = headers(&edits, true, verdict) {
        sides.insert("request".to_owned(), edits);
        made.policies.push(json!({ "headers": sides }));
    }
    let mut parts = Map::new();
    if let Some(method) = config.text("http_method") {
        let method = method.to_ascii_uppercase();
        if method == "CONNECT" || method == "TRACE" {
            verdict.refuse(format!("Tidegate does not forward `{method}`"));
        }
        if method == "GET" || method == "HEAD" {
            verdict.nearly("the fields of a form are not added to the query");
        }
        parts.insert("method".to_owned(), json!(method));
    }
    let query = Edits::of(config, "querystring");
    if let Some(query) = named(&query, verdict) {
        parts.insert("query".to_owned(), query);
    }
    let body = Edits::of(config, "body");
    if !body.is_empty() {
        if let Some(json) = json_edits(&body, None, verdict) {
            parts.insert("json".to_owned(), json);
        }
        if let Some(form) = named(&body, verdict) {
            parts.insert("form".to_owned(), form);
        }
        if !body.list("rename").is_empty() {
            verdict
                .nearly("in a form of several parts, a renamed file keeps its name and its type");
        }
    }
    if !parts.is_empty() {
        made.policies.push(json!({ "transform": { "request": parts } }));
    }
    if let Some(uri) = config.get("replace").and_then(|replace| replace.text("uri")) {
        let placed = with_placeholders(uri);
        let is_path = |uri: &String| {
            uri.starts_with('/') && !["{headers.", "{query."].iter().any(|name| uri.contains(name))
        };
        match placed {
            Some(uri) if is_path(&uri) => drop(made.route.insert("rewrite".to_owned(), json!(uri))),
            Some(_) | None => verdict.refuse("Tidegate has no `replace.uri` with this template"),
        }
    }
}

pub(super) fn response(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let statuses = |action: &str| Edits::of(config, "if_status").list(action);
    if EACH.iter().all(|action| statuses(action).is_empty()) {
        made.policies.extend(response_edits(config, None, &[], verdict));
        return;
    }
    // Policies run from the last to the first on replies.
    for action in EACH.into_iter().rev() {
        made.policies.extend(response_edits(config, Some(action), &statuses(action), verdict));
    }
}

/// The policies of one action, or of all, for replies with these statuses.
fn response_edits(
    config: &Item,
    only: Option<&'static str>,
    statuses: &[&str],
    verdict: &mut Verdict,
) -> Vec<Json> {
    let edits = |part| Edits { only, has_templates: false, ..Edits::of(config, part) };
    let mut policies = Vec::new();
    let mut side = |name: &str, mut edits: Json| {
        let statuses: Vec<Json> = statuses.iter().map(|status| range(status)).collect();
        if let (false, Some(edits)) = (statuses.is_empty(), edits.as_object_mut()) {
            edits.insert("if_status".to_owned(), json!(statuses));
        }
        policies.push(json!({ name: { "response": edits } }));
    };
    if let Some(edits) = headers(&edits("headers"), false, verdict) {
        side("headers", edits);
    }
    let body = edits("json");
    if !body.is_empty()
        && let Some(json) = json_edits(&body, Some(&edits("json_types")), verdict)
    {
        side("transform", json!({ "json": json }));
    }
    policies
}

/// A status or a range of statuses.
fn range(text: &str) -> Json {
    match text.trim().parse::<u64>() {
        Ok(status) => json!(status),
        Err(_) => json!(text.split('-').map(str::trim).collect::<Vec<_>>().join("-")),
    }
}

/// Replaces each template of Kong by a placeholder. Returns `None` if a template is more than a look-up.
fn with_placeholders(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        let (template, behind) = after.split_once(')')?;
        if before.contains(['{', '}', '$']) {
            return None;
        }
        out.push_str(&format!("{before}{{{}}}", placeholder(template.trim())?));
        rest = behind;
    }
    out.push_str(rest);
    (!rest.contains(['{', '}', '$'])).then_some(out)
}

/// The placeholder for `uri_captures.NAME`, `headers.NAME` or `query_params.NAME`. The name may be in brackets and quotes.
fn placeholder(template: &str) -> Option<String> {
    let end = template.find(['.', '['])?;
    let (root, access) = template.split_at_checked(end)?;
    let quoted = access.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::trim);
    let quoted = quoted.and_then(|name| {
        let double = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        double.or_else(|| name.strip_prefix('\'')?.strip_suffix('\''))
    });
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bare = access.strip_prefix('.').filter(|name| name.chars().all(is_word));
    let name = quoted.or(bare)?;
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_token = |c: char| is_word(c) || c == '-';
    match root {
        "uri_captures" if begins && name.chars().all(is_word) => Some(name.to_owned()),
        // Kong finds a header by a name with `_` for each `-`.
        "headers" if !name.is_empty() && name.chars().all(is_token) => {
            Some(format!("headers.{}", name.to_ascii_lowercase().replace('_', "-")))
        }
        "query_params" if !name.is_empty() && name.chars().all(is_token) => {
            Some(format!("query.{name}"))
        }
        _ => None,
    }
}

fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}

/// Converts a value, which may have templates of Kong.
fn value(text: &str, verdict: &mut Verdict) -> String {
    if text.contains('\u{0}') {
        verdict.nearly("Tidegate does not fill in templates in the value of a variable");
    }
    if !text.contains("$(") {
        return literal(text);
    }
    with_placeholders(text).unwrap_or_else(|| {
        verdict.refuse(format!("Tidegate has no template `{text}`"));
        text.to_owned()
    })
}

/// The actions other than `remove`, with the keys of `headers` and of `transform`'s `query`.
const ACTIONS: [(&str, &str); 4] =
    [("rename", "rename"), ("replace", "replace"), ("add", "default"), ("append", "add")];

fn headers(edits: &Edits<'_>, is_request: bool, verdict: &mut Verdict) -> Option<Json> {
    let renamed = edits.pairs("rename");
    if renamed.iter().any(|(old, new)| is_host(old) || is_host(new)) {
        verdict.refuse("Tidegate does not rename the Host");
    }
    if !is_request
        && ACTIONS.iter().any(|(action, _)| edits.pairs(action).iter().any(|(n, _)| is_host(n)))
    {
        verdict.refuse("a reply has no Host");
    }
    // Only in lists for replies, Kong interprets `name:value` as one value of a header.
    if !is_request && edits.list("remove").iter().any(|name| name.contains(':')) {
        verdict.refuse("Tidegate cannot remove one value of a header");
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
        let pairs = edits.pairs(action).into_iter();
        let own = |name: &str| action != "rename" && edits.is_kongs_own(name);
        let pairs = pairs.filter(|(name, _)| !own(name));
        for (name, text) in pairs.filter(|(name, _)| edits.part != "headers" || !is_host(name)) {
            if action == "rename" && edits.is_kongs_own(text) {
                verdict.refuse(format!("Kong writes `{text}` itself"));
            }
            if map.insert(name.to_owned(), json!(edits.value(text, verdict))).is_some() {
                verdict.refuse(format!("Tidegate sets only one value of `{name}`"));
            }
        }
        if !map.is_empty() {
            out.insert(key.to_owned(), Json::Object(map));
        }
    }
    let mut remove = edits.list("remove");
    remove.retain(|name| !edits.is_kongs_own(name));
    if edits.part == "headers" && remove.iter().any(|name| is_host(name)) {
        verdict.refuse("a request without a Host is not sent");
    }
    if !remove.is_empty() {
        out.insert("remove".to_owned(), json!(remove));
    }
    (!out.is_empty()).then_some(Json::Object(out))
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
        verdict.refuse("Tidegate does not append values to arrays");
    }
    for action in ["replace", "add"] {
        let types = types.map_or_else(Vec::new, |types| types.list(action));
        for (at, (name, text)) in edits.pairs(action).into_iter().enumerate() {
            let text = edits.value(text, verdict);
            let value = typed(&text, types.get(at).copied(), verdict);
            if set.insert(name.to_owned(), value.clone()).is_some_and(|other| other != value) {
                verdict.refuse(format!("Tidegate sets only one value of `{name}`"));
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

/// A JSON value with one of Kong's types. Without a type it is a string.
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
            verdict.refuse(format!("Tidegate has no JSON type `{other}`"));
            json!(text)
        }
    }
}
