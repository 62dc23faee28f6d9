//! The reason why a WebSocket ends, and the close codes for both sides.

use ::websocket::{CloseCode, ProtocolError};
use policy::TunnelSide;
use telemetry::StreamEnd;

/// An end by the gateway: the reason, and the codes for the client and the upstream.
pub(super) struct End {
    pub(super) why: StreamEnd,
    pub(super) client: CloseCode,
    pub(super) upstream: CloseCode,
    pub(super) reason: &'static str,
}

impl End {
    /// Creates an end for which the client gets this code, and the upstream only `GOING_AWAY`.
    pub(super) fn with_client_code(why: StreamEnd, client: CloseCode, reason: &'static str) -> End {
        End { why, client, upstream: CloseCode::GOING_AWAY, reason }
    }

    /// Creates the end for a message of this side that is too large.
    pub(super) fn too_large(from: TunnelSide) -> End {
        let (why, client) = (StreamEnd::TooLarge, CloseCode::TOO_LARGE);
        let upstream = told_to_upstream(from, client);
        End { why, client, upstream, reason: "a message is too large" }
    }

    /// Creates the end for a message that cannot be gathered for lack of memory.
    pub(super) fn no_memory() -> End {
        let (why, client) = (StreamEnd::NoMemory, CloseCode::TRY_AGAIN_LATER);
        End::with_client_code(why, client, "the gateway is short of memory")
    }

    /// Creates the end for a protocol violation by this side.
    pub(super) fn malformed(from: TunnelSide, malformed: ProtocolError) -> End {
        let (why, client) = (StreamEnd::Malformed, malformed.code);
        let upstream = told_to_upstream(from, client);
        End { why, client, upstream, reason: malformed.what }
    }
}

/// Returns the code for the upstream. It learns the code of its own violation; for one of the client it gets only `GOING_AWAY`.
fn told_to_upstream(from: TunnelSide, code: CloseCode) -> CloseCode {
    match from {
        TunnelSide::Client => CloseCode::GOING_AWAY,
        TunnelSide::Upstream => code,
    }
}
