//! Writes the request to an interceptor: one JSON object, written directly into the bytes to be sent.

use base64::Engine as _;
use message::{Headers, RequestHead};
use policy::{Exchange, IdentityScheme};

use super::{Api, base64};

/// Names and values in the form that an interceptor gets: unique names in lower case.
pub(super) type Lines = Vec<(Box<str>, Box<str>)>;

/// A JSON object that is being written.
pub(super) struct JsonObject {
    out: Vec<u8>,
}

impl JsonObject {
    /// Creates an object with a capacity of `bytes`.
    pub(super) fn new(bytes: usize) -> JsonObject {
        let mut out = Vec::with_capacity(bytes);
        out.push(b'{');
        JsonObject { out }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }

    /// Writes a member whose value is already JSON.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(super) fn text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        string(value, &mut self.out);
    }

    /// Writes bytes as Base64.
    pub(super) fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.name(name);
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + encoded_len(bytes.len()), b'=');
        let written = self.out.get_mut(start..).map(|room| base64().encode_slice(bytes, room));
        debug_assert!(matches!(written, Some(Ok(_))));
        self.out.push(b'"');
    }

    /// Writes the header lines of a head. Lines of the same name become one member, with values joined according to RFC 9110, 5.3.
    pub(super) fn headers(&mut self, name: &str, headers: &Headers) {
        self.name(name);
        self.out.push(b'{');
        for (at, (line, value)) in headers.iter().enumerate() {
            let same = |other: &[u8]| other.eq_ignore_ascii_case(line);
            // Harmless: only the lines before this one are compared.
            if headers.iter().take(at).any(|(before, _)| same(before)) {
                continue;
            }
            if at > 0 {
                self.out.push(b',');
            }
            // A name is a token, so it contains nothing to escape.
            self.out.push(b'"');
            self.out.extend(line.iter().map(u8::to_ascii_lowercase));
            self.out.extend_from_slice(b"\":");
            let mut more = headers.iter().skip(at + 1).filter(|(after, _)| same(after)).peekable();
            if more.peek().is_none() {
                string(value, &mut self.out);
                continue;
            }
            let joined = more.fold(value.to_vec(), |mut joined, (_, value)| {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(value);
                joined
            });
            string(&joined, &mut self.out);
        }
        self.out.push(b'}');
    }

    pub(super) fn lines(&mut self, name: &str, lines: &[(Box<str>, Box<str>)]) {
        self.name(name);
        self.out.push(b'{');
        for (at, (name, value)) in lines.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            string(name.as_bytes(), &mut self.out);
            self.out.push(b':');
            string(value.as_bytes(), &mut self.out);
        }
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Returns `invocationContext`.
pub(super) fn invocation(api: &Api, ex: &Exchange, head: &RequestHead) -> String {
    let mut told = JsonObject::new(640);
    told.text("requestId", ex.id.as_bytes());
    told.text("protocol", head.protocol.name().as_bytes());
    told.text("scheme", ex.caller.scheme.name().as_bytes());
    told.text("apiName", api.name.as_bytes());
    told.text("apiVersion", api.version.as_bytes());
    let host = head.host();
    let asked = match host.iter().rposition(|b| *b == b':') {
        Some(colon) if !host.ends_with(b"]") => host.get(..colon).unwrap_or(host),
        _ => host,
    };
    told.text("vhost", api.vhost.as_ref().map_or(asked, String::as_bytes));
    told.text("supportedMethods", api.methods.as_bytes());
    told.text("method", head.method());
    told.text("basePath", api.base_path.as_bytes());
    told.text("path", head.target());
    told.text("pathTemplate", api.path_template.as_bytes());
    told.text("source", format!("{}:{}", ex.client, ex.caller.peer.port()).as_bytes());
    told.text("prodClusterName", api.production.as_bytes());
    told.text("sandClusterName", api.sandbox.as_bytes());
    told.raw("authenticationContext", &authentication(ex, head));
    // Harmless: only valid UTF-8 was written.
    String::from_utf8(told.finish()).unwrap_or_default()
}

