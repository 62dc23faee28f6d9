//! The conditions of a route: host, path, listeners, server names, sources, methods, headers and query.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use message::RequestHead;

use crate::{PathRegex, Pattern, Segment, ValueRegex, path};

/// The conditions of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The host, or `None` for any host.
    pub host: Option<HostPattern>,
    pub path: PathCondition,
    /// The priority. Routes of a higher priority are tried first, even if others are more specific.
    pub priority: i32,
    /// Names of listeners. If empty, any listener matches.
    pub listeners: Vec<String>,
    /// Server names that the client may send in its TLS handshake. If empty, any or no name matches.
    pub server_names: Vec<HostPattern>,
    /// Networks of the client. If empty, any client matches.
    pub sources: Vec<IpNet>,
    /// Methods. If empty, any method matches.
    pub methods: Vec<String>,
    /// Whether `GET` among the methods takes `HEAD`, too.
    pub get_takes_head: bool,
    pub headers: Vec<(String, ValueCondition)>,
    pub query: Vec<(String, ValueCondition)>,
}

/// How a request arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The name of the listener.
    pub listener: &'a str,
    /// The address of the client, taken from a trusted proxy's header or the connection.
    pub client: IpAddr,
    /// The server name that the client sent in its TLS handshake, in lower case.
    pub server_name: Option<&'a str>,
}

/// A host without its port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    Exact(String),
    /// The part after `*.`. It matches every subdomain, but not the domain itself.
    Below(String),
}

/// The condition on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathCondition {
    Pattern(Pattern),
    Regex(PathRegex),
    /// A prefix of the path, as bytes.
    Prefix(Box<[u8]>),
}

/// The condition on a header or a query parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueCondition {
    Present,
    Equals(Box<[u8]>),
    /// The value equals one of these.
    OneOf(Box<[Box<[u8]>]>),
    /// The whole value matches the expression.
    Regex(ValueRegex),
}

/// The reason why a route did not match, for `explain`: the first condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Host,
    Path,
    Listener,
    ServerName,
    Source,
    Method,
    Header(String),
    Query(String),
    /// It would match, but a more specific route matches, too.
    LessSpecific,
    /// It would match, but a route with a higher priority matches, too.
    LowerPriority,
}

impl Matcher {
    /// Returns how specific the conditions other than host and path are. Of routes with the same host and path, the one with the larger
    /// value is tried first.
    pub(crate) fn specificity(&self) -> (bool, bool, bool, bool, usize, usize) {
        let by_way =
            (!self.listeners.is_empty(), !self.server_names.is_empty(), !self.sources.is_empty());
        let (listeners, names, sources) = by_way;
        let methods = !self.methods.is_empty();
        (listeners, names, sources, methods, self.headers.len(), self.query.len())
    }

    /// Returns true if two routes of the same host and path conflict: their lists of listeners, server names, sources and methods are equal
    /// or have common elements, and their conditions on headers and query are equal. Overlaps of networks or wildcards are not noticed.
    pub(crate) fn clashes(&self, other: &Matcher) -> bool {
        meet(&self.listeners, &other.listeners)
            && meet(&self.server_names, &other.server_names)
            && meet(&self.sources, &other.sources)
            && meet(&self.methods, &other.methods)
            && same(&self.headers, &other.headers, str::eq_ignore_ascii_case)
            && same(&self.query, &other.query, str::eq)
    }

    /// Returns the first condition, other than host and path, that the request does not meet.
    pub(crate) fn unmet(
        &self,
        arrival: Arrival<'_>,
        method: &[u8],
        head: &RequestHead,
    ) -> Option<Refusal> {
        if let Some(refusal) = self.unmet_by_arrival(arrival) {
            return Some(refusal);
        }
        // A route that takes GET usually also takes HEAD (RFC 9110, 9.3.2).
        let is_head = self.get_takes_head && method == b"HEAD";
        let takes = |m: &String| m.as_bytes() == method || (is_head && m == "GET");
        if !self.methods.is_empty() && !self.methods.iter().any(takes) {
            return Some(Refusal::Method);
        }
        let header = self
            .headers
            .iter()
            .find(|(name, want)| !head.headers.get_all(name).any(|v| want.is_met(v)));
        if let Some((name, _)) = header {
            return Some(Refusal::Header(name.clone()));
        }
        // Harmless: a request may have no query.
        let query = || head.query().unwrap_or_default();
        let parameter = self.query.iter().find(|(name, want)| {
            !kit::percent::values(query(), name.as_bytes()).any(|value| want.is_met(&value))
        });
        parameter.map(|(name, _)| Refusal::Query(name.clone()))
    }

