//! The fields of a line. They are an enum, so that a template with an unknown field is refused when it is parsed.

use super::AccessEntry;
use crate::span::HexText;
use std::net::IpAddr;
use std::time::Duration;

macro_rules! fields {
    ($($field:ident = $name:literal;)*) => {
        /// A field of a line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Field { $(#[doc = concat!("`", $name, "`")] $field),* }

        impl Field {
            /// All fields, in the order of the JSON format.
            pub const ALL: &'static [Field] = &[$(Field::$field),*];

            /// The name in templates, and the key in JSON.
            pub const fn name(self) -> &'static str { match self { $(Field::$field => $name),* } }

            /// The text before the value in JSON.
            pub(super) const fn json_key(self) -> &'static str {
                match self { $(Field::$field => concat!(",\"", $name, "\":")),* }
            }
        }
    };
}

fields! {
    Time = "time";
    Client = "client";
    Method = "method";
    Host = "host";
    Path = "path";
    Protocol = "protocol";
    Status = "status";
    RequestBytes = "request_bytes";
    ReplyBytes = "reply_bytes";
    DurationMs = "duration_ms";
    UpstreamMs = "upstream_ms";
    OwnMs = "own_ms";
    Route = "route";
    Upstream = "upstream";
    UpstreamTarget = "upstream_target";
    RequestId = "request_id";
    TraceId = "trace_id";
    SpanId = "span_id";
    UserAgent = "user_agent";
    Tls = "tls";
    Fault = "fault";
    Cause = "cause";
    Operation = "operation";
    SoapFault = "soap_fault";
    Subject = "subject";
    Retries = "retries";
    Events = "events";
    StreamEnd = "stream_end";
    GrpcStatus = "grpc_status";
}

/// The value of a field in an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Absent,
    /// Text from the program.
    Plain(&'static str),
    /// Text from a peer or an operator, which must be escaped.
    Hostile(&'a [u8]),
    Number(u64),
    Milliseconds(Duration),
    Time(Duration),
    Address(IpAddr),
    TraceId(HexText<32>),
    SpanId(HexText<16>),
}

impl Field {
    pub(super) fn value<'a>(self, entry: &AccessEntry<'a>) -> Value<'a> {
        match self {
            Field::Time => Value::Time(entry.time),
            Field::Client => Value::Address(entry.client),
            Field::Method => not_empty(entry.method),
            Field::Host => hostile(entry.host),
            Field::Path => not_empty(entry.path),
            Field::Protocol => Value::Plain(entry.protocol),
            Field::Status => Value::Number(u64::from(entry.status)),
            Field::RequestBytes => Value::Number(entry.request_bytes),
            Field::ReplyBytes => Value::Number(entry.reply_bytes),
            Field::DurationMs => Value::Milliseconds(entry.duration),
            Field::UpstreamMs => Value::Milliseconds(entry.upstream_wait),
            Field::OwnMs => Value::Milliseconds(entry.own()),
            Field::Route => hostile(entry.route.map(str::as_bytes)),
            Field::Upstream => hostile(entry.upstream.map(str::as_bytes)),
            Field::UpstreamTarget => hostile(entry.upstream_target.map(str::as_bytes)),
            Field::RequestId => hostile(entry.request_id),
            Field::TraceId => {
                entry.trace.map_or(Value::Absent, |span| Value::TraceId(span.trace_id_text()))
            }
            Field::SpanId => {
                entry.trace.map_or(Value::Absent, |span| Value::SpanId(span.span_id_text()))
            }
            Field::UserAgent => hostile(entry.user_agent),
            Field::Tls => entry.tls.map_or(Value::Absent, Value::Plain),
            Field::Fault => entry.fault.map_or(Value::Absent, Value::Plain),
            Field::Cause => hostile(entry.cause.map(str::as_bytes)),
            Field::Operation => hostile(entry.operation.map(str::as_bytes)),
            Field::SoapFault => entry.soap_fault.map_or(Value::Absent, Value::Plain),
            Field::Subject => hostile(entry.subject.map(str::as_bytes)),
            Field::Retries if entry.retries == 0 => Value::Absent,
            Field::Retries => Value::Number(u64::from(entry.retries)),
            Field::Events => entry.events.map_or(Value::Absent, Value::Number),
            Field::StreamEnd => entry.stream_end.map_or(Value::Absent, Value::Plain),
            Field::GrpcStatus => {
                entry.grpc_status.map_or(Value::Absent, |outcome| Value::Plain(outcome.label()))
            }
        }
    }
}

/// Absent if empty, as for a request with an unreadable head.
fn not_empty(text: &[u8]) -> Value<'_> {
    hostile(Some(text).filter(|text| !text.is_empty()))
}

fn hostile(text: Option<&[u8]>) -> Value<'_> {
    text.map_or(Value::Absent, Value::Hostile)
}
