//! Texts with placeholders, parsed once and filled in for each exchange.
//!
//! A placeholder is a name in braces: `{subject}`. Other braces are text, so that JSON needs no quoting; `{{name}}` stands for `{name}`
//! itself, and `${name}` is also text. Owns the list of names, and the escaping of values for other languages. If an exchange does not have
//! a value, the placeholder becomes an empty text.

use std::borrow::Cow;

use message::{RequestHead, host_name};
use serde_json::Value as Json;

use crate::Exchange;

/// A parsed text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template(Box<[Part]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Value(PlaceholderValue),
}

/// The value of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlaceholderValue {
    Subject,
    Tier,
    RequestId,
    Client,
    /// The port of the gateway that the client connected to.
    Port,
    Method,
    Host,
    /// The host without its port, in lower case.
    HostName,
    /// The host that the client used, possibly as reported by a trusted proxy.
    PublicHost,
    /// That host without its port, in lower case.
    PublicHostName,
    Path,
    /// The part of the path before the part that the route's `**` matched.
    Prefix,
    Query,
    /// A claim, looked up by the whole name first, and then as a path of names.
    Claim(Box<str>),
    /// The groups, joined by commas.
    Groups,
    /// The attribute of the client with this name.
    Attribute(Box<str>),
    /// The header of the request by this name; several lines are joined.
    Header(Box<str>),
    /// The first value of a parameter of the query, decoded.
    QueryValue(Box<str>),
    /// The path parameter at this index.
    Parameter(usize),
}

/// A placeholder with an unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPlaceholder(pub String);

/// The language of a text, which determines the characters to escape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Escape {
    /// No known language: nothing is escaped.
    #[default]
    Plain,
    /// Within a JSON string.
    Json,
    /// Within text or a quoted attribute in XML or HTML.
    Xml,
}

/// The names of placeholders other than path parameters and those with one of [`PREFIXES`].
pub const PLACEHOLDERS: &[&str] = &[
    "subject",
    "tier",
    "groups",
    "request_id",
    "client",
    "port",
    "method",
    "host",
    "hostname",
    "path",
    "prefix",
    "query",
];

/// The prefixes of placeholders whose rest is a name that an operator, a client or an issuer chose.
const PREFIXES: [&str; 4] = ["claims.", "attributes.", "headers.", "query."];

impl Template {
    /// Parses a text on a route whose path has these parameters. Their names take precedence over others.
    pub fn parse(text: &str, parameters: &[&str]) -> Result<Template, UnknownPlaceholder> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            let quoted = after.strip_prefix('{').and_then(|inner| inner.split_once("}}"));
            if let Some((name, tail)) = quoted.filter(|(name, _)| is_placeholder(name)) {
                plain.extend(["{", name, "}"]);
                rest = tail;
                continue;
            }
            // An operator writes `$${name}` in the configuration to get the text `${name}`, so it must not be filled in here.
            let meant = |name: &str| is_placeholder(name) && !before.ends_with('$');
            match after.split_once('}').filter(|(name, _)| meant(name)) {
                Some((name, tail)) => {
                    push_text(&mut plain, &mut parts);
                    parts.push(Part::Value(named(name, parameters)?));
                    rest = tail;
                }
                None => {
                    plain.push('{');
                    rest = after;
                }
            }
        }
        plain.push_str(rest);
        push_text(&mut plain, &mut parts);
        Ok(Template(parts.into()))
    }

    /// Returns the text if it is the same for every exchange.
    pub fn constant(&self) -> Option<&str> {
        match &*self.0 {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            [_, ..] => None,
        }
    }

    /// Returns the template for links to the gateway itself, in which `{host}` and `{hostname}` are the host that the client used.
    #[must_use]
    pub fn for_links(mut self) -> Template {
        for part in &mut self.0 {
            match part {
                Part::Value(value @ PlaceholderValue::Host) => {
                    *value = PlaceholderValue::PublicHost
                }
                Part::Value(value @ PlaceholderValue::HostName) => {
                    *value = PlaceholderValue::PublicHostName;
                }
                Part::Value(_) | Part::Text(_) => {}
            }
        }
        self
    }

    /// Returns true if the text uses the client identity.
    pub fn wants_identity(&self) -> bool {
        let asks = |named: &PlaceholderValue| {
            matches!(
                named,
                PlaceholderValue::Subject
                    | PlaceholderValue::Tier
                    | PlaceholderValue::Groups
                    | PlaceholderValue::Attribute(_)
                    | PlaceholderValue::Claim(_)
            )
        };
        self.values().any(asks)
    }

    /// Returns true if two clients that request the same resource may get different texts.
    pub fn depends_on_client(&self) -> bool {
        let tells = |named: &PlaceholderValue| {
            matches!(
                named,
                PlaceholderValue::Client
                    | PlaceholderValue::Port
                    | PlaceholderValue::RequestId
                    | PlaceholderValue::Header(_)
            )
        };
        self.wants_identity() || self.values().any(tells)
    }

    /// Returns true if the text uses the request's head.
    pub fn wants_head(&self) -> bool {
        let asks = |named: &PlaceholderValue| {
            matches!(
                named,
                PlaceholderValue::Method
                    | PlaceholderValue::Host
                    | PlaceholderValue::HostName
                    | PlaceholderValue::PublicHost
                    | PlaceholderValue::PublicHostName
                    | PlaceholderValue::Path
                    | PlaceholderValue::Prefix
                    | PlaceholderValue::Query
                    | PlaceholderValue::Header(_)
                    | PlaceholderValue::QueryValue(_)
            )
        };
        self.values().any(asks)
    }

    /// Returns the text for an exchange. Without a head, values from the head are empty.
    pub fn fill(&self, ex: &Exchange, head: Option<&RequestHead>, escape: Escape) -> Vec<u8> {
        let mut filled = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.extend_from_slice(text.as_bytes()),
                Part::Value(named) => escape.write(&named.value(ex, head), &mut filled),
            }
        }
        filled
    }

    fn values(&self) -> impl Iterator<Item = &PlaceholderValue> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(named) => Some(named),
            Part::Text(_) => None,
        })
    }
}

