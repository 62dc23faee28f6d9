//! Decoding of bodies: finds the end, and removes the framing from the payload.

use crate::chunk::{ChunkLine, EXTENSION_BYTES_MAX};
use crate::forwarding::is_forwarding;
use crate::lines::parse_lines;
use crate::token::{is_alias, is_token_byte};
use crate::{Error, Framing, Limits, Line};

/// Decodes one body, in pieces of any size.
#[derive(Clone, Debug)]
pub struct Decoder {
    stage: Stage,
    chunked: bool,
    /// The number of extension bytes that the body may still use. Each payload byte adds one.
    extension_bytes: u64,
    trailers: Vec<u8>,
}

/// The meaning of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The body is over; the byte belongs to the next message.
    Done,
    /// Payload of a body that has this many bytes left.
    Length(u64),
    /// Payload to the end.
    UntilClose,
    /// Part of a chunk line.
    Line(ChunkLine),
    /// Payload of a chunk that has this many bytes left.
    Data(u64),
    /// The CR after a chunk's payload. Its LF is `DataFeed`.
    DataReturn,
    DataFeed,
    /// The first byte of a trailer line or of the last, empty line.
    Trailer,
    /// Within a trailer line.
    TrailerLine,
    /// The LF of the empty line.
    LastFeed,
    /// Part of a malformed body. This stage is final.
    Failed(Error),
}

impl Decoder {
    /// Creates a decoder for a body with this framing.
    pub fn new(framing: Framing) -> Self {
        let stage = match framing {
            Framing::None | Framing::Length(0) => Stage::Done,
            Framing::Length(length) => Stage::Length(length),
            Framing::Chunked => Stage::Line(ChunkLine::default()),
            Framing::UntilClose => Stage::UntilClose,
        };
        Self {
            stage,
            chunked: framing == Framing::Chunked,
            extension_bytes: EXTENSION_BYTES_MAX,
            trailers: Vec::new(),
        }
    }

