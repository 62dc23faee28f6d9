//! Pool of state that outlives one parse and is reused by the next, such as known prefixes of documents.

use std::sync::{Mutex, PoisonError};

/// Pool of reusable parser caches, shared across threads.
#[derive(Debug)]
#[allow(clippy::vec_box, reason = "a take or a give moves a pointer, not a whole cache")]
pub struct Pool<T>(Mutex<Vec<Box<T>>>);

/// Maximum number of caches in a pool, about one for each thread. Further ones are dropped.
const CACHES_MAX: usize = 64;

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes the cache that was returned last.
    pub fn take(&self) -> Option<Box<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Returns a cache to the pool, or adds a new one. Drops it if the pool is full.
    pub fn give(&self, known: Box<T>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < CACHES_MAX {
            all.push(known);
        }
    }
}
