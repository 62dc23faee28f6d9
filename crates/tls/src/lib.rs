//! PEM text to TLS settings, once, with an error that says what is wrong with it.
//!
//! Owns how certificates, keys and authorities are read and checked. It opens no socket and no file: the caller brings
//! the text and puts the result to use.
#![forbid(unsafe_code)]

mod client;
mod pem;
mod server;

pub use client::{Client, ClientSpec};
pub use pem::Error;
pub use server::{Pair, Server, ServerSpec, Version};
