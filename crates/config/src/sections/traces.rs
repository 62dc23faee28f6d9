//! `telemetry.traces`: spans for a collector of OpenTelemetry.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::UpstreamTls;
use crate::values::{CollectorUrl, Fraction, Map, Secret, Spanned, Timeout};

keys! {
    /// Traces: a span for each request and for what it waits for, sent to a collector by OTLP.
    pub struct Traces {
        /// The collector: `http://HOST:4318`, `https://`, `grpc://HOST:4317` or `grpcs://`. HTTP goes to `/v1/traces` if the URL has no path.
        otlp: Spanned<CollectorUrl>,
        /// Headers of each request to the collector.
        headers: Map<Spanned<Secret>> = Map::default(),
        /// The share of traces that are sampled, from 0 to 1. Where the client has decided, its decision counts.
        sample: Fraction = Fraction::ALL,
        /// The formats of headers with trace ids. The first one that a request has decides; all are sent on.
        propagate: Vec<TracePropagation> = vec![TracePropagation::W3c],
        /// Attributes of this gateway, such as `env: prod`.
        attributes: Map<String> = Map::default(),
        /// Headers of requests that become attributes of their spans.
        request_headers: Vec<Spanned<String>> = Vec::new(),
        /// A span for each step of a flow.
        steps: bool = true,
        /// How long the collector may take for a batch.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// TLS towards the collector.
        tls: Option<Spanned<UpstreamTls>>,
    }
}

words! {
    /// A format of headers with trace ids.
    pub enum TracePropagation {
        /// `traceparent`, of W3C Trace Context.
        W3c = "w3c",
        /// `b3`; the several headers of B3 are read as well.
        B3 = "b3",
        /// `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`; `b3` is read as well.
        B3Multi = "b3multi",
    }
}
