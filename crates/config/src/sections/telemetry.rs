//! `telemetry`: what the gateway says about its traffic.

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys};
use crate::node::Node;
use crate::report::quote;
use crate::schema::SchemaBuilder;
use crate::values::{FilePath, Spanned};

keys! {
    /// Metrics and logs about the traffic. Metrics are always at the admin address.
    pub struct Telemetry {
        /// The access log, one line for each request; none without it.
        // A line costs more than all else the gateway does for a small request.
        access_log: Option<AccessLog>,
    }
}

keys! {
    /// The access log, one line for each request.
    pub struct AccessLog {
        /// `json`, or a line of your own such as `{client} {method} {path} {status}`.
        format: Spanned<LogFormat> = Spanned::unwritten(LogFormat::Json),
        /// `stdout`, `stderr` or a file.
        path: Spanned<LogPath> = Spanned::unwritten(LogPath::Stdout),
    }
}

/// The format of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// An object with every field.
    Json,
    /// A text with `{FIELD}` where fields go.
    Template(String),
}

/// The file or stream of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPath {
    /// The program's output.
    Stdout,
    /// The program's error output.
    Stderr,
    /// A file that is appended to.
    File(FilePath),
}

impl Decode for LogFormat {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `json`, or a template like \"{client} {method} {path} {status}\"";
        decoder.parse(node, "a log format", help, |text| match text {
            "json" => Ok(Self::Json),
            text if text.contains('{') => Ok(Self::Template(text.to_owned())),
            text => Err(format!("{} is neither `json` nor a template with fields", quote(text))),
        })
    }

    fn encode(&self) -> Json {
        match self {
            Self::Json => "json".into(),
            Self::Template(template) => template.as_str().into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "const": "json" }, { "type": "string", "pattern": "\\{" }] })
    }
}

impl Decode for LogPath {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match node.text() {
            Some("stdout") => Some(Self::Stdout),
            Some("stderr") => Some(Self::Stderr),
            _ => FilePath::decode(node, decoder).map(Self::File),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Stdout => "stdout".into(),
            Self::Stderr => "stderr".into(),
            Self::File(path) => path.encode(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "enum": ["stdout", "stderr"] }, { "type": "string" }] })
    }
}
