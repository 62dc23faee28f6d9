//! Rules and keys in CEL: compiled once, evaluated for each request.
//!
//! Owns the variables for the request and the client, and their values. The language is the same as in message flows, [`expression`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use ::expression::{
    Budget, ErrorKind, FailureKind, JsonNodes, JsonText, Language, Limits, Member, NameKind, Names,
    Scope, Slot, TEXT, Value,
};
use message::RequestHead;
use policy::{Claims, Exchange, Scheme};

/// The maximum number of evaluation steps: some milliseconds. Evaluation cannot be interrupted, so other requests of the worker wait
/// meanwhile.
const STEPS_MAX: u64 = 500_000;

/// The variables that a rule may use.
const VARIABLES: [&str; 9] =
    ["request", "claims", "subject", "tier", "groups", "attributes", "scheme", "client", "tls"];

const REQUEST: Slot = Slot(0);
const CLAIMS: Slot = Slot(1);
const SUBJECT: Slot = Slot(2);
const TIER: Slot = Slot(3);
const SCHEME: Slot = Slot(4);
const CLIENT: Slot = Slot(5);
const TLS: Slot = Slot(6);
const QUERY: Slot = Slot(7);
const HEADERS: Slot = Slot(8);
const GROUPS: Slot = Slot(9);
const ATTRIBUTES: Slot = Slot(10);

/// The slots of the client identity.
const IDENTITY: [Slot; 6] = [CLAIMS, SUBJECT, TIER, SCHEME, GROUPS, ATTRIBUTES];

/// The variables with a fixed set of members.
const MEMBERS: [(&str, &[&str]); 2] =
    [("request", &["method", "path", "host", "query", "headers"]), ("client", &["ip"])];

/// A compiled expression.
pub struct Expression(::expression::Expression);

/// Resolves [`VARIABLES`].
struct RequestNames;

/// The values of one request.
struct RequestValues<'a> {
    ex: &'a Exchange,
    head: &'a RequestHead,
}

impl Expression {
    /// Compiles a text, or returns an error text.
    pub fn compile(text: &str) -> Result<Expression, String> {
        let compiled = ::expression::Expression::compile(text, Language::Cel, &RequestNames);
        #[allow(clippy::wildcard_enum_match_arm, reason = "the other kinds need no addition")]
        compiled.map(Expression).map_err(|error| match &error.kind {
            ErrorKind::Syntax(what) if has_lone_equals(text) => {
                let column = error.at.column;
                format!("column {column}: {what}; `=` is not a comparison; write `==`")
            }
            ErrorKind::Syntax(what) => format!("column {}: {what}", error.at.column),
            ErrorKind::UnknownName(name) => {
                format!("there is no `{name}`; the names are {}", VARIABLES.join(", "))
            }
            kind => kind.to_string(),
        })
    }

    /// Compiles a rule. An expression that certainly does not yield a boolean is refused.
    pub fn compile_rule(text: &str) -> Result<Expression, String> {
        let rule = Expression::compile(text)?;
        match rule.0.static_type() {
            Some(gives) => Err(format!("its result is {gives}, not true or false")),
            None => Ok(rule),
        }
    }

    /// Returns true if the expression uses the client identity.
    pub fn wants_identity(&self) -> bool {
        self.0.slots().iter().any(|slot| IDENTITY.contains(slot))
    }

    /// Returns true if the rule holds. The error states why it could not be evaluated, or that the result is not a boolean.
    pub fn holds(&self, ex: &Exchange, head: &RequestHead) -> Result<bool, String> {
        let value = self.value(ex, head)?;
        if let Value::Boolean(holds) = value {
            return Ok(holds);
        }
        Err(format!("the result of the rule is {}, not true or false", kind_of(&value)))
    }

    /// Returns the value as a text, which limits use as a key.
    pub fn text(&self, ex: &Exchange, head: &RequestHead) -> Result<String, String> {
        match self.value(ex, head)? {
            Value::Text(text) => Ok(text.to_string()),
            Value::Number(number) => Ok(number.text().to_owned()),
            Value::Boolean(yes) => Ok(yes.to_string()),
            other @ (Value::Nothing
            | Value::Null
            | Value::Bytes(_)
            | Value::Nodes(_)
            | Value::Json(_)) => {
                Err(format!("the result of the expression is {}, not a text", kind_of(&other)))
            }
        }
    }

    fn value(&self, ex: &Exchange, head: &RequestHead) -> Result<Value, String> {
        let mut budget = Budget::new(Limits { steps_max: STEPS_MAX, ..Limits::default() });
        let value = self.0.value(&RequestValues { ex, head }, &mut budget);
        value.map_err(|failure| failure.kind.to_string())
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Nothing | Value::Null => "null",
        Value::Boolean(_) => "a truth",
        Value::Number(_) => "a number",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::Nodes(_) | Value::Json(_) => "a list or a map",
    }
}

