//! Messages that steps of flows made and that are given again, by the rules of a shared cache.

use std::time::Duration;

use bytes::Bytes;
use message::{Headers, ReplyHead, RequestHead};

use crate::Exchange;

/// The reason why nothing is kept or given: a word for `detail` in `Cache-Status` (RFC 9211, 2.8).
pub type CacheHindrance = &'static str;

/// The parts of a request, beside its URL, that a key has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyParts {
    pub body: bool,
    pub method: bool,
    pub cookie: bool,
    pub authorization: bool,
}

/// The conditions that the replies set which a message was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheTerms {
    /// One of them may not be kept.
    pub hindrance: Option<CacheHindrance>,
    /// The shortest time for which one of them is fresh.
    pub fresh_for: Option<Duration>,
    /// There is one.
    pub replied: bool,
    /// One of them does not say that it may be given to all clients.
    pub unshared: bool,
    /// The headers of the request that they vary by, in lower case.
    pub varies: Vec<Box<str>>,
}

impl CacheTerms {
    /// Adds the conditions of other replies.
    pub fn add(&mut self, other: &CacheTerms) {
        self.hindrance = self.hindrance.or(other.hindrance);
        self.fresh_for = [self.fresh_for, other.fresh_for].into_iter().flatten().min();
        self.replied |= other.replied;
        self.unshared |= other.unshared;
        self.varies.extend_from_slice(&other.varies);
    }
}

/// A message that is kept.
#[derive(Debug, Clone)]
pub struct KeptMessage {
    pub head: ReplyHead,
    pub body: Bytes,
    /// A number of the step's own, which it gets back with the message.
    pub mark: u64,
}

/// The messages of one step.
pub trait ReplyCache: Send + Sync {
    /// The message for a request, by the step's key. An error says why it is neither looked for nor kept.
    fn find(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
    ) -> Result<Option<KeptMessage>, CacheHindrance>;

    /// Adds the conditions of a reply to a request with the lines `sent`.
    fn note(&self, head: &RequestHead, sent: &Headers, reply: &ReplyHead, terms: &mut CacheTerms);

    /// Keeps a message, unless something speaks against it.
    fn keep(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
        made: KeptMessage,
        terms: &CacheTerms,
    ) -> Result<(), CacheHindrance>;
}
