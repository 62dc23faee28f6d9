//! The fields of Kong's plugins for logs, traces and metrics, with what becomes of each.

use super::fields::Kind::{Any, Map, Number, Switch, Text, Whole, Word};
use super::fields::{CODE, Field, nearly, only, silent, used};

const OTHER_SIGNALS: &str = "the program's own log and metrics are not sent to a collector";

pub(super) const PROMETHEUS: &[Field] = &[
    nearly("per_consumer", Switch, "false", "Tidegate has no metrics by consumer"),
    silent("status_code_metrics", Switch),
    silent("latency_metrics", Switch),
    silent("bandwidth_metrics", Switch),
    silent("upstream_health_metrics", Switch),
    silent("ai_metrics", Switch),
    silent("wasm_metrics", Switch),
];

pub(super) const FILE_LOG: &[Field] =
    &[used("path", Text), silent("reopen", Switch), only("custom_fields_by_lua", Map, "", CODE)];

pub(super) const HTTP_LOG: &[Field] = &[
    used("http_endpoint", Text),
    only("method", Word(&["POST", "PUT", "PATCH"]), "POST", "Tidegate sends lines by POST only"),
    silent("content_type", Text),
    used("timeout", Whole),
    silent("keepalive", Whole),
    silent("retry_count", Whole),
    silent("queue_size", Whole),
    silent("flush_timeout", Number),
    silent("queue", Any),
    used("headers", Map),
    only("custom_fields_by_lua", Map, "", CODE),
];

pub(super) const TCP_LOG: &[Field] = &[
    used("host", Text),
    used("port", Whole),
    used("timeout", Whole),
    silent("keepalive", Whole),
    used("tls", Switch),
    used("tls_sni", Text),
    only("custom_fields_by_lua", Map, "", CODE),
];

pub(super) const UDP_LOG: &[Field] = &[
    used("host", Text),
    used("port", Whole),
    used("timeout", Whole),
    only("custom_fields_by_lua", Map, "", CODE),
];

pub(super) const OPENTELEMETRY: &[Field] = &[
    used("traces_endpoint", Text),
    used("endpoint", Text),
    nearly("logs_endpoint", Text, "", OTHER_SIGNALS),
    used("access_logs.endpoint", Text),
    used("access_logs_endpoint", Text),
    nearly("metrics", Any, "", OTHER_SIGNALS),
    used("headers", Map),
    used("resource_attributes", Map),
    silent("queue", Any),
    silent("batch_span_count", Any),
    silent("batch_flush_delay", Any),
    silent("connect_timeout", Whole),
    used("send_timeout", Whole),
    silent("read_timeout", Whole),
    nearly(
        "http_response_header_for_traceid",
        Text,
        "",
        "Tidegate does not add the trace id to replies",
    ),
    used(
        "header_type",
        Word(&[
            "preserve",
            "ignore",
            "b3",
            "b3-single",
            "w3c",
            "jaeger",
            "ot",
            "aws",
            "gcp",
            "datadog",
            "instana",
        ]),
    ),
    used("sampling_rate", Number),
    silent("sampling_strategy", Text),
    used("propagation", Map),
];
