//! The WebSocket protocol (RFC 6455), without input or output: frames read strictly, and frames written.
//!
//! A [`Reader`] follows one direction of a connection. It reads headers, checks the order of frames, unmasks and checks texts, and gives
//! payloads as they came: what passes on is copied from the input and stays masked. It knows no extension.
#![forbid(unsafe_code)]

mod close;
mod frame;
mod reader;
mod utf8;

pub use close::{CloseCode, code_of};
pub use frame::{
    CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Mask, Opcode, close, control, text, unmask,
};
pub use reader::{Begin, Control, Part, Payload, ProtocolError, Reader, Sender};
