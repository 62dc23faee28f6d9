//! Converts PEM text to TLS settings, with errors that name the mistake.
//!
//! Owns the parsing and checking of certificates, keys and authorities. It opens no sockets and no files: the caller provides the text and
//! uses the result.
#![forbid(unsafe_code)]

mod accepted;
mod certificate;
mod client;
mod details;
mod handshake;
mod pem;
mod self_signed;
mod server;
mod subject;

pub use accepted::{Accepted, ClientCertificate};
pub use certificate::{Certificate, CertificateProblem, EXPIRY_WARNING};
pub use client::{BlockingStream, Client, ClientSpec};
pub use details::CertificateDetails;
pub use handshake::{Peer, failure};
pub use pem::{Error, PAIR_MISMATCH};
pub use self_signed::self_signed;
pub use server::{Expiry, Pair, Server, ServerSpec, Version};
pub use subject::Subject;

/// Seeds the random numbers of the process. AWS-LC measures jitter of the CPU for this, which takes about 40 ms, once. Without this call,
/// the first caller who needs a random number waits that long, and that may be a worker.
pub fn seed_random_numbers() {
    // Harmless: each caller who needs a random number gets the same error and reports it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut [0]);
}
