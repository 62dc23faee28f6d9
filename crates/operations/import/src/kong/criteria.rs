//! The conditions of a route of Kong's.

use serde_json::{Map, Value as Json, json};

use super::certificates::{PUBLIC, SECURE};
use super::entities::Entity;
use super::fields::{PROTOCOLS, Verdict};
use super::order::{Atom, HostWant, KongRank, PathCondition};
use super::output::one_or_more;
use super::ranks::literal_start;
use super::tree::{Item, Mistakes};

/// The conditions on a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Criteria {
    pub(super) protocols: Vec<String>,
    pub(super) methods: Vec<String>,
    pub(super) hosts: Vec<HostWant>,
    pub(super) paths: Vec<PathCondition>,
    /// Names with their accepted values.
    headers: Vec<(String, Vec<String>)>,
    /// The server names (SNI) that clients may send. Kong ignores them on plain connections.
    pub(super) snis: Vec<String>,
    /// Conditions of an expression on headers and on parameters.
    pub(super) raw_headers: Vec<(String, Json)>,
    pub(super) queries: Vec<(String, Json)>,
    pub(super) sources: Vec<String>,
    /// The priority of a route with an expression.
    priority: Option<u64>,
    regex_priority: u64,
    created_at: Option<u64>,
    /// The number of kinds of conditions, including those without a counterpart.
    kinds: u8,
    pub(super) listener: Option<&'static str>,
    /// True if a condition has no counterpart. The route would then match too many requests.
    pub(super) is_closed: bool,
}

/// True for a path that is not a regular expression in formats before 3.0.
fn is_plain(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_alphanumeric() || ".-_~/%".contains(c))
}

