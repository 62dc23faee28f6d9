//! HTTP/2 as bytes, from the server's side: frames, header compression and the state of streams, without input or output.
//!
//! Owns RFC 9113 and RFC 7541: a [`Session`] is told what a client sent and what there is to answer, and builds what is to be
//! written. Heads come out as HTTP/1 header lines, which is what the rest of the gateway reads. It never reads a socket or a
//! clock, knows no route and decides no reply. It wakes tasks: of each stream it remembers the one that waits for it.
//!
//! # What the connection loop must do
//!
//! - Hand over what was read with [`Session::read`], frame by frame, and stop reading while [`Session::is_full`]: that is what
//!   bounds the answers to a client that asks for many and takes none.
//! - Write [`Session::unsent`], and say how much went with [`Session::sent`].
//! - After an [`Error`], call [`Session::fail`], write what there is, close.
//! - Keep the time: nothing here ends by itself that the peer does not end.
//!
//! # What a client may cost
//!
//! Windows bound what is kept of bodies, [`Config::head_bytes_max`] what a head may grow to when it is unpacked. A client that
//! opens streams to reset them (CVE-2023-44487), or sends frames that come to nothing (CVE-2019-9512 to 9518), is sent away with
//! `ENHANCE_YOUR_CALM`.

#![forbid(unsafe_code)]

mod block;
mod error;
mod frame;
mod hpack;
mod session;

pub use block::{Block, Head};
pub use error::{Code, Error};
pub use session::{Config, Event, PREFACE, Piece, RESETS_PER_SECOND, Read, Session};

/// Decodes a block of compressed header lines with an empty table, for fuzzing; the number of lines.
pub fn unpack(block: &[u8]) -> Result<usize, Error> {
    let mut lines = 0;
    hpack::Decoder::default().decode(block, |_, _| lines += 1)?;
    Ok(lines)
}
