//! Metrics of listeners: their connections, and refused connections.

use crate::count::{Counter, Gauge};
use crate::shards::Shards;

/// The reason why a listener refused a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The listener has reached its maximum of connections.
    ConnectionsMax,
    /// The client has reached its maximum of connections.
    ConnectionsPerClient,
    /// The TLS handshake failed or took too long.
    Tls,
    /// The PROXY header is missing, malformed or late.
    ProxyHeader,
    /// The system could not provide the connection (no descriptors, no memory).
    Accept,
}

impl Refusal {
    /// All refusals, in the order of their index.
    pub const ALL: [Refusal; 5] = [
        Refusal::ConnectionsMax,
        Refusal::ConnectionsPerClient,
        Refusal::Tls,
        Refusal::ProxyHeader,
        Refusal::Accept,
    ];

    /// The value of the metric label `reason`.
    pub const fn label(self) -> &'static str {
        match self {
            Refusal::ConnectionsMax => "connections_max",
            Refusal::ConnectionsPerClient => "connections_per_client",
            Refusal::Tls => "tls",
            Refusal::ProxyHeader => "proxy_header",
            Refusal::Accept => "accept",
        }
    }
}

/// The metrics of one listener.
#[derive(Debug)]
pub struct ListenerMetrics {
    pub(crate) shards: Shards<ListenerShard>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct ListenerShard {
    pub(crate) open: Gauge,
    pub(crate) opened: Counter,
    pub(crate) refused: [Counter; Refusal::ALL.len()],
    pub(crate) displaced: Counter,
}

impl ListenerMetrics {
    pub(crate) fn new(workers: usize) -> Self {
        ListenerMetrics { shards: Shards::new(workers) }
    }

    /// Counts a connection that a worker accepted.
    pub fn opened(&self, worker: usize) {
        let shard = self.shards.of(worker);
        shard.open.add(1);
        shard.opened.add(1);
    }

    /// Counts the end of a connection that was [`opened`](Self::opened) on that worker.
    pub fn closed(&self, worker: usize) {
        let shard = self.shards.of(worker);
        shard.open.add(-1);
    }

    /// Counts an idle connection that was closed for a new one.
    pub fn displaced(&self, worker: usize) {
        self.shards.of(worker).displaced.add(1);
    }

    /// Counts a refused connection.
    pub fn refused(&self, worker: usize, refusal: Refusal) {
        let shard = self.shards.of(worker);
        if let Some(counter) = shard.refused.get(refusal as usize) {
            counter.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_place() {
        for (index, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, index, "{}", refusal.label());
        }
    }
}
