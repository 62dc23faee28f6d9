//! Plugins that limit requests.

use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::entities::PluginInstance;
use super::super::fields::Verdict;
use super::super::tree::Item;
use super::RouteEffect;

/// The windows of `rate-limiting`, with their seconds.
const WINDOWS: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("month", 2_592_000),
    ("year", 31_536_000),
];

/// The count of one credential. Credentials of different kinds may have the same name.
const BY_CREDENTIAL: &str = "cel:scheme + ' ' + attributes.credential";

/// Placeholder for the key of a limit by service. `counting` replaces it with the route's service.
const BY_SERVICE: &str = "cel:'service'";

/// The maximum number of windows of one limit.
const WINDOWS_MAX: usize = 4;

pub(super) fn size(config: &Item, made: &mut RouteEffect, verdict: &mut Verdict) {
    let unit = match config.text("size_unit").unwrap_or("megabytes") {
        "bytes" => 1,
        "kilobytes" => 1 << 10,
        _ => 1 << 20,
    };
    let bytes = config.whole("allowed_payload_size", 128).saturating_mul(unit);
    let mut limits = json!({ "body_bytes_max": format!("{bytes}B") });
    if config.is_true("require_content_length", false)
        && let Some(limits) = limits.as_object_mut()
    {
        verdict.nearly("a request without a body needs no `Content-Length`");
        limits.insert("length_required".to_owned(), json!(true));
    }
    made.route.insert("limits".to_owned(), limits);
}

