//! Hashes with fixed keys, which are equal in all processes.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Returns a hash that is the same on every worker and after every restart: `DefaultHasher::new` has fixed keys. Use it
/// only to notice changes of trusted text: a client could construct values with equal hashes.
pub fn fixed(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
