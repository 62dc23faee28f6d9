//! Content codings of replies: taken off before the first step looks inside, put on again by the topmost.
//!
//! Shared by the policies that look into XML replies. Owns the bound on what a small body may become.

use std::io::Write as _;

use bytes::Bytes;
use fault::{Fault, Kind};
use flate2::Compression;
use mediation::Rejection;
use mediation::content_coding::{self, Coding, DecodeError};
use message::{GatheredBody, ReplyHead};
use policy::Exchange;

use crate::xml_fault::{RESPONSE_GENERAL, refused_reply};

/// The level of zlib where time and size still pay for one another; see `compress`.
const LEVEL: u32 = 5;

/// Brotli for what is made while somebody waits, and its window as a power of two.
const BROTLI: (u32, u32) = (4, 18);

/// Bytes that the encoder collects before it encodes.
const BUFFER_BYTES: usize = 16 << 10;

/// The policy's treatment of codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codings {
    /// Refuses what the reference system refuses: all but gzip.
    pub gzip_only: bool,
    /// No policy above looks into replies, so this one puts the coding on again.
    pub topmost: bool,
    /// The largest body, before and after.
    pub bytes_max: usize,
}

impl Codings {
    /// Takes the coding off. The error is a sentence for the client, or a fault for what is too large.
    pub(crate) fn take_off(
        self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), CodingRefusal> {
        let Some(name) = content_coding::named(&head.headers) else { return Ok(()) };
        let known = Coding::of(&name).filter(|coding| *coding == Coding::Gzip || !self.gzip_only);
        let Some(coding) = known else {
            // The reference system says that it is the client's, who may ask for another.
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
                "The content is not of the type '{}' it says",
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

    /// Puts it on again, if this is the policy that does.
    pub(crate) fn put_on(
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

/// Why a coding was not taken off.
pub(crate) enum CodingRefusal {
    /// The words for the client, and whose fault it is.
    Failed(Rejection),
    Fault(Fault),
}

impl CodingRefusal {
    /// The fault for a reply, whichever policy looks into it.
    pub(crate) fn fault(self, verbose: bool, status: u16) -> Fault {
        match self {
            CodingRefusal::Failed(failed) => {
                refused_reply(RESPONSE_GENERAL, failed, verbose, status)
            }
            CodingRefusal::Fault(fault) => fault,
        }
    }
}
