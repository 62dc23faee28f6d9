//! The place of a definition: in a file, or at a URL.

use std::fmt;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::values::{FilePath, WebUrl};

/// A file's path, or `https://HOST/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionAt {
    /// A file, which is read with the configuration.
    File(FilePath),
    /// A valid URL as written, which is fetched in the background.
    Url(String),
}

impl fmt::Display for DefinitionAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefinitionAt::File(file) => file.as_path().display().fmt(f),
            DefinitionAt::Url(url) => f.write_str(url),
        }
    }
}

impl Decode for DefinitionAt {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let is_url = |text: &str| {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
            matches!(scheme.as_deref(), Some("http" | "https"))
        };
        match node.text().filter(|text| is_url(text)) {
            Some(url) => WebUrl::decode(node, decoder).map(|_| DefinitionAt::Url(url.to_owned())),
            None => FilePath::decode(node, decoder).map(DefinitionAt::File),
        }
    }

    fn encode(&self) -> Json {
        match self {
            DefinitionAt::File(file) => file.encode(),
            DefinitionAt::Url(url) => url.as_str().into(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        FilePath::schema(schema)
    }
}
