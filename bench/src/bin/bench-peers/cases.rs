//! The cases in the order they run, with Tidegate's target in each.

use bench::peers::Kind;

/// One load, applied to every gateway in turn.
pub(crate) struct Case {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) load: Load,
    /// The gateway's listener that it uses.
    pub(crate) door: Door,
    pub(crate) connections: u32,
    /// Size of the echoed POST; 0 is a GET answered with 350 bytes.
    pub(crate) body_bytes: usize,
    pub(crate) targets: &'static [Target],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// As much HTTP/1.1 as possible, by wrk.
    Saturate,
    /// HTTP/1.1 at a fixed rate over all connections, by h2load.
    Fixed { requests_per_second: u32 },
    /// As much HTTP/2 as possible, by h2load.
    Http2 { streams: u32 },
    /// Connections that make one request each and are then left open.
    Idle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Plain,
    Tls,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

/// A target to reach.
pub(crate) enum Target {
    /// CPU per request, relative to this peer.
    RatioMax { peer: Kind, max: f64 },
    /// Memory for each idle connection.
    ConnectionBytesMax(u64),
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "h1-1k-c100",
        title: "HTTP/1.1, 1 KiB echo, 100 connections",
        load: Load::Saturate,
        door: Door::Plain,
        connections: 100,
        body_bytes: 1 << 10,
        targets: &[
            Target::RatioMax { peer: Kind::Nginx, max: 0.80 },
            Target::RatioMax { peer: Kind::Haproxy, max: 0.80 },
        ],
    },
    Case {
        name: "h1-1k-c1000",
        title: "HTTP/1.1, 1 KiB echo, 1000 connections",
        load: Load::Saturate,
        door: Door::Plain,
        connections: 1000,
        body_bytes: 1 << 10,
        targets: &[
            Target::RatioMax { peer: Kind::Nginx, max: 0.75 },
            Target::RatioMax { peer: Kind::Haproxy, max: 0.75 },
        ],
    },
    Case {
        name: "h1-1k-20krps",
        title: "HTTP/1.1, 1 KiB echo, 20,000 requests/s over 100 connections",
        load: Load::Fixed { requests_per_second: 20_000 },
        door: Door::Plain,
        connections: 100,
        body_bytes: 1 << 10,
        targets: &[
            Target::RatioMax { peer: Kind::Nginx, max: 0.85 },
            Target::RatioMax { peer: Kind::Haproxy, max: 0.85 },
        ],
    },
    Case {
        name: "h1-100k",
        title: "HTTP/1.1, 100 KiB echo, 100 connections",
        load: Load::Saturate,
        door: Door::Plain,
        connections: 100,
        body_bytes: 100 << 10,
        targets: &[Target::RatioMax { peer: Kind::Nginx, max: 0.95 }],
    },
    Case {
        name: "tls-350b",
        title: "HTTP/1.1 over TLS, 350 B reply, 100 kept connections",
        load: Load::Saturate,
        door: Door::Tls,
        connections: 100,
        body_bytes: 0,
        targets: &[
            Target::RatioMax { peer: Kind::Nginx, max: 0.80 },
            Target::RatioMax { peer: Kind::Haproxy, max: 0.80 },
        ],
    },
    Case {
        name: "h2-1",
        title: "HTTP/2, 1 KiB echo, 100 connections, 1 stream each",
        load: Load::Http2 { streams: 1 },
        door: Door::Http2,
        connections: 100,
        body_bytes: 1 << 10,
        targets: &[Target::RatioMax { peer: Kind::Nginx, max: 0.80 }],
    },
    Case {
        name: "h2-10",
        title: "HTTP/2, 1 KiB echo, 100 connections, 10 streams each",
        load: Load::Http2 { streams: 10 },
        door: Door::Http2,
        connections: 100,
        body_bytes: 1 << 10,
        targets: &[Target::RatioMax { peer: Kind::Nginx, max: 0.80 }],
    },
    Case {
        name: "idle-5000",
        title: "5,000 idle keep-alive connections, one request made on each",
        load: Load::Idle,
        door: Door::Plain,
        connections: 5000,
        body_bytes: 0,
        targets: &[Target::ConnectionBytesMax(10 << 10)],
    },
];
