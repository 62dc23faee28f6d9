//! Plugins for logs, traces and metrics. The gateway has one access log, one collector of spans and one address for metrics, for all
//! routes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use super::super::converter::Converter;
use super::super::entities::{PluginInstance, Scope};
use super::super::fields::Verdict;
use super::super::output::milliseconds;
use super::super::tree::Item;

const LINES: &str = "lines have fields of their own";

/// The share of traces that Kong samples if neither the plugin nor `kong.conf` sets one.
const SAMPLE: f64 = 0.01;

impl Converter<'_> {
    /// `file-log`, `http-log`, `tcp-log` and `udp-log`.
    pub(super) fn access_log(&mut self, plugin: &PluginInstance, verdict: &mut Verdict) {
        let config = &plugin.config;
        let to = match plugin.name.as_str() {
            "file-log" => self.file(config),
            "http-log" => self.http(config, verdict),
            _ => self.socket(plugin),
        };
        if let Some(to) = to {
            self.log_to(to, plugin, verdict);
        }
    }

    /// Sends the lines of the access log to one place.
    fn log_to(&mut self, to: Json, plugin: &PluginInstance, verdict: &mut Verdict) {
        let log = json!({ "format": "json", "to": to });
        match self.out.telemetry.get("access_log") {
            Some(known) if *known != log => verdict.refuse("the gateway has one access log"),
            Some(_) | None => {
                verdict.nearly(LINES);
                if plugin.scope != Scope::default() {
                    verdict.nearly("the access log has all routes");
                }
                self.out.telemetry.insert("access_log".to_owned(), log);
            }
        }
    }

    fn file(&mut self, config: &Item) -> Option<Json> {
        match config.text("path") {
            Some("/dev/stdout") => Some(json!("stdout")),
            Some("/dev/stderr") => Some(json!("stderr")),
            Some(path) => Some(json!(path)),
            None => {
                self.mistakes.add(config.at, "a file-log without `path`");
                None
            }
        }
    }

    fn http(&mut self, config: &Item, verdict: &mut Verdict) -> Option<Json> {
        let Some(url) = config.text("http_endpoint") else {
            self.mistakes.add(config.at, "an http-log without `http_endpoint`");
            return None;
        };
        verdict.nearly(
            "the lines of each second are one request, as `application/x-ndjson`, instead of a request for each",
        );
        let mut headers = texts(config, "headers");
        let (url, user) = without_user(url);
        verified(&url, verdict);
        if let Some(user) = user {
            let basic = format!("Basic {}", STANDARD.encode(user));
            headers.insert("authorization".to_owned(), json!(basic));
        }
        let mut to = Map::new();
        to.insert("http".to_owned(), json!(url));
        insert_texts(&mut to, "headers", headers);
        to.insert("timeout".to_owned(), timeout(config, "timeout", 10_000));
        Some(Json::Object(to))
    }

    /// The receiver of a `tcp-log` or `udp-log`. Its certificate is not verified, as in Kong.
    fn socket(&mut self, plugin: &PluginInstance) -> Option<Json> {
        let config = &plugin.config;
        let (Some(host), Some(port)) = (config.text("host"), config.text("port")) else {
            self.mistakes.add(config.at, format!("a {} needs `host` and `port`", plugin.name));
            return None;
        };
        let is_tls = config.is_true("tls", false);
        let (key, scheme) = match (plugin.name.as_str(), is_tls) {
            ("udp-log", _) => ("udp", "udp"),
            (_, false) => ("tcp", "tcp"),
            (_, true) => ("tcp", "tls"),
        };
        let mut to = Map::new();
        to.insert(key.to_owned(), json!(format!("{scheme}://{host}:{port}")));
        to.insert("timeout".to_owned(), timeout(config, "timeout", 10_000));
        if is_tls {
            let mut tls = Map::from_iter([("verify".to_owned(), json!(false))]);
            let name = config.text("tls_sni");
            tls.extend(name.map(|name| ("server_name".to_owned(), json!(name))));
            to.insert("tls".to_owned(), Json::Object(tls));
        }
        Some(Json::Object(to))
    }

    pub(super) fn traces(&mut self, plugin: &PluginInstance, verdict: &mut Verdict) {
        let config = &plugin.config;
        let nested = config.get("access_logs").and_then(|logs| logs.text("endpoint"));
        let lines = nested.or_else(|| config.text("access_logs_endpoint"));
        if let Some(url) = lines {
            let mut to = Map::from_iter([("otlp".to_owned(), json!(url))]);
            insert_texts(&mut to, "headers", texts(config, "headers"));
            self.log_to(Json::Object(to), plugin, verdict);
        }
        let Some(url) = config.text("traces_endpoint").or_else(|| config.text("endpoint")) else {
            if lines.is_none() {
                verdict.refuse(
                    "Tidegate converts it only with `traces_endpoint` or `access_logs.endpoint`",
                );
            }
            return;
        };
        verified(url, verdict);
        let mut traces = Map::new();
        traces.insert("otlp".to_owned(), json!(url));
        insert_texts(&mut traces, "headers", texts(config, "headers"));
        let sample = config.number("sampling_rate").unwrap_or_else(|| {
            verdict.nearly(format!(
                "`sampling_rate` is that of `kong.conf`; the share {SAMPLE} is its default"
            ));
            SAMPLE
        });
        traces.insert("sample".to_owned(), json!(sample));
        traces.insert("propagate".to_owned(), json!(propagation(config, verdict)));
        insert_texts(&mut traces, "attributes", texts(config, "resource_attributes"));
        traces.insert("timeout".to_owned(), timeout(config, "send_timeout", 5_000));
        verdict.nearly("spans have names and attributes of their own");
        if plugin.scope != Scope::default() {
            verdict.nearly("all routes are traced");
        }
        let traces = Json::Object(traces);
        match self.out.telemetry.get("traces") {
            Some(known) if *known != traces => {
                verdict.refuse("the gateway has one collector of traces");
            }
            Some(_) | None => drop(self.out.telemetry.insert("traces".to_owned(), traces)),
        }
    }

    pub(super) fn metrics(&mut self, verdict: &mut Verdict) {
        let address = &self.listen_metrics;
        verdict.nearly(format!(
            "metrics have names of their own, at `http://{address}/metrics`; recording rules in `deploy` give them Kong's names"
        ));
        self.out.status.insert("address".to_owned(), json!(address));
    }
}