impl Converter<'_> {
    /// Adds an OpenAPI document as a file of the configuration.
    pub(super) fn document(&mut self, text: &str) -> String {
        let ending = if text.trim_start().starts_with('{') { "json" } else { "yaml" };
        self.out.file("openapi", ending, text.as_bytes().to_vec())
    }

    pub(super) fn oas_validation(
        &mut self,
        config: &Item,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let Some(text) = config.text("api_spec") else {
            self.mistakes.add(config.at, "an oas-validation without `api_spec`");
            return;
        };
        if text.contains('%') && config.is_true("api_spec_encoded", true) && !text.contains(' ') {
            verdict.refuse("the document must not be percent-encoded");
            return;
        }
        let file = self.document(text);
        let mut keys = Map::new();
        keys.insert("document".to_owned(), json!(file));
        keys.insert("request".to_owned(), json!(true));
        if !config.is_true("validate_request_body", true) {
            verdict.refuse("Tidegate validates all of a request or nothing");
        }
        if config.is_true("validate_response_body", false) {
            verdict.nearly("a reply that does not match the document is 502, and not 406");
            keys.insert("response".to_owned(), json!(true));
        }
        if config.is_true("verbose_response", false) {
            keys.insert("verbose".to_owned(), json!(true));
        }
        made.policies.push(json!({ "openapi": keys }));
    }

    pub(super) fn rate_limiting(
        &mut self,
        plugin: &PluginInstance,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let windows = self.windows(config, "a rate-limiting", verdict);
        let by = by(plugin, "limit_by", verdict);
        let mut keys = self.limit(plugin, &windows, by, verdict);
        keys.insert("algorithm".to_owned(), json!("fixed"));
        self.counted(config, config.text("policy"), &mut keys, verdict);
        made.policies.push(json!({ "rate_limit": keys }));
    }

    /// The windows that are written as `minute: 5`.
    fn windows(&mut self, limits: &Item, what: &str, verdict: &mut Verdict) -> Vec<(u64, u64)> {
        let mut windows = Vec::new();
        for (name, seconds) in WINDOWS {
            let Some(count) = limits.get(name) else { continue };
            match limits.whole(name, 0) {
                0 => self.mistakes.add(count.at, format!("`{name}` must be a number above 0")),
                requests => windows.push((requests, seconds)),
            }
            if seconds > 86_400 {
                verdict.nearly(format!("each {name} has the same number of days in Tidegate"));
            }
        }
        if windows.is_empty() {
            let needs = "needs one of second, minute, hour, day, month and year";
            self.mistakes.add(limits.at, format!("{what} {needs}"));
        }
        windows
    }

    /// Makes one policy of each limit. All of them read the header that the service adds to its replies.
    pub(super) fn response_ratelimiting(
        &mut self,
        plugin: &PluginInstance,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        // Harmless: missing limits are reported below.
        let limits = config.get("limits").map(Item::entries).unwrap_or_default();
        if limits.is_empty() {
            self.mistakes.add(config.at, "a response-ratelimiting without `limits`");
        }
        if limits.len() > 1 {
            verdict.nearly("a reply that one limit refuses may count in the others");
        }
        let header = config.text("header_name").unwrap_or("x-kong-limit");
        let early = config.is_true("block_on_first_violation", false);
        for (at, (name, windows)) in limits.iter().enumerate() {
            let is_token = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(is_token) {
                verdict.refuse(format!("the limit `{name}` cannot be part of a header's name"));
                return;
            }
            let windows = self.windows(windows, &format!("the limit `{name}`"), verdict);
            let by = by(plugin, "limit_by", verdict);
            let mut keys = self.limit(plugin, &windows, by, verdict);
            keys.insert("algorithm".to_owned(), json!("fixed"));
            if early {
                let message = format!("API rate limit exceeded for '{name}'");
                keys.insert("message".to_owned(), json!(message));
            }
            self.counted(config, config.text("policy"), &mut keys, verdict);
            let mut cost = json!({
                "header": header,
                "name": name,
                "refuse": if early { "both" } else { "replies" },
                "upstream_header": format!("X-RateLimit-Remaining-{name}"),
            });
            // The first policy sees a reply last, so it is the one that removes the header.
            if let (true, Some(cost)) = (at > 0, cost.as_object_mut()) {
                cost.insert("remove".to_owned(), json!(false));
            }
            keys.insert("cost".to_owned(), cost);
            made.policies.push(json!({ "rate_limit": keys }));
        }
    }

    pub(super) fn rate_limiting_advanced(
        &mut self,
        plugin: &PluginInstance,
        made: &mut RouteEffect,
        verdict: &mut Verdict,
    ) {
        let config = &plugin.config;
        let (limits, sizes) = (self.numbers(config, "limit"), self.numbers(config, "window_size"));
        if limits.is_empty() || limits.len() != sizes.len() {
            self.mistakes
                .add(config.at, "`limit` and `window_size` must be lists of the same length");
        }
        // Harmless: lists of different lengths are reported above.
        let windows: Vec<(u64, u64)> = limits.into_iter().zip(sizes).collect();
        let by = by(plugin, "identifier", verdict);
        let mut keys = self.limit(plugin, &windows, by, verdict);
        let kind = if config.text("window_type") == Some("fixed") { "fixed" } else { "sliding" };
        keys.insert("algorithm".to_owned(), json!(kind));
        if let Some(name) = config.text("namespace") {
            keys.insert("name".to_owned(), json!(name));
        }
        self.counted(config, config.text("strategy"), &mut keys, verdict);
        made.policies.push(json!({ "rate_limit": keys }));
    }

    /// The whole numbers above 0 of a list.
    fn numbers(&mut self, config: &Item, key: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        for item in config.list(key) {
            match item.scalar().map(str::parse) {
                Some(Ok(number)) if number > 0 => numbers.push(number),
                _ => self.mistakes.add(item.at, format!("`{key}` must have numbers above 0")),
            }
        }
        numbers
    }

    /// Adds the place where counts are stored.
    fn counted(
        &mut self,
        config: &Item,
        strategy: Option<&str>,
        keys: &mut Map<String, Json>,
        verdict: &mut Verdict,
    ) {
        if strategy == Some("redis") {
            self.redis(config, keys, verdict);
        } else if strategy == Some("cluster") {
            verdict.nearly("each gateway counts for itself; Kong counts in its database");
        }
    }

    /// The keys that all plugins for rate limits have.
    fn limit(
        &mut self,
        plugin: &PluginInstance,
        windows: &[(u64, u64)],
        by: Json,
        verdict: &mut Verdict,
    ) -> Map<String, Json> {
        let config = &plugin.config;
        let mut keys = Map::new();
        if windows.len() > WINDOWS_MAX {
            verdict.refuse(format!("a limit can have at most {WINDOWS_MAX} windows"));
        }
        let per = |seconds: u64| format!("{seconds}s");
        if let Some(((requests, seconds), more)) = windows.split_first() {
            keys.insert("requests".to_owned(), json!(requests));
            keys.insert("per".to_owned(), json!(per(*seconds)));
            let more = more
                .iter()
                .map(|(requests, seconds)| json!({ "requests": requests, "per": per(*seconds) }));
            let more: Vec<Json> = more.collect();
            if !more.is_empty() {
                keys.insert("windows".to_owned(), json!(more));
            }
        }
        keys.insert("by".to_owned(), by);
        // Routes of one plugin share its counts.
        let name = self.out.fresh("limit", &plugin.name);
        keys.insert("name".to_owned(), json!(name));
        let hidden = config.is_true("hide_client_headers", false);
        keys.insert("headers".to_owned(), json!(if hidden { "none" } else { "kong" }));
        let code = config.whole("error_code", 429);
        if code != 429 {
            keys.insert("status".to_owned(), json!(code));
        }
        if let Some(message) = config.text("error_message") {
            keys.insert("message".to_owned(), json!(message));
        }
        keys
    }

    /// Shares counts through Redis.
    fn redis(&mut self, config: &Item, keys: &mut Map<String, Json>, verdict: &mut Verdict) {
        let empty = Item::default();
        let redis = config.get("redis").unwrap_or(&empty);
        let nested =
            |name: &str| redis.text(name).or_else(|| config.text(&format!("redis_{name}")));
        let known = [
            "host",
            "port",
            "database",
            "password",
            "ssl",
            "ssl_verify",
            "server_name",
            "timeout",
            "connect_timeout",
            "read_timeout",
            "send_timeout",
            "keepalive_pool_size",
            "keepalive_backlog",
        ];
        for (name, value) in redis.entries() {
            if !known.contains(&name.as_str()) && !value.is_empty() {
                verdict.refuse(format!("Tidegate has no `redis.{name}`"));
            }
        }
        if nested("username").is_some() {
            verdict.refuse("Tidegate has no user name for Redis");
        }
        let Some(host) = nested("host") else {
            self.mistakes.add(config.at, "the Redis store of the counts needs a `host`");
            return;
        };
        let scheme = if nested("ssl") == Some("true") { "rediss" } else { "redis" };
        let (port, database) =
            (nested("port").unwrap_or("6379"), nested("database").unwrap_or("0"));
        let mut store = Map::new();
        store.insert("redis".to_owned(), json!(format!("{scheme}://{host}:{port}/{database}")));
        if let Some(password) = nested("password") {
            store.insert("password".to_owned(), json!(password));
        }
        if scheme == "rediss" && nested("ssl_verify") != Some("true") {
            store.insert("tls".to_owned(), json!({ "verify": false }));
        }
        let store = Json::Object(store);
        let known = self
            .out
            .stores
            .iter()
            .find(|(_, known)| **known == store)
            .map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| self.out.fresh("store", "redis"));
        self.out.stores.insert(name.clone(), store);
        keys.insert("shared".to_owned(), json!(name));
    }
}

