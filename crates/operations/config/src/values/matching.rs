//! Small values with their own grammar: what to hash, when to retry, which statuses are healthy.

use grpc::Status;
use kit::digits;
use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, words};
use crate::node::{Node, Value};
use crate::schema::{SchemaBuilder, text_like};
use crate::sources::quote;

words! {
    /// A version of TLS.
    pub enum TlsVersion {
        /// TLS 1.2.
        V1_2 = "1.2",
        /// TLS 1.3.
        V1_3 = "1.3",
    }
}

/// The part of a request that is hashed for consistent hashing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// The client's address.
    Client,
    /// The subject.
    Consumer,
    /// The path.
    Path,
    /// The value of a header.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The value of a query parameter.
    Query(String),
    /// The value of a path parameter of the route.
    Capture(String),
}

/// The failures that are retried, or that suspend a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// The connection failed.
    ConnectFailure,
    /// The connection ended before a reply.
    Reset,
    /// The reply's head did not arrive in time.
    Timeout,
    /// A reply with this status, 500 to 599.
    Status(u16),
    /// A gRPC call that ended with this status before its first message.
    Call(Status),
}

/// The priority of a route. Routes of a higher priority are tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(pub i32);

/// The name of a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieName(pub String);

/// The path of a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookiePath(pub String);

/// Statuses from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

/// The condition on a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// Exactly this text.
    Exact(String),
    /// One of these texts.
    Any(Vec<String>),
    /// A text that this regular expression matches as a whole.
    Regex(String),
    /// It exists, with any value.
    Present,
}

impl Decode for HashBy {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `client`, `consumer`, `path`, `header:NAME`, `cookie:NAME`, `query:NAME` or `capture:NAME`";
        decoder.parse(node, "a key to hash", help, |text| match text.split_once(':') {
            None if text == "client" => Ok(Self::Client),
            None if text == "consumer" => Ok(Self::Consumer),
            None if text == "path" => Ok(Self::Path),
            Some(("header", name)) if is_token(name) => Ok(Self::Header(name.to_ascii_lowercase())),
            Some(("cookie", name)) if is_token(name) => Ok(Self::Cookie(name.to_owned())),
            Some(("query", name)) if !name.is_empty() => Ok(Self::Query(name.to_owned())),
            Some(("capture", name)) if !name.is_empty() => Ok(Self::Capture(name.to_owned())),
            _ => Err(format!("{} cannot be hashed", quote(text))),
        })
    }

    fn encode(&self) -> Json {
        match self {
            Self::Client => "client".into(),
            Self::Consumer => "consumer".into(),
            Self::Path => "path".into(),
            Self::Header(name) => format!("header:{name}").into(),
            Self::Cookie(name) => format!("cookie:{name}").into(),
            Self::Query(name) => format!("query:{name}").into(),
            Self::Capture(name) => format!("capture:{name}").into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^(client|consumer|path|header:.+|cookie:.+|query:.+|capture:.+)$")
    }
}

/// The largest absolute value of a priority.
const PRIORITY_MAX: i32 = 1_000_000;

impl Decode for Priority {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write a whole number such as `10`; routes of a higher one are tried first";
        decoder.parse(node, "a priority", help, |text| match text.parse() {
            Ok(number)
                if !text.starts_with('+') && (-PRIORITY_MAX..=PRIORITY_MAX).contains(&number) =>
            {
                Ok(Self(number))
            }
            Ok(_) | Err(_) => Err(format!(
                "{} is not a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}",
                quote(text)
            )),
        })
    }

    fn encode(&self) -> Json {
        self.0.into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "integer", "minimum": -PRIORITY_MAX, "maximum": PRIORITY_MAX })
    }
}

impl RetryOn {
    const WORDS: &[&str] = &[
        "connect_failure",
        "reset",
        "timeout",
        "cancelled",
        "deadline_exceeded",
        "internal",
        "resource_exhausted",
        "unavailable",
    ];
}

impl Decode for RetryOn {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        // Harmless: text that is not a number is parsed as a word.
        if let Some(status) = node.bare_text().and_then(digits::whole::<u16>) {
            if (500..=599).contains(&status) {
                return Some(Self::Status(status));
            }
            let help = "only a status from 500 to 599 means that the service failed";
            decoder.error(
                node.at,
                format!("the status `{status}` is not a failure of the service"),
                help,
            );
            return None;
        }
        match decoder.word_or(node, Self::WORDS, "a status from 500 to 599, ")? {
            "connect_failure" => Some(Self::ConnectFailure),
            "reset" => Some(Self::Reset),
            "timeout" => Some(Self::Timeout),
            word => Status::ALL.into_iter().find(|of| of.name() == word).map(Self::Call),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::ConnectFailure => "connect_failure".into(),
            Self::Reset => "reset".into(),
            Self::Timeout => "timeout".into(),
            Self::Status(status) => (*status).into(),
            Self::Call(status) => status.name().into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [
            { "enum": Self::WORDS },
            { "type": "integer", "minimum": 500, "maximum": 599 },
        ] })
    }
}

