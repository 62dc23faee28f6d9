//! HTTP/2 for both sides: frames, header compression and the state of streams, without I/O.
//!
//! Owns RFC 9113 and RFC 7541: a [`Session`] takes the peer's bytes and the gateway's messages, and builds the output. It is either a
//! server ([`Session::new`]) or a client ([`Session::client`]). Heads are returned as HTTP/1 header lines, the form that the rest of the
//! gateway uses. A session reads no sockets and no clock, knows no routes and decides no replies. It wakes tasks: for each stream, it
//! remembers the task that waits for it.
//!
//! # What the connection loop must do
//!
//! - Pass the peer's bytes to [`Session::read`], frame by frame, and stop reading while [`Session::is_full`]. This bounds the output for a
//!   client that sends many requests and reads no replies.
//! - Write [`Session::unsent`], and report the number of bytes written with [`Session::sent`].
//! - After an [`Error`], call [`Session::fail`], write the rest of the output, and close.
//! - Enforce timeouts: a session ends only if the peer or the caller ends it.
//!
//! # What a client may cost
//!
//! Windows bound the memory for bodies, and [`Config::head_bytes_max`] bounds the size of a decompressed head. A client that
//! opens streams to reset them (CVE-2023-44487), or sends frames without effect (CVE-2019-9512 to 9518), is closed with
//! `ENHANCE_YOUR_CALM`.
//!
//! # What a server may cost
//!
//! Each stream holds at most its window and the heads of one reply. A reader that stops blocks only its own stream, since the connection's
//! window is returned as soon as bytes arrive. Frames without effect end the connection, as for a client.

#![forbid(unsafe_code)]

mod block;
mod error;
mod frame;
mod hpack;
mod session;

pub use block::{Block, Head};
pub use error::{Code, Error};
pub use session::{
    BodyPiece, Config, Event, PREFACE, RESETS_PER_SECOND, ReadOutcome, RequestLine, Session,
    StreamFailure,
};

/// Returns true if the frame at the front of these bytes contains header lines, so that [`Session::read`] needs a block for them.
pub fn contains_header_lines(bytes: &[u8]) -> bool {
    frame::Head::read(bytes)
        .is_some_and(|head| matches!(head.kind, frame::kind::HEADERS | frame::kind::CONTINUATION))
}

/// Decodes a block of compressed header lines with an empty dynamic table, for fuzzing. Returns the number of lines.
pub fn decode_header_block(block: &[u8]) -> Result<usize, Error> {
    let mut lines = 0;
    hpack::Decoder::default().decode(block, |_, _| lines += 1)?;
    Ok(lines)
}
