//! Close frames (RFC 6455, 5.5.1 and 7.4), and the protocol errors after which one is sent.

use crate::frame::{CONTROL_BYTES_MAX, Mask, Opcode, control};

/// A status code of a Close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(pub u16);

/// A protocol violation. Parts returned before it remain valid, and nothing after it can be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolError {
    /// The code for the Close frame.
    pub code: CloseCode,
    pub what: &'static str,
}

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

impl ProtocolError {
    pub(crate) fn protocol(what: &'static str) -> ProtocolError {
        ProtocolError { code: CloseCode::PROTOCOL_ERROR, what }
    }

    pub(crate) fn text(what: &'static str) -> ProtocolError {
        ProtocolError { code: CloseCode::INVALID_PAYLOAD, what }
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

/// Appends a Close frame with a code and a reason. A reason that is too long is cut at a character boundary.
pub fn close(code: CloseCode, reason: &str, mask: Option<Mask>, out: &mut Vec<u8>) {
    let mut payload = code.0.to_be_bytes().to_vec();
    let end = reason.floor_char_boundary(CONTROL_BYTES_MAX - payload.len());
    payload.extend_from_slice(reason.as_bytes().get(..end).unwrap_or_default());
    control(Opcode::Close, &payload, mask, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_two_characters() {
        let mut out = Vec::new();
        close(CloseCode::GOING_AWAY, &"ä".repeat(70), None, &mut out);
        assert_eq!(out[..4], [0x88, 124, 0x03, 0xe9]);
        assert_eq!(std::str::from_utf8(&out[4..]).unwrap(), "ä".repeat(61));
    }
}
