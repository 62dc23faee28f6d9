//! Why a WebSocket ends, and what each side is told.

use ::websocket::{CloseCode, ProtocolError};
use policy::TunnelSide;
use telemetry::StreamEnd;

/// An end by the gateway: why, and the codes that the client and the upstream get.
pub(super) struct End {
    pub(super) why: StreamEnd,
    pub(super) client: CloseCode,
    pub(super) upstream: CloseCode,
    pub(super) reason: &'static str,
}

impl End {
    /// An end for which the client gets this code, and the upstream is only told that it is over.
    pub(super) fn by_client(why: StreamEnd, client: CloseCode, reason: &'static str) -> End {
        End { why, client, upstream: CloseCode::GOING_AWAY, reason }
    }

    /// A message of this side is larger than what is allowed.
    pub(super) fn too_large(from: TunnelSide) -> End {
        let (why, client) = (StreamEnd::TooLarge, CloseCode::TOO_LARGE);
        let upstream = told_to_upstream(from, client);
        End { why, client, upstream, reason: "a message is too large" }
    }

    /// There is no memory to gather a message.
    pub(super) fn no_memory() -> End {
        let (why, client) = (StreamEnd::NoMemory, CloseCode::TRY_AGAIN_LATER);
        End::by_client(why, client, "the gateway is short of memory")
    }

    /// This side sent what is not a WebSocket.
    pub(super) fn malformed(from: TunnelSide, malformed: ProtocolError) -> End {
        let (why, client) = (StreamEnd::Malformed, malformed.code);
        let upstream = told_to_upstream(from, client);
        End { why, client, upstream, reason: malformed.what }
    }
}

/// An upstream is told what it did wrong itself, and of what a client did only that it is over.
fn told_to_upstream(from: TunnelSide, code: CloseCode) -> CloseCode {
    match from {
        TunnelSide::Client => CloseCode::GOING_AWAY,
        TunnelSide::Upstream => code,
    }
}
