//! The content coding of an event stream that has to be read. It goes on without it.

use std::io::{self, Write};

use fault::{Fault, Kind};
use flate2::Decompress;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use mediation::content_coding::{self, Coding};
use message::Headers;

/// So many bytes of a coding at a time, which can be a thousand times as many without it.
const CODED_BYTES_MAX: usize = 1 << 10;

const ACCEPTED: &str = "accept-encoding";

/// Takes the coding off as the stream passes.
pub(super) struct Decoder {
    coding: Coding,
    /// Nothing has come if absent.
    begun: Option<BegunDecoder>,
}

enum BegunDecoder {
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
        let Some(coding) = Coding::of(&name) else {
            let cause = format!("sse: events in the content coding {name} cannot be counted");
            return Err(Fault::new(Kind::UpstreamMalformed, cause));
        };
        lines.remove("content-encoding");
        Ok(Some(Decoder { coding, begun: None }))
    }

    /// Hands on the bytes without their coding, a bounded part at a time, until `pass` ends that. What stands before a place where the
    /// coding is broken is handed on as well.
    pub(super) fn decode<E>(
        &mut self,
        bytes: &[u8],
        mut pass: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, Fault> {
        for few in bytes.chunks(CODED_BYTES_MAX) {
            let decoder = self.begun.get_or_insert_with(|| BegunDecoder::new(self.coding, few));
            let written = decoder.write(few);
            let out = decoder.out();
            let passed = pass(out);
            out.clear();
            if passed.is_err() {
                return Ok(passed);
            }
            written.map_err(broken)?;
        }
        Ok(Ok(()))
    }

    /// Checks that the coding ends where the stream does, and what it says there of its content.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.begun.as_mut().map_or(Ok(()), BegunDecoder::end).map_err(broken)
    }
}

fn broken(error: io::Error) -> Fault {
    Fault::new(Kind::UpstreamMalformed, format!("sse: the content coding is broken: {error}"))
}

impl BegunDecoder {
    /// For a stream that begins with these bytes.
    fn new(coding: Coding, first: &[u8]) -> BegunDecoder {
        let out = Vec::new();
        match coding {
            Coding::Gzip => BegunDecoder::Gzip(Box::new(MultiGzDecoder::new(out))),
            Coding::Deflate => {
                let inflate = Decompress::new(content_coding::is_wrapped(first));
                BegunDecoder::Deflate(Box::new(ZlibDecoder::new_with_decompress(out, inflate)))
            }
            Coding::Brotli => {
                let decoder = brotli::DecompressorWriter::new(out, CODED_BYTES_MAX);
                BegunDecoder::Brotli(Box::new(decoder))
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let decoder: &mut dyn Write = match self {
            BegunDecoder::Gzip(decoder) => decoder,
            BegunDecoder::Deflate(decoder) => decoder,
            BegunDecoder::Brotli(decoder) => decoder,
        };
        decoder.write_all(bytes).and_then(|()| decoder.flush())
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            BegunDecoder::Gzip(decoder) => decoder.try_finish(),
            BegunDecoder::Deflate(decoder) => decoder.try_finish(),
            BegunDecoder::Brotli(decoder) => decoder.close(),
        }
    }

    /// What has been written without its coding.
    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            BegunDecoder::Gzip(decoder) => decoder.get_mut(),
            BegunDecoder::Deflate(decoder) => decoder.get_mut(),
            BegunDecoder::Brotli(decoder) => decoder.get_mut(),
        }
    }
}
