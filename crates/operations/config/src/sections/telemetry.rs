//! `telemetry`: logs and traces.

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys};
use crate::flows::ExpressionText;
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::sections::{LogTo, Traces};
use crate::sources::quote;
use crate::values::{Map, Spanned};

keys! {
    /// Logs and traces of the traffic. Metrics are always available at the admin address.
    pub struct Telemetry {
        /// The access log, with one line for each request; none if absent.
        // A line costs more than everything else that the gateway does for a small request.
        access_log: Option<AccessLog>,
        /// The audit log, with one line for each change and each refused attempt of an operator. If absent, these are in the program's own
        /// log.
        audit_log: Option<AuditLog>,
        /// OpenTelemetry traces; none if absent.
        traces: Option<Traces>,
    }
}

keys! {
    /// The audit log: a JSON object per line, with `time`, `user`, `role`, `client`, `method`, `path`, `status`, `changes` and
    /// `request_id`.
    pub struct AuditLog {
        /// `stdout`, `stderr`, a file, or a receiver: `{ http: URL }`, `{ otlp: URL }`, `{ syslog: URL }`, `{ tcp: URL }` or `{ udp: URL }`.
        to: Spanned<LogTo>,
    }
}

keys! {
    /// The access log, one line for each request.
    pub struct AccessLog {
        /// `json`, or a custom line such as `{client} {method} {path} {status}`.
        format: Spanned<LogFormat> = Spanned::unwritten(LogFormat::Json),
        /// More fields of a line of `json`, by name: `$headers.NAME` of the request, `$reply.headers.NAME`, `$status`, `$subject`,
        /// `$claims.NAME`, `$method`, `$host`, `$path`, `$route`, `$request_id`, `$client`, or an expression over these in CEL or
        /// XPath, such as `{ cel: "status >= 500" }`. A field without a value is omitted.
        fields: Map<ExpressionText> = Map::default(),
        /// `stdout`, `stderr`, a file, or a receiver: `{ http: URL }`, `{ otlp: URL }`, `{ syslog: URL }`, `{ tcp: URL }` or
        /// `{ udp: URL }`.
        to or "path": Spanned<LogTo> = Spanned::unwritten(LogTo::Stdout),
    }
}

/// The format of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// An object with every field.
    Json,
    /// A text with `{FIELD}` in place of fields.
    Template(String),
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
