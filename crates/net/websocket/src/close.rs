//! Close frames (RFC 6455, 5.5.1 and 7.4).

use crate::ProtocolError;

/// A status code of a Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    pub const NORMAL: CloseCode = CloseCode(1000);
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// For a kind of data that is not accepted, such as binary.
    pub const UNSUPPORTED: CloseCode = CloseCode(1003);
    pub const INVALID_PAYLOAD: CloseCode = CloseCode(1007);
    pub const POLICY_VIOLATION: CloseCode = CloseCode(1008);
    pub const TOO_LARGE: CloseCode = CloseCode(1009);
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);
    /// For a server that is overloaded (IANA, WebSocket Close Code Number Registry).
    pub const TRY_AGAIN_LATER: CloseCode = CloseCode(1013);
    /// For a gateway whose upstream has disconnected (IANA, the same registry).
    pub const BAD_GATEWAY: CloseCode = CloseCode(1014);

    /// Returns true if the code may be sent in a frame: not 1004 to 1006 and 1015, and below 3000 only registered codes (RFC 6455, 7.4.2).
    pub fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// Returns the code in the payload of a Close frame, or `None` if the payload is empty. The reason must be UTF-8.
pub fn code_of(payload: &[u8]) -> Result<Option<CloseCode>, ProtocolError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(ProtocolError::protocol("a Close frame with half a code")),
        };
    };
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.may_be_sent() {
        return Err(ProtocolError::protocol("a Close frame with a code that may not be sent"));
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(ProtocolError::text("the reason of a Close frame is not UTF-8")),
    }
}
