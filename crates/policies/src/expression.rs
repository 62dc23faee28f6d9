//! Rules and keys in CEL: compiled once, worked out for one request.

mod check;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context as Names, Env, Program, Value};
use message::RequestHead;
use policy::{Exchange, Scheme};
use serde_json::Value as Json;

/// No rule that a person wrote is longer. How long a rule takes grows with its length.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// The names a rule may use.
const VARIABLES: &[&str] = &["request", "claims", "subject", "tier", "scheme", "client", "tls"];

/// A compiled expression.
pub struct Expression {
    program: Program,
    env: Arc<Env>,
    uses: Vec<&'static str>,
}

impl Expression {
    /// Compiles a text, or says what is wrong with it.
    pub fn compile(text: &str) -> Result<Expression, String> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(format!("it is longer than {EXPRESSION_BYTES_MAX} bytes"));
        }
        let env = Arc::new(Env::stdlib());
        let program = env.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let said = first.map(|e| format!("column {}: {}", e.pos.1, e.msg));
            said.unwrap_or_else(|| "it cannot be read".to_owned())
        })?;
        let references = program.references();
        let names = references.variables();
        if let Some(unknown) = names.iter().find(|name| !is_known(name) && !is_bound(name, text)) {
            return Err(format!("there is no `{unknown}`; {}", known()));
        }
        if let Some(wrong) = check::wrong(program.expression(), &env) {
            return Err(wrong);
        }
        let uses = VARIABLES.iter().copied().filter(|name| names.contains(name)).collect();
        Ok(Expression { env, uses, program })
    }

    /// Compiles a rule: what can be seen to give no yes or no is refused.
    pub fn compile_rule(text: &str) -> Result<Expression, String> {
        let rule = Expression::compile(text)?;
        match check::no_verdict(rule.program.expression()) {
            Some(gives) => Err(format!("it gives {gives}, not true or false")),
            None => Ok(rule),
        }
    }

    /// True if the expression asks who asks.
    pub fn wants_identity(&self) -> bool {
        self.uses.iter().any(|name| matches!(*name, "claims" | "subject" | "tier" | "scheme"))
    }

    /// True if the rule holds. The error says why it cannot be worked out, or is no yes or no.
    pub fn holds(&self, ex: &Exchange, head: &RequestHead) -> Result<bool, String> {
        let value = self.value(ex, head)?;
        if let Value::Bool(holds) = value {
            return Ok(holds);
        }
        Err(format!("the rule gives {}, not true or false", value.type_of()))
    }

    /// The value as a text, to count by.
    pub fn text(&self, ex: &Exchange, head: &RequestHead) -> Result<String, String> {
        let value = self.value(ex, head)?;
        #[allow(clippy::wildcard_enum_match_arm, reason = "what is no text is one case")]
        match &value {
            Value::String(text) => Ok(text.to_string()),
            Value::Int(number) => Ok(number.to_string()),
            Value::UInt(number) => Ok(number.to_string()),
            Value::Bool(yes) => Ok(yes.to_string()),
            _ => Err(format!("the expression gives {}, not a text", value.type_of())),
        }
    }

    fn value(&self, ex: &Exchange, head: &RequestHead) -> Result<Value, String> {
        let mut names = Names::with_env(self.env.clone());
        for name in &self.uses {
            names.add_variable_from_value(*name, variable(name, ex, head));
        }
        self.program.execute(&names).map_err(|error| error.to_string())
    }
}

/// Names of a macro's own begin with what no name may begin with.
fn is_known(name: &str) -> bool {
    VARIABLES.contains(&name) || name.starts_with('@')
}

/// True if a macro of the expression binds the name: `roles.exists(r, r == "ops")`.
fn is_bound(name: &str, text: &str) -> bool {
    const MACROS: [&str; 5] = ["all", "exists", "exists_one", "map", "filter"];
    MACROS
        .iter()
        .flat_map(|name| text.split(&format!(".{name}(")).skip(1).collect::<Vec<_>>())
        .any(|arguments| arguments.split_once(',').is_some_and(|(first, _)| first.trim() == name))
}

fn known() -> String {
    format!("the names are {}", VARIABLES.join(", "))
}

fn variable(name: &str, ex: &Exchange, head: &RequestHead) -> Value {
    let identity = ex.identity.as_deref();
    match name {
        "request" => request(head),
        "claims" => {
            let claims = identity.and_then(|identity| identity.claims.as_ref());
            claims.map_or_else(|| map([]), |claims| object(claims.members()))
        }
        "subject" => string(identity.map_or("", |identity| &identity.subject)),
        "tier" => string(identity.and_then(|i| i.tier.as_deref()).unwrap_or_default()),
        "scheme" => string(identity.map_or("", |identity| identity.scheme.name())),
        "tls" => Value::Bool(ex.caller.scheme == Scheme::Https),
        _ => map([("ip", string(&canonical(ex.client)))]),
    }
}