    /// Returns the first unmet condition on how the request arrived: listener, server name, client network.
    fn unmet_by_arrival(&self, arrival: Arrival<'_>) -> Option<Refusal> {
        if !self.listeners.is_empty() && !self.listeners.iter().any(|n| n == arrival.listener) {
            return Some(Refusal::Listener);
        }
        let asked = |name: &str| self.server_names.iter().any(|p| p.is_met(name.as_bytes()));
        if !self.server_names.is_empty() && !arrival.server_name.is_some_and(asked) {
            return Some(Refusal::ServerName);
        }
        let client = arrival.client.to_canonical();
        if !self.sources.is_empty() && !self.sources.iter().any(|net| net.contains(&client)) {
            return Some(Refusal::Source);
        }
        None
    }

    pub(crate) fn refusal(
        &self,
        arrival: Arrival<'_>,
        head: &RequestHead,
        path: &[u8],
    ) -> Option<Refusal> {
        let host = head.host_name();
        match &self.host {
            Some(pattern) if !pattern.is_met(&host) => Some(Refusal::Host),
            _ if !self.path.is_met(path) => Some(Refusal::Path),
            _ => self.unmet(arrival, head.method(), head),
        }
    }
}

/// Returns true if both lists are equal or have a common element.
fn meet<T: PartialEq>(a: &[T], b: &[T]) -> bool {
    a == b || a.iter().any(|one| b.contains(one))
}

fn same(
    a: &[(String, ValueCondition)],
    b: &[(String, ValueCondition)],
    is_name: impl Fn(&str, &str) -> bool,
) -> bool {
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| is_name(&x.0, &y.0) && x.1 == y.1))
}

impl PathCondition {
    /// Returns the names of the path parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let (pattern, regex) = match self {
            PathCondition::Pattern(pattern) => (Some(pattern), None),
            PathCondition::Regex(regex) => (None, Some(regex)),
            PathCondition::Prefix(_) => (None, None),
        };
        let named = pattern.into_iter().flat_map(Pattern::parameters);
        named.chain(regex.into_iter().flat_map(PathRegex::parameters))
    }

    /// Returns true if a rest may follow the matched part, for `{**}`.
    pub fn has_rest(&self) -> bool {
        match self {
            PathCondition::Pattern(pattern) => pattern.open,
            PathCondition::Regex(regex) => regex.is_open(),
            PathCondition::Prefix(_) => true,
        }
    }

    fn is_met(&self, path: &[u8]) -> bool {
        match self {
            PathCondition::Pattern(pattern) => pattern.is_met(path),
            PathCondition::Regex(regex) => regex.is_met(path),
            PathCondition::Prefix(prefix) => path.starts_with(prefix),
        }
    }
}

impl Pattern {
    /// Returns true if the pattern matches a path. Not used on the hot path, where the table walks its tree.
    fn is_met(&self, path: &[u8]) -> bool {
        let mut given = path::segments(path);
        let all = self.segments.iter().all(|wanted| match (wanted, given.next()) {
            (Segment::Literal(text), Some(segment)) => **text == *segment,
            (Segment::Parameter(_), Some(segment)) => !segment.is_empty(),
            (_, None) => false,
        });
        all && (self.open || given.next().is_none())
    }
}

impl HostPattern {
    fn is_met(&self, host: &[u8]) -> bool {
        match self {
            HostPattern::Exact(name) => name.as_bytes() == host,
            HostPattern::Below(parent) => is_below(host, parent.as_bytes()),
        }
    }
}

impl ValueCondition {
    fn is_met(&self, value: &[u8]) -> bool {
        match self {
            ValueCondition::Present => true,
            ValueCondition::Equals(wanted) => **wanted == *value,
            ValueCondition::OneOf(wanted) => wanted.iter().any(|wanted| **wanted == *value),
            ValueCondition::Regex(wanted) => wanted.is_met(value),
        }
    }
}

pub(crate) fn is_below(host: &[u8], parent: &[u8]) -> bool {
    host.strip_suffix(parent).is_some_and(|front| front.len() > 1 && front.ends_with(b"."))
}

impl fmt::Display for PathCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathCondition::Pattern(pattern) => pattern.fmt(f),
            PathCondition::Regex(regex) => regex.fmt(f),
            // Harmless: the configuration is UTF-8 text.
            PathCondition::Prefix(prefix) => write!(f, "{}...", String::from_utf8_lossy(prefix)),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}
