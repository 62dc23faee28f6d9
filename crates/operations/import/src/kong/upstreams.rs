//! Converts services, upstreams and targets of Kong to upstreams of this gateway.

use serde_json::{Map, Value as Json, json};

use super::converter::{Converter, ServiceEnd};
use super::entities::Entity;
use super::fields::{self, PROTOCOLS, Verdict};
use super::output::{milliseconds, pem};
use super::tree::Item;

/// The address of a service.
struct Address {
    scheme: &'static str,
    http2: bool,
    host: String,
    port: u64,
    path: String,
}

/// The result for a Kong upstream, for use by any service.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    name: String,
    /// Hosts with ports, and weights.
    targets: Vec<(String, u64)>,
    keys: Map<String, Json>,
    host_header: Option<String>,
}

impl Converter<'_> {
    /// Reads all upstreams with their targets.
    pub(super) fn pools(&mut self) -> Vec<Pool> {
        let all = self.all;
        let mut pools: Vec<Pool> = Vec::new();
        for upstream in &all.upstreams {
            let mut verdict = self.checked(&upstream.item, fields::UPSTREAM);
            if upstream.item.text("name").is_none() {
                self.mistakes.add(upstream.item.at, "an upstream without `name`");
            }
            let mut keys = Map::new();
            balance(&upstream.item, &mut keys, &mut verdict);
            health(&upstream.item, &mut keys, &mut verdict);
            if upstream.item.get("client_certificate").is_some() {
                verdict.refuse(
                    "Tidegate has no certificate of a Kong upstream; set `client_certificate` of the service",
                );
            }
            pools.push(Pool {
                name: upstream.name.clone(),
                targets: Vec::new(),
                keys,
                host_header: upstream.item.text("host_header").map(str::to_owned),
            });
            self.row(&format!("upstream {}", upstream.name), &upstream.item, verdict);
        }
        for target in &all.targets {
            self.target(target, &mut pools);
        }
        pools
    }

    fn target(&mut self, target: &Entity, pools: &mut [Pool]) {
        let verdict = self.checked(&target.item, fields::TARGET);
        let written = target.item.text("target").unwrap_or("");
        let at = target.item.place_of("target");
        let weight = target.item.whole("weight", 100);
        if weight > 65_535 {
            self.mistakes.add(at, "`weight` must be 0 to 65535");
        }
        match with_port(written, 8000) {
            Some(address) if !verdict.is_refused() => {
                let pool = target.parent.and_then(|parent| pools.get_mut(parent));
                if let Some(pool) = pool {
                    pool.targets.push((address, weight));
                }
            }
            Some(_) => {}
            None => {
                self.mistakes.add(at, "`target` must be a host or an address, perhaps with a port")
            }
        }
        self.row(&format!("target {written}"), &target.item, verdict);
    }

    /// Adds the upstreams of Kong's that plugins name by their hosts. A service of the same name is the same upstream.
    pub(super) fn add_named_pools(&mut self, pools: &[Pool]) {
        for host in std::mem::take(&mut self.named_pools) {
            let pool = pools.iter().find(|pool| pool.name == host);
            let Some(pool) = pool.filter(|_| !self.out.upstreams.contains_key(&host)) else {
                continue;
            };
            let (path, scheme) = (String::new(), "http");
            let address = Address { scheme, http2: false, host: host.clone(), port: 80, path };
            if let Some(made) =
                self.upstream(&Item::default(), &address, Some(pool), &mut Verdict::default())
            {
                self.out.upstreams.insert(host, Json::Object(made));
            }
        }
    }

    /// Converts all services.
    pub(super) fn services(&mut self, pools: &[Pool]) -> Vec<ServiceEnd> {
        let all = self.all;
        all.services.iter().map(|service| self.service(service, pools)).collect()
    }

    fn service(&mut self, service: &Entity, pools: &[Pool]) -> ServiceEnd {
        let mut verdict = self.checked(&service.item, fields::SERVICE);
        let label = service.label();
        let what = format!("service {label}");
        let enabled = service.item.is_true("enabled", true);
        let address = self.address(&service.item, &mut verdict);
        let mut end = ServiceEnd { enabled, ..ServiceEnd::default() };
        if let Some(address) = address {
            end.base = address.path.trim_end_matches('/').to_owned();
            end.has_last_slash = !end.base.is_empty() && address.path.ends_with('/');
            let pool = pools.iter().find(|pool| pool.name == address.host);
            let host = pool.and_then(|pool| pool.host_header.clone());
            end.host = host.unwrap_or_else(|| "target".to_owned());
            let made = self.upstream(&service.item, &address, pool, &mut verdict);
            if let Some(made) = made.filter(|_| enabled) {
                let name = self.out.fresh("upstream", label);
                self.out.upstreams.insert(name.clone(), Json::Object(made));
                self.origins.insert(
                    ("upstreams".to_owned(), name.clone()),
                    (what.clone(), service.item.at),
                );
                end.upstream = Some(name);
            }
        }
        self.row(&what, &service.item, verdict);
        end
    }

    /// Reads `url`, or the fields that replace it.
    fn address(&mut self, item: &Item, verdict: &mut Verdict) -> Option<Address> {
        let url = item.text("url");
        let (protocol, host, port, path) = match url {
            Some(url) => match split_url(url) {
                Some(parts) => parts,
                None => {
                    let at = item.place_of("url");
                    self.mistakes.add(at, "`url` must be like `http://host:80/path`");
                    return None;
                }
            },
            None => {
                let Some(host) = item.text("host") else {
                    self.mistakes.add(item.at, "a service without `url` and `host`");
                    return None;
                };
                let protocol = item.text("protocol").unwrap_or("http").to_owned();
                let port = item.whole("port", 80);
                (protocol, host.to_owned(), Some(port), item.text("path").unwrap_or("").to_owned())
            }
        };
        if !path.is_empty() && !path.starts_with('/') {
            let at = item.place_of("path");
            self.mistakes.add(at, "`path` must begin with `/`");
        }
        let (scheme, http2) = match protocol.as_str() {
            "http" | "ws" => ("http", false),
            "https" | "wss" => ("https", false),
            "grpc" => ("http", true),
            "grpcs" => ("https", true),
            other => {
                verdict.refuse(format!("Tidegate does not send requests by `{other}`"));
                return None;
            }
        };
        let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
        if !(1..=65_535).contains(&port) {
            self.mistakes.add(item.at, "the port must be 1 to 65535");
        }
        let path = path.replace('{', "%7B").replace('}', "%7D");
        Some(Address { scheme, http2, host, port, path })
    }

    fn upstream(
        &mut self,
        item: &Item,
        address: &Address,
        pool: Option<&Pool>,
        verdict: &mut Verdict,
    ) -> Option<Map<String, Json>> {
        let mut made = Map::new();
        let target = |host: &str| format!("{}://{host}", address.scheme);
        match pool {
            None => {
                let host = format!("{}:{}", bracketed(&address.host), address.port);
                made.insert("targets".to_owned(), json!([target(&host)]));
            }
            Some(pool) => {
                let Some((_, first)) = pool.targets.first() else {
                    verdict.nearly("its upstream has no target, so its routes answer 503");
                    return None;
                };
                let same = pool.targets.iter().all(|(_, weight)| weight == first);
                let one = |(host, weight): &(String, u64)| {
                    if same && *weight > 0 {
                        json!(target(host))
                    } else {
                        json!({ "url": target(host), "weight": weight })
                    }
                };
                made.insert("targets".to_owned(), pool.targets.iter().map(one).collect());
                made.extend(pool.keys.clone());
            }
        }
        if address.http2 {
            made.insert("protocol".to_owned(), json!("http2"));
        }
        let time = |key: &str| milliseconds(item.whole(key, 60_000).max(1));
        let [connect, read, write] = ["connect_timeout", "read_timeout", "write_timeout"].map(time);
        let mut timeout = json!({ "connect": connect, "response": read });
        if let (true, Some(timeout)) = (write != read, timeout.as_object_mut()) {
            timeout.insert("write".to_owned(), json!(write));
        }
        made.insert("timeout".to_owned(), timeout);
        let retries = item.whole("retries", 5);
        if retries > 10 {
            verdict.nearly("Tidegate retries a request at most 10 times");
        }
        let when = ["connect_failure", "reset", "timeout"];
        // The rule of nginx: a target must not get a POST twice.
        let retry = json!({ "attempts": retries.min(10), "when": when, "non_idempotent": false });
        made.insert("retry".to_owned(), retry);
        if address.scheme == "https" {
            let tls = self.upstream_tls(item, verdict);
            made.insert("tls".to_owned(), Json::Object(tls));
        }
        Some(made)
    }

    fn upstream_tls(&mut self, item: &Item, verdict: &mut Verdict) -> Map<String, Json> {
        let mut tls = Map::new();
        let verify = item.is_true("tls_verify", false);
        tls.insert("verify".to_owned(), json!(verify));
        let ca = item.texts("ca_certificates");
        if !ca.is_empty() {
            let all = self.all;
            let known = ca.iter().map(|id| {
                all.ca_certificates
                    .iter()
                    .find(|entity| entity.name == **id || entity.item.text("id") == Some(*id))
            });
            match known.collect::<Option<Vec<_>>>() {
                Some(known) => {
                    // Harmless: the conversion of listeners reports one without `cert`.
                    let texts = known.iter().filter_map(|entity| entity.item.text("cert"));
                    let pem = texts.flat_map(pem).collect();
                    let file = self.out.file("ca", "pem", pem);
                    tls.insert("ca".to_owned(), json!(file));
                }
                None => {
                    let at = item.place_of("ca_certificates");
                    self.mistakes.add(at, "`ca_certificates` names one that is not there");
                }
            }
        }
        if let Some(reference) = item.get("client_certificate") {
            let id = reference.scalar().or_else(|| reference.text("id"));
            let found =
                self.all.certificates.iter().position(|entity| Some(entity.name.as_str()) == id);
            match found {
                Some(at) => {
                    if let Some((certificate, key)) = self.certificate_files(at, verdict) {
                        tls.insert("certificate".to_owned(), json!(certificate));
                        tls.insert("key".to_owned(), json!(key));
                    }
                }
                None => self
                    .mistakes
                    .add(reference.at, "`client_certificate` names one that is not there"),
            }
        }
        tls
    }
}

