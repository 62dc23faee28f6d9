//! `cors`: which pages of other origins may call the route from a browser (the Fetch standard, 3.2).
//!
//! Answers preflights, and puts the lines on every reply of the route, errors included. It refuses nothing: a request of
//! another origin passes, and its browser keeps the reply from the page.

use fault::{Fault, Kind};
use message::{Body, Headers, Reply, ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnHead, Onward, Policy, Slot, Slots, Step};

/// Settings of the policy, as they are sent. Nothing in them needs checking again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsSettings {
    pub origins: Origins,
    /// The value of `Access-Control-Allow-Methods`.
    pub methods: String,
    pub headers: AllowedHeaders,
    /// The value of `Access-Control-Expose-Headers`, where there is one.
    pub expose: Option<String>,
    pub credentials: bool,
    /// In seconds, where a browser shall remember.
    pub max_age: Option<u64>,
    /// The methods of the route, for who asks without being a browser.
    pub allow: String,
    /// The route takes `OPTIONS` itself.
    pub options_pass: bool,
}

/// Which origins may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    Any,
    Listed(Vec<Origin>),
}

/// One origin, or a pattern of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Exact(String),
    /// The texts before and after the part that may differ: letters, digits, dots and dashes.
    Pattern {
        before: String,
        after: String,
    },
}

/// Which request headers a page may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHeaders {
    /// Those it asks for.
    Asked,
    /// The value of `Access-Control-Allow-Headers`.
    Listed(String),
}

/// An origin is a scheme, a host and a port: 8 + 253 + 6 bytes, and room to spare.
const ORIGIN_BYTES_MAX: usize = 512;

/// Bytes that a page may ask for in one preflight. Real ones ask for a handful of headers.
const ASKED_BYTES_MAX: usize = 4096;

/// The request headers that a preflight's reply depends on.
const PREFLIGHT_VARY: &[u8] =
    b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

/// The policy.
pub fn policy(settings: CorsSettings, slots: &mut Slots) -> Policy {
    let cors = Cors { settings, origin: slots.assign() };
    Policy {
        name: "cors",
        request: Some(Step::Head(Box::new(cors.clone()))),
        response: Some(Step::Head(Box::new(cors))),
    }
}

#[derive(Clone)]
struct Cors {
    settings: CorsSettings,
    /// The origin that was let pass, where its reply names it.
    origin: Slot<Box<[u8]>>,
}

impl Origins {
    fn let_in(&self, origin: &[u8]) -> bool {
        match self {
            Origins::Any => true,
            Origins::Listed(origins) => origins.iter().any(|known| known.is(origin)),
        }
    }
}

impl Origin {
    fn is(&self, origin: &[u8]) -> bool {
        match self {
            Origin::Exact(text) => text.as_bytes() == origin,
            Origin::Pattern { before, after } => {
                let middle = origin
                    .strip_prefix(before.as_bytes())
                    .and_then(|rest| rest.strip_suffix(after.as_bytes()));
                // Behind a colon that is not the scheme's stands a port.
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
    /// The one origin of a request, if it may call.
    fn origin(&self, head: &RequestHead) -> Option<Box<[u8]>> {
        let mut lines = head.headers.get_all("origin");
        let origin = lines.next().filter(|origin| origin.len() <= ORIGIN_BYTES_MAX)?;
        let alone = lines.next().is_none();
        (alone && !origin.is_empty() && self.origins.let_in(origin)).then(|| origin.into())
    }

    /// The reply is the same for every origin.
    fn is_for_all(&self) -> bool {
        self.origins == Origins::Any && !self.credentials
    }

    fn named<'o>(&self, origin: &'o [u8]) -> &'o [u8] {
        if self.is_for_all() { b"*" } else { origin }
    }

    /// Names the origin that may read the reply.
    fn name_origin(&self, origin: &[u8], headers: &mut Headers) {
        headers.add_known("Access-Control-Allow-Origin", origin);
        if self.credentials {
            headers.add_known("Access-Control-Allow-Credentials", b"true");
        }
    }

    fn preflight(&self, origin: Option<&[u8]>, head: &RequestHead) -> Reply {
        let mut reply = Reply::new(204, Body::Empty);
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

/// The headers a preflight asks for, if it is a list of names.
fn asked_headers(head: &RequestHead) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = head.headers.get_all("access-control-request-headers").collect();
    let names = lines.join(&b","[..]);
    let is_list = names.split(|b| *b == b',').all(|name| http1::is_token(name.trim_ascii()));
    (is_list && names.len() <= ASKED_BYTES_MAX).then_some(names)
}

/// True for a request that the Fetch standard calls a CORS-preflight request.
fn is_preflight(head: &RequestHead) -> bool {
    head.method() == b"OPTIONS"
        && head.headers.contains("origin")
        && head.headers.contains("access-control-request-method")
}

impl OnHead<RequestHead> for Cors {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Cors { settings, origin: slot } = self;
        let origin = settings.origin(head);
        if is_preflight(head) && !(origin.is_none() && settings.options_pass) {
            return Ok(Onward::Turn(settings.preflight(origin.as_deref(), head)));
        }
        if let Some(origin) = origin.filter(|_| !settings.is_for_all()) {
            slot.put(ex, origin);
        }
        Ok(Onward::Next)
    }
}

impl OnHead<ReplyHead> for Cors {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        let settings = &self.settings;
        let lines = &mut head.headers;
        // Two answers to one question are none: what the upstream says of it goes.
        const SAID: &[u8] = b"access-control-";
        lines.retain(|name, _| {
            !name.get(..SAID.len()).is_some_and(|front| front.eq_ignore_ascii_case(SAID))
        });
        let varies = || lines.get_all("vary").any(|value| http1::list_has(value, "origin"));
        if !settings.is_for_all() && !varies() {
            lines.add_known("Vary", b"Origin");
        }
        let origin = self.origin.remove(ex);
        // Caches give what is the same for all to pages too, whoever brought it (the Fetch standard, CORS protocol and HTTP
        // caches).
        let named = if settings.is_for_all() { Some(&b"*"[..]) } else { origin.as_deref() };
        if let Some(named) = named {
            settings.name_origin(named, lines);
            if let Some(names) = &settings.expose {
                lines.add("Access-Control-Expose-Headers", names.as_bytes()).map_err(|_| {
                    Fault::new(Kind::Internal, "cors: a line that cannot be written")
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
    fn a_pattern_stands_for_whole_labels_only() {
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
