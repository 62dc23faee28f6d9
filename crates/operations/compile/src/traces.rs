//! Compiles `telemetry.traces`.

use std::sync::Arc;

use config::{Config, Report, TracePropagation};
use plan::TraceExport;
use plan::export::SpanCollector;
use plan::telemetry::span::{Propagation, Sampler, TraceSettings};

use crate::log_receivers::ReceiverKeys;
use crate::names;

/// The path for traces below the address of a collector (OTLP 1, "Default URL").
const TRACES_PATH: &str = "/v1/traces";

pub(crate) fn compile(config: &Config, report: &mut Report) -> Option<TraceExport> {
    let traces = config.telemetry.traces.as_ref()?;
    if traces.propagate.is_empty() {
        let help = "write `propagate: [w3c]`, or remove it";
        report.error(traces.otlp.at, "`propagate` is empty, so no trace headers are sent", help);
    }
    let headers = traces.request_headers.iter();
    let headers = headers.map(|name| names::header(&name.value, name.at, report)).collect();
    let request_headers: Option<Vec<String>> = headers;
    let keys = ReceiverKeys {
        headers: &traces.headers,
        timeout: traces.timeout.0,
        tls: traces.tls.as_ref(),
    };
    let collector = keys.otlp(&traces.otlp.value, TRACES_PATH, report)?;
    let attributes = traces.attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.value.clone(), value.clone())).collect();
    let propagation = |format: &TracePropagation| match format {
        TracePropagation::W3c => Propagation::W3c,
        TracePropagation::B3 => Propagation::B3,
        TracePropagation::B3Multi => Propagation::B3Multi,
    };
    let settings = TraceSettings {
        sampler: Sampler::new(traces.sample.of_million()),
        propagate: traces.propagate.iter().map(propagation).collect(),
        request_headers: request_headers?,
        steps: traces.steps,
    };
    Some(TraceExport {
        settings: Arc::new(settings),
        collector: SpanCollector { collector, attributes },
    })
}