/// The texts of a map of a plugin.
fn texts(config: &Item, key: &str) -> Map<String, Json> {
    let entries = config.map(key).iter();
    // A header may have one value or a list of them.
    let first =
        |item: &Item| item.scalar().or_else(|| item.items().first()?.scalar()).map(|t| json!(t));
    // Harmless: an entry without a text is `null`, which has no effect in Kong either.
    entries.filter_map(|(name, item)| Some((name.clone(), first(item)?))).collect()
}

/// Adds a key with texts, if there are any.
fn insert_texts(keys: &mut Map<String, Json>, key: &str, texts: Map<String, Json>) {
    if !texts.is_empty() {
        keys.insert(key.to_owned(), Json::Object(texts));
    }
}

fn timeout(config: &Item, key: &str, absent: u64) -> Json {
    json!(milliseconds(config.whole(key, absent).max(1)))
}

fn verified(url: &str, verdict: &mut Verdict) {
    if url.starts_with("https:") {
        verdict.nearly("Tidegate verifies the certificate of the receiver");
    }
}

/// A URL without the user in it, and that user.
fn without_user(url: &str) -> (String, Option<&str>) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((user, host)) => (format!("{scheme}://{host}{path}"), Some(user)),
        None => (url.to_owned(), None),
    }
}

/// The formats of headers with trace ids.
fn propagation(config: &Item, verdict: &mut Verdict) -> Vec<&'static str> {
    let rules = config.get("propagation");
    let mut wanted = rules.map_or_else(Vec::new, |rules| {
        let mut wanted = rules.texts("inject");
        wanted.extend(rules.text("default_format"));
        wanted
    });
    wanted.extend(config.text("header_type"));
    let mut known = Vec::new();
    for name in wanted {
        let ours = match name {
            "w3c" => "w3c",
            // Kong's name for the several headers of B3.
            "b3" => "b3multi",
            "b3-single" => "b3",
            "preserve" => {
                verdict.nearly("ids of traces are sent on in each format of `propagate`");
                continue;
            }
            "ignore" => continue,
            other => {
                verdict.nearly(format!("Tidegate does not know headers of the format `{other}`"));
                continue;
            }
        };
        if !known.contains(&ours) {
            known.push(ours);
        }
    }
    if known.is_empty() {
        known.push("w3c");
    }
    known
}
