//! `compress`: replies in fewer bytes.

use crate::decode::{keys, words};
use crate::values::{OneOrMore, Size, Spanned};

keys! {
    /// Compresses replies for clients that accept it, as they stream. Event streams, ranges and replies that are compressed already pass
    /// unchanged.
    pub struct Compress {
        /// Encodings by preference: `zstd`, `br`, `gzip`. The client's own preference comes first.
        // Zstandard is made for speed, and every browser of the last years takes one of the three.
        encodings: Spanned<Vec<Encoding>> =
            Spanned::unwritten(vec![Encoding::Zstd, Encoding::Br, Encoding::Gzip]),
        /// Content types to compress; `text/*` and `*+json` work. Without it, all types of text.
        types: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Replies with a shorter `Content-Length` pass unchanged.
        // One packet takes as long as half a packet.
        bytes_min: Size = Size(1024),
    }
}

words! {
    /// A way to compress.
    pub enum Encoding {
        /// Zstandard (RFC 8878).
        Zstd = "zstd",
        /// Brotli (RFC 7932).
        Br = "br",
        /// gzip (RFC 1952).
        Gzip = "gzip",
    }
}