/// Returns true if a `=` outside of quotes is not part of an operator, which suggests that `==` was intended.
fn has_lone_equals(text: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match quote {
            Some(_) if c == '\\' => drop(rest.next()),
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '=' => {
                let doubled = rest.next_if_eq(&'=').is_some();
                if !doubled && !matches!(before, '!' | '<' | '>') {
                    return true;
                }
            }
            None => {}
        }
        before = c;
    }
    false
}

impl Names for RequestNames {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        let [name] = path else { return None };
        Some(match *name {
            "request" => NameKind::Group(REQUEST),
            "claims" => NameKind::Value(CLAIMS),
            "subject" => NameKind::Value(SUBJECT),
            "tier" => NameKind::Value(TIER),
            "groups" => NameKind::Value(GROUPS),
            "attributes" => NameKind::Group(ATTRIBUTES),
            "scheme" => NameKind::Value(SCHEME),
            "client" => NameKind::Group(CLIENT),
            "tls" => NameKind::Value(TLS),
            _ => return None,
        })
    }

    fn namespace(&self, _: &str) -> Option<&str> {
        None
    }

    fn document(&self) -> Slot {
        REQUEST
    }

    fn kind(&self, path: &[&str]) -> Result<Option<&'static str>, String> {
        match path {
            ["request" | "claims" | "client" | "attributes"] => Ok(Some("a map")),
            ["groups"] => Ok(Some("a list")),
            ["attributes", _] => Ok(Some(TEXT)),
            ["subject" | "tier" | "scheme"] => Ok(Some(TEXT)),
            [name @ ("request" | "client"), member] => {
                let known = MEMBERS.iter().find(|(known, _)| known == name);
                let known = known.map_or(&[][..], |(_, members)| *members);
                match (known.contains(member), *member) {
                    (false, _) => {
                        let known = known.join(", ");
                        Err(format!("`{name}` has no `{member}`; it has {known}"))
                    }
                    (true, "query" | "headers") => Ok(Some("a map")),
                    (true, _) => Ok(Some(TEXT)),
                }
            }
            ["request", "query", _] => Ok(Some(TEXT)),
            ["request", "headers", header] => match header_name(header) {
                name if name == *header => Ok(Some(TEXT)),
                name => Err(format!(
                    "`{header}` is not a header name here; write `{name}`, as in `request.headers['{name}']`, which matches all spellings"
                )),
            },
            _ => Ok(None),
        }
    }

    fn body(&self) -> Slot {
        REQUEST
    }
}

impl Scope for RequestValues<'_> {
    fn value(&self, slot: Slot) -> Result<Value, FailureKind> {
        let identity = self.ex.identity.as_deref();
        Ok(match slot {
            CLAIMS => claims(identity.and_then(|identity| identity.claims.as_deref()))?,
            SUBJECT => text(identity.map_or("", |identity| &identity.subject)),
            TIER => text(identity.and_then(|i| i.tier.as_deref()).unwrap_or("")),
            GROUPS => groups(identity.map_or(&[][..], |i| &i.groups))?,
            SCHEME => text(identity.map_or("", |identity| identity.scheme.name())),
            TLS => Value::Boolean(self.ex.caller.scheme == Scheme::Https),
            _ => Value::Nothing,
        })
    }

    fn members(&self, group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let value = |name: &str, value: Value| (name.into(), Member::Value(value));
        Ok(match group {
            REQUEST => vec![
                value("method", bytes(self.head.method())),
                value("path", bytes(self.head.path())),
                value("host", bytes(&self.head.host_name())),
                ("query".into(), Member::Group(QUERY)),
                ("headers".into(), Member::Group(HEADERS)),
            ],
            QUERY => texts(query(self.head.query().unwrap_or(b""))),
            HEADERS => texts(headers(self.head)),
            CLIENT => vec![value("ip", text(&canonical(self.ex.client)))],
            ATTRIBUTES => {
                let identity = self.ex.identity.as_deref();
                let known = identity.map_or(&[][..], |identity| &identity.attributes);
                known.iter().map(|(name, value_text)| value(name, text(value_text))).collect()
            }
            _ => Vec::new(),
        })
    }
}

/// Returns the groups as a list.
fn groups(groups: &[Box<str>]) -> Result<Value, FailureKind> {
    // Harmless: serializing a list of texts cannot fail.
    read_json(serde_json::to_string(groups).unwrap_or_default())
}

