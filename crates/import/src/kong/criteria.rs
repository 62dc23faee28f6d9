//! The conditions of a route of Kong's.

use serde_json::{Map, Value as Json, json};

use super::entities::Entity;
use super::fields::{PROTOCOLS, Verdict};
use super::order::{Atom, HostWant, KongRank, PathWant};
use super::output::one_or_more;
use super::tree::{Item, Mistakes};

/// What a request has to have.
#[derive(Debug, Default)]
pub(super) struct Criteria {
    pub(super) protocols: Vec<String>,
    pub(super) methods: Vec<String>,
    hosts: Vec<HostWant>,
    pub(super) paths: Vec<PathWant>,
    /// Names with their accepted values.
    headers: Vec<(String, Vec<String>)>,
    regex_priority: u64,
    created_at: Option<u64>,
    /// How many kinds of conditions there are, those without a counterpart included.
    kinds: u8,
    pub(super) listener: Option<&'static str>,
    /// True if a condition has no counterpart. The route would then match too many requests.
    pub(super) is_closed: bool,
}

/// Characters of a path that is not a regular expression, before format 3.0.
fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || ".-_~/%".contains(c))
}

impl Criteria {
    pub(super) fn read(route: &Entity, mistakes: &mut Mistakes, verdict: &mut Verdict) -> Criteria {
        let item = &route.item;
        let mut criteria = Criteria {
            regex_priority: item.whole("regex_priority", 0),
            // Harmless: a route without a date has none.
            created_at: item.text("created_at").and_then(|text| text.parse().ok()),
            ..Criteria::default()
        };
        criteria.read_protocols(item, mistakes, verdict);
        if item.get("expression").is_some() {
            verdict.refuse("expressions of the router are not converted");
            criteria.is_closed = true;
            criteria.paths.push(PathWant::Any);
            criteria.hosts.push(HostWant::Any);
            return criteria;
        }
        for method in item.list("methods") {
            match method.scalar() {
                Some(name) if !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase()) => {
                    criteria.methods.push(name.to_owned());
                }
                _ => mistakes.add(method.at, "a method must be in capitals"),
            }
        }
        criteria.read_hosts(item, mistakes, verdict);
        criteria.read_paths(route, mistakes, verdict);
        criteria.read_headers(item, mistakes);
        for key in ["snis", "sources", "destinations"] {
            if item.get(key).is_some_and(|list| !list.items().is_empty()) {
                verdict
                    .refuse(format!("`{key}`: a condition on the connection has no counterpart"));
                criteria.is_closed = true;
            }
        }
        criteria.count(item, mistakes);
        criteria
    }

    fn read_protocols(&mut self, item: &Item, mistakes: &mut Mistakes, verdict: &mut Verdict) {
        self.protocols = item.texts("protocols").iter().map(|text| (*text).to_owned()).collect();
        for protocol in item.list("protocols") {
            if !protocol.scalar().is_some_and(|text| PROTOCOLS.contains(&text)) {
                let what = format!("a protocol must be one of {}", PROTOCOLS.join(", "));
                mistakes.add(protocol.at, what);
            }
        }
        if self.protocols.is_empty() {
            self.protocols = vec!["http".to_owned(), "https".to_owned()];
        }
        for protocol in &mut self.protocols {
            if let Some(plain) = protocol.strip_prefix("ws") {
                *protocol = format!("http{plain}");
            }
        }
        if self
            .protocols
            .iter()
            .any(|protocol| ["tcp", "tls", "udp", "tls_passthrough"].contains(&protocol.as_str()))
        {
            verdict.refuse("streams of TCP, TLS and UDP are not served here");
            self.is_closed = true;
        }
    }

    fn read_hosts(&mut self, item: &Item, mistakes: &mut Mistakes, verdict: &mut Verdict) {
        for host in item.list("hosts") {
            let Some(text) = host.scalar() else { continue };
            let name = text.to_ascii_lowercase();
            let odd = |c: char| c.is_whitespace() || c == '/';
            if name.is_empty() || name.contains(odd) || name.matches('*').count() > 1 {
                mistakes
                    .add(host.at, "a host must be a name, perhaps with one `*` at one of its ends");
                continue;
            }
            let has_port =
                name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if has_port {
                verdict.refuse(format!("`{text}`: a host with a port has no counterpart"));
                self.is_closed = true;
                continue;
            }
            self.hosts.push(match (name.strip_prefix("*."), name.strip_suffix(".*")) {
                (Some(parent), _) => HostWant::Below(parent.to_owned()),
                (None, Some(begins)) => HostWant::Begins(format!("{begins}.")),
                (None, None) if name.contains('*') => {
                    mistakes
                        .add(host.at, "the `*` of a host must be all of its first or last label");
                    continue;
                }
                (None, None) => HostWant::Exact(name),
            });
        }
        if self.hosts.is_empty() {
            self.hosts.push(HostWant::Any);
        }
    }

    fn read_paths(&mut self, route: &Entity, mistakes: &mut Mistakes, verdict: &mut Verdict) {
        for path in route.item.list("paths") {
            let Some(text) = path.scalar() else { continue };
            let marked = text.strip_prefix('~');
            let regex = match marked {
                Some(regex) => Some(regex),
                None => (route.is_old && !is_plain(text)).then_some(text),
            };
            if !regex.unwrap_or(text).trim_start_matches('^').starts_with('/') {
                mistakes.add(
                    path.at,
                    "a path must begin with `/`, or with `~/` for a regular expression",
                );
                continue;
            }
            let Some(regex) = regex else {
                let odd = |c: char| {
                    !c.is_ascii_graphic() || matches!(c, '?' | '#' | '\\' | '{' | '}' | '*')
                };
                if text.contains(odd) && !text.contains('\u{0}') {
                    mistakes.add(path.at, "a path has characters that only a regular expression may have; begin it with `~`");
                    continue;
                }
                self.paths.push(PathWant::Prefix(text.to_owned()));
                continue;
            };
            let regex = without_names(regex);
            match regex::bytes::Regex::new(&regex) {
                Ok(_) => self.paths.push(PathWant::Regex(regex)),
                Err(error) => {
                    let why = error.to_string();
                    let last = why.lines().last().unwrap_or(&why);
                    let why = last.trim_start_matches("error: ");
                    verdict.refuse(format!("the expression `{text}` has no counterpart: {why}"));
                    // Every path that the expression may match is closed.
                    self.is_closed = true;
                    self.paths.push(PathWant::Prefix(literal_start(&regex)));
                }
            }
        }
        self.paths.dedup();
        if self.paths.is_empty() {
            self.paths.push(PathWant::Any);
        }
    }

    fn read_headers(&mut self, item: &Item, mistakes: &mut Mistakes) {
        for (name, values) in item.map("headers") {
            let mut list: Vec<String> = values.scalar().map(str::to_owned).into_iter().collect();
            for value in values.items() {
                match value.scalar() {
                    Some(text) => list.push(text.to_owned()),
                    None => mistakes.add(value.at, "a value of a header must be a text"),
                }
            }
            if list.is_empty() {
                mistakes.add(values.at, "a header needs a list of values");
            } else if name.eq_ignore_ascii_case("host") {
                mistakes.add(values.at, "a condition on the Host stands in `hosts`");
            } else if self.headers.iter().any(|(known, _)| name.eq_ignore_ascii_case(known)) {
                mistakes.add(values.at, format!("the header `{name}` is here twice"));
            } else {
                self.headers.push((name.to_ascii_lowercase(), list));
            }
        }
    }

    fn count(&mut self, item: &Item, mistakes: &mut Mistakes) {
        let has = |key: &str| {
            item.get(key)
                .is_some_and(|list| !(list.items().is_empty() && list.entries().is_empty()))
        };
        let kinds = ["methods", "hosts", "paths", "headers", "snis"];
        self.kinds = kinds.iter().map(|key| u8::from(has(key))).sum();
        let streams = has("sources") || has("destinations");
        if self.kinds == 0 && !streams {
            let what = "a route needs one of `methods`, `hosts`, `paths`, `headers` and `snis`";
            mistakes.add(item.at, what);
        }
    }

    /// The route with each of its hosts and paths.
    pub(super) fn atoms(&self, route: usize) -> Vec<Atom> {
        let plain_hosts = self.hosts.iter().all(|host| matches!(host, HostWant::Exact(_)));
        let mut atoms = Vec::new();
        for host in &self.hosts {
            for path in &self.paths {
                let length = match path {
                    PathWant::Prefix(prefix) => prefix.len(),
                    PathWant::Any | PathWant::Regex(_) => 0,
                };
                let is_regex = matches!(path, PathWant::Regex(_));
                let kong = KongRank {
                    kinds: self.kinds,
                    plain_hosts,
                    headers: self.headers.len(),
                    is_regex,
                    regex_priority: if is_regex { self.regex_priority } else { 0 },
                    length,
                };
                atoms.push(Atom {
                    route,
                    host: host.clone(),
                    path: path.clone(),
                    methods: self.methods.clone(),
                    headers: self.headers.clone(),
                    listener: self.listener,
                    kong,
                    created_at: self.created_at,
                });
            }
        }
        atoms
    }

    /// The matches of the whole route: one, and one more for each beginning of a host.
    pub(super) fn whole(&self) -> Vec<Json> {
        let (begins, plain): (Vec<&HostWant>, Vec<&HostWant>) =
            self.hosts.iter().partition(|host| matches!(host, HostWant::Begins(_)));
        let paths: Vec<&PathWant> = self.paths.iter().collect();
        let mut all = Vec::new();
        if !plain.is_empty() {
            all.push(self.json(&plain, &paths, &self.methods));
        }
        all.extend(begins.into_iter().map(|host| self.json(&[host], &paths, &self.methods)));
        all
    }

    pub(super) fn one(&self, atom: &Atom) -> Json {
        self.json(&[&atom.host], &[&atom.path], &atom.methods)
    }

    fn json(&self, hosts: &[&HostWant], paths: &[&PathWant], methods: &[String]) -> Json {
        let mut found = Map::new();
        let paths: Vec<Json> = paths
            .iter()
            .filter_map(|path| match path {
                PathWant::Any => None,
                PathWant::Prefix(prefix) => Some(json!({ "prefix": prefix })),
                PathWant::Regex(regex) => Some(json!({ "regex_prefix": regex })),
            })
            .collect();
        if !paths.is_empty() {
            found.insert("path".to_owned(), one_or_more(paths));
        }
        let names: Vec<Json> = hosts
            .iter()
            .filter_map(|host| match host {
                HostWant::Exact(name) => Some(json!(name)),
                HostWant::Below(parent) => Some(json!(format!("*.{parent}"))),
                HostWant::Any | HostWant::Begins(_) => None,
            })
            .collect();
        if !names.is_empty() {
            found.insert("host".to_owned(), one_or_more(names));
        }
        if !methods.is_empty() {
            found.insert("methods".to_owned(), json!(methods));
        }
        let mut headers: Map<String, Json> = Map::new();
        for (name, values) in &self.headers {
            headers.insert(name.clone(), json!({ "regex": header_regex(values) }));
        }
        for host in hosts {
            if let HostWant::Begins(begins) = host {
                let regex = format!("(?i){}.*", regex::escape(begins));
                headers.insert("host".to_owned(), json!({ "regex": regex }));
            }
        }
        if !headers.is_empty() {
            found.insert("headers".to_owned(), Json::Object(headers));
        }
        if found.is_empty() {
            found.insert("path".to_owned(), json!("/**"));
        }
        Json::Object(found)
    }
}