fn push_text(plain: &mut String, parts: &mut Vec<Part>) {
    if !plain.is_empty() {
        parts.push(Part::Text(std::mem::take(plain).into()));
    }
}

/// Returns true if the text between braces is intended as a name. Members of JSON objects, CSS declarations and empty braces are not. The
/// name of a claim may be a URL.
fn is_placeholder(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '"' | '\'' | ';' | ',');
    match PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        Some(name) => !name.is_empty() && !name.contains(odd),
        None => {
            let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            begins && text.chars().all(name)
        }
    }
}

fn named(name: &str, parameters: &[&str]) -> Result<PlaceholderValue, UnknownPlaceholder> {
    if let Some(at) = parameters.iter().position(|known| *known == name) {
        return Ok(PlaceholderValue::Parameter(at));
    }
    Ok(match name {
        "subject" => PlaceholderValue::Subject,
        "tier" => PlaceholderValue::Tier,
        "groups" => PlaceholderValue::Groups,
        "request_id" => PlaceholderValue::RequestId,
        "client" => PlaceholderValue::Client,
        "port" => PlaceholderValue::Port,
        "method" => PlaceholderValue::Method,
        "host" => PlaceholderValue::Host,
        "hostname" => PlaceholderValue::HostName,
        "path" => PlaceholderValue::Path,
        "prefix" => PlaceholderValue::Prefix,
        "query" => PlaceholderValue::Query,
        _ => match name.split_once('.') {
            Some(("claims", claim)) => PlaceholderValue::Claim(claim.into()),
            Some(("attributes", attribute)) => PlaceholderValue::Attribute(attribute.into()),
            Some(("headers", header)) => PlaceholderValue::Header(header.into()),
            Some(("query", parameter)) => PlaceholderValue::QueryValue(parameter.into()),
            Some(_) | None => return Err(UnknownPlaceholder(name.to_owned())),
        },
    })
}

