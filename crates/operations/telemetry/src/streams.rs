//! The number of open streams. A stream may stay open for hours, during which the counts of ended exchanges do not
//! include it.

use std::sync::Arc;

use crate::Telemetry;
use crate::count::Gauge;
use crate::route::RouteMetrics;

/// The kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// A reply that is an event stream.
    Sse,
    /// A WebSocket, over either version of HTTP.
    WebSocket,
    /// Another protocol after a 101.
    Tunnel,
    /// A call of gRPC, from its request to its end.
    Grpc,
}

/// Open streams, in the order of [`StreamKind::ALL`].
pub(crate) type OpenCounts = [Gauge; StreamKind::ALL.len()];

/// A stream that counts as open until this is dropped, on the worker that opened it.
#[derive(Debug)]
pub struct OpenStream {
    metrics: Arc<RouteMetrics>,
    worker: usize,
    kind: StreamKind,
}

/// The open streams of a route, in the order of [`StreamKind::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStreams {
    pub route: Box<str>,
    pub open: [i64; StreamKind::ALL.len()],
}

impl Telemetry {
    /// The open streams of each route that has any.
    pub fn open_streams(&self) -> Vec<RouteStreams> {
        let of_route = |(route, metrics): (Box<str>, Arc<RouteMetrics>)| {
            let mut open = [0; StreamKind::ALL.len()];
            // Harmless: a shard without streams has none open.
            for counts in metrics.shards.all().filter_map(|shard| shard.open.get()) {
                // Harmless: both are arrays of one length.
                open.iter_mut().zip(counts.iter()).for_each(|(sum, gauge)| *sum += gauge.get());
            }
            open.iter().any(|open| *open != 0).then_some(RouteStreams { route, open })
        };
        // Harmless: only routes with an open stream are returned.
        self.routes.all().into_iter().filter_map(of_route).collect()
    }
}

impl StreamKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [StreamKind; 4] =
        [StreamKind::Sse, StreamKind::WebSocket, StreamKind::Tunnel, StreamKind::Grpc];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            StreamKind::Sse => "sse",
            StreamKind::WebSocket => "websocket",
            StreamKind::Tunnel => "tunnel",
            StreamKind::Grpc => "grpc",
        }
    }
}

impl OpenStream {
    /// Counts a stream that begins on this worker.
    pub fn begin(metrics: &Arc<RouteMetrics>, worker: usize, kind: StreamKind) -> OpenStream {
        let open = OpenStream { metrics: metrics.clone(), worker, kind };
        open.add(1);
        open
    }

    fn add(&self, n: i64) {
        let counts = self.metrics.shards.of(self.worker).open.get_or_init(Box::default);
        if let Some(gauge) = counts.get(self.kind as usize) {
            gauge.add(n);
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_place() {
        for (index, kind) in StreamKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "{}", kind.label());
        }
    }
}