/// Protocol, host, port and path of a URL.
fn split_url(url: &str) -> Option<(String, String, Option<u64>, String)> {
    let (protocol, rest) = url.split_once("://")?;
    if !PROTOCOLS.contains(&protocol) {
        return None;
    }
    let cut = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(cut)?;
    let (host, port) = host_and_port(authority)?;
    (!host.is_empty()).then(|| (protocol.to_owned(), host.to_owned(), port, path.to_owned()))
}

/// A host and the port after it.
fn host_and_port(authority: &str) -> Option<(&str, Option<u64>)> {
    let colon = authority.rfind(':').filter(|at| *at > authority.rfind(']').unwrap_or(0));
    let is_bare_v6 = !authority.starts_with('[') && authority.matches(':').count() > 1;
    match colon {
        Some(at) if !is_bare_v6 => {
            let (host, port) = authority.split_at_checked(at)?;
            let port = port.get(1..)?;
            if port.contains('\u{0}') {
                Some((authority, None))
            } else {
                // If the port is not a number, the result is `None`.
                Some((host, Some(kit::digits::whole(port)?)))
            }
        }
        _ => Some((authority, None)),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') && !host.contains('\u{0}') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// A target with its port, or with the port `absent` if it has none. `None` if it is not a host.
fn with_port(target: &str, absent: u64) -> Option<String> {
    let (host, port) = host_and_port(target)?;
    let odd = |c: char| c.is_whitespace() || c == '/';
    if host.is_empty() || host.contains(odd) {
        return None;
    }
    if host.contains('\u{0}') && port.is_none() {
        Some(host.to_owned())
    } else {
        Some(format!("{}:{}", bracketed(host), port.unwrap_or(absent)))
    }
}

fn balance(item: &Item, keys: &mut Map<String, Json>, verdict: &mut Verdict) {
    let hash_on = item.text("hash_on").unwrap_or("none");
    let absent = if hash_on == "none" { "round-robin" } else { "consistent-hashing" };
    let rule = match item.text("algorithm").unwrap_or(absent) {
        "least-connections" => json!("least_requests"),
        "latency" => {
            verdict.nearly("targets are chosen by active requests, and not by their latency");
            json!("least_requests")
        }
        "consistent-hashing" => match hash(item, hash_on, "hash_on", verdict) {
            Some(by) => json!({ "hash": hash_keys(item, by, verdict) }),
            None => json!("round_robin"),
        },
        "sticky-sessions" => {
            let cookie = item.text("sticky_sessions_cookie").unwrap_or("kong_sticky_session");
            keys.insert("sticky".to_owned(), json!({ "cookie": cookie }));
            json!("round_robin")
        }
        _ => json!("round_robin"),
    };
    if rule != json!("round_robin") {
        keys.insert("balance".to_owned(), rule);
    }
}

fn hash_keys(item: &Item, by: String, verdict: &mut Verdict) -> Json {
    let fallback = item.text("hash_fallback").unwrap_or("none");
    let otherwise = hash(item, fallback, "hash_fallback", verdict);
    // Kong gives clients the cookie if they do not have it, so a fallback of a cookie is never used.
    let otherwise = otherwise.filter(|_| !by.starts_with("cookie:"));
    let sets = std::iter::once(&by).chain(&otherwise).any(|by| by.starts_with("cookie:"));
    let path = sets.then(|| item.text("hash_on_cookie_path").unwrap_or("/"));
    let mut keys = Map::from_iter([("by".to_owned(), json!(by))]);
    keys.extend(otherwise.map(|by| ("else".to_owned(), json!(by))));
    keys.extend(path.map(|path| ("cookie_path".to_owned(), json!(path))));
    Json::Object(keys)
}

fn hash(item: &Item, on: &str, key: &str, verdict: &mut Verdict) -> Option<String> {
    match on {
        "ip" => Some("client".to_owned()),
        "path" => Some("path".to_owned()),
        "consumer" => Some("consumer".to_owned()),
        "query_arg" => Some(format!("query:{}", item.text(&format!("{key}_query_arg"))?)),
        "header" => Some(format!("header:{}", item.text(&format!("{key}_header"))?)),
        "cookie" => Some(format!("cookie:{}", item.text("hash_on_cookie")?)),
        "uri_capture" => Some(format!("capture:{}", item.text(&format!("{key}_uri_capture"))?)),
        "none" => None,
        other => {
            verdict.refuse(format!("Tidegate cannot hash by `{other}`"));
            None
        }
    }
}

/// The most failures that Kong counts.
const FAILURES_MAX: u64 = 255;

/// The statuses of a failed check, unless the file lists others.
const FAILED: [&str; 8] = ["429", "404", "500", "501", "502", "503", "504", "505"];

/// How many failures of each kind make a target unhealthy: statuses, connections, timeouts. With 0, that kind never does.
fn failures(item: &Item) -> [u64; 3] {
    ["http_failures", "tcp_failures", "timeouts"].map(|key| item.whole(key, 0).min(FAILURES_MAX))
}

fn health(item: &Item, keys: &mut Map<String, Json>, verdict: &mut Verdict) {
    let Some(checks) = item.get("healthchecks") else { return };
    let share = checks.number("threshold").unwrap_or(0.0).min(100.0);
    if share > 0.0 {
        if share.fract() > 0.0 {
            verdict.nearly("`threshold` is rounded up to whole percents");
        }
        keys.insert(
            "available_min_percent".to_owned(),
            json!((1..=100).find(|percent| f64::from(*percent) >= share)),
        );
    }
    if let Some(active) = checks.get("active") {
        active_health(active, keys, verdict);
        let replies = checks.get("passive").and_then(|passive| passive.get("healthy"));
        let resets = replies.is_some_and(|replies| replies.whole("successes", 0) > 0);
        let counts = active.get("unhealthy").map_or([0; 3], failures);
        if resets && keys.contains_key("health") && counts.iter().any(|count| *count > 1) {
            verdict.nearly("good replies to requests do not reset the count of failed checks");
        }
    }
    if let Some(unhealthy) = checks.get("passive").and_then(|passive| passive.get("unhealthy"))
        // Harmless: a count of 0 is off.
        && let Some(after) = failures(unhealthy).into_iter().filter(|count| *count > 0).min()
    {
        passive_health(unhealthy, after, keys, verdict);
    }
}

fn passive_health(
    unhealthy: &Item,
    after: u64,
    keys: &mut Map<String, Json>,
    verdict: &mut Verdict,
) {
    verdict.nearly("failures of all kinds are counted together, in a row");
    let mut outlier = Map::new();
    outlier.insert("after".to_owned(), json!(after.clamp(1, 1000)));
    let statuses = unhealthy.texts("http_statuses");
    let statuses: Vec<u64> = if unhealthy.whole("http_failures", 0) == 0 {
        Vec::new()
    } else if statuses.is_empty() {
        vec![429, 500, 503]
    } else {
        // Harmless: the check of the result refuses an invalid status.
        statuses.iter().filter_map(|status| status.parse().ok()).collect()
    };
    outlier.insert("statuses".to_owned(), json!(statuses));
    outlier.insert("max_ejected_percent".to_owned(), json!(100));
    if keys.contains_key("health") {
        outlier.insert("until".to_owned(), json!("probe"));
    } else {
        verdict.nearly("an ejected target comes back after a time, and in Kong by hand");
    }
    keys.insert("outlier".to_owned(), Json::Object(outlier));
}

fn active_health(active: &Item, keys: &mut Map<String, Json>, verdict: &mut Verdict) {
    let empty = Item::default();
    let healthy = active.get("healthy").unwrap_or(&empty);
    let unhealthy = active.get("unhealthy").unwrap_or(&empty);
    let intervals = [healthy, unhealthy].map(|side| side.number("interval").unwrap_or(0.0));
    let on: Vec<f64> = intervals.into_iter().filter(|interval| *interval > 0.0).collect();
    let Some(interval) = on.iter().copied().reduce(f64::min) else { return };
    if intervals[0] != intervals[1] {
        verdict.nearly("Tidegate checks healthy and unhealthy targets at the same interval");
    }
    let mut health = Map::new();
    if matches!(active.text("type"), Some("https" | "grpcs")) {
        verdict.nearly("health checks use the protocol of the service, and verify a certificate only if requests do");
    }
    match active.text("type").unwrap_or("http") {
        "tcp" => {}
        "grpc" | "grpcs" => drop(health.insert("grpc".to_owned(), json!(""))),
        _ => drop(health.insert("path".to_owned(), json!(active.text("http_path").unwrap_or("/")))),
    }
    let seconds = |number: f64| format!("{}ms", (number * 1000.0).round());
    health.insert("interval".to_owned(), json!(seconds(interval)));
    health.insert(
        "timeout".to_owned(),
        json!(seconds(active.number("timeout").unwrap_or(1.0).max(0.001))),
    );
    let successes = healthy.whole("successes", 0);
    if successes == 0 {
        verdict.nearly("in Tidegate an ejected target returns when it is healthy; with these counts it stays out in Kong");
    }
    health.insert("healthy_after".to_owned(), json!(successes.clamp(1, 100)));
    match failures(unhealthy) {
        [0, 0, 0] => verdict.nearly(
            "Tidegate ejects a target when its checks fail; with these counts Kong does not",
        ),
        [1, 1, 1] => drop(health.insert("unhealthy_after".to_owned(), json!(1))),
        [status, connection, timeout] => {
            let counts = [("connection", connection), ("timeout", timeout), ("status", status)];
            let counts = counts.into_iter().filter(|(_, count)| *count > 0);
            let counts: Map<String, Json> =
                counts.map(|(kind, count)| (kind.to_owned(), json!(count))).collect();
            health.insert("unhealthy_after".to_owned(), Json::Object(counts));
        }
    }
    if health.contains_key("path") {
        let good = statuses_of(healthy, &["200", "302"]);
        let mut failed = statuses_of(unhealthy, &FAILED);
        // Kong looks into the list of good statuses first.
        failed.retain(|status| !good.contains(status));
        health.insert("statuses".to_owned(), json!(good));
        health.insert("unhealthy_statuses".to_owned(), json!(failed));
    }
    keys.insert("health".to_owned(), Json::Object(health));
}

/// The statuses of a side of health checks, as written or by default. The check of the result refuses an invalid one.
fn statuses_of(side: &Item, absent: &[&str]) -> Vec<Json> {
    let written = side.texts("http_statuses");
    let statuses = if written.is_empty() { absent.to_vec() } else { written };
    let number =
        |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |status| json!(status));
    statuses.into_iter().map(number).collect()
}