impl Criteria {
    /// Reads the conditions of a route: one set, or one for each alternative of its expression. `names_captures` tells whether something
    /// uses the named groups that match in paths.
    pub(super) fn read(
        route: &Entity,
        names_captures: bool,
        has_tls: bool,
        mistakes: &mut Mistakes,
        verdict: &mut Verdict,
    ) -> Vec<Criteria> {
        let item = &route.item;
        let mut criteria = Criteria {
            regex_priority: item.whole("regex_priority", 0),
            // Harmless: a route may have no creation time.
            created_at: item.text("created_at").and_then(|text| text.parse().ok()),
            ..Criteria::default()
        };
        criteria.read_protocols(item, mistakes, verdict);
        if let Some(text) = item.text("expression") {
            criteria.priority = Some(item.whole("priority", 0));
            return match Criteria::alternatives(&criteria, text, has_tls) {
                Ok(alternatives) => alternatives,
                Err(why) => {
                    verdict.refuse(format!("`expression`: {why}"));
                    criteria.is_closed = true;
                    criteria.paths.push(PathCondition::Any);
                    criteria.hosts.push(HostWant::Any);
                    vec![criteria]
                }
            };
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
        criteria.read_paths(route, names_captures, mistakes, verdict);
        criteria.read_headers(item, mistakes);
        criteria.read_snis(item, mistakes);
        for key in ["sources", "destinations"] {
            if item.get(key).is_some_and(|list| !list.items().is_empty()) {
                verdict.refuse(format!("`{key}`: Tidegate has no such condition on a connection"));
                criteria.is_closed = true;
            }
        }
        criteria.count(item, mistakes);
        vec![criteria]
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
            verdict.refuse("Tidegate does not serve streams of TCP, TLS and UDP");
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
            let has_port = name
                .rsplit_once(':')
                .is_some_and(|(_, port)| kit::digits::whole::<u16>(port).is_some());
            if has_port {
                verdict.refuse(format!("`{text}`: Tidegate compares hosts without their ports"));
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

    fn read_paths(
        &mut self,
        route: &Entity,
        names_captures: bool,
        mistakes: &mut Mistakes,
        verdict: &mut Verdict,
    ) {
        for path in route.item.list("paths") {
            let Some(text) = path.scalar() else { continue };
            let is_old_regex = route.is_old && !is_plain(text);
            if is_old_regex && text.starts_with('~') {
                // Kong puts its mark `~` before the text, so the written `~` becomes a part of the expression.
                verdict.nearly(format!("`{text}`: before format 3.0 the `~` is a part of the expression, which matches nothing in Kong; Tidegate takes it as the mark of an expression"));
            }
            let regex = text.strip_prefix('~').or_else(|| is_old_regex.then_some(text));
            if !regex.unwrap_or(text).trim_start_matches('^').starts_with('/') {
                mistakes.add(
                    path.at,
                    "a path must begin with `/`, or with `~/` for a regular expression",
                );
                continue;
            }
            let Some(regex) = regex else {
                let odd =
                    |c: char| !c.is_ascii_graphic() || matches!(c, '?' | '#' | '\\' | '{' | '}');
                if text.contains(odd) && !text.contains('\u{0}') {
                    mistakes.add(path.at, "a path has characters that only a regular expression may have; begin it with `~`");
                    continue;
                }
                self.paths.push(PathCondition::Prefix(text.to_owned()));
                continue;
            };
            let regex = if names_captures { regex.to_owned() } else { without_names(regex) };
            match regex::bytes::Regex::new(&regex) {
                Ok(_) => self.paths.push(PathCondition::Regex(regex)),
                Err(error) => {
                    let why = kit::regex_error::reason(&error);
                    verdict.refuse(format!("the expression `{text}` is not supported: {why}"));
                    // Every path that the expression may match is closed.
                    self.is_closed = true;
                    self.paths.push(PathCondition::Prefix(literal_start(&regex)));
                }
            }
        }
        self.paths.dedup();
        if self.paths.is_empty() {
            self.paths.push(PathCondition::Any);
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
                mistakes.add(values.at, format!("the header `{name}` appears twice"));
            } else {
                self.headers.push((name.to_ascii_lowercase(), list));
            }
        }
    }

    fn read_snis(&mut self, item: &Item, mistakes: &mut Mistakes) {
        for sni in item.list("snis") {
            let name = sni.scalar().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
            match name.filter(|name| !name.is_empty() && !name.contains([':', '/', ' ', '*'])) {
                Some(name) => self.snis.push(name),
                None => mistakes.add(sni.at, "a name in `snis` must be a host without a port"),
            }
        }
    }

    /// The listeners of the route, each with the server names that count there. `has_tls` tells whether there is a listener for HTTPS.
    fn ways(&self, has_tls: bool) -> Vec<(Option<&'static str>, Vec<String>)> {
        let names = self.snis.clone();
        match self.listener {
            _ if names.is_empty() || !has_tls => vec![(self.listener, Vec::new())],
            Some(SECURE) => vec![(Some(SECURE), names)],
            Some(plain) => vec![(Some(plain), Vec::new())],
            None => vec![(Some(PUBLIC), Vec::new()), (Some(SECURE), names)],
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

    /// One atom for each combination of the route's hosts, paths and listeners.
    pub(super) fn atoms(&self, route: usize, alternative: usize, has_tls: bool) -> Vec<Atom> {
        let plain_hosts = self.hosts.iter().all(|host| matches!(host, HostWant::Exact(_)));
        let mut atoms = Vec::new();
        let each =
            self.hosts.iter().flat_map(|host| self.paths.iter().map(move |path| (host, path)));
        for (host, path) in each {
            let length = match path {
                PathCondition::Prefix(prefix) => prefix.len(),
                PathCondition::Any | PathCondition::Exact(_) | PathCondition::Regex(_) => 0,
            };
            let is_regex = matches!(path, PathCondition::Regex(_));
            let kong = KongRank {
                is_traditional: self.priority.is_none(),
                // Harmless: only routes with an expression have a priority.
                priority: self.priority.unwrap_or(0),
                kinds: self.kinds,
                plain_hosts: plain_hosts && self.priority.is_none(),
                headers: self.headers.len(),
                is_regex: is_regex && self.priority.is_none(),
                regex_priority: if is_regex { self.regex_priority } else { 0 },
                length: if self.priority.is_none() { length } else { 0 },
            };
            let atom = |(listener, snis)| Atom {
                route,
                alternative,
                host: host.clone(),
                path: path.clone(),
                methods: self.methods.clone(),
                headers: self.headers.clone(),
                raw: (self.raw_headers.len(), self.queries.len()),
                sources: self.sources.clone(),
                listener,
                snis,
                kong,
                created_at: self.created_at,
            };
            atoms.extend(self.ways(has_tls).into_iter().map(atom));
        }
        atoms
    }

    /// True if all paths have the same named groups, so that they may be one match.
    pub(super) fn has_same_names(&self) -> bool {
        let names = |path: &PathCondition| match path {
            PathCondition::Regex(text) => {
                // Harmless: an invalid expression was refused before.
                let regex = regex::bytes::Regex::new(text).ok();
                // Harmless: only named groups are compared.
                let names = regex.iter().flat_map(regex::bytes::Regex::capture_names).flatten();
                names.map(str::to_owned).collect::<Vec<_>>()
            }
            PathCondition::Any | PathCondition::Exact(_) | PathCondition::Prefix(_) => Vec::new(),
        };
        self.paths.windows(2).all(|two| two.first().map(names) == two.last().map(names))
    }

    /// The matches of the whole route. Each listener has one match, and one more for each host that ends in `*`.
    pub(super) fn whole(&self, has_tls: bool) -> Vec<Json> {
        let (begins, plain): (Vec<&HostWant>, Vec<&HostWant>) =
            self.hosts.iter().partition(|host| matches!(host, HostWant::Begins(_)));
        let paths: Vec<&PathCondition> = self.paths.iter().collect();
        let hosts = (!plain.is_empty()).then_some(plain).into_iter();
        let hosts: Vec<Vec<&HostWant>> =
            hosts.chain(begins.into_iter().map(|host| vec![host])).collect();
        let ways = self.ways(has_tls);
        let on = |hosts: &Vec<&HostWant>| {
            let found = self.json(hosts, &paths, &self.methods);
            ways.iter()
                .map(move |(listener, snis)| on_way(found.clone(), *listener, snis))
                .collect::<Vec<_>>()
        };
        hosts.iter().flat_map(on).collect()
    }

    pub(super) fn one(&self, atom: &Atom) -> Json {
        let found = self.json(&[&atom.host], &[&atom.path], &atom.methods);
        on_way(found, atom.listener, &atom.snis)
    }

    fn json(&self, hosts: &[&HostWant], paths: &[&PathCondition], methods: &[String]) -> Json {
        let mut found = Map::new();
        let paths: Vec<Json> = paths
            .iter()
            .filter_map(|path| match path {
                PathCondition::Any => None,
                PathCondition::Exact(text) => Some(json!({ "regex": regex::escape(text) })),
                PathCondition::Prefix(prefix) => Some(json!({ "prefix": prefix })),
                PathCondition::Regex(regex) => Some(json!({ "regex_prefix": regex })),
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
            let names = |wanted: &str| methods.iter().any(|method| method == wanted);
            if names("GET") && !names("HEAD") {
                found.insert("head".to_owned(), json!(false));
            }
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
        headers.extend(self.raw_headers.iter().cloned());
        if !headers.is_empty() {
            found.insert("headers".to_owned(), Json::Object(headers));
        }
        if !self.queries.is_empty() {
            found.insert("query".to_owned(), Json::Object(self.queries.iter().cloned().collect()));
        }
        if !self.sources.is_empty() {
            let sources = self.sources.iter().map(|network| json!(network)).collect();
            found.insert("source".to_owned(), one_or_more(sources));
        }
        if found.is_empty() {
            found.insert("path".to_owned(), json!("/**"));
        }
        Json::Object(found)
    }
}

/// A match on a listener, for clients that send one of these server names.
fn on_way(mut found: Json, listener: Option<&str>, snis: &[String]) -> Json {
    if let Some(found) = found.as_object_mut() {
        found.extend(listener.map(|listener| ("listener".to_owned(), json!(listener))));
        if !snis.is_empty() {
            let names = snis.iter().map(|name| json!(name)).collect();
            found.insert("sni".to_owned(), one_or_more(names));
        }
    }
    found
}

/// Kong compares values without regard to case. `~*` marks a regular expression that may match a part of the value.
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