/// Returns all claims of the token, or an empty map for a client without a token.
fn claims(claims: Option<&Claims>) -> Result<Value, FailureKind> {
    read_json(claims.map_or_else(|| "{}".to_owned(), Claims::json))
}

fn read_json(json_text: String) -> Result<Value, FailureKind> {
    // These limits are at least those that applied when the token was parsed.
    let limits = json::Limits { depth_max: 128, entries_max: 1 << 20 };
    let read = JsonText::read(json_text, &limits);
    let wrong = |error: json::JsonError| FailureKind::Malformed(error.what.into());
    Ok(Value::Json(JsonNodes::root(read.map_err(wrong)?)))
}

fn canonical(client: IpAddr) -> String {
    client.to_canonical().to_string()
}

/// Returns header values by name, in lower case and with `-` for `_`, since a CGI server cannot distinguish the two: a client must not
/// evade a rule by the other spelling. Several lines become one value with commas (RFC 9110, 5.2).
fn headers(head: &RequestHead) -> HashMap<String, String> {
    let mut values = HashMap::new();
    for (name, value) in head.headers.iter() {
        // Harmless: a name is a token, and a rule cannot match a value that is not UTF-8.
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        join(&mut values, header_name(&name), value.into_owned());
    }
    values
}

/// Returns the name that stands for all spellings of a header.
fn header_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Returns query parameters by name, percent-decoded. Several values are joined with commas, as for headers, since the upstream gets them
/// all.
fn query(query: &[u8]) -> HashMap<String, String> {
    let mut values = HashMap::new();
    for (name, value) in kit::percent::raw_pairs(query) {
        join(&mut values, decoded(name), decoded(value));
    }
    values
}

/// Adds a value, after a comma if the name already has one.
fn join(values: &mut HashMap<String, String>, name: String, value: String) {
    match values.entry(name) {
        Entry::Vacant(free) => drop(free.insert(value)),
        Entry::Occupied(mut known) => {
            known.get_mut().push_str(", ");
            known.get_mut().push_str(&value);
        }
    }
}

fn texts(values: HashMap<String, String>) -> Vec<(Box<str>, Member)> {
    let value = |(name, value): (String, String)| (name.into(), Member::Value(text(&value)));
    values.into_iter().map(value).collect()
}

fn decoded(text: &[u8]) -> String {
    // Harmless: a rule cannot match a text that is not UTF-8.
    String::from_utf8_lossy(&kit::percent::decoded(text, true)).into_owned()
}

fn text(text: &str) -> Value {
    Value::text_of(text)
}

