//! Small vectors that are used for one exchange and then again by the next: recycled by the thread.

use std::cell::RefCell;
use std::thread::LocalKey;

/// How many vectors of a sort a thread keeps. More exchanges in flight than this allocate.
const KEPT_MAX: usize = 256;

/// A recycled vector larger than this (in items) is freed instead, so one huge head does not stay for ever.
const KEPT_ITEMS_MAX: usize = 8 * 1024;

/// A thread's store of spare vectors.
pub type Spare<T> = RefCell<Vec<Vec<T>>>;

/// Takes an empty vector, used before where there is one.
pub fn take<T>(spare: &'static LocalKey<Spare<T>>) -> Vec<T> {
    spare.try_with(|s| s.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Gives a vector back for the next one.
pub fn give<T>(spare: &'static LocalKey<Spare<T>>, mut vector: Vec<T>) {
    if vector.capacity() == 0 || vector.capacity() > KEPT_ITEMS_MAX {
        return;
    }
    vector.clear();
    // The thread may be ending; then the vector is simply freed.
    let _gone = spare.try_with(|s| {
        let mut s = s.borrow_mut();
        if s.len() < KEPT_MAX {
            s.push(vector);
        }
    });
}
