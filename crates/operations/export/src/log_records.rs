//! Log lines as OTLP log records. The members of a JSON line become attributes; the line itself is the body.

use kit::clock::{self, nanos};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use serde_json::{Map, Value as Json};

use crate::resource::{attribute, resource, scope};

/// The member with the time of a line. It becomes a field of the record instead of an attribute, like the two ids.
const TIME: &str = "time";

/// The member with the trace id.
const TRACE_ID: &str = "trace_id";

/// The member with the span id.
const SPAN_ID: &str = "span_id";

pub(crate) fn of_lines(lines: &[u8]) -> ExportLogsServiceRequest {
    let observed = nanos(clock::wall());
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = ScopeLogs {
        scope: Some(scope()),
        log_records: lines.map(|line| record(line, observed)).collect(),
        ..ScopeLogs::default()
    };
    let resource_logs = vec![ResourceLogs {
        resource: Some(resource(&[])),
        scope_logs: vec![records],
        ..ResourceLogs::default()
    }];
    ExportLogsServiceRequest { resource_logs }
}

fn record(line: &[u8], observed: u64) -> LogRecord {
    // Harmless: a line from a template has no members.
    let members: Map<String, Json> = serde_json::from_slice(line).unwrap_or_default();
    let text = |name: &str| members.get(name).and_then(Json::as_str);
    let id = |name: &str| text(name).and_then(|id| kit::hex::decoded(id.as_bytes()));
    // Harmless: a line may have no ids, and an invalid one is left out.
    let (trace_id, span_id) = (id(TRACE_ID).unwrap_or_default(), id(SPAN_ID).unwrap_or_default());
    let time = text(TIME).and_then(time_of).unwrap_or(observed);
    let own = |name: &str| matches!(name, TIME | TRACE_ID | SPAN_ID);
    let attributes = members.iter().filter(|(name, _)| !own(name));
    // Harmless: a null has no value.
    let attributes = attributes.filter_map(|(name, json)| Some(attribute(name, value(json)?)));
    LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: observed,
        severity_number: SeverityNumber::Info.into(),
        severity_text: "INFO".to_owned(),
        // Harmless: the gateway's lines are UTF-8.
        body: Some(string(String::from_utf8_lossy(line).into_owned())),
        attributes: attributes.collect(),
        trace_id,
        span_id,
        ..LogRecord::default()
    }
}

fn string(text: String) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text)) }
}

fn value(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(truth) => Value::BoolValue(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::IntValue(whole),
            (None, Some(real)) => Value::DoubleValue(real),
            (None, None) => Value::StringValue(number.to_string()),
        },
        Json::String(text) => Value::StringValue(text.clone()),
        Json::Array(_) | Json::Object(_) => Value::StringValue(json.to_string()),
    })
}

fn time_of(text: &str) -> Option<u64> {
    // Harmless: a line without a readable time gets the current time.
    let time: jiff::Timestamp = text.parse().ok()?;
    // Harmless: a line with a time before 1970 gets the current time too.
    u64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_record_with_its_ids_and_its_time() {
        let line = br#"{"time":"1970-01-01T00:00:01.500Z","status":200,"path":"/a","trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"zz"}"#;
        let record = record(line, 7);
        assert_eq!(record.time_unix_nano, 1_500_000_000);
        assert_eq!(record.trace_id, (1..=16).collect::<Vec<u8>>());
        assert_eq!(record.span_id, b"", "not an id");
        let names: Vec<&str> = record.attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(names, ["status", "path"]);
        let plain = super::record(b"1.2.3.4 GET /", 7);
        assert_eq!((plain.time_unix_nano, plain.attributes.len()), (7, 0));
    }
}