/// Returns the client identity as JSON. The token is included if the request still has it, or if it was kept for interceptors.
fn authentication(ex: &Exchange, head: &RequestHead) -> String {
    let mut told = JsonObject::new(64);
    if let Some(identity) = &ex.identity {
        let kind = match identity.scheme {
            IdentityScheme::Jwt => "JWT",
            IdentityScheme::ApiKey => "API Key",
            IdentityScheme::Basic => "Basic",
            IdentityScheme::MutualTls => "Mutual TLS",
            IdentityScheme::WsSecurity => "WS-Security",
            IdentityScheme::Hmac => "HMAC",
        };
        let noted = ex.notes.as_ref().and_then(|notes| notes.token.as_deref());
        let bearer = head.headers.get("authorization").unwrap_or(b"");
        let token = match bearer.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token,
            _ => noted.unwrap_or(b""),
        };
        let claims = identity.claims.as_ref();
        let key_type = claims.and_then(|c| c.get("keytype")).and_then(|k| k.as_str());
        told.text("tokenType", kind.as_bytes());
        told.text("token", token);
        told.text("keyType", key_type.unwrap_or("PRODUCTION").as_bytes());
    }
    // Harmless: only valid UTF-8 was written.
    String::from_utf8(told.finish()).unwrap_or_default()
}

/// Copies a head's lines for a later call.
pub(super) fn kept(headers: &Headers) -> Lines {
    let text = String::from_utf8_lossy;
    headers
        .iter()
        .fold(Lines::new(), |lines, (name, value)| joined(lines, &text(name), &text(value)))
}

/// Adds a line. Values of lines with the same name are joined with commas.
fn joined(mut lines: Lines, name: &str, value: &str) -> Lines {
    let name = name.to_ascii_lowercase().into_boxed_str();
    match lines.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = format!("{known}, {value}").into(),
        None => lines.push((name, value.into())),
    }
    lines
}

/// Copies raw trailer lines for a call.
pub(super) fn kept_trailers(raw: &[u8]) -> Lines {
    // Harmless: invalid UTF-8 becomes the replacement character, as in the lines of a head, since JSON must be UTF-8.
    let text = String::from_utf8_lossy(raw);
    // Harmless: each trailer line has a colon; only the empty text after the last line end has none.
    let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    lines.fold(Lines::new(), |lines, (name, value)| joined(lines, name.trim(), value.trim()))
}

/// Returns the length of `bytes` bytes in Base64.
pub(super) fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Writes a JSON string. Invalid UTF-8 becomes the replacement character, since JSON must be UTF-8.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if json::is_plain(bytes) {
        out.extend_from_slice(bytes)
    } else {
        let mut text = String::with_capacity(bytes.len() * 2);
        // Harmless: JSON must be UTF-8, and only this copy of the text is changed.
        json::push_escaped(&mut text, &String::from_utf8_lossy(bytes));
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_valid_json_whatever_the_bytes() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("Accept", &b"a"[..]),
            ("X-Odd", b"\"\\\t\xff\xc3\xa4"),
            ("accept", b"b"),
            ("ACCEPT", b"c"),
        ] {
            headers.add(name, value).unwrap();
        }
        let mut told = JsonObject::new(0);
        told.headers("requestHeaders", &headers);
        told.bytes("requestBody", b"\0\xff body");
        told.lines("trailers", &kept(&headers));
        let told: serde_json::Value = serde_json::from_slice(&told.finish()).unwrap();
        let lines = serde_json::json!({ "accept": "a, b, c", "x-odd": "\"\\\t\u{fffd}\u{e4}" });
        assert_eq!(
            told,
            serde_json::json!({
                "requestHeaders": lines, "requestBody": "AP8gYm9keQ==", "trailers": lines,
            })
        );
    }
}