fn canonical(client: IpAddr) -> String {
    client.to_canonical().to_string()
}

fn request(head: &RequestHead) -> Value {
    map([
        ("method", bytes(head.method())),
        ("path", bytes(head.path())),
        ("host", bytes(&head.host_name())),
        ("query", query(head.query().unwrap_or_default())),
        ("headers", headers(head)),
    ])
}

/// By name in lower case with `-` for `_`, since a server behind CGI cannot tell these apart: what a rule forbids must not pass
/// under the other name. Several lines are one value with commas, as RFC 9110, 5.2 has them.
fn headers(head: &RequestHead) -> Value {
    let mut texts: HashMap<String, String> = HashMap::new();
    for (name, value) in head.headers.iter() {
        let name = header_name(&String::from_utf8_lossy(name));
        let value = String::from_utf8_lossy(value);
        texts
            .entry(name)
            .and_modify(|text| {
                text.push_str(", ");
                text.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    map(texts.iter().map(|(name, value)| (name.as_str(), string(value))))
}

/// The name that stands for all spellings of a header.
fn header_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// By name; several values are one with commas, as with headers, since the upstream gets them all. Percent signs are decoded.
fn query(query: &[u8]) -> Value {
    let mut values: HashMap<String, String> = HashMap::new();
    for pair in query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        let name = decoded(parts.next().unwrap_or_default());
        let value = decoded(parts.next().unwrap_or_default());
        match values.entry(name) {
            Entry::Vacant(free) => drop(free.insert(value)),
            Entry::Occupied(mut known) => {
                known.get_mut().push_str(", ");
                known.get_mut().push_str(&value);
            }
        }
    }
    map(values.iter().map(|(name, value)| (name.as_str(), string(value))))
}

fn decoded(text: &[u8]) -> String {
    String::from_utf8_lossy(&kit::percent::decoded(text, true)).into_owned()
}

fn string(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn bytes(text: &[u8]) -> Value {
    string(&String::from_utf8_lossy(text))
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let key = |name: &str| Key::String(Arc::new(name.to_owned()));
    let entries = entries.into_iter().map(|(name, value)| (key(name), value));
    Value::Map(Map { map: Arc::new(entries.collect()) })
}

fn object(members: &serde_json::Map<String, Json>) -> Value {
    map(members.iter().map(|(name, value)| (name.as_str(), json(value))))
}

fn json(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::String(text) => string(text),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(json).collect())),
        Json::Object(members) => object(members),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::UInt(number),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expression(uses {:?})", self.uses)
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
        let claims = claims.as_object().cloned().map(policy::Claims::from);
        let tier = Some("Gold".into());
        ex.identity = Some(identity("alice", IdentityScheme::Jwt, claims, tier).into());
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
    fn rules_see_the_request_and_who_asks() {
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
    fn what_is_wrong_is_said() {
        for (rule, part) in [
            ("request.method ==", "column"),
            ("", "column"),
            ("reqest.method == 'GET'", "there is no `reqest`"),
            (&"a".repeat(EXPRESSION_BYTES_MAX + 1), "longer than"),
            (&"(".repeat(4000), ""),
            ("nope(1)", "there is no function `nope`"),
            ("request.method == 'GET' || nope(1)", "there is no function `nope`"),
            ("request.path.matches('(')", "`(` is no regular expression"),
            ("request.pth == '/e'", "`request` has no `pth`"),
            ("'x' in request['header']", "`request` has no `header`"),
            ("request.headers['X-A'] == ''", "no header is called `X-A` here; write `x-a`"),
            ("request.headers.x_bad == ''", "write `x-bad`"),
            ("has(request.headers.x_bad)", "write `x-bad`"),
            ("!('x_bad' in request['headers'])", "write `x-bad`"),
            ("client.address == ''", "`client` has no `address`"),
            ("'x'", "gives a text"),
            ("1", "gives a constant"),
            ("request.path", "gives a text"),
            ("request.headers", "gives a map"),
            ("size(request.path)", "gives a number"),
            ("request.path + 'a'", "gives a text"),
            ("claims.a + claims.b", "gives a sum"),
            ("1 + 1", "gives a constant"),
            ("-claims.level", "gives a number"),
            ("claims.level % 2", "gives a number"),
            ("request.headers['x-a']", "gives a text"),
            ("request.query.a", "gives a text"),
            ("request.method == 'GET' ? 'a' : 'b'", "gives a text"),
            ("claims.a ? 1 : claims.b ? 'b' : 2.0", "gives a constant"),
            ("claims.roles.filter(r, r == 'ops')", "gives a list"),
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
