//! The scenarios in the order they run, with Tidegate's target in each.

use std::io;

use bench::peers::Kind;

use crate::calls::{Calls, Shape};
use crate::rig::Rig;
use crate::sse::Sse;
use crate::websocket::WebSockets;

/// One load, applied to every gateway in turn.
pub(crate) struct Scenario {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What is counted, in the singular.
    pub(crate) unit: &'static str,
    /// Of those, in a second; without an end as many as there can be.
    pub(crate) rate: f64,
    pub(crate) wire: Wire,
    pub(crate) peers: &'static [Kind],
    /// CPU relative to a peer.
    pub(crate) ratios_max: &'static [(Kind, f64)],
    pub(crate) rig: fn() -> io::Result<Rig>,
}

/// What is spoken on both sides of the gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Http1,
    Http2,
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sse",
        title: "event streams: 5,000 connections, 10 events/s of 82 B on each, policy `sse`",
        unit: "event",
        rate: 50_000.0,
        wire: Wire::Http1,
        peers: &[Kind::Tidegate, Kind::Before, Kind::Nginx, Kind::Haproxy],
        ratios_max: &[(Kind::Nginx, 0.85), (Kind::Haproxy, 0.85)],
        rig: || Sse::rig(5000, false),
    },
    Scenario {
        name: "websocket",
        title: "WebSockets: 5,000 connections, 1 message/s of 500 B each way on each, policy `websocket`",
        unit: "message",
        rate: 10_000.0,
        wire: Wire::Http1,
        peers: &[Kind::Tidegate, Kind::Before, Kind::Nginx, Kind::Haproxy],
        ratios_max: &[(Kind::Nginx, 0.85), (Kind::Haproxy, 0.85)],
        rig: || WebSockets::rig(5000, 500),
    },
    Scenario {
        name: "grpc",
        title: "gRPC: unary calls of 1 KiB, 100 at once on 10 connections",
        unit: "call",
        rate: f64::INFINITY,
        wire: Wire::Http2,
        peers: &[Kind::Tidegate, Kind::Before, Kind::Nginx, Kind::Envoy],
        ratios_max: &[(Kind::Envoy, 0.5), (Kind::Nginx, 0.8)],
        rig: || Calls::rig(GRPC),
    },
    Scenario {
        name: "http2",
        title: "HTTP/2 to HTTP/2: 1 KiB, 100 streams on one connection",
        unit: "call",
        rate: f64::INFINITY,
        wire: Wire::Http2,
        peers: &[Kind::Tidegate, Kind::Before, Kind::Nginx, Kind::Envoy],
        ratios_max: &[(Kind::Envoy, 0.7), (Kind::Nginx, 0.7)],
        rig: || Calls::rig(PLAIN),
    },
    Scenario {
        name: "shared",
        title: "a shared event stream: 5,000 clients, 10 events/s of 82 B to each, beside a loop of send()",
        unit: "event",
        rate: 50_000.0,
        wire: Wire::Http1,
        peers: &[Kind::Tidegate, Kind::Before, Kind::Floor],
        ratios_max: &[(Kind::Floor, 1.15)],
        rig: || Sse::rig(5000, true),
    },
];

const GRPC: Shape = Shape { connections: 10, streams: 10, body_bytes: 1024, is_grpc: true };
const PLAIN: Shape = Shape { connections: 1, streams: 100, body_bytes: 1024, is_grpc: false };

/// The rig of a scenario, or of WebSockets as many and with messages as large as the name says: `row:CONNECTIONS:BYTES`.
pub(crate) fn rig_of(name: &str) -> io::Result<Rig> {
    if let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == name) {
        return (scenario.rig)();
    }
    let numbers = name.strip_prefix("row:").and_then(|numbers| numbers.split_once(':'));
    let numbers =
        numbers.and_then(|(count, bytes)| Some((count.parse().ok()?, bytes.parse().ok()?)));
    let (count, bytes) = numbers.ok_or_else(|| io::Error::other("no rig is called so"))?;
    WebSockets::rig(count, bytes)
}
