//! A bounded map of objects by name. It is used when a plan is built, never by a request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the shared object for all names above the limit. No route can have it, since names in a configuration have no
/// parentheses.
pub(crate) const OTHER: &str = "(other)";

/// A bounded map from names to objects. An unused object stays, so that its counts survive a reload. It is removed only
/// when the map is full.
#[derive(Debug)]
pub(crate) struct NamedMap<T> {
    objects: Mutex<BTreeMap<Box<str>, NamedObject<T>>>,
    other: Arc<T>,
    max: usize,
}

#[derive(Debug)]
struct NamedObject<T> {
    object: Arc<T>,
    /// How many objects were made earlier, in all maps.
    number: u64,
}

/// The number of objects that were made, in all maps.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A moment: objects that are made later are new.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

impl Mark {
    pub(crate) fn now() -> Mark {
        Mark(MADE.load(Ordering::Relaxed))
    }
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
            return thing.object.clone();
        }
        if things.len() >= self.max {
            things.retain(|_, thing| Arc::strong_count(&thing.object) > 1);
        }
        if things.len() >= self.max {
            return self.other.clone();
        }
        let object = Arc::new(make());
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        things.insert(name.into(), NamedObject { object: object.clone(), number });
        object
    }

    /// Removes the objects that were made after a moment and that nothing uses now.
    pub(crate) fn forget_unused_since(&self, mark: Mark) {
        self.lock()
            .retain(|_, thing| thing.number < mark.0 || Arc::strong_count(&thing.object) > 1);
    }

    /// Returns all objects in the order of their names, the shared one last.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        let things = self.lock();
        let all = things.iter().map(|(name, thing)| (name.clone(), thing.object.clone()));
        let mut all: Vec<_> = all.collect();
        all.push((OTHER.into(), self.other.clone()));
        all
    }

    /// Locks the map. It is consistent even if a thread panicked while it held the lock, since each change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, NamedObject<T>>> {
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

    #[test]
    fn new_names_that_nothing_uses_are_forgotten() {
        let named = NamedMap::new(9, 0);
        drop(named.get_or_create("old", || 1));
        let mark = Mark::now();
        let _used = named.get_or_create("used", || 2);
        drop((named.get_or_create("old", || 3), named.get_or_create("new", || 4)));
        named.forget_unused_since(mark);
        let names: Vec<_> = named.all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["old".into(), "used".into(), Box::from(OTHER)]);
    }
}
