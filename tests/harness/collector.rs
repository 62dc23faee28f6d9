//! An OpenTelemetry collector that decodes requests with the message types of the official library.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use super::frames::{END, HEAD, block, data, frame, head, kind};
use super::{Message, Origin};

/// A running collector.
pub(crate) struct Collector {
    pub(crate) origin: Origin,
    scheme: &'static str,
    got: Arc<Mutex<Got>>,
}

/// The data received so far.
#[derive(Default)]
struct Got {
    spans: Vec<Span>,
    records: Vec<LogRecord>,
    resources: Vec<Resource>,
}

impl Collector {
    /// Starts a collector for OTLP over HTTP.
    pub(crate) fn http() -> Collector {
        Collector::answering_http(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
        )
    }

    /// Starts a collector for OTLP over HTTP that gives each request the same answer.
    pub(crate) fn answering_http(answer: &'static str) -> Collector {
        let got: Arc<Mutex<Got>> = Arc::default();
        let keeps = got.clone();
        let origin = Origin::start(move |peer| {
            while let Some(request) = peer.request() {
                assert_eq!(request.get("content-type"), Some("application/x-protobuf"));
                keep(&keeps, request.target(), &request.body);
                if !peer.try_send(answer) {
                    return;
                }
            }
        });
        Collector { origin, scheme: "http", got }
    }

    /// Starts a collector for OTLP over gRPC.
    pub(crate) fn grpc() -> Collector {
        Collector::answering_grpc("0")
    }

    /// Starts a collector for OTLP over gRPC that ends each call with the same status.
    pub(crate) fn answering_grpc(status: &'static str) -> Collector {
        let got: Arc<Mutex<Got>> = Arc::default();
        let keeps = got.clone();
        let origin = Origin::start(move |peer| {
            peer.greet(&[]);
            while let Some((stream, request)) = peer.whole_stream() {
                assert_eq!(request.get("content-type"), Some("application/grpc"));
                assert_eq!(request.get("te"), Some("trailers"));
                keep(&keeps, request.target(), unframed(&request));
                let lines = [(":status", "200"), ("content-type", "application/grpc")];
                let trailers = block(&[("grpc-status", status)]);
                let answer = [
                    head(stream, 0, &lines),
                    data(stream, 0, [0_u8; 5]),
                    frame(kind::HEADERS, HEAD | END, stream, &trailers),
                ];
                peer.try_send(answer.concat());
            }
        });
        Collector { origin, scheme: "grpc", got }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.origin.address())
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.got.lock().unwrap().spans.clone()
    }

    pub(crate) fn records(&self) -> Vec<LogRecord> {
        self.got.lock().unwrap().records.clone()
    }

    pub(crate) fn resources(&self) -> Vec<Resource> {
        self.got.lock().unwrap().resources.clone()
    }
}

fn keep(got: &Mutex<Got>, path: &str, bytes: &[u8]) {
    let mut got = got.lock().unwrap();
    if path.ends_with("/v1/logs") || path.ends_with("LogsService/Export") {
        let request = ExportLogsServiceRequest::decode(bytes).expect("log records");
        for of_resource in request.resource_logs {
            got.resources.extend(of_resource.resource);
            for of_scope in of_resource.scope_logs {
                got.records.extend(of_scope.log_records);
            }
        }
    } else {
        assert!(path.ends_with("/v1/traces") || path.ends_with("TraceService/Export"), "{path}");
        let request = ExportTraceServiceRequest::decode(bytes).expect("spans");
        for of_resource in request.resource_spans {
            got.resources.extend(of_resource.resource);
            for of_scope in of_resource.scope_spans {
                got.spans.extend(of_scope.spans);
            }
        }
    }
}

/// Returns the message of a unary call.
#[track_caller]
fn unframed(request: &Message) -> &[u8] {
    let length = u32::from_be_bytes(request.body[1..5].try_into().unwrap());
    assert_eq!((request.body[0], length as usize), (0, request.body.len() - 5), "one message");
    &request.body[5..]
}

/// Returns an attribute as text, or `None` if it is absent.
pub(crate) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(text(found.value.as_ref()?.value.as_ref()?))
}

fn text(value: &Value) -> String {
    match value {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(truth) => truth.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::ArrayValue(values) => {
            let one = |value: &AnyValue| value.value.as_ref().map(text).unwrap_or_default();
            values.values.iter().map(one).collect::<Vec<_>>().join("|")
        }
        other @ (Value::KvlistValue(_) | Value::BytesValue(_) | Value::StringValueStrindex(_)) => {
            format!("{other:?}")
        }
    }
}
