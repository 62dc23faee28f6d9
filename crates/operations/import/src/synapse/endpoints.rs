//! Endpoints: each becomes an upstream, and further keys of a call.

use serde_json::{Map, Value as Json, json};
use xml::{Document, Kind, NodeId, Options};

use super::converter::Converter;
use super::element::Element;
use super::known;
use super::pending::KeptProperty;
use super::rewritten::Rewritten;
use super::value::escaped;
use crate::yaml::variable;

/// The target of one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Target {
    /// The whole URL as a template, in place of an upstream.
    pub(super) url: Option<String>,
    pub(super) upstream: String,
    /// The path of the URL as a template. Empty if it has none.
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) method: Option<String>,
    /// True if nothing of the request's path is appended.
    pub(super) is_exact: bool,
    /// The path is the request's own, as the route forwards it.
    pub(super) is_own: bool,
    pub(super) format: Option<Format>,
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq)]
struct Url {
    /// Scheme, host and port.
    target: String,
    path: String,
    query: Option<String>,
}

/// The maximum depth of groups of endpoints.
const DEPTH_MAX: usize = 8;

/// The failures that suspend an endpoint by default.
const ALL_FAILURES: [&str; 3] = ["timeout", "connect_failure", "reset"];

/// The error codes of Synapse that `suspend` has words for.
const CODES: [(&str, &str); 8] = [
    ("101500", "connect_failure"),
    ("101501", "connect_failure"),
    ("101503", "connect_failure"),
    ("101507", "connect_failure"),
    ("101508", "connect_failure"),
    ("101504", "timeout"),
    ("101505", "reset"),
    ("101506", "reset"),
];

/// The form in which an endpoint gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Soap11,
    Soap12,
    Pox,
}

impl Format {
    pub(super) fn of(kind: &Element<'_>) -> Option<Format> {
        match kind.attribute("format")?.to_ascii_lowercase().as_str() {
            "soap11" => Some(Format::Soap11),
            "soap12" => Some(Format::Soap12),
            "pox" => Some(Format::Pox),
            // Harmless: `rest` sends the message unchanged, and the table refuses all others.
            _ => None,
        }
    }
}

impl<'a> Converter<'a> {
    /// The targets of an endpoint: several for a recipient list.
    pub(super) fn endpoint(&mut self, endpoint: &Element<'a>) -> Result<Vec<Target>, String> {
        let endpoint = self.resolved(endpoint)?;
        self.judge(&endpoint)?;
        match endpoint.child("recipientlist") {
            None => self.single(&endpoint).map(|target| vec![target]),
            Some(list) => {
                let members = list.all("endpoint");
                if members.is_empty() {
                    return Err("a recipient list that is computed has no counterpart".to_owned());
                }
                members.iter().map(|e| self.resolved(e).and_then(|e| self.single(&e))).collect()
            }
        }
    }

    /// The endpoint by its key.
    pub(super) fn endpoint_by_key(&mut self, key: &str) -> Result<Vec<Target>, String> {
        let found = self.artifacts.endpoints.get(key).copied();
        let found =
            found.ok_or_else(|| format!("the endpoint `{key}` is not among the artifacts"))?;
        self.endpoint(&found)
    }

