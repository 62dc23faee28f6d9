//! HTTP/2 as bytes, from either side: frames, header compression and the state of streams, without input or output.
//!
//! Owns RFC 9113 and RFC 7541: a [`Session`] takes the peer's bytes and the gateway's messages, and builds the output. It serves
//! a client ([`Session::new`]), or is one of a server ([`Session::client`]). Heads come out as HTTP/1 header lines, the form that the rest of the gateway reads. It never reads a socket or a clock, knows no
//! route and decides no reply. It wakes tasks: for each stream it remembers the task that waits for it.
//!
//! # What the connection loop must do
//!
//! - Pass the peer's bytes to [`Session::read`], frame by frame, and stop reading while [`Session::is_full`]. That bounds the
//!   output for a client that requests much and reads nothing.
//! - Write [`Session::unsent`], and report the number of bytes written with [`Session::sent`].
//! - After an [`Error`], call [`Session::fail`], write the rest of the output, close.
//! - Keep the time: nothing here ends by itself unless the peer ends it.
//!
//! # What a client may cost
//!
//! Windows bound the memory for bodies, and [`Config::head_bytes_max`] bounds the size of a decompressed head. A client that
//! opens streams to reset them (CVE-2023-44487), or sends frames without effect (CVE-2019-9512 to 9518), is closed with
//! `ENHANCE_YOUR_CALM`.
//!
//! # What a server may cost
//!
//! Each stream holds at most its window and the heads of one reply. A reader who stops stops its stream and no other, since the
//! connection's window is returned as bytes come. Frames without effect end the connection as a client's do.

#![forbid(unsafe_code)]

mod block;
mod error;
mod frame;
mod hpack;
mod session;

pub use block::{Block, Head};
pub use error::{Code, Error};
pub use session::{
    BodyPiece, Config, Event, Gone, PREFACE, RESETS_PER_SECOND, ReadOutcome, RequestLine, Session,
};

/// True if the frame at the front of these bytes is one of header lines, so that [`Session::read`] may need room for a block.
pub fn brings_lines(bytes: &[u8]) -> bool {
    frame::Head::read(bytes)
        .is_some_and(|head| matches!(head.kind, frame::kind::HEADERS | frame::kind::CONTINUATION))
}

/// Decodes a block of compressed header lines with an empty table, for fuzzing; returns the number of lines.
pub fn unpack(block: &[u8]) -> Result<usize, Error> {
    let mut lines = 0;
    hpack::Decoder::default().decode(block, |_, _| lines += 1)?;
    Ok(lines)
}
