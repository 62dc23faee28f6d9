//! Plugins that answer instead of the service, and `cors`, `correlation-id`, `proxy-cache` and `grpc-web`.

use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::entities::Entity;
use super::super::fields::Verdict;
use super::super::output::{literal, regex_here};
use super::super::tree::Item;
use super::RouteEffect;

/// The methods that Kong's `cors` allows by default.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

/// The default of browsers for `Access-Control-Max-Age` (the Fetch standard, 4.9).
const MAX_AGE: &str = "5s";

/// The statuses of replies that the gateway's cache may keep.
const KEPT: [u64; 13] = [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 501];

pub(super) fn cors(
    config: &Item,
    routes: &[&Entity],
    made: &mut RouteEffect,
    verdict: &mut Verdict,
) {
    let mut keys = Map::new();
    let origins = config.texts("origins");
    let credentials = config.is_true("credentials", false);
    let any = origins.is_empty() || origins.contains(&"*");
    let origins: Vec<Json> = if any {
        vec![json!("*")]
    } else {
        // Harmless: no browser sends an origin that equals a malformed entry, and a bad regular expression is refused.
        origins.iter().filter_map(|text| origin(text, verdict)).collect()
    };
    if origins.is_empty() {
        verdict.refuse("no page has an origin of this list: one is like `https://a.test`");
    }
    keys.insert("origins".to_owned(), json!(origins));
    let methods = config.texts("methods");
    let methods = if methods.is_empty() { METHODS.to_vec() } else { methods };
    keys.insert("methods".to_owned(), json!(methods));
    for (theirs, ours) in [("headers", "headers"), ("exposed_headers", "expose")] {
        // Kong sends the entries with commas between them, so an entry may have several names.
        let list = config.texts(theirs);
        let names = list.iter().flat_map(|entry| entry.split(',')).map(str::trim);
        // Harmless: an entry without a text between two commas names nothing.
        let list: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        if !list.is_empty() {
            keys.insert(ours.to_owned(), json!(list));
        }
    }
    if credentials {
        keys.insert("credentials".to_owned(), json!(true));
        if any {
            keys.insert("any_with_credentials".to_owned(), json!(true));
        }
    }
    let max_age =
        config.number("max_age").map_or(MAX_AGE.to_owned(), |seconds| format!("{seconds}s"));
    keys.insert("max_age".to_owned(), json!(max_age));
    let preflights = preflights(config, routes);
    keys.extend(preflights.map(|word| ("preflights".to_owned(), json!(word))));
    keys.insert("preflight_status".to_owned(), json!(200));
    made.policies.push(json!({ "cors": keys }));
}

/// What becomes of preflights. Kong finds their route by `OPTIONS`, which matters only if one of the plugin's routes is for some methods.
fn preflights(config: &Item, routes: &[&Entity]) -> Option<&'static str> {
    if config.is_true("preflight_continue", false) {
        return Some("forward");
    }
    let is_for_some = |route: &&Entity| {
        !route.item.texts("methods").is_empty() || route.item.text("expression").is_some()
    };
    routes.iter().any(is_for_some).then_some("as_options")
}

/// Converts an entry of Kong's list of origins. An entry with characters other than letters, digits and `.:/-` is a regular expression for
/// the beginning of an origin, or of its host if the entry has no colon.
fn origin(text: &str, verdict: &mut Verdict) -> Option<Json> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || ".:/-".contains(c));
    if is_plain {
        let (scheme, rest) = text.split_once("://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        let known = format!("{scheme}://{authority}");
        let is_lower = !known.contains(|c: char| c.is_ascii_uppercase());
        return (is_lower && !authority.is_empty()).then(|| json!(known));
    }
    let bare = text.strip_prefix('^').unwrap_or(text);
    let bare = bare.strip_suffix('$').unwrap_or(bare);
    // A `$` at the end applies only to the last alternative.
    let whole = if bare.contains('|') { format!("(?:{bare}$).*") } else { bare.to_owned() };
    if let Err(why) = regex_here(&whole) {
        verdict.refuse(format!("the regular expression `{text}` of `origins`: {why}"));
        return None;
    }
    let is_host = !text.contains(':');
    let of_host = || format!("[a-z][a-z0-9+.-]*://(?:{whole})(?::[0-9]+)?");
    Some(json!({ "regex": if is_host { of_host() } else { whole } }))
}

pub(super) fn correlation(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let header = config.text("header_name").unwrap_or("Kong-Request-ID");
    let generator = match config.text("generator").unwrap_or("uuid#counter") {
        "uuid" => "uuid",
        "tracker" => {
            verdict.nearly("the parts of an id are the gateway's own");
            "tracker"
        }
        _ => "counter",
    };
    let mut keys = Map::new();
    keys.insert("header".to_owned(), json!(header));
    keys.insert("generator".to_owned(), json!(generator));
    if config.is_true("echo_downstream", false) {
        keys.insert("echo".to_owned(), json!(true));
    }
    made.policies.push(json!({ "correlation": keys }));
}