    /// The endpoint itself, if the element only refers to it by a key or makes it of a template.
    fn resolved(&mut self, endpoint: &Element<'a>) -> Result<Element<'a>, String> {
        if endpoint.attribute("key-expression").is_some() {
            return Err("an endpoint that is computed has no counterpart".to_owned());
        }
        if endpoint.attribute("template").is_some() {
            return self.artifacts.made(endpoint);
        }
        let Some(key) = endpoint.attribute("key") else { return Ok(*endpoint) };
        if key.contains('{') {
            return Err(format!("the endpoint `{key}` is computed, which has no counterpart"));
        }
        let found = self.artifacts.endpoints.get(key).copied();
        let found =
            found.ok_or_else(|| format!("the endpoint `{key}` is not among the artifacts"))?;
        match found.attribute("template") {
            Some(_) => self.artifacts.made(&found),
            None => Ok(found),
        }
    }

    /// Looks up an element in the table of known parts, and notes the differences. The error is the reason why it is refused.
    fn judge(&mut self, element: &Element<'a>) -> Result<(), String> {
        for note in known::judge(element.name(), element).result()? {
            self.note(note);
        }
        Ok(())
    }

    fn single(&mut self, endpoint: &Element<'a>) -> Result<Target, String> {
        let name = endpoint.attribute("name");
        let kind = endpoint.children().into_iter().find(|child| {
            !matches!(child.name(), "description" | "property" | "session" | "parameter")
        });
        let Some(kind) = kind else { return Err("an endpoint without an address".to_owned()) };
        self.judge(&kind)?;
        match kind.name() {
            "address" | "http" | "wsdl" | "default" => self.plain(name, &kind),
            "loadbalance" | "failover" => self.group(name, endpoint, &kind),
            other => Err(format!("the endpoint `{other}` has no counterpart")),
        }
    }

    fn plain(&mut self, name: Option<&'a str>, kind: &Element<'a>) -> Result<Target, String> {
        if let Some(url) = self.flow.pending.rewritten.clone().filter(|_| kind.name() == "default")
        {
            return self.rewritten(name, &url, Some(kind));
        }
        let url = self.url(kind)?;
        let mut upstream = Map::new();
        upstream.insert("targets".to_owned(), json!([url.target]));
        self.options(kind, &mut upstream);
        self.secured(name.unwrap_or(host(&url.target)), kind, &mut upstream)?;
        let method = kind.attribute("method").map(str::to_ascii_uppercase);
        let upstream = self.upstream(name, upstream, &url.target);
        let format = Format::of(kind);
        let is_exact = kind.name() != "address" || format.is_some_and(|it| it != Format::Pox);
        let (path, query) = (url.path, url.query);
        Ok(Target { url: None, upstream, path, query, method, is_exact, is_own: false, format })
    }

    /// A group: one upstream with several targets.
    fn group(
        &mut self,
        name: Option<&'a str>,
        endpoint: &Element<'a>,
        group: &Element<'a>,
    ) -> Result<Target, String> {
        let mut members = Vec::new();
        self.members(group, &mut members, 0)?;
        let first = members.first().cloned();
        let Some((kind, first)) = first else { return Err("a group without endpoints".to_owned()) };
        let differs =
            members.iter().any(|(_, url)| (&url.path, &url.query) != (&first.path, &first.query));
        if differs {
            return Err("the endpoints of the group have different paths".to_owned());
        }
        let mut upstream = Map::new();
        let targets: Vec<&str> = members.iter().map(|(_, url)| url.target.as_str()).collect();
        upstream.insert("targets".to_owned(), json!(targets));
        if group.name() == "failover" {
            upstream.insert("balance".to_owned(), json!("failover"));
            let attempts = members.len().saturating_sub(1).clamp(1, 10);
            let retry =
                json!({ "attempts": attempts, "on": ["connect_failure", "reset", "timeout"] });
            upstream.insert("retry".to_owned(), retry);
        } else {
            upstream.insert("balance".to_owned(), json!("round_robin"));
            let algorithm = group.attribute("algorithm").or(group.attribute("policy"));
            if algorithm.is_some_and(|name| {
                !name.to_ascii_lowercase().ends_with("roundrobin") || name.contains("Weighted")
            }) {
                self.note("the algorithm is round robin here");
            }
        }
        if let Some(session) = endpoint.child("session").or(group.child("session")) {
            upstream.insert("sticky".to_owned(), json!({ "cookie": "JSESSIONID" }));
            let kind = session.attribute("type").unwrap_or("http");
            if kind != "http" {
                self.note(&format!("a session of the type `{kind}` has no other mark here"));
            }
        }
        self.options(&kind, &mut upstream);
        let named = name.or(group.attribute("name")).unwrap_or(host(&first.target));
        self.secured(named, &kind, &mut upstream)?;
        let secured = |kind: &Element<'a>| {
            ["authentication", "enableSec", "enableAddressing"]
                .map(|name| kind.child(name).map(|part| part.markup()))
        };
        if members.iter().any(|(other, _)| secured(other) != secured(&kind)) {
            return Err("the endpoints of the group differ in security or addressing".to_owned());
        }
        if members.len() > 1 {
            self.note("timeout and suspension are those of the group's first endpoint");
        }
        let target = first.target;
        let upstream = self.upstream(name.or(group.attribute("name")), upstream, &target);
        let format = Format::of(&kind);
        let is_exact = kind.name() != "address" || format.is_some_and(|it| it != Format::Pox);
        let (path, query) = (first.path, first.query);
        Ok(Target {
            url: None,
            upstream,
            path,
            query,
            method: None,
            is_exact,
            is_own: false,
            format,
        })
    }

