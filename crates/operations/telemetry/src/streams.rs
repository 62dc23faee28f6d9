//! The number of open streams. A stream may stay open for hours, during which the counts of ended exchanges do not
//! include it.

use std::sync::Arc;

use crate::Telemetry;
use crate::route::RouteMetrics;
use crate::stream_kind::StreamKind;

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