    /// Takes bytes of the body from `input` and appends the payload to `out`. Returns the number of bytes that belong to this body. It is
    /// less than `input.len()` only if the body ends within `input`. An error is final.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
        let mut rest = input;
        while !rest.is_empty() && self.stage != Stage::Done {
            match self.step(rest, out) {
                Ok(after) => rest = after,
                Err(error) => {
                    self.stage = Stage::Failed(error);
                    return Err(error);
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Counts `n` payload bytes of a body that is not chunked, which were read without the decoder. `n` must not exceed
    /// [`Self::remaining`].
    pub fn advance(&mut self, n: usize) {
        debug_assert!(!self.chunked, "a chunked body has to be decoded");
        if let Stage::Length(left) = self.stage {
            debug_assert!(n as u64 <= left, "{n} bytes of a body that has {left} left");
            self.stage = length_left(left.saturating_sub(n as u64));
        }
    }

    /// Returns true if the body is complete.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Returns the number of payload bytes still to come, or `None` if it is not known: before the end of a chunked body, for a body that
    /// ends at close, and after an error.
    pub fn remaining(&self) -> Option<u64> {
        match self.stage {
            Stage::Done => Some(0),
            Stage::Length(left) => Some(left),
            Stage::UntilClose
            | Stage::Line(_)
            | Stage::Data(_)
            | Stage::DataReturn
            | Stage::DataFeed
            | Stage::Trailer
            | Stage::TrailerLine
            | Stage::LastFeed
            | Stage::Failed(_) => None,
        }
    }

    /// Returns true if the body is chunked.
    pub fn is_chunked(&self) -> bool {
        self.chunked
    }

    /// Reports that the peer has closed the connection. This ends a body with [`Framing::UntilClose`], and is an error for any other
    /// incomplete body.
    pub fn end_of_input(&mut self) -> Result<(), Error> {
        let error = match self.stage {
            Stage::Done | Stage::UntilClose => {
                self.stage = Stage::Done;
                return Ok(());
            }
            Stage::Failed(error) => error,
            Stage::Length(_)
            | Stage::Line(_)
            | Stage::Data(_)
            | Stage::DataReturn
            | Stage::DataFeed
            | Stage::Trailer
            | Stage::TrailerLine
            | Stage::LastFeed => Error::Truncated,
        };
        self.stage = Stage::Failed(error);
        Err(error)
    }

    /// Returns the trailer lines of a complete body, checked like headers, without fields that are not allowed as trailers. The result is
    /// empty before the end of the body, and if it has no trailers.
    pub fn trailers(&self) -> &[u8] {
        if self.is_done() { &self.trailers } else { &[] }
    }

    /// Takes one byte, one run of payload or one run of a trailer line from `input`, which must not be empty, and returns the rest.
    fn step<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> Result<&'i [u8], Error> {
        match self.stage {
            Stage::Length(left) => {
                let (payload, rest) = split(input, left);
                out.extend_from_slice(payload);
                self.stage = length_left(left - payload.len() as u64);
                Ok(rest)
            }
            Stage::UntilClose => {
                out.extend_from_slice(input);
                Ok(&[])
            }
            Stage::Data(left) => {
                let (payload, rest) = split(input, left);
                out.extend_from_slice(payload);
                self.stage = match left - payload.len() as u64 {
                    0 => Stage::DataReturn,
                    left => Stage::Data(left),
                };
                Ok(rest)
            }
            Stage::TrailerLine => self.trailer_line(input),
            Stage::Done => Ok(input),
            Stage::Failed(error) => Err(error),
            Stage::Line(_)
            | Stage::DataReturn
            | Stage::DataFeed
            | Stage::Trailer
            | Stage::LastFeed => {
                let (&byte, rest) = input.split_first().ok_or(Error::Truncated)?;
                self.stage = self.after(byte)?;
                Ok(rest)
            }
        }
    }

    /// Returns the stage after a byte of the framing.
    fn after(&mut self, byte: u8) -> Result<Stage, Error> {
        match (self.stage, byte) {
            (Stage::Line(mut line), _) => match line.push(byte)? {
                None => Ok(Stage::Line(line)),
                Some(chunk) => {
                    self.extension_bytes = self
                        .extension_bytes
                        .checked_sub(chunk.extension_bytes)
                        .ok_or(Error::ChunkLineTooLong)?
                        .saturating_add(chunk.size);
                    Ok(if chunk.size == 0 { Stage::Trailer } else { Stage::Data(chunk.size) })
                }
            },
            (Stage::DataReturn, b'\r') => Ok(Stage::DataFeed),
            (Stage::DataFeed, b'\n') => Ok(Stage::Line(ChunkLine::default())),
            (Stage::DataReturn | Stage::DataFeed, _) => Err(Error::ChunkDataEnd),
            (Stage::Trailer, b'\r') => Ok(Stage::LastFeed),
            (Stage::LastFeed, b'\n') => {
                self.keep_trailers()?;
                Ok(Stage::Done)
            }
            (Stage::Trailer, _) if is_token_byte(byte) => {
                self.push_trailer(&[byte])?;
                Ok(Stage::TrailerLine)
            }
            _ => Err(Error::Trailer),
        }
    }

    fn trailer_line<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], Error> {
        let end = memchr::memchr(b'\n', input).map(|at| at + 1);
        let (line, rest) = split(input, end.unwrap_or(input.len()) as u64);
        self.push_trailer(line)?;
        if end.is_some() {
            self.stage = Stage::Trailer;
        }
        Ok(rest)
    }

    fn push_trailer(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.trailers.len() + bytes.len() > Limits::TRAILERS.head_bytes_max {
            return Err(Error::TrailerTooLarge);
        }
        self.trailers.extend_from_slice(bytes);
        Ok(())
    }

    fn keep_trailers(&mut self) -> Result<(), Error> {
        if self.trailers.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        let all = std::mem::take(&mut self.trailers);
        parse_lines(&all, &Limits::TRAILERS, &mut lines).map_err(|error| {
            if error == Error::TooManyHeaders { Error::TrailerTooLarge } else { Error::Trailer }
        })?;
        self.trailers = check_trailers(&all, &lines, &Limits::TRAILERS)?;
        Ok(())
    }
}

/// Returns the lines that are allowed as trailers, for both versions of HTTP. `lines` are spans of `bytes` whose names and values were
/// checked. Fails if there are more lines or bytes than `limits` allow.
pub fn check_trailers(bytes: &[u8], lines: &[Line], limits: &Limits) -> Result<Vec<u8>, Error> {
    let len: usize = lines.iter().map(|line| line.line.len()).sum();
    if len > limits.head_bytes_max || lines.len() > limits.headers_max {
        return Err(Error::TrailerTooLarge);
    }
    let kept = lines.iter().filter(|line| may_trail(line.name.of(bytes)));
    Ok(kept.flat_map(|line| line.line.of(bytes)).copied().collect())
}

/// Returns true if a field may be a trailer. Fields for framing, routing, authentication, request modifiers, response control or content
/// format may not (RFC 9110, 6.5.1).
fn may_trail(name: &[u8]) -> bool {
    const NEVER: &str = "age authentication-info authorization cache-control connection \
        content-disposition content-encoding content-language content-length content-location \
        content-range content-type cookie date expect expires forwarded from host http2-settings \
        if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive location \
        max-forwards origin pragma proxy-authenticate proxy-authentication-info \
        proxy-authorization proxy-connection range referer retry-after set-cookie te trailer \
        transfer-encoding upgrade vary via warning www-authenticate x-http-method \
        x-http-method-override x-method-override x-request-id";
    !NEVER.split(' ').any(|never| is_alias(name, never.as_bytes()))
        && !is_forwarding(name)
        && !is_of_cors(name)
}

/// Returns true for CORS headers, which may only be in the head (Fetch standard, CORS protocol).
fn is_of_cors(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"access-control-";
    name.get(..FAMILY.len()).is_some_and(|start| is_alias(start, FAMILY))
}

fn length_left(left: u64) -> Stage {
    if left == 0 { Stage::Done } else { Stage::Length(left) }
}

/// Returns the first `n` bytes, or all if there are fewer, and the rest.
fn split(input: &[u8], n: u64) -> (&[u8], &[u8]) {
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    input.split_at_checked(n).unwrap_or((input, &[]))
}