fn bytes(bytes: &[u8]) -> Value {
    // Harmless: a rule cannot match a text that is not UTF-8.
    text(&String::from_utf8_lossy(bytes))
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expression({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::identity;
    use message::Protocol;
    use policy::{Caller, IdentityScheme};
    use serde_json::json;

    fn exchange() -> Exchange {
        let peer = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        let claims = json!({
            "sub": "alice", "roles": ["admin", "ops"], "level": 3, "org": { "id": "o1" },
        });
        let claims = claims.as_object().cloned();
        let claims = claims.map(|all| policy::Claims::of_members(all, Default::default()));
        let tier = Some("Gold".into());
        let identity = policy::Identity {
            groups: ["ops".into(), "dev".into()].into(),
            attributes: [("org".into(), "o1".into())].into(),
            ..identity("alice", IdentityScheme::Jwt, claims, tier)
        };
        ex.identity = Some(identity.into());
        ex
    }

    fn head() -> RequestHead {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/orders/7?a=1&a=2&b=x%20y+z&c");
        for (name, value) in
            [("Host", "A.test.:8080"), ("X-A", "1"), ("x-a", "2"), ("X_B", "1"), ("x-b", "2")]
        {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn rules_see_the_request_and_the_client_identity() {
        for (rule, holds) in [
            ("request.method == 'GET'", Ok(true)),
            ("request.path.startsWith('/orders/') && request.host == 'a.test'", Ok(true)),
            ("request.headers['x-a'] == '1, 2'", Ok(true)),
            ("request.headers['x-b'] == '1, 2' && 'x-b' in request.headers", Ok(true)),
            ("size(request.headers) == 3", Ok(true)),
            ("request.query['a'] == '1'", Ok(false)),
            ("request.query['a'] == '1, 2' && request.query.b == 'x y z'", Ok(true)),
            ("'c' in request.query && !('d' in request.query)", Ok(true)),
            ("'admin' in claims.roles", Ok(true)),
            ("claims.roles.exists(r, r == 'ops')", Ok(true)),
            ("claims.roles.all(r, r == 'ops')", Ok(false)),
            ("claims.level >= 3 && claims.org.id == 'o1'", Ok(true)),
            ("subject == 'alice' && tier == 'Gold' && scheme == 'jwt'", Ok(true)),
            ("'dev' in groups && !('root' in groups) && size(groups) == 2", Ok(true)),
            ("groups.exists(g, g == 'ops') && attributes.org == 'o1'", Ok(true)),
            ("'org' in attributes && !('team' in attributes)", Ok(true)),
            ("attributes.team == 'x'", Err(())),
            ("client.ip == '192.0.2.1'", Ok(true)),
            ("tls", Ok(false)),
            ("!tls && tls == false", Ok(true)),
            ("has(claims.missing) && claims.missing == 1", Ok(false)),
            ("request.path.matches('^/orders/[0-9]+$')", Ok(true)),
            ("claims.missing == 1", Err(())),
            ("request.headers['x-none'] == ''", Err(())),
            ("claims.level", Err(())),
            ("1 / 0 == 1", Err(())),
            ("request.method == 'GET' ? true : 'b'", Ok(true)),
            ("[claims.level == 3][0]", Ok(true)),
            ("claims.roles.exists_one(r, r == 'ops')", Ok(true)),
        ] {
            let expression =
                Expression::compile_rule(rule).unwrap_or_else(|e| panic!("{rule}: {e}"));
            let got = expression.holds(&exchange(), &head());
            assert_eq!(got.as_ref().map_err(|_| ()).copied(), holds, "{rule}: {got:?}");
        }
    }

    #[test]
    fn a_rule_that_takes_too_many_steps_is_an_error() {
        let values: String = (0..200).map(|number| format!("a{number}=1&")).collect();
        let head = RequestHead::new(Protocol::Http11, b"GET", format!("/?{values}").as_bytes());
        for (rule, holds) in [
            ("request.query.all(a, a != 'b')", Ok(true)),
            (
                "request.query.all(a, request.query.all(b, request.query.all(c, true))) || true",
                Err("exceeds the limit of 500000 (steps_max)"),
            ),
        ] {
            let got = Expression::compile_rule(rule).unwrap().holds(&exchange(), &head);
            assert_eq!(got.as_ref().copied().map_err(|why| &**why), holds, "{rule}");
        }
    }

    #[test]
    fn errors_describe_the_mistake() {
        for (rule, part) in [
            ("request.method ==", "column"),
            ("", "column"),
            ("request.method = 'GET'", "write `==`"),
            ("groups", "its result is a list"),
            ("attributes", "its result is a map"),
            ("reqest.method == 'GET'", "there is no `reqest`"),
            (&"a".repeat(4097), "bytes of a CEL expression"),
            (&"(".repeat(4000), ""),
            ("nope(1)", "there is no function `nope`"),
            ("request.method == 'GET' || nope(1)", "there is no function `nope`"),
            ("request.path.matches('(')", "`(` is not a regular expression"),
            ("request.pth == '/e'", "`request` has no `pth`"),
            ("'x' in request['header']", "`request` has no `header`"),
            ("request.headers['X-A'] == ''", "`X-A` is not a header name here; write `x-a`"),
            ("request.headers.x_bad == ''", "write `x-bad`"),
            ("has(request.headers.x_bad)", "write `x-bad`"),
            ("!('x_bad' in request['headers'])", "write `x-bad`"),
            ("client.address == ''", "`client` has no `address`"),
            ("'x'", "its result is a text"),
            ("1", "its result is a constant"),
            ("request.path", "its result is a text"),
            ("request.headers", "its result is a map"),
            ("size(request.path)", "its result is a number"),
            ("request.path + 'a'", "its result is a text"),
            ("claims.a + claims.b", "its result is a sum"),
            ("1 + 1", "its result is a constant"),
            ("-claims.level", "its result is a number"),
            ("claims.level % 2", "its result is a number"),
            ("request.headers['x-a']", "its result is a text"),
            ("request.query.a", "its result is a text"),
            ("request.method == 'GET' ? 'a' : 'b'", "its result is a text"),
            ("claims.a ? 1 : claims.b ? 'b' : 2.0", "its result is a constant"),
            ("claims.roles.filter(r, r == 'ops')", "its result is a list"),
        ] {
            let said = Expression::compile_rule(rule).unwrap_err();
            assert!(said.contains(part), "{rule:.40}: {said}");
        }
    }

    #[test]
    fn keys_are_texts() {
        let text = |text: &str| Expression::compile(text).unwrap().text(&exchange(), &head());
        assert_eq!(text("claims.org.id + ':' + subject").unwrap(), "o1:alice");
        assert_eq!(text("claims.level").unwrap(), "3");
        assert!(text("claims.roles").is_err());
    }
}
