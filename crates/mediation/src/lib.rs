//! What is done to messages and found in them, apart from whose messages they are: the engines behind policies, and behind
//! whatever else mediates between services.
//!
//! Owns what a stylesheet makes of a message, and in whose words a message is refused. A message enters as its parts: its bytes,
//! its content type. It leaves as bytes, or as a [`Failed`]. Nothing here knows a request from a reply, an exchange or a fault:
//! what a refusal means for a client is the caller's business.
#![forbid(unsafe_code)]

pub mod charset;
mod failed;
pub mod libxml_messages;
pub mod remote_definition;
pub mod xslt;

pub use failed::{Failed, Told};

use kit::LocalBoxFuture;

/// Work on one message, which may be done already. What is done costs no future and no allocation.
pub enum Work<'a, T> {
    Done(T),
    Waits(LocalBoxFuture<'a, T>),
}
