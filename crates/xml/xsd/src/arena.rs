//! Arenas with typed indexes.
//!
//! Components refer to each other by [`Id`]. Every id is the index of a value that [`Arena::push`] has added, and nothing is ever removed,
//! so dereferencing an id cannot fail.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Index of a `T` in its arena.
pub(crate) struct Id<T> {
    index: u32,
    of: PhantomData<fn() -> T>,
}

/// All values of one type in a schema.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    items: Vec<T>,
}

impl<T> Id<T> {
    pub(crate) const fn new(index: u32) -> Id<T> {
        Id { index, of: PhantomData }
    }

    pub(crate) fn index(self) -> usize {
        // A u32 fits the usize of all supported machines.
        self.index as usize
    }

    pub(crate) fn number(self) -> u32 {
        self.index
    }
}

impl<T> Arena<T> {
    pub(crate) fn new() -> Arena<T> {
        Arena { items: Vec::new() }
    }

    pub(crate) fn push(&mut self, item: T) -> Id<T> {
        let id = Id::new(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
        self.items.push(item);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Id<T>> + use<T> {
        (0..u32::try_from(self.items.len()).unwrap_or(u32::MAX)).map(Id::new)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }
}

#[allow(clippy::indexing_slicing, reason = "every id is the index of an item, and none is removed")]
impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id<T>) -> &T {
        &self.items[id.index()]
    }
}

#[allow(clippy::indexing_slicing, reason = "every id is the index of an item, and none is removed")]
impl<T> IndexMut<Id<T>> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        self.index == other.index
    }
}

impl<T> Eq for Id<T> {}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}