impl PlaceholderValue {
    fn value<'v>(&'v self, ex: &'v Exchange, head: Option<&'v RequestHead>) -> Cow<'v, [u8]> {
        // Harmless: without a head, the value is empty by definition.
        let of_head = |read: fn(&'v RequestHead) -> &'v [u8]| head.map(read).unwrap_or_default();
        let identity = ex.identity.as_deref();
        let told: &[u8] = match self {
            PlaceholderValue::Subject => {
                identity.map_or("", |identity| &identity.subject).as_bytes()
            }
            PlaceholderValue::Tier => {
                // Harmless: without a tier, the value is empty by definition.
                identity.and_then(|i| i.tier.as_deref()).unwrap_or_default().as_bytes()
            }
            PlaceholderValue::RequestId => ex.id.as_bytes(),
            PlaceholderValue::Client => {
                return ex.client.to_canonical().to_string().into_bytes().into();
            }
            PlaceholderValue::Port => {
                return ex.caller.local.port().to_string().into_bytes().into();
            }
            PlaceholderValue::HostName => return host_name(of_head(RequestHead::host)),
            PlaceholderValue::PublicHostName => {
                // Harmless: without a head, the value is empty by definition.
                return head.map(|head| host_name(ex.public_origin(head).1)).unwrap_or_default();
            }
            PlaceholderValue::Prefix => {
                // Harmless: the route matched this path, so it is not shorter than its prefix.
                of_head(RequestHead::path).get(..ex.prefix).unwrap_or_default()
            }
            PlaceholderValue::Method => of_head(RequestHead::method),
            PlaceholderValue::Host => of_head(RequestHead::host),
            PlaceholderValue::PublicHost => {
                // Harmless: without a head, the value is empty by definition.
                head.map(|head| ex.public_origin(head).1).unwrap_or_default()
            }
            PlaceholderValue::Path => of_head(RequestHead::path),
            // Harmless: a request may have no query.
            PlaceholderValue::Query => of_head(|head| head.query().unwrap_or_default()),
            PlaceholderValue::Header(name) => {
                // Harmless: without a head, the value is empty by definition.
                // Harmless: an absent header is empty.
                return head.and_then(|head| head.headers.get_joined(name)).unwrap_or_default();
            }
            PlaceholderValue::QueryValue(name) => {
                // Harmless: without a head or a query, there is no parameter.
                let query = head.and_then(RequestHead::query).unwrap_or_default();
                // Harmless: without this parameter, the value is empty by definition.
                return kit::percent::values(query, name.as_bytes()).next().unwrap_or_default();
            }
            PlaceholderValue::Groups => {
                // Harmless: without a client identity, there are no groups.
                let groups = identity.map(|identity| &identity.groups[..]).unwrap_or_default();
                return groups.join(",").into_bytes().into();
            }
            PlaceholderValue::Attribute(name) => {
                // Harmless: an absent attribute is empty.
                identity.and_then(|i| i.attribute(name)).unwrap_or_default().as_bytes()
            }
            PlaceholderValue::Claim(name) => {
                let claims = identity.and_then(|identity| identity.claims.as_deref());
                let claim = claims.and_then(|claims| claim(claims.members(), name));
                // Harmless: an absent claim is empty.
                return claim.map(claim_text).unwrap_or_default().into_bytes().into();
            }
            PlaceholderValue::Parameter(at) => {
                // Harmless: each placeholder refers to an existing parameter of the route.
                ex.parameters.get(*at).map(|p| &**p).unwrap_or_default()
            }
        };
        told.into()
    }
}

fn claim<'c>(members: &'c serde_json::Map<String, Json>, name: &str) -> Option<&'c Json> {
    members.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = members.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

/// Returns a claim as text. A list is joined by commas, as in header lines. Objects are written as JSON.
fn claim_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(claim_text).collect::<Vec<_>>().join(","),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => value.to_string(),
    }
}

impl Escape {
    /// Returns the escaping for a text's content type.
    pub fn of(content_type: &str) -> Escape {
        let media = message::media_type(content_type.as_bytes()).to_ascii_lowercase();
        match media.rsplit(|byte| matches!(byte, b'/' | b'+')).next() {
            Some(b"json") => Escape::Json,
            Some(b"xml" | b"html" | b"xhtml" | b"svg") => Escape::Xml,
            Some(_) | None => Escape::Plain,
        }
    }

