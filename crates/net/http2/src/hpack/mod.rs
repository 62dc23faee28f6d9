//! Header compression (RFC 7541). The decoder supports all of it. The encoder uses only the static table, so that it needs no state and
//! costs little more than a copy.

mod decoder;
mod encoder;
mod fixed;
mod huffman;
mod integer;
mod table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::{forget, request, status, write};
