//! A bounded map of objects by name. It is used when a plan is built, never by a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the shared object for all names above the limit. No route can have it, since names in a configuration have no
/// parentheses.
pub(crate) const OTHER: &str = "(other)";

/// A bounded map from names to objects. An unused object stays, so that its counts survive a reload. It is removed only
/// when the map is full.
#[derive(Debug)]
pub(crate) struct NamedMap<T> {
    objects: Mutex<BTreeMap<Box<str>, Arc<T>>>,
    other: Arc<T>,
    max: usize,
}

impl<T> NamedMap<T> {
    pub(crate) fn new(max: usize, other: T) -> Self {
        NamedMap { objects: Mutex::default(), other: Arc::new(other), max }
    }

    /// Returns the object with this name. A new name gets a new object, or the shared one if the map is full.
    pub(crate) fn get_or_create(&self, name: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut things = self.lock();
        if name == OTHER {
            return self.other.clone();
        }
        if let Some(thing) = things.get(name) {
            return thing.clone();
        }
        if things.len() >= self.max {
            things.retain(|_, thing| Arc::strong_count(thing) > 1);
        }
        if things.len() >= self.max {
            return self.other.clone();
        }
        let thing = Arc::new(make());
        things.insert(name.into(), thing.clone());
        thing
    }

    /// Returns all objects in the order of their names, the shared one last.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        let mut all: Vec<_> = self.lock().iter().map(|(n, t)| (n.clone(), t.clone())).collect();
        all.push((OTHER.into(), self.other.clone()));
        all
    }

    /// Locks the map. It is consistent even if a thread panicked while it held the lock, since each change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<T>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_thing_again_and_the_number_is_bounded() {
        let named = NamedMap::new(2, 0);
        let (a, b) = (named.get_or_create("a", || 1), named.get_or_create("b", || 2));
        assert_eq!((*named.get_or_create("a", || 9), *named.get_or_create("c", || 3)), (1, 0));
        assert_eq!(named.all().len(), 3);

        drop(a);
        assert_eq!((*named.get_or_create("c", || 3), *b), (3, 2), "an unused name is removed");
    }
}
