//! `telemetry.traces`: spans for an OpenTelemetry collector.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::UpstreamTls;
use crate::values::{CollectorUrl, Fraction, Map, Secret, Spanned, Timeout};

keys! {
    /// Traces: a span for each request and for the calls that it waits for, sent to a collector by OTLP.
    pub struct Traces {
        /// The collector: `http://HOST:4318`, `https://`, `grpc://HOST:4317` or `grpcs://`. Over HTTP, `/v1/traces` is added to the URL
        /// unless it ends in that.
        otlp: Spanned<CollectorUrl>,
        /// Headers of each request to the collector.
        headers: Map<Spanned<Secret>> = Map::default(),
        /// The share of traces that are sampled, from 0 to 1. If the client has made a sampling decision, that applies.
        sample: Fraction = Fraction::ALL,
        /// The formats of headers with trace ids. The first format that a request has decides. Headers of all formats are sent to
        /// upstreams.
        propagate: Vec<TracePropagation> = vec![TracePropagation::W3c],
        /// Attributes of this gateway, such as `env: prod`.
        attributes: Map<String> = Map::default(),
        /// Headers of requests that become attributes of their spans.
        request_headers: Vec<Spanned<String>> = Vec::new(),
        /// Whether each step of a flow gets a span.
        steps: bool = true,
        /// How long the collector may take for a batch.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// TLS to the collector.
        tls: Option<Spanned<UpstreamTls>>,
    }
}

words! {
    /// A format of headers with trace ids.
    pub enum TracePropagation {
        /// `traceparent`, of W3C Trace Context.
        W3c = "w3c",
        /// `b3`. The multi-header form of B3 is read as well.
        B3 = "b3",
        /// `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`. The header `b3` is read as well.
        B3Multi = "b3multi",
    }
}
