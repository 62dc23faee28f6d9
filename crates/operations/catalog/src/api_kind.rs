//! The type of an API, as its definition says it.

use serde_json::Value;

/// True if the requests of an API are for streams or topics.
pub(crate) fn is_stream(kind: &str) -> bool {
    matches!(kind, "SSE" | "WS" | "WEBSUB")
}

/// True if a WSDL describes the API. Such an API has one route, which does not distinguish operations.
pub(crate) fn is_of_wsdl(kind: &str) -> bool {
    matches!(kind, "SOAP" | "SOAPTOREST")
}

/// The type of an API.
pub(crate) fn kind(dto: &Value) -> &str {
    dto.get("type").and_then(Value::as_str).unwrap_or("HTTP")
}
