//! The kinds of streams, with their labels in metrics.

use crate::count::Gauge;

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
