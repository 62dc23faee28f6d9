//! The name and password of the gateway itself at an upstream (RFC 7617). They replace what the client sends as `Authorization`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::Fault;
use kit::clock::Instant;
use message::Request;
use policy::{Decision, UpstreamAddition};

/// The credentials of one upstream.
pub struct OwnBasic {
    /// The value of `Authorization`.
    line: Box<str>,
}

impl OwnBasic {
    /// Creates the credentials. The name must not contain a colon.
    pub fn new(name: &str, password: &str) -> OwnBasic {
        OwnBasic { line: format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))).into() }
    }
}

impl fmt::Debug for OwnBasic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnBasic")
    }
}

impl UpstreamAddition for OwnBasic {
    fn make<'a>(
        &'a self,
        request: &'a mut Request,
        _deadline: Option<Instant>,
    ) -> Decision<'a, Result<(), Fault>> {
        request.head.headers.remove("authorization");
        request.head.headers.add_known("Authorization", self.line.as_bytes());
        Decision::Ready(Ok(()))
    }
}
