//! The WebSocket protocol (RFC 6455), without I/O: strict parsing and writing of frames.
//!
//! A [`Reader`] follows one direction of a connection. It parses headers, checks the order of frames, unmasks and validates texts, and
//! returns payloads unchanged: data that is forwarded is copied from the input and stays masked. Extensions are not supported.
#![forbid(unsafe_code)]

mod close;
mod frame;
mod reader;
mod utf8;

pub use close::{CloseCode, ProtocolError, close, code_of};
pub use frame::{CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Header, Mask, Opcode, control, text, unmask};
pub use reader::{Begin, Control, Part, Payload, Reader, Sender};
