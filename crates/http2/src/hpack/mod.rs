//! Header compression (RFC 7541). The decoder supports all of it. The encoder uses only the fixed table, so that writing a
//! reply keeps no state and costs a copy.

mod decoder;
mod encoder;
mod fixed;
mod huffman;
mod integer;
mod table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::{forget, request, status, write};
