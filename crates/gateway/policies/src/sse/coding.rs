//! Removes the content coding of an event stream. The client gets it without a coding.

use std::io::{self, Write};

use fault::{Fault, Kind};
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use mediation::content_coding::{self, Coding};
use message::Headers;

/// The number of encoded bytes that are decoded at a time, since they can expand a thousandfold.
const CODED_BYTES_MAX: usize = 1 << 10;

const ACCEPTED: &str = "accept-encoding";

/// Decodes a stream while it passes.
pub(super) struct Decoder {
    coding: Coding,
    /// The decoder, or `None` before the first byte.
    begun: Option<BegunDecoder>,
}

enum BegunDecoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<Inflater>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
}

/// Decodes `deflate`. Unlike the library's own writer, it detects whether the end was reached.
struct Inflater {
    inflate: Decompress,
    out: Vec<u8>,
    has_ended: bool,
}

/// Reduces `Accept-Encoding` to the codings that can be decoded.
pub(super) fn narrow(lines: &mut Headers) {
    let asked: Vec<Vec<u8>> = lines.get_all(ACCEPTED).map(<[u8]>::to_vec).collect();
    let items = || asked.iter().flat_map(|line| line.split(|byte| *byte == b','));
    let is_read = |item: &&[u8]| {
        let name = item.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        // Harmless: names of codings are ASCII.
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
    /// Creates the decoder for a reply with these header lines, and removes the coding from the lines.
    pub(super) fn of(lines: &mut Headers) -> Result<Option<Decoder>, Fault> {
        let Some(name) = content_coding::named(lines) else { return Ok(None) };
        let Some(coding) = Coding::of(&name) else {
            let cause = format!("sse: events in the content coding {name} cannot be counted");
            return Err(Fault::new(Kind::UpstreamMalformed, cause));
        };
        lines.remove("content-encoding");
        Ok(Some(Decoder { coding, begun: None }))
    }

    /// Decodes bytes and passes them to `pass`, a bounded part at a time, until `pass` stops. Data before a decoding error is passed, too.
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

    /// Checks that the coding is complete at the end of the stream, including its checksum.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.begun.as_mut().map_or(Ok(()), BegunDecoder::end).map_err(broken)
    }
}

fn broken(error: io::Error) -> Fault {
    Fault::new(Kind::UpstreamMalformed, format!("sse: the content coding is broken: {error}"))
}

impl BegunDecoder {
    /// Creates the decoder for a stream that begins with these bytes.
    fn new(coding: Coding, first: &[u8]) -> BegunDecoder {
        let out = Vec::new();
        match coding {
            Coding::Gzip => BegunDecoder::Gzip(Box::new(MultiGzDecoder::new(out))),
            Coding::Deflate => {
                let inflate = Decompress::new(content_coding::is_wrapped(first));
                BegunDecoder::Deflate(Box::new(Inflater { inflate, out, has_ended: false }))
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
            BegunDecoder::Deflate(decoder) => decoder.end(),
            BegunDecoder::Brotli(decoder) => decoder.close(),
        }
    }

    /// Returns the decoded bytes.
    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            BegunDecoder::Gzip(decoder) => decoder.get_mut(),
            BegunDecoder::Deflate(decoder) => &mut decoder.out,
            BegunDecoder::Brotli(decoder) => decoder.get_mut(),
        }
    }
}

impl Inflater {
    /// Returns the number of bytes read and written.
    fn progress(&self) -> (u64, u64) {
        (self.inflate.total_in(), self.inflate.total_out())
    }

    fn end(&self) -> io::Result<()> {
        if self.has_ended { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Write for Inflater {
    /// Accepts no bytes after the end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begin = self.inflate.total_in();
        let taken = |inflate: &Decompress| {
            usize::try_from(inflate.total_in() - begin).unwrap_or(usize::MAX)
        };
        while !self.has_ended {
            let before = self.progress();
            let rest = bytes.get(taken(&self.inflate)..).unwrap_or_default();
            self.out.reserve(CODED_BYTES_MAX);
            let status = self.inflate.decompress_vec(rest, &mut self.out, FlushDecompress::None)?;
            self.has_ended = status == Status::StreamEnd;
            if self.progress() == before {
                break;
            }
        }
        Ok(taken(&self.inflate))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
