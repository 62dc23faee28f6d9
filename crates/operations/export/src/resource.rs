//! The identity of this process for OTLP collectors.

use std::sync::LazyLock;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use policy::RequestId;

const NAME: &str = "tidegate";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A different value for each process, so that a collector can distinguish gateways.
static INSTANCE: LazyLock<String> = LazyLock::new(|| RequestId::random().as_str().to_owned());

/// The attributes of this process, and those that the operator has set, which replace attributes of the same name.
pub(crate) fn resource(added: &[(String, String)]) -> Resource {
    let own = [
        ("service.name", NAME),
        ("service.version", VERSION),
        ("service.instance.id", INSTANCE.as_str()),
    ];
    let own = own.into_iter().filter(|(name, _)| !added.iter().any(|(known, _)| known == name));
    let added = added.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes = own.chain(added).map(|(name, text)| text_attribute(name, text)).collect();
    Resource { attributes, ..Resource::default() }
}

/// The program as the instrumentation scope.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: NAME.to_owned(),
        version: VERSION.to_owned(),
        ..InstrumentationScope::default()
    }
}

pub(crate) fn attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

pub(crate) fn text_attribute(name: &str, text: &str) -> KeyValue {
    attribute(name, Value::StringValue(text.to_owned()))
}
