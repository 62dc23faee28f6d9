//! Header compression (RFC 7541). What is read may use all of it; what is written uses the fixed table alone, so that writing a
//! reply keeps no state and costs a copy.

mod decoder;
mod encoder;
mod fixed;
mod huffman;
mod integer;
mod table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::{forget, status, write};
