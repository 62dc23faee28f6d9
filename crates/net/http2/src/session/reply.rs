//! The reply that a stream of a client waits for: its unread heads, and the rules for their order.

use std::collections::VecDeque;

use crate::block::{Block, Head};

/// The maximum number of interim replies before the final one. A server that sends more is faulty.
const INTERIM_MAX: usize = 16;

/// A stream that waits for its reply.
pub(super) struct PendingReply {
    /// Whether a reply to its method has no body.
    pub(super) is_bodiless: bool,
    /// Unread heads: interim ones, and the final one.
    pub(super) heads: VecDeque<(Head, Block)>,
    /// The number of interim heads that have arrived.
    pub(super) interim: usize,
    /// Whether the final head has arrived.
    pub(super) has_begun: bool,
    /// The remaining bound on the size of heads.
    pub(super) bytes_left: usize,
}

impl PendingReply {
    /// Returns an error if the server may not send this head now.
    pub(super) fn check(&self, head: &Head, is_end: bool) -> Result<(), &'static str> {
        // Without a length, the frames determine the end of the body.
        let length = self.length(head).unwrap_or(0);
        match head.status {
            _ if head.is_too_large => Err("a head that is too large"),
            101 => Err("a 101, which HTTP/2 does not have"),
            ..200 if is_end => Err("an interim reply that ends the stream"),
            ..200 if self.interim == INTERIM_MAX => Err("too many interim replies"),
            ..200 => Ok(()),
            _ if is_end && length > 0 => Err("a body that is shorter than announced"),
            _ => Ok(()),
        }
    }

    /// Returns the length of the body, if known. Some replies have no body although they announce a length (RFC 9110, 6.4.1).
    pub(super) fn length(&self, head: &Head) -> Option<u64> {
        if self.is_bodiless || matches!(head.status, 204 | 304) {
            Some(0)
        } else {
            head.content_length
        }
    }
}
