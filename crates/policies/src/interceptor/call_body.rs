//! The request to an interceptor: one JSON object, written straight into the bytes that are sent.

use base64::Engine as _;
use message::{Headers, RequestHead};
use policy::{Exchange, IdentityScheme};

use super::{Api, base64};

/// Names and values as an interceptor reads them: names in lower case, each once.
pub(super) type Lines = Vec<(Box<str>, Box<str>)>;

/// A JSON object that is being written.
pub(super) struct JsonObject {
    out: Vec<u8>,
}

impl JsonObject {
    /// An object that will have about so many bytes.
    pub(super) fn new(bytes: usize) -> JsonObject {
        let mut out = Vec::with_capacity(bytes);
        out.push(b'{');
        JsonObject { out }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.push(b'}');
        self.out
    }

    /// A member that is JSON already.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(super) fn text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        string(value, &mut self.out);
    }

    /// Bytes in base64.
    pub(super) fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.name(name);
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + encoded_len(bytes.len()), b'=');
        let written = self.out.get_mut(start..).map(|room| base64().encode_slice(bytes, room));
        debug_assert!(matches!(written, Some(Ok(_))));
        self.out.push(b'"');
    }

    /// Header lines straight from a head. A name that comes more than once is one member, its values joined as
    /// RFC 9110 (5.3) joins them.
    pub(super) fn headers(&mut self, name: &str, headers: &Headers) {
        self.name(name);
        self.out.push(b'{');
        for (at, (line, value)) in headers.iter().enumerate() {
            let same = |other: &[u8]| other.eq_ignore_ascii_case(line);
            // Harmless: only the lines before it are looked at.
            if headers.iter().take(at).any(|(before, _)| same(before)) {
                continue;
            }
            if at > 0 {
                self.out.push(b',');
            }
            // A name is a token: it has nothing to escape.
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

/// `invocationContext`.
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
    // Harmless: only whole characters were written.
    String::from_utf8(told.finish()).unwrap_or_default()
}

/// The identity of the one that asks. The token is told where the request still carries it, or where it was noted for this.
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
    // Harmless: only whole characters were written.
    String::from_utf8(told.finish()).unwrap_or_default()
}

/// A head's lines, kept for a later call.
pub(super) fn kept(headers: &Headers) -> Lines {
    let text = String::from_utf8_lossy;
    headers
        .iter()
        .fold(Lines::new(), |lines, (name, value)| joined(lines, &text(name), &text(value)))
}

/// One line more. Those of one name are one value.
fn joined(mut lines: Lines, name: &str, value: &str) -> Lines {
    let name = name.to_ascii_lowercase().into_boxed_str();
    match lines.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = format!("{known}, {value}").into(),
        None => lines.push((name, value.into())),
    }
    lines
}

/// Raw trailer lines, kept for a call.
pub(super) fn kept_trailers(raw: &[u8]) -> Lines {
    // Harmless: JSON has no other bytes than UTF-8, as with the lines of a head.
    let text = String::from_utf8_lossy(raw);
    // Harmless: each line of trailers has a colon, and nothing follows the last line end.
    let lines = text.split("\r\n").filter_map(|line| line.split_once(':'));
    lines.fold(Lines::new(), |lines, (name, value)| joined(lines, name.trim(), value.trim()))
}

/// The length of so many bytes in base64.
pub(super) fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// A JSON string. Bytes that are not UTF-8 become the replacement character: JSON has no others.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if json::is_plain(bytes) {
        out.extend_from_slice(bytes)
    } else {
        let mut text = String::with_capacity(bytes.len() * 2);
        // Harmless: JSON has no other bytes than UTF-8, and the line itself stays as it is.
        json::push_escaped(&mut text, &String::from_utf8_lossy(bytes));
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_json_whatever_the_bytes() {
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
