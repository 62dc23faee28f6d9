//! The reasons why a stream or a connection ends (RFC 9113, 7).

use std::fmt;

/// An error code. Peers may send codes other than those named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const NO_ERROR: Code = Code(0x0);
    pub const PROTOCOL_ERROR: Code = Code(0x1);
    pub const INTERNAL_ERROR: Code = Code(0x2);
    pub const FLOW_CONTROL_ERROR: Code = Code(0x3);
    pub const STREAM_CLOSED: Code = Code(0x5);
    pub const FRAME_SIZE_ERROR: Code = Code(0x6);
    pub const REFUSED_STREAM: Code = Code(0x7);
    pub const CANCEL: Code = Code(0x8);
    pub const COMPRESSION_ERROR: Code = Code(0x9);
    pub const ENHANCE_YOUR_CALM: Code = Code(0xb);
}

/// An error that ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    /// The reason, for the gateway's log and the peer's.
    pub why: &'static str,
}

impl Error {
    pub(crate) const fn new(code: Code, why: &'static str) -> Error {
        Error { code, why }
    }

    pub(crate) const fn protocol(why: &'static str) -> Error {
        Error::new(Code::PROTOCOL_ERROR, why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (code {})", self.why, self.code.0)
    }
}

impl std::error::Error for Error {}
