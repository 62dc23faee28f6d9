//! The content coding of an event stream that has to be read. It goes on without it.

use std::io::Write;

use fault::{Fault, Kind};
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use mediation::content_coding::{self, Coding};
use message::Headers;

/// So many bytes of a coding at a time, which can be a thousand times as many without it.
const CODED_BYTES_MAX: usize = 1 << 10;

const ACCEPTED: &str = "accept-encoding";

/// Takes the coding off as the stream passes.
pub(super) enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<ZlibDecoder<Vec<u8>>>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
}

/// Leaves those codings in `Accept-Encoding` that a stream can be read in.
pub(super) fn narrow(lines: &mut Headers) {
    let asked: Vec<Vec<u8>> = lines.get_all(ACCEPTED).map(<[u8]>::to_vec).collect();
    let items = || asked.iter().flat_map(|line| line.split(|byte| *byte == b','));
    let is_read = |item: &&[u8]| {
        let name = item.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        name == "identity" || Coding::of(&name).is_some()
    };
    if items().all(|item| is_read(&item)) {
        return;
    }
    let kept: Vec<&[u8]> = items().filter(is_read).map(<[u8]>::trim_ascii).collect();
    lines.remove(ACCEPTED);
    if !kept.is_empty() {
        lines.add_known("Accept-Encoding", &kept.join(&b", "[..]));
    }
}

impl Decoder {
    /// For the reply with these lines, which then say that it has none.
    pub(super) fn of(lines: &mut Headers) -> Result<Option<Decoder>, Fault> {
        let Some(name) = content_coding::named(lines) else { return Ok(None) };
        let out = Vec::new();
        let decoder = match Coding::of(&name) {
            Some(Coding::Gzip) => Decoder::Gzip(Box::new(MultiGzDecoder::new(out))),
            Some(Coding::Deflate) => Decoder::Deflate(Box::new(ZlibDecoder::new(out))),
            Some(Coding::Brotli) => {
                Decoder::Brotli(Box::new(brotli::DecompressorWriter::new(out, CODED_BYTES_MAX)))
            }
            None => {
                let cause = format!("sse: events in the content coding {name} cannot be counted");
                return Err(Fault::new(Kind::UpstreamMalformed, cause));
            }
        };
        lines.remove("content-encoding");
        Ok(Some(decoder))
    }

    /// Hands on the bytes without their coding, a bounded part at a time, until `pass` ends that. What stands before a place where the
    /// coding is broken is handed on as well.
    pub(super) fn decode<E>(
        &mut self,
        bytes: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, Fault> {
        for few in bytes.chunks(CODED_BYTES_MAX) {
            let written = match self {
                Decoder::Gzip(decoder) => decoder.write_all(few).and_then(|()| decoder.flush()),
                Decoder::Deflate(decoder) => decoder.write_all(few).and_then(|()| decoder.flush()),
                Decoder::Brotli(decoder) => decoder.write_all(few).and_then(|()| decoder.flush()),
            };
            let out = match self {
                Decoder::Gzip(decoder) => decoder.get_mut(),
                Decoder::Deflate(decoder) => decoder.get_mut(),
                Decoder::Brotli(decoder) => decoder.get_mut(),
            };
            let passed = pass(out);
            out.clear();
            if passed.is_err() {
                return Ok(passed);
            }
            written.map_err(|error| {
                let cause = format!("sse: the content coding is broken: {error}");
                Fault::new(Kind::UpstreamMalformed, cause)
            })?;
        }
        Ok(Ok(()))
    }
}
