//! Small vectors that serve one exchange after the other: the thread recycles them.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Vectors of one type that a thread keeps. More exchanges at once than this allocate.
const KEPT_MAX: usize = 256;

/// A recycled vector larger than this (in items) is freed, so that one huge head does not occupy memory for ever.
const KEPT_ITEMS_MAX: usize = 8 * 1024;

/// A thread's store of spare vectors.
pub type Spare<T> = RefCell<Vec<Vec<T>>>;

/// Takes an empty vector, a used one if there is one.
pub fn take<T>(spare: &'static LocalKey<Spare<T>>) -> Vec<T> {
    // Harmless: a thread that ends has no spare ones.
    spare.try_with(|s| s.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Gives a vector back for the next exchange.
pub fn give<T>(spare: &'static LocalKey<Spare<T>>, mut vector: Vec<T>) {
    if vector.capacity() == 0 || vector.capacity() > KEPT_ITEMS_MAX {
        return;
    }
    vector.clear();
    // The thread may be ending; then the vector is simply freed.
    // Harmless: the thread may be ending.
    let _gone = spare.try_with(|s| {
        let mut s = s.borrow_mut();
        if s.len() < KEPT_MAX {
            s.push(vector);
        }
    });
}
