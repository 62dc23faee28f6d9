//! A web URL: the address of a target, and a path.

use std::fmt;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::{SchemaBuilder, text_like};
use crate::sources::quote;
use crate::values::TargetUrl;

/// A URL such as `https://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebUrl {
    /// Scheme, host and port.
    pub target: TargetUrl,
    /// The path and query, from the slash on.
    pub path: String,
}

impl WebUrl {
    /// Parses a URL. The error is a text.
    pub fn parse(text: &str) -> Result<WebUrl, String> {
        let bad = |why: &str| format!("the URL {} {why}", quote(text));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("has no scheme"))?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let target = TargetUrl::parse(&format!("{scheme}://{authority}"))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if path.contains('#') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("has a path that cannot be requested"));
        }
        Ok(WebUrl { target, path })
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.target, self.path)
    }
}

impl Decode for WebUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `https://HOST/PATH`, or `http://HOST:PORT/PATH`";
        decoder.parse(node, "a URL", help, WebUrl::parse)
    }

    fn encode(&self) -> Json {
        self.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[Hh][Tt][Tt][Pp][Ss]?://[^#@]+$")
    }
}