impl Decode for CookieName {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write letters, digits, `-`, `_` or `.`, such as `server`";
        decoder.parse(node, "the name of a cookie", help, |text| {
            if is_token(text) {
                Ok(Self(text.to_owned()))
            } else {
                Err(format!("{} is not a cookie name", quote(text)))
            }
        })
    }

    fn encode(&self) -> Json {
        self.0.as_str().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[-0-9A-Za-z!#$%&'*+.^_`|~]+$")
    }
}

impl Decode for CookiePath {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        decoder.parse(node, "the path of a cookie", "write a path such as `/`", |text| {
            let may_stand = |byte: u8| byte.is_ascii_graphic() && byte != b';';
            if text.starts_with('/') && text.bytes().all(may_stand) {
                Ok(Self(text.to_owned()))
            } else {
                Err(format!("{} is not the path of a cookie", quote(text)))
            }
        })
    }

    fn encode(&self) -> Json {
        self.0.as_str().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^/[!-:<-~]*$")
    }
}

impl Decode for StatusRange {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write a status like `200`, or a range like `200-399`";
        decoder.parse(node, "a status or a range of them", help, |text| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            // Harmless: an invalid status is refused below.
            let status = |text: &str| {
                digits::whole::<u16>(text.trim()).filter(|it| (100..=599).contains(it))
            };
            match (status(first), status(last)) {
                (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
                _ => Err(format!("{} is not a status from 100 to 599, nor a range", quote(text))),
            }
        })
    }

    fn encode(&self) -> Json {
        if self.first == self.last {
            self.first.into()
        } else {
            format!("{}-{}", self.first, self.last).into()
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "pattern": "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$" },
        ] })
    }
}

impl Decode for ValueMatch {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write the exact value, `{ any: [a, b] }`, `{ regex: \"a.*\" }` or `{ present: true }`";
        match &node.value {
            Value::Scalar(scalar) => Some(Self::Exact(scalar.text.clone())),
            Value::Map(_) => {
                decoder.section(node, &["present", "any", "regex"], &[])?;
                match (node.get("present"), node.get("any"), node.get("regex")) {
                    (Some(present), None, None) if present.bare_text() == Some("true") => {
                        Some(Self::Present)
                    }
                    (None, Some(any), None) => Vec::decode(any, decoder).map(Self::Any),
                    (None, None, Some(regex)) => String::decode(regex, decoder).map(Self::Regex),
                    (present, None, None) => {
                        let at = present.unwrap_or(node);
                        decoder.expected(at, "`present: true`", help);
                        None
                    }
                    _ => {
                        let what = "a value needs exactly one of `any`, `regex` and `present`";
                        decoder.error(node.at, what, help);
                        None
                    }
                }
            }
            Value::Null | Value::Unreadable | Value::List(_) => {
                decoder.expected(node, "a value", help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Exact(value) => value.as_str().into(),
            Self::Present => json!({ "present": true }),
            Self::Any(values) => json!({ "any": values }),
            Self::Regex(regex) => json!({ "regex": regex }),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let one = |key: &str, value: Json| {
            json!({
                "type": "object",
                "properties": { key: value },
                "required": [key],
                "additionalProperties": false,
            })
        };
        json!({ "anyOf": [
            String::schema(schema),
            one("present", json!({ "const": true })),
            one("any", Vec::<String>::schema(schema)),
            one("regex", String::schema(schema)),
        ] })
    }
}

/// Returns true for a valid name of a header or a cookie.
fn is_token(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn whole_numbers_have_no_plus_sign() {
        for (text, what) in [
            ("workers: +2", "expected a whole number from 1 to 256, found `+2`"),
            ("upstreams: { a: { retry: { on: [503, +503] } } }", "unknown value `+503`"),
            ("upstreams: { a: { health: { statuses: [+204] } } }", "`+204` is not a status"),
            (
                "flows: { f: { steps: [{ scatter: { gather: { complete: +2 } } }] } }",
                "`+2` is not a number of results",
            ),
        ] {
            let all = crate::parse(text, Path::new("gate.yaml")).report.to_string();
            assert!(all.contains(what), "{all}");
            let all =
                crate::parse(&text.replace('+', ""), Path::new("gate.yaml")).report.to_string();
            assert!(!all.contains("a status") && !all.contains("whole number"), "{all}");
            assert!(!all.contains("unknown value"), "{all}");
        }
    }
}