    /// The endpoints of a group, those of groups in it included.
    fn members(
        &mut self,
        group: &Element<'a>,
        members: &mut Vec<(Element<'a>, Url)>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("groups of endpoints are more than {DEPTH_MAX} deep"));
        }
        if group.child("member").is_some() {
            return Err(
                "members by host and port are not converted; write them as endpoints".to_owned()
            );
        }
        for endpoint in group.all("endpoint") {
            let endpoint = self.resolved(&endpoint)?;
            self.judge(&endpoint)?;
            let kinds = endpoint.children();
            let found = kinds.iter().find(|kind| {
                matches!(kind.name(), "address" | "http" | "wsdl" | "loadbalance" | "failover")
            });
            match found {
                Some(kind) if matches!(kind.name(), "loadbalance" | "failover") => {
                    self.judge(kind)?;
                    self.note("a group within the group is one with it");
                    self.members(kind, members, depth + 1)?;
                }
                Some(kind) => {
                    self.judge(kind)?;
                    members.push((*kind, self.url(kind)?));
                }
                None => return Err("a group of endpoints without an address".to_owned()),
            }
        }
        Ok(())
    }

    fn url(&mut self, kind: &Element<'a>) -> Result<Url, String> {
        let written = match kind.name() {
            "address" => kind.attribute("uri").map(str::to_owned),
            "http" => kind.attribute("uri-template").map(str::to_owned),
            "wsdl" => Some(self.address_of(kind)?),
            _ => {
                let to = self.flow.pending.to.clone();
                Some(to.ok_or("a default endpoint sends to an address that is computed, which has no counterpart")?)
            }
        };
        let written = written.ok_or("an endpoint without an address")?;
        let written = written.strip_prefix("legacy-encoding:").unwrap_or(&written);
        self.taken_apart(kind, written)
    }

    /// The target if there is no endpoint: the address set by earlier mediators.
    pub(super) fn unnamed(&mut self, item: &Element<'a>) -> Result<Vec<Target>, String> {
        if self.keeps(KeptProperty::To) || self.flow.pending.has_computed_to {
            self.out.calls_urls = true;
            let variable = self.kept_variable(KeptProperty::To);
            let url = format!("{{{{ ${variable} }}}}");
            return Ok(vec![Target { url: Some(url), is_own: true, ..Target::default() }]);
        }
        match (self.flow.pending.rewritten.take(), self.flow.pending.to.take()) {
            (Some(url), _) => self.rewritten(None, &url, None).map(|target| vec![target]),
            (None, Some(url)) => self.address(item, &url).map(|target| vec![target]),
            (None, None) => {
                Err("it has no endpoint, and no step before it says where to".to_owned())
            }
        }
    }

    /// The target of a URL that is in no endpoint.
    pub(super) fn address(&mut self, item: &Element<'a>, url: &str) -> Result<Target, String> {
        let url = self.taken_apart(item, url)?;
        let keys = Map::from_iter([("targets".to_owned(), json!([url.target]))]);
        let upstream = self.upstream(None, keys, &url.target);
        let (path, query) = (url.path, url.query);
        let (is_exact, is_own, format) = (true, false, None);
        Ok(Target { url: None, upstream, path, query, method: None, is_exact, is_own, format })
    }

    /// The target of a URL that `rewrite` made.
    fn rewritten(
        &mut self,
        name: Option<&str>,
        url: &Rewritten,
        kind: Option<&Element<'a>>,
    ) -> Result<Target, String> {
        let target = url.target()?;
        let mut keys = Map::from_iter([("targets".to_owned(), json!([target]))]);
        if let Some(kind) = kind {
            self.options(kind, &mut keys);
            self.secured(name.unwrap_or(host(&target)), kind, &mut keys)?;
        }
        let upstream = self.upstream(name, keys, &target);
        let path = url.path.as_deref().unwrap_or("").to_owned();
        let query = url.query.clone();
        let is_own = url.path.is_none();
        let format = kind.and_then(Format::of);
        Ok(Target {
            url: None,
            upstream,
            path,
            query,
            method: None,
            is_exact: true,
            is_own,
            format,
        })
    }