/// The key of the count.
fn by(plugin: &PluginInstance, key: &str, verdict: &mut Verdict) -> Json {
    let config = &plugin.config;
    match config.text(key).unwrap_or("consumer") {
        "ip" => json!("client"),
        "header" => {
            let name = config.text("header_name").unwrap_or("");
            if name.is_empty() {
                verdict.refuse("a limit by header needs `header_name`");
            }
            json!(format!("header:{name}"))
        }
        "service" => json!(BY_SERVICE),
        "path" => {
            let path = json!(config.text("path").unwrap_or("/"));
            json!(format!("cel:request.path == {path} ? 'path' : ''"))
        }
        "credential" => json!(BY_CREDENTIAL),
        "consumer-group" => {
            verdict.refuse("Tidegate has no limits of consumer groups");
            json!("subject")
        }
        _ => json!("subject"),
    }
}

/// Returns true if a policy counts by service. Such a policy is written separately for each service.
pub(super) fn is_by_service(policy: &Json) -> bool {
    policy.get("rate_limit").is_some_and(|limit| limit.get("by") == Some(&json!(BY_SERVICE)))
}

/// A policy of the route. A limit by service counts the service of the route, or the client if there is none. A limit by consumer or
/// credential counts by `holder` if it is given, since the route then has no credentials of the file.
pub(in super::super) fn counting(
    policy: &Json,
    holder: Option<&str>,
    service: Option<&str>,
) -> Json {
    let mut policy = policy.clone();
    let Some(limit) = policy.get_mut("rate_limit").and_then(Json::as_object_mut) else {
        return policy;
    };
    let by = match (limit.get("by").and_then(Json::as_str), service, holder) {
        (Some(BY_SERVICE), Some(service), _) => format!("cel:{}", json!(service)),
        (Some(BY_SERVICE), None, _) => "client".to_owned(),
        (Some("subject" | BY_CREDENTIAL), _, Some(holder)) => holder.to_owned(),
        (Some(_) | None, ..) => return policy,
    };
    limit.insert("by".to_owned(), json!(by));
    policy
}
