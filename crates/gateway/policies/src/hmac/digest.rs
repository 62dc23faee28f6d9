//! Checks that a body matches the request's `Digest` (RFC 3230).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::Fault;
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, OnBuffered, OnHead as _, Onward};

use super::Signatures;
use crate::credentials::sha256;

/// Checks the signature of a request, and then its body against its digest.
pub(super) struct WithDigest {
    pub(super) signatures: Signatures,
    pub(super) bytes_max: usize,
}

impl OnBuffered<RequestHead> for WithDigest {
    /// The signature is checked first, so that no body is gathered for an unauthenticated client.
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        let digest = head.headers.get("digest").is_some();
        self.signatures.on_head(ex, head)?;
        Ok(digest || ex.has_body)
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        _ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let why = match head.headers.get_joined("digest") {
            None => (!body.bytes.is_empty()).then_some("a request with a body needs a `Digest`"),
            Some(said) => {
                let made = format!("SHA-256={}", STANDARD.encode(sha256(&body.bytes)));
                (*said != *made.as_bytes()).then_some("the body does not match `Digest`")
            }
        };
        Decision::Ready(match why {
            None => Ok(Onward::Next),
            Some(why) => Err(self.signatures.refused(why)),
        })
    }
}