pub(super) fn cache(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let mut keys = Map::new();
    keys.insert("ttl".to_owned(), json!(format!("{}s", config.whole("cache_ttl", 300))));
    let statuses = config.texts("response_code");
    let statuses: Vec<u64> = if statuses.is_empty() {
        vec![200, 301, 404]
    } else {
        // Harmless: the check of the result refuses an invalid status.
        statuses.iter().filter_map(|status| status.parse().ok()).collect()
    };
    let (kept, never): (Vec<u64>, Vec<u64>) =
        statuses.into_iter().partition(|status| KEPT.contains(status));
    if !never.is_empty() {
        verdict.nearly(format!("replies with these statuses are not kept: {never:?}"));
    }
    keys.insert("statuses".to_owned(), json!(kept));
    let methods = config.texts("request_method");
    if methods.iter().any(|method| !matches!(*method, "GET" | "HEAD")) {
        verdict.refuse("Tidegate caches only replies to GET and HEAD");
    }
    let types = config.texts("content_type");
    let types = if types.is_empty() { vec!["text/plain", "application/json"] } else { types };
    let media_type = |kind: &&str| kind.split(';').next().unwrap_or_default().trim().to_owned();
    if !types.iter().all(|kind| kind.contains(';')) {
        verdict.nearly("a content type is taken with any parameters");
    }
    keys.insert("types".to_owned(), json!(types.iter().map(media_type).collect::<Vec<_>>()));
    if !config.is_true("cache_control", false) {
        verdict.nearly("a reply that sets a cookie, or is for a credential, is not kept");
        keys.insert("cache_control".to_owned(), json!("ignore"));
    }
    let headers = config.get("response_headers");
    if headers.is_none_or(|headers| headers.is_true("X-Cache-Key", true)) {
        verdict.nearly("Tidegate does not add `X-Cache-Key`");
    }
    let parameters = config.texts("vary_query_params");
    if !parameters.is_empty() {
        keys.insert("query".to_owned(), json!(parameters));
    }
    keys.insert("headers".to_owned(), json!("kong"));
    keys.insert("cookies".to_owned(), json!("ignore"));
    made.policies.push(json!({ "cache": keys }));
}

pub(super) fn grpc_web(config: &Item, made: &mut RouteEffect) {
    let origin = config.text("allow_origin_header").unwrap_or("*");
    let expose = ["grpc-status", "grpc-message"];
    let keys = json!({ "origins": [origin], "expose": expose, "preflight_status": 200 });
    made.policies.push(json!({ "cors": keys }));
    made.policies.push(json!({ "grpc_web": {} }));
}

impl Converter<'_> {
    pub(super) fn redirect(
        &mut self,
        config: &Item,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let Some(to) = config.text("location") else {
            self.mistakes.add(config.at, "a redirect without `location`");
            return;
        };
        let status = config.whole("status_code", 301);
        if ![301, 302, 303, 307, 308].contains(&status) {
            verdict.refuse(format!("Tidegate has no redirect with status {status}"));
        }
        let keeps = config.is_true("keep_incoming_path", false);
        let keys =
            json!({ "status": status, "to": literal(to), "keep_path": keeps, "keep_query": keeps });
        made.policies.push(json!({ "redirect": keys }));
        made.answers = true;
    }

    pub(super) fn termination(&mut self, config: &Item, made: &mut RouteEffect) {
        let status = config.whole("status_code", 503);
        if !(100..=599).contains(&status) {
            self.mistakes.add(config.at, "`status_code` must be 100 to 599");
        }
        let (message, body) = (config.text("message"), config.text("body"));
        if message.is_some() && (body.is_some() || config.get("content_type").is_some()) {
            self.mistakes.add(config.at, "`message` cannot stand beside `body` and `content_type`");
        }
        let message = message.or_else(|| default_message(status));
        let text =
            body.map(str::to_owned).or_else(|| Some(json!({ "message": message? }).to_string()));
        let mut respond = Map::from_iter([("status".to_owned(), json!(status))]);
        if let Some(text) = text {
            let kind = config.text("content_type").unwrap_or("application/json; charset=utf-8");
            respond.insert("body".to_owned(), json!(literal(&text)));
            respond.insert("headers".to_owned(), json!({ "content-type": literal(kind) }));
        }
        if let Some(trigger) = config.text("trigger") {
            respond.insert("trigger".to_owned(), json!(trigger));
            made.is_triggered = true;
        }
        made.respond = Some(Json::Object(respond));
    }
}

/// The message of `request-termination` for a status. With any other status, the reply has no body.
fn default_message(status: u64) -> Option<&'static str> {
    match status {
        401 => Some("Unauthorized"),
        404 => Some("Not found"),
        405 => Some("Method not allowed"),
        500 => Some("An unexpected error occurred"),
        502 => Some("Bad Gateway"),
        503 => Some("Service unavailable"),
        _ => None,
    }
}
