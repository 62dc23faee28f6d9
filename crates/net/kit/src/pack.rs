//! Recycles small vectors within a thread, from one exchange to the next.

use std::cell::RefCell;
use std::thread::LocalKey;

/// The maximum number of spare vectors of one type per thread. More concurrent exchanges allocate new ones.
const KEPT_MAX: usize = 256;

/// A vector with more capacity than this (in items) is freed instead, so that one huge head does not occupy memory forever.
const KEPT_ITEMS_MAX: usize = 8 * 1024;

/// A thread's spare vectors.
pub type SpareVectors<T> = RefCell<Vec<Vec<T>>>;

/// Takes an empty vector, a recycled one if available.
pub fn take<T>(spare: &'static LocalKey<SpareVectors<T>>) -> Vec<T> {
    // Harmless: if the thread is ending, a new vector is created.
    spare.try_with(|s| s.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Gives a vector back, for the next exchange.
pub fn give<T>(spare: &'static LocalKey<SpareVectors<T>>, mut vector: Vec<T>) {
    if vector.capacity() == 0 || vector.capacity() > KEPT_ITEMS_MAX {
        return;
    }
    vector.clear();
    // Harmless: if the thread is ending, the vector is freed.
    let _ = spare.try_with(|s| {
        let mut s = s.borrow_mut();
        if s.len() < KEPT_MAX {
            s.push(vector);
        }
    });
}
