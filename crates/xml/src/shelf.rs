//! What outlives one reader and serves the next, as known beginnings do.

use std::sync::{Mutex, PoisonError};

/// What readers of one kind know, for the next of them to take, whichever thread it is on.
#[derive(Debug)]
#[allow(clippy::vec_box, reason = "what is taken and given is a pointer, not all that is known")]
pub struct Shelf<T>(Mutex<Vec<Box<T>>>);

/// What stands on a shelf at the most: mostly one for each thread. What more readers at a time knew is forgotten.
const SHELF_MAX: usize = 64;

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf(Mutex::default())
    }
}

impl<T> Shelf<T> {
    /// What was put there last.
    pub fn take(&self) -> Option<Box<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Puts it back, or there for the first time.
    pub fn give(&self, known: Box<T>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < SHELF_MAX {
            all.push(known);
        }
    }
}
