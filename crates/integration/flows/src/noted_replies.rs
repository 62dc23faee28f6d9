//! What the replies to the steps inside a `cache` say about caching.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use message::{Headers, ReplyHead, RequestHead};
use policy::{CacheTerms, ReplyCache};

/// The cache terms of the replies to the steps inside a cache.
pub(crate) struct NotedReplies {
    kept: Arc<dyn ReplyCache>,
    terms: RefCell<CacheTerms>,
}

impl NotedReplies {
    pub(crate) fn new(kept: Arc<dyn ReplyCache>) -> NotedReplies {
        NotedReplies { kept, terms: RefCell::default() }
    }

    /// Adds the terms of a reply to a request with these lines.
    pub(crate) fn note(&self, request: &RequestHead, sent: &Headers, reply: &ReplyHead) {
        self.kept.note(request, sent, reply, &mut self.terms.borrow_mut());
    }

    /// Adds the terms of the replies to steps of an inner cache.
    pub(crate) fn add(&self, terms: &CacheTerms) {
        self.terms.borrow_mut().add(terms);
    }

    pub(crate) fn take(&self) -> CacheTerms {
        self.terms.take()
    }
}

impl fmt::Debug for NotedReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.terms.fmt(f)
    }
}
