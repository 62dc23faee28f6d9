//! `cors`: controls which pages of other origins may call the route from a browser (Fetch standard, CORS protocol).
//!
//! It answers preflights, unless the upstream does. It adds the CORS headers to replies to allowed origins, and to all replies if every
//! origin may call without credentials. Errors get them, too. It refuses no request: one from a forbidden origin passes, and the browser
//! hides the reply from the page.

use fault::{Fault, Kind};
use message::{Body, Headers, Reply, ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnHead, Onward, Policy, Slot, Slots, Step};
use regex::bytes::{Regex, RegexBuilder};

/// Settings of the policy, as header values that are ready to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSettings {
    pub origins: Origins,
    /// The value of `Access-Control-Allow-Methods`.
    pub methods: String,
    pub headers: AllowedHeaders,
    /// The value of `Access-Control-Expose-Headers`, if any.
    pub expose: Option<String>,
    pub credentials: bool,
    /// How long browsers may cache a preflight's reply, in seconds. If `None`, no header says so, and browsers use their default.
    pub max_age: Option<u64>,
    /// The value of `Allow`, for the reply to a preflight whose origin is not allowed.
    pub allow: String,
    pub passes: PassedPreflights,
    /// The status of the reply to a preflight.
    pub preflight_status: u16,
}

/// The preflights that go on to the upstream instead of being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedPreflights {
    None,
    /// Those whose origin is not allowed.
    OfOtherOrigins,
    All,
}

/// The origins whose pages may call the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    Any,
    Listed(Vec<Origin>),
}

/// One origin, or a pattern for origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Exact(String),
    /// The texts before and after the wildcard. It matches letters, digits, dots and dashes; in the place of a port, only digits.
    Pattern {
        before: String,
        after: String,
    },
    Regex(OriginRegex),
}

/// A regular expression that an origin must match as a whole.
#[derive(Debug, Clone)]
pub struct OriginRegex(Regex);

/// Which request headers a page may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHeaders {
    /// All headers that the page asks for.
    Asked,
    /// The value of `Access-Control-Allow-Headers`.
    Listed(String),
}

/// The maximum length of an origin. A scheme, a host and a port have at most 8 + 253 + 6 bytes.
const ORIGIN_BYTES_MAX: usize = 512;

/// The maximum size of the header list in a preflight. Real preflights list a few headers.
const ASKED_BYTES_MAX: usize = 4096;

/// The request headers that a preflight's reply depends on.
const PREFLIGHT_VARY: &[u8] =
    b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

/// Returns the policy.
pub fn policy(settings: CorsSettings, slots: &mut Slots) -> Policy {
    let cors = Cors { settings, noted: slots.assign() };
    Policy {
        name: "cors",
        request: Some(Step::Head(Box::new(cors.clone()))),
        response: Some(Step::Head(Box::new(cors))),
    }
}

#[derive(Clone)]
struct Cors {
    settings: CorsSettings,
    noted: Slot<CorsRequest>,
}

/// What the reply's side has to know about the request.
enum CorsRequest {
    /// The allowed origin, which the reply names.
    Origin(Box<[u8]>),
    /// It is a preflight for the upstream, whose CORS headers are the answer.
    Forwarded,
}

impl Origins {
    fn allows(&self, origin: &[u8]) -> bool {
        match self {
            Origins::Any => true,
            Origins::Listed(origins) => origins.iter().any(|known| known.is(origin)),
        }
    }
}

/// The bound on the memory of one compiled expression.
const COMPILED_BYTES_MAX: usize = 1 << 20;

impl OriginRegex {
    /// Parses an expression. The error is the reason why it cannot be used.
    pub fn parse(text: &str) -> Result<OriginRegex, String> {
        let compiled = |text: &str| {
            let mut builder = RegexBuilder::new(text);
            let built = builder.unicode(false).size_limit(COMPILED_BYTES_MAX).build();
            built.map_err(|error| kit::regex_error::reason(&error))
        };
        compiled(text)?;
        compiled(&format!(r"\A(?:{text})\z")).map(OriginRegex)
    }
}

impl PartialEq for OriginRegex {
    fn eq(&self, other: &OriginRegex) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for OriginRegex {}

impl Origin {
    fn is(&self, origin: &[u8]) -> bool {
        match self {
            Origin::Exact(text) => text.as_bytes() == origin,
            Origin::Regex(OriginRegex(regex)) => regex.is_match(origin),
            Origin::Pattern { before, after } => {
                let middle = origin
                    .strip_prefix(before.as_bytes())
                    .and_then(|rest| rest.strip_suffix(after.as_bytes()));
                // A colon that does not belong to the scheme is followed by a port.
                let is_port = before.ends_with(':') && before.contains("://");
                let good = |b: &u8| {
                    if is_port {
                        b.is_ascii_digit()
                    } else {
                        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')
                    }
                };
                middle.is_some_and(|middle| !middle.is_empty() && middle.iter().all(good))
            }
        }
    }
}

impl CorsSettings {
    /// Returns the origin of a request, if there is exactly one and its pages may call the route.
    fn origin(&self, head: &RequestHead) -> Option<Box<[u8]>> {
        let mut lines = head.headers.get_all("origin");
        let origin = lines.next().filter(|origin| origin.len() <= ORIGIN_BYTES_MAX)?;
        let alone = lines.next().is_none();
        (alone && !origin.is_empty() && self.origins.allows(origin)).then(|| origin.into())
    }

    /// Returns true if the reply is the same for every origin.
    fn is_for_all(&self) -> bool {
        self.origins == Origins::Any && !self.credentials
    }

