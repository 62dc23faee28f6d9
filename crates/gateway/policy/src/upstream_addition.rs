//! The interface for the gateway's own part of requests to an upstream.

use std::fmt;

use fault::Fault;
use kit::LocalBoxFuture;
use kit::clock::Instant;
use message::{ReplyHead, Request};

use crate::Decision;

/// The gateway's own part of every request to an upstream, such as an access token in the head or a security header in the message.
pub trait UpstreamAddition: Send + Sync + fmt::Debug {
    /// Adds the part to a request, before the deadline of the call.
    fn make<'a>(
        &'a self,
        request: &'a mut Request,
        deadline: Option<Instant>,
    ) -> Decision<'a, Result<(), Fault>>;

    /// Replaces the part, such as an expired token, if the reply refuses it. Returns `None` if the reply does not refuse it. The future
    /// resolves to false if there is no replacement.
    fn renew<'a>(
        &'a self,
        _request: &'a mut Request,
        _reply: &ReplyHead,
        _deadline: Option<Instant>,
    ) -> Option<LocalBoxFuture<'a, bool>> {
        None
    }
}
