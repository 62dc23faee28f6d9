//! Content codings of replies: removed before the first step that reads the body, and applied again by the topmost step.
//!
//! Shared by the policies that read XML replies. Owns the bound on the decoded size of a body.

use std::io::Write as _;

use bytes::Bytes;
use fault::{Fault, Kind};
use flate2::Compression;
use mediation::Rejection;
use mediation::content_coding::{self, Coding, DecodeError};
use message::{GatheredBody, ReplyHead};
use policy::Exchange;

use crate::xml_fault::{RESPONSE_GENERAL, refused_reply};

/// The zlib level, the same as in `compress`.
const LEVEL: u32 = 5;

/// The Brotli quality for on-the-fly compression, and its window as a power of two.
const BROTLI: (u32, u32) = (4, 18);

/// The number of bytes that the encoder collects before it encodes.
const BUFFER_BYTES: usize = 16 << 10;

/// How the policy treats codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codings {
    /// Whether all codings other than gzip are refused, as by Kong's SOAP/XML plugins.
    pub gzip_only: bool,
    /// Whether this is the topmost policy that reads replies, which applies the coding again.
    pub topmost: bool,
    /// The maximum size of the body, encoded and decoded.
    pub bytes_max: usize,
}

impl Codings {
    /// Removes the coding. The error is a rejection with a text for the client, or a fault if the body is too large.
    pub(crate) fn decode(
        self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), CodingRefusal> {
        let Some(name) = content_coding::named(&head.headers) else { return Ok(()) };
        let known = Coding::of(&name).filter(|coding| *coding == Coding::Gzip || !self.gzip_only);
        let Some(coding) = known else {
            // Like Kong's plugins, treats this as a fault of the client, which may request another coding.
            return Err(CodingRefusal::Failed(Rejection::client(format!(
                "Content-encoding of type '{name}' is not supported"
            ))));
        };
        let plain = self.decoded(coding, &body.bytes)?;
        body.bytes = plain.into();
        head.headers.remove("content-encoding");
        ex.notes().coding = Some(coding.name());
        Ok(())
    }

    fn decoded(self, coding: Coding, bytes: &Bytes) -> Result<Vec<u8>, CodingRefusal> {
        coding.decode(bytes, self.bytes_max).map_err(|why| match why {
            DecodeError::Malformed => CodingRefusal::Failed(Rejection::server(format!(
                "The content does not have the content coding '{}' that it states",
                coding.name()
            ))),
            DecodeError::TooLarge => {
                let cause =
                    format!("the reply is over {} bytes without its coding", self.bytes_max);
                CodingRefusal::Fault(Fault::new(Kind::ReplyTooLarge, cause))
            }
            DecodeError::NoRoom => CodingRefusal::Fault(message::no_room()),
        })
    }

    /// Applies the coding again, if this is the topmost policy.
    pub(crate) fn encode(
        self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        if !self.topmost {
            return Ok(());
        }
        let Some(coding) = ex.notes.as_mut().and_then(|notes| notes.coding.take()) else {
            return Ok(());
        };
        let broken =
            |error: std::io::Error| Fault::new(Kind::Internal, format!("{coding}: {error}"));
        let level = Compression::new(LEVEL);
        let out = Vec::with_capacity(body.bytes.len() / 2);
        let coded = match coding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(out, level);
                encoder.write_all(&body.bytes).and_then(|()| encoder.finish()).map_err(broken)?
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(out, level);
                encoder.write_all(&body.bytes).and_then(|()| encoder.finish()).map_err(broken)?
            }
            _ => {
                let (quality, window) = BROTLI;
                let mut encoder = brotli::CompressorWriter::new(out, BUFFER_BYTES, quality, window);
                encoder.write_all(&body.bytes).map_err(broken)?;
                encoder.into_inner()
            }
        };
        body.bytes = coded.into();
        head.headers.add_known("Content-Encoding", coding.as_bytes());
        Ok(())
    }
}

/// The reason why a coding was not removed.
pub(crate) enum CodingRefusal {
    /// The text for the client, and the side at fault.
    Failed(Rejection),
    Fault(Fault),
}

impl CodingRefusal {
    /// Returns the fault for a reply.
    pub(crate) fn fault(self, verbose: bool, status: u16) -> Fault {
        match self {
            CodingRefusal::Failed(failed) => {
                refused_reply(RESPONSE_GENERAL, failed, verbose, status)
            }
            CodingRefusal::Fault(fault) => fault,
        }
    }
}