    fn named<'o>(&self, origin: &'o [u8]) -> &'o [u8] {
        if self.is_for_all() { b"*" } else { origin }
    }

    /// Adds the headers that say which origin may read the reply, and whether with credentials.
    fn name_origin(&self, origin: &[u8], headers: &mut Headers) {
        headers.add_known("Access-Control-Allow-Origin", origin);
        if self.credentials {
            headers.add_known("Access-Control-Allow-Credentials", b"true");
        }
    }

    fn preflight(&self, origin: Option<&[u8]>, head: &RequestHead) -> Reply {
        let mut reply = Reply::new(self.preflight_status, Body::Empty);
        let lines = &mut reply.head.headers;
        lines.add_known("Vary", PREFLIGHT_VARY);
        let Some(origin) = origin else {
            lines.add_known("Allow", self.allow.as_bytes());
            return reply;
        };
        self.name_origin(self.named(origin), lines);
        lines.add_known("Access-Control-Allow-Methods", self.methods.as_bytes());
        match &self.headers {
            AllowedHeaders::Listed(names) if names.is_empty() => {}
            AllowedHeaders::Listed(names) => {
                lines.add_known("Access-Control-Allow-Headers", names.as_bytes());
            }
            AllowedHeaders::Asked => {
                if let Some(names) = asked_headers(head) {
                    lines.add_known("Access-Control-Allow-Headers", &names);
                }
            }
        }
        if let Some(seconds) = self.max_age {
            lines.add_known("Access-Control-Max-Age", seconds.to_string().as_bytes());
        }
        reply
    }
}

/// Returns the headers that a preflight asks for, if they are a valid list of names.
fn asked_headers(head: &RequestHead) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = head.headers.get_all("access-control-request-headers").collect();
    let names = lines.join(&b","[..]);
    let is_list = names.split(|b| *b == b',').all(|name| http1::is_token(name.trim_ascii()));
    (is_list && names.len() <= ASKED_BYTES_MAX).then_some(names)
}

/// Returns true for a CORS-preflight request (Fetch standard).
fn is_preflight(head: &RequestHead) -> bool {
    head.method() == b"OPTIONS"
        && head.headers.contains("origin")
        && head.headers.contains("access-control-request-method")
}

impl OnHead<RequestHead> for Cors {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Cors { settings, noted } = self;
        let origin = settings.origin(head);
        match (is_preflight(head), settings.passes) {
            (true, PassedPreflights::All) => {
                noted.put(ex, CorsRequest::Forwarded);
                return Ok(Onward::Next);
            }
            (true, PassedPreflights::OfOtherOrigins) if origin.is_none() => {}
            (true, PassedPreflights::OfOtherOrigins | PassedPreflights::None) => {
                return Ok(Onward::Turn(settings.preflight(origin.as_deref(), head)));
            }
            (false, _) => {}
        }
        if let Some(origin) = origin.filter(|_| !settings.is_for_all()) {
            noted.put(ex, CorsRequest::Origin(origin));
        }
        Ok(Onward::Next)
    }
}

impl OnHead<ReplyHead> for Cors {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        let settings = &self.settings;
        let origin = match self.noted.remove(ex) {
            Some(CorsRequest::Forwarded) => return Ok(Onward::Next),
            Some(CorsRequest::Origin(origin)) => Some(origin),
            None => None,
        };
        let lines = &mut head.headers;
        // Browsers reject duplicate CORS headers, so those of the upstream are removed.
        const PREFIX: &[u8] = b"access-control-";
        lines.retain(|name, _| {
            !name.get(..PREFIX.len()).is_some_and(|front| front.eq_ignore_ascii_case(PREFIX))
        });
        let varies = || lines.get_all("vary").any(|value| http1::list_has(value, "origin"));
        if !settings.is_for_all() && !varies() {
            lines.add_known("Vary", b"Origin");
        }
        // A cache may serve a reply that is the same for all origins to any page, so `*` is sent even if the request has no origin (Fetch
        // standard, CORS protocol and HTTP caches).
        let named = if settings.is_for_all() { Some(&b"*"[..]) } else { origin.as_deref() };
        if let Some(named) = named {
            settings.name_origin(named, lines);
            if let Some(names) = &settings.expose {
                lines.add("Access-Control-Expose-Headers", names.as_bytes()).map_err(|_| {
                    Fault::new(
                        Kind::Internal,
                        "cors: the value of `expose` is not a valid header value",
                    )
                })?;
            }
        }
        Ok(Onward::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_matches_only_within_the_host_or_the_port() {
        let pattern = Origin::Pattern { before: "https://".into(), after: ".example.com".into() };
        let port = Origin::Pattern { before: "http://localhost:".into(), after: String::new() };
        for (origin, known, is) in [
            ("https://a.example.com", &pattern, true),
            ("https://a.b.example.com", &pattern, true),
            ("https://.example.com", &pattern, false),
            ("https://example.com", &pattern, false),
            ("http://a.example.com", &pattern, false),
            ("https://evil.com/.example.com", &pattern, false),
            ("https://evil.com:1.example.com", &pattern, false),
            ("https://a@b.example.com", &pattern, false),
            ("https://a.example.com.evil.com", &pattern, false),
            ("http://localhost:3000", &port, true),
            ("http://localhost:", &port, false),
            ("http://localhost:1.evil.com", &port, false),
            ("http://localhost:80/x", &port, false),
        ] {
            assert_eq!(known.is(origin.as_bytes()), is, "{origin}");
        }
    }
}
