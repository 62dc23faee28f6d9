//! `compress`: compresses replies.

use crate::decode::{keys, words};
use crate::values::{OneOrMore, Size, Spanned};

keys! {
    /// Compresses replies while they are streamed, for clients that accept it. Event streams, partial replies and replies that are already
    /// compressed pass unchanged.
    pub struct Compress {
        /// Encodings by preference: `zstd`, `br`, `gzip`. The client's own preference comes first.
        // Zstandard is designed for speed, and every recent browser supports at least one of the three.
        encodings: Spanned<Vec<Encoding>> =
            Spanned::unwritten(vec![Encoding::Zstd, Encoding::Br, Encoding::Gzip]),
        /// Content types to compress; `text/*` and `*+json` work. Without it, all types of text.
        types: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Replies with a shorter `Content-Length` pass unchanged.
        // A smaller reply fits in one packet anyway.
        bytes_min: Size = Size(1024),
    }
}

words! {
    /// A content encoding.
    pub enum Encoding {
        /// Zstandard (RFC 8878).
        Zstd = "zstd",
        /// Brotli (RFC 7932).
        Br = "br",
        /// gzip (RFC 1952).
        Gzip = "gzip",
    }
}