    fn write(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Escape::Plain => out.extend_from_slice(value),
            Escape::Json => {
                // JSON must be UTF-8. A value that is not UTF-8 is read as ISO 8859-1, so that no byte is lost.
                let text = match std::str::from_utf8(value) {
                    Ok(text) => text.to_owned(),
                    Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
                };
                let quoted = Json::from(text).to_string();
                let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                // Harmless: a JSON string is in quotes.
                out.extend_from_slice(inner.unwrap_or_default().as_bytes());
            }
            Escape::Xml => {
                for byte in value {
                    match byte {
                        b'&' => out.extend_from_slice(b"&amp;"),
                        b'<' => out.extend_from_slice(b"&lt;"),
                        b'>' => out.extend_from_slice(b"&gt;"),
                        b'"' => out.extend_from_slice(b"&quot;"),
                        b'\'' => out.extend_from_slice(b"&#39;"),
                        _ => out.push(*byte),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, Claims, Identity, IdentityScheme, Scheme};
    use message::Protocol;
    use serde_json::json;

    fn exchange() -> Exchange {
        let peer = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        ex.parameters = vec![b"7%2F".as_slice().into()];
        ex.prefix = 2;
        let claims = json!({
            "org": { "id": 5 }, "a.b": "<\"&'>", "roles": ["x", "y"], "https://a/r": true,
        });
        ex.identity = Some(
            Identity {
                digest: [0; 16],
                subject: "alice".into(),
                scheme: IdentityScheme::Jwt,
                claims: claims
                    .as_object()
                    .cloned()
                    .map(|members| Box::new(Claims::of_members(members, Default::default()))),
                tier: None,
                groups: ["ops".into(), "dev".into()].into(),
                attributes: [("org".into(), "o1".into())].into(),
                application: None,
                expires: None,
            }
            .into(),
        );
        ex
    }

    #[test]
    fn names_in_braces_are_filled_and_other_braces_are_text() {
        let target = b"/a/7?q=1&a%5B%5D=x%2By+z&q=2";
        let mut head = RequestHead::new(Protocol::Http11, b"GET", target);
        head.headers.add("Host", b"A.test:80").unwrap();
        head.headers.add("X-One", b"1").unwrap();
        head.headers.add("x-one", b"2").unwrap();
        for (text, filled) in [
            ("{subject}/{tier}/{client}", "alice//192.0.2.1"),
            (
                "{method} {host}{path}?{query} {id}",
                "GET A.test:80/a/7?q=1&a%5B%5D=x%2By+z&q=2 7%2F",
            ),
            ("{hostname} {port} {prefix}", "a.test 1 /a"),
            ("{headers.X-One}|{headers.none}|{headers.host}", "1, 2||A.test:80"),
            ("{query.q}|{query.a[]}|{query.none}", "1|x+y z|"),
            ("{claims.org.id} {claims.a.b} {claims.roles}", "5 <\"&'> x,y"),
            ("{claims.https://a/r} {claims.none} {claims.org}", "true  {\"id\":5}"),
            (r#"{"a":{"b":{}},"s":"{subject}"}"#, r#"{"a":{"b":{}},"s":"alice"}"#),
            ("a{color:red} { } {} {1} { subject } {", "a{color:red} { } {} {1} { subject } {"),
            ("{{subject}} {{{subject}}} {{ x }}", "{subject} {{subject}} {{ x }}"),
            ("{groups} {attributes.org}{attributes.none}", "ops,dev o1"),
            ("${subject} $ {subject}", "${subject} $ alice"),
            ("", ""),
        ] {
            let template = Template::parse(text, &["id"]).unwrap();
            let got = template.fill(&exchange(), Some(&head), Escape::Plain);
            assert_eq!(String::from_utf8(got).unwrap(), filled, "{text}");
        }
        for (text, name) in [
            ("{attributes}", "attributes"),
            ("a{subjct}", "subjct"),
            ("{claims}", "claims"),
            ("{headers}", "headers"),
            ("{id}{nr}", "nr"),
        ] {
            let got = Template::parse(text, &["id"]);
            assert_eq!(got, Err(UnknownPlaceholder(name.to_owned())), "{text}");
        }
    }

    #[test]
    fn values_are_written_in_the_language_around_them() {
        for (content_type, filled) in [
            ("text/plain", "<\"&'>"),
            ("text/html; charset=utf-8", "&lt;&quot;&amp;&#39;&gt;"),
            ("application/problem+json", "<\\\"&'>"),
            ("image/svg+XML", "&lt;&quot;&amp;&#39;&gt;"),
        ] {
            let template = Template::parse("{claims.a.b}", &[]).unwrap();
            let got = template.fill(&exchange(), None, Escape::of(content_type));
            assert_eq!(String::from_utf8(got).unwrap(), filled, "{content_type}");
        }
    }
}
