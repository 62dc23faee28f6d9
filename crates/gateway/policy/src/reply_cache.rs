//! The interface of a cache for messages that flow steps have produced. It follows the rules of a shared HTTP cache.

use std::time::Duration;

use bytes::Bytes;
use message::{Headers, ReplyHead, RequestHead};

use crate::Exchange;

/// The reason why a message is not stored or served: a word for `detail` in `Cache-Status` (RFC 9211, 2.8).
pub type CacheHindrance = &'static str;

/// The parts of a request that are part of the key, in addition to its URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyParts {
    pub body: bool,
    pub method: bool,
    pub cookie: bool,
    pub authorization: bool,
}

/// The caching conditions of the replies from which a message was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheTerms {
    /// The reason why one of the replies must not be stored, if any.
    pub hindrance: Option<CacheHindrance>,
    /// The shortest freshness lifetime of the replies.
    pub fresh_for: Option<Duration>,
    /// Whether there was a reply.
    pub replied: bool,
    /// Whether one of the replies is not explicitly shareable among all clients.
    pub unshared: bool,
    /// The request headers that the replies vary by, in lower case.
    pub varies: Vec<Box<str>>,
}

impl CacheTerms {
    /// Adds the conditions of further replies.
    pub fn add(&mut self, other: &CacheTerms) {
        self.hindrance = self.hindrance.or(other.hindrance);
        self.fresh_for = [self.fresh_for, other.fresh_for].into_iter().flatten().min();
        self.replied |= other.replied;
        self.unshared |= other.unshared;
        self.varies.extend_from_slice(&other.varies);
    }
}

/// A stored message.
#[derive(Debug, Clone)]
pub struct KeptMessage {
    pub head: ReplyHead,
    pub body: Bytes,
    /// A number that the step stores with the message, for its own use.
    pub mark: u64,
}

/// The cached messages of one step.
pub trait ReplyCache: Send + Sync {
    /// Returns the message for a request, by the step's key. The error is the reason why the cache is bypassed.
    fn find(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
    ) -> Result<Option<KeptMessage>, CacheHindrance>;

    /// Adds the conditions of a reply to a request with the lines `sent`.
    fn note(&self, head: &RequestHead, sent: &Headers, reply: &ReplyHead, terms: &mut CacheTerms);

    /// Stores a message, unless its conditions forbid it.
    fn keep(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
        made: KeptMessage,
        terms: &CacheTerms,
    ) -> Result<(), CacheHindrance>;
}
