//! The reasons why bytes are not a valid message. Their texts are short constants, since they are logged and compared.

use std::fmt;

/// An error in a head or a body, with the section of the violated rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// More than one empty line, or half of one, before the start line.
    EmptyLines,
    /// The method is not a token, or is too long.
    Method,
    /// The target is empty, or has an invalid byte, escape or form.
    Target,
    /// The target is longer than allowed.
    TargetTooLong,
    /// The request line has no version in the expected place.
    RequestLine,
    /// A version other than 1.0 and 1.1.
    Version,
    /// The start of a response is not a status line.
    StatusLine,
    /// A line does not end in CR LF: it has a bare LF or a bare CR, or is folded.
    LineEnd,
    /// A header name is empty or not a token, has white space before its colon, or has no colon.
    HeaderName,
    /// A header value has a control character.
    HeaderValue,
    /// The head is larger than allowed.
    HeadTooLarge,
    /// There are more header lines than allowed.
    TooManyHeaders,
    /// A 1.1 request without Host.
    HostMissing,
    /// There is more than one Host.
    HostRepeated,
    /// Host is not a `host` or `host:port`.
    Host,
    /// Host and the authority in the target differ.
    HostMismatch,
    /// Content-Length is not plain digits, or is too large.
    ContentLength,
    /// There is more than one Content-Length.
    ContentLengthRepeated,
    /// Transfer-Encoding is not plainly `chunked`.
    TransferEncoding,
    /// There is more than one Transfer-Encoding.
    TransferEncodingRepeated,
    /// Transfer-Encoding in a 1.0 message.
    TransferEncodingVersion,
    /// A registered transfer coding that is not supported here.
    TransferCoding,
    /// Both Content-Length and Transfer-Encoding.
    LengthAndCoding,
    /// A framing header spelled with an underscore, which some servers read as the real one.
    FramingAlias,
    /// There is more than one Content-Type.
    ContentTypeRepeated,
    /// An expectation other than 100-continue.
    Expectation,
    /// A chunk size is not 1 to 16 hexadecimal digits, or is too large.
    ChunkSize,
    /// A chunk extension is malformed.
    ChunkExtension,
    /// A chunk line is larger than allowed, or all extensions together are.
    ChunkLineTooLong,
    /// A chunk line does not end in CR LF.
    ChunkLineEnd,
    /// Chunk data is not followed by CR LF.
    ChunkDataEnd,
    /// A trailer line is malformed.
    Trailer,
    /// The trailers are larger than allowed.
    TrailerTooLarge,
    /// The peer closed before the body was complete.
    Truncated,
}

impl Error {
    /// Returns the status of the answer to a request with this error. For an error in a response, the upstream is at fault, and the caller
    /// answers 502 instead.
    pub fn status(&self) -> u16 {
        match self {
            Self::TargetTooLong => 414,
            Self::HeadTooLarge | Self::TooManyHeaders => 431,
            Self::Expectation => 417,
            Self::TransferCoding => 501,
            Self::Version => 505,
            Self::EmptyLines
            | Self::Method
            | Self::Target
            | Self::RequestLine
            | Self::StatusLine
            | Self::LineEnd
            | Self::HeaderName
            | Self::HeaderValue
            | Self::HostMissing
            | Self::HostRepeated
            | Self::Host
            | Self::HostMismatch
            | Self::ContentLength
            | Self::ContentLengthRepeated
            | Self::TransferEncoding
            | Self::TransferEncodingRepeated
            | Self::TransferEncodingVersion
            | Self::LengthAndCoding
            | Self::FramingAlias
            | Self::ContentTypeRepeated
            | Self::ChunkSize
            | Self::ChunkExtension
            | Self::ChunkLineTooLong
            | Self::ChunkLineEnd
            | Self::ChunkDataEnd
            | Self::Trailer
            | Self::TrailerTooLarge
            | Self::Truncated => 400,
        }
    }

    /// Returns the text of [`fmt::Display`].
    pub fn reason(&self) -> &'static str {
        match self {
            Self::EmptyLines => "stray line ends before the start line (RFC 9112 2.2)",
            Self::Method => "bad method (RFC 9112 3.1)",
            Self::Target => "bad request target (RFC 9112 3.2)",
            Self::TargetTooLong => "request target too long (RFC 9112 3)",
            Self::RequestLine => "bad request line (RFC 9112 3)",
            Self::Version => "HTTP version not supported (RFC 9110 2.5)",
            Self::StatusLine => "bad status line (RFC 9112 4)",
            Self::LineEnd => "line does not end in CR LF (RFC 9112 2.2)",
            Self::HeaderName => "bad header name (RFC 9112 5.1)",
            Self::HeaderValue => "bad header value (RFC 9110 5.5)",
            Self::HeadTooLarge => "head too large (RFC 6585 5)",
            Self::TooManyHeaders => "too many headers (RFC 6585 5)",
            Self::HostMissing => "no Host (RFC 9112 3.2)",
            Self::HostRepeated => "more than one Host (RFC 9112 3.2)",
            Self::Host => "bad Host (RFC 9110 7.2)",
            Self::HostMismatch => "Host differs from the target (RFC 9112 3.2.2)",
            Self::ContentLength => "bad Content-Length (RFC 9110 8.6)",
            Self::ContentLengthRepeated => "more than one Content-Length (RFC 9112 6.3)",
            Self::TransferEncoding => "bad Transfer-Encoding (RFC 9112 6.3)",
            Self::TransferEncodingRepeated => "more than one Transfer-Encoding (RFC 9112 6.1)",
            Self::TransferEncodingVersion => "Transfer-Encoding in HTTP/1.0 (RFC 9112 6.1)",
            Self::TransferCoding => "transfer coding not implemented (RFC 9112 6.1)",
            Self::LengthAndCoding => "Content-Length and Transfer-Encoding (RFC 9112 6.1)",
            Self::FramingAlias => "framing header with an underscore (RFC 9112 11.2)",
            Self::ContentTypeRepeated => "more than one Content-Type (RFC 9110 8.3)",
            Self::Expectation => "expectation not known (RFC 9110 10.1.1)",
            Self::ChunkSize => "bad chunk size (RFC 9112 7.1)",
            Self::ChunkExtension => "bad chunk extension (RFC 9112 7.1.1)",
            Self::ChunkLineTooLong => "chunk line too long (RFC 9112 7.1.1)",
            Self::ChunkLineEnd => "chunk line does not end in CR LF (RFC 9112 7.1)",
            Self::ChunkDataEnd => "chunk data longer than its size (RFC 9112 7.1)",
            Self::Trailer => "bad trailer (RFC 9112 7.1.2)",
            Self::TrailerTooLarge => "trailers too large (RFC 9112 7.1.2)",
            Self::Truncated => "closed inside a message (RFC 9112 8)",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Error {}
