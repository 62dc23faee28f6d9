//! Hashes that are the same in every process of one program.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Returns a hash that is the same on every worker and after every restart: `DefaultHasher::new` has fixed keys. It shows changes of what
/// operators wrote. A client could find values with equal hashes.
pub fn fixed(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
