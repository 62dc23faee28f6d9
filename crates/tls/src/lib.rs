//! PEM text to TLS settings, once, with an error that says what is wrong with it.
//!
//! Owns how certificates, keys and authorities are read and checked. It opens no socket and no file: the caller brings
//! the text and puts the result to use.
#![forbid(unsafe_code)]

mod certificate;
mod client;
mod handshake;
mod pem;
mod server;

pub use certificate::{Certificate, Concern, EXPIRY_WARNING};
pub use client::{Client, ClientSpec};
pub use handshake::{Peer, failure};
pub use pem::Error;
pub use server::{Expiry, Pair, Server, ServerSpec, Version};