/// Kong compares values without regard to case, and `~*` marks an expression for a part of one.
fn header_regex(values: &[String]) -> String {
    let one = |value: &String| match value.strip_prefix("~*") {
        Some(regex) => format!(".*(?:{}).*", without_names(regex)),
        None => regex::escape(value),
    };
    format!("(?i)(?:{})", values.iter().map(one).collect::<Vec<_>>().join("|"))
}

/// An expression without the names of its groups, which would be parameters here.
fn without_names(regex: &str) -> String {
    let mut out = String::with_capacity(regex.len());
    let mut rest = regex;
    while let Some((before, after)) = rest.split_once("(?") {
        out.push_str(before);
        let named = after.strip_prefix("P<").or_else(|| after.strip_prefix('<'));
        let named = named.and_then(|named| named.split_once('>'));
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match named.filter(|(name, _)| is_name(name)) {
            Some((_, behind)) => {
                out.push('(');
                rest = behind;
            }
            None => {
                out.push_str("(?");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// A text with which all matches of an expression begin. It may be shorter than the longest such text.
fn literal_start(regex: &str) -> String {
    let regex = regex.trim_start_matches('^');
    let end = regex.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_%".contains(c)));
    let start = regex.get(..end.unwrap_or(regex.len())).unwrap_or("/");
    // A character before a quantifier may be absent.
    let quantified = end
        .is_some_and(|end| regex.get(end..).is_some_and(|rest| rest.starts_with(['?', '*', '{'])));
    let start =
        if quantified { start.get(..start.len().saturating_sub(1)).unwrap_or("/") } else { start };
    if start.starts_with('/') && !regex.contains('|') { start.to_owned() } else { "/".to_owned() }
}