    /// Takes a URL apart; `{uri.var.NAME}` in its path and query become placeholders.
    fn taken_apart(&mut self, kind: &Element<'a>, written: &str) -> Result<Url, String> {
        if let Some(name) = written.strip_prefix("$SYSTEM:") {
            self.note(&format!("the variable {name} has to be a URL without a path"));
            self.out.stand_ins.insert(name.to_owned(), "http://stand-in.invalid".to_owned());
            return Ok(Url { target: variable(name), path: String::new(), query: None });
        }
        let known = ["http://", "https://"].into_iter().find(|scheme| written.starts_with(scheme));
        let Some(scheme) = known else {
            return Err(format!("`{written}` is not an HTTP address"));
        };
        let rest = written.get(scheme.len()..).unwrap_or_default();
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, behind) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(
                "a URL with a password has no counterpart; `header: { set }` sends one".to_owned()
            );
        }
        if authority.contains(['{', '$']) || authority.is_empty() {
            return Err(format!("the host of `{written}` is computed, which has no counterpart"));
        }
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (behind, None),
        };
        let path = self.filled(kind, path)?;
        let query = query.map(|query| self.filled(kind, query)).transpose()?;
        let path = if path == "/" { String::new() } else { path };
        Ok(Url { target: format!("{scheme}{authority}"), path, query })
    }

    /// A part of a URI template as a template.
    fn filled(&mut self, kind: &Element<'a>, text: &str) -> Result<String, String> {
        if text.contains("${") {
            return self.template(kind, text);
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((front, behind)) = rest.split_once('{') {
            out.push_str(&escaped(front));
            let (name, after) =
                behind.split_once('}').ok_or_else(|| format!("`{text}` is not a URI template"))?;
            let name = name.trim_start_matches('+');
            let value = self.named("default", name).or_else(|why| {
                if name.contains('.') {
                    Err(why)
                } else {
                    self.named("default", &format!("uri.var.{name}"))
                }
            })?;
            out.push_str(&format!("{{{{ {value} }}}}"));
            rest = after;
        }
        out.push_str(&escaped(rest));
        Ok(out)
    }

    /// The address that a WSDL names for a port.
    fn address_of(&mut self, kind: &Element<'a>) -> Result<String, String> {
        let inline = kind
            .children()
            .into_iter()
            .find(|child| matches!(child.name(), "definitions" | "description"));
        let content = match (inline, kind.attribute("uri")) {
            (Some(inline), _) => inline.document().into_bytes(),
            (None, Some(uri)) => self.artifacts.resource(uri)?.content,
            (None, None) => return Err("a `wsdl` endpoint without a WSDL".to_owned()),
        };
        let document = Document::parse(&content, &Options::default())
            .map_err(|error| format!("its WSDL cannot be read: {error}"))?;
        let named = |node: NodeId, attribute: &str| {
            let wanted = kind.attribute(attribute);
            wanted.is_none() || document.attribute(node, "", "name") == wanted
        };
        let ports = document.descendants(Document::ROOT).filter(|node| {
            let of_service =
                document.parent(*node).is_some_and(|service| named(service, "service"));
            let is_port = matches!(document.name(*node).local, "port" | "endpoint");
            document.kind(*node) == Kind::Element && is_port && of_service && named(*node, "port")
        });
        // Harmless: if no port has an address, that is an error.
        let mut addresses = ports.filter_map(|port| {
            let mut within = document.children(port);
            let address = within.find(|node| document.name(*node).local == "address");
            let location = address.and_then(|node| document.attribute(node, "", "location"));
            location.or(document.attribute(port, "", "address")).map(str::to_owned)
        });
        addresses.next().ok_or_else(|| "its WSDL has no such port".to_owned())
    }

    /// The name of the upstream with these keys, which may exist already.
    fn upstream(&mut self, name: Option<&str>, keys: Map<String, Json>, target: &str) -> String {
        let host = target.split("://").last().unwrap_or(target).replace(':', "-");
        let key = json!([name, keys]);
        if let Some((_, known)) = self.known_upstreams.iter().find(|(other, _)| *other == key) {
            return known.clone();
        }
        let fresh = self.out.fresh("upstream", name.unwrap_or(&host));
        self.out.upstreams.insert(fresh.clone(), Json::Object(keys));
        self.known_upstreams.push((key, fresh.clone()));
        fresh
    }

    /// Timeout and suspension.
    fn options(&mut self, kind: &Element<'a>, upstream: &mut Map<String, Json>) {
        if let Some(timeout) = kind.child("timeout") {
            let written = timeout.text_of("duration");
            if written.is_none() {
                self.note("a timeout without a duration is left out");
            }
            if let Some(millis) = self.number("duration", written.as_deref()) {
                upstream.insert("timeout".to_owned(), json!({ "response": duration(millis) }));
            }
            let action = timeout.text_of("responseAction").or(timeout.text_of("action"));
            if action.is_some_and(|action| action == "discard") {
                self.note("a timeout is a fault, not a discarded reply");
            }
        }
        let suspend = if kind.child("suspendOnFailure").is_some() {
            self.suspend(kind)
        } else {
            Some(
                json!({ "on": ALL_FAILURES, "after": 1, "initial": "30s", "factor": 1, "max": "30s" }),
            )
        };
        upstream.extend(suspend.map(|suspend| ("suspend".to_owned(), suspend)));
    }

    fn suspend(&mut self, kind: &Element<'a>) -> Option<Json> {
        let (failure, mark) = (kind.child("suspendOnFailure"), kind.child("markForSuspension"));
        let codes = |of: Option<Element<'a>>| -> Vec<String> {
            let text = of.and_then(|of| of.text_of("errorCodes"));
            text.as_deref()
                .unwrap_or("")
                .split(',')
                .map(|code| code.trim().to_owned())
                .filter(|code| !code.is_empty())
                .collect()
        };
        let failure = failure?;
        let (now, later) = (codes(Some(failure)), codes(mark));
        let mut number = |of: Element<'a>, name: &str| {
            let text = of.text_of(name)?;
            self.read(name, &text, |text| text.parse::<f64>().is_ok_and(f64::is_finite))?;
            // Harmless: `read` has checked that it is a number.
            text.parse::<f64>().ok()
        };
        let initial = number(failure, "initialDuration");
        let retries = mark.and_then(|mark| number(mark, "retriesBeforeSuspension")).unwrap_or(1.0);
        let delay = mark.and_then(|mark| number(mark, "retryDelay"));
        let longest = number(failure, "maximumDuration");
        let factor = number(failure, "progressionFactor");
        // In artifacts, this means that an endpoint is never suspended.
        if now.iter().any(|code| code == "-1") || initial.is_some_and(|initial| initial <= 0.0) {
            return None;
        }
        let mut on: Vec<&str> = Vec::new();
        for code in now.iter().chain(&later).filter(|code| *code != "-1") {
            match CODES.iter().find(|(known, _)| known == code) {
                Some((_, word)) if on.contains(word) => {}
                Some((_, word)) => on.push(word),
                None => self.note(&format!("the error code {code} does not suspend")),
            }
        }
        if now.is_empty() && later.is_empty() {
            on = ALL_FAILURES.to_vec();
        }
        if on.is_empty() {
            return None;
        }
        if delay.is_some_and(|delay| delay > 0.0) {
            self.note("`retryDelay` is left out");
        }
        let mut suspend = Map::new();
        suspend.insert("on".to_owned(), json!(on));
        suspend.insert("after".to_owned(), plain_number(retries.max(1.0)));
        for (key, value) in [("initial", initial), ("max", longest)] {
            suspend.extend(
                value
                    .filter(|value| *value > 0.0)
                    .map(|v| (key.to_owned(), json!(duration(millis(v))))),
            );
        }
        if let Some(factor) = factor {
            suspend.insert("factor".to_owned(), plain_number(factor));
        }
        Some(Json::Object(suspend))
    }
}

/// The host of a target.
fn host(target: &str) -> &str {
    target.split("://").last().unwrap_or(target)
}

fn millis(value: f64) -> u64 {
    // Durations of artifacts are far below the integers that a double holds exactly.
    format!("{value:.0}").parse().unwrap_or(u64::MAX)
}

fn plain_number(value: f64) -> Json {
    if value.fract() == 0.0 { json!(millis(value)) } else { json!(value) }
}

/// A time as the configuration writes it.
pub(super) fn duration(millis: u64) -> String {
    match millis % 1000 {
        0 => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}
