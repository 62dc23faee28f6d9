//! State that one policy keeps between its request step and its response step. Each policy has its own slot in the exchange, which no other
//! policy can access.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use crate::Exchange;

/// A policy's slot in each exchange of its route, with the type of its content.
pub struct Slot<T> {
    index: usize,
    of: PhantomData<fn() -> T>,
}

/// Assigns the slots of one route while its policies are built.
#[derive(Debug, Default)]
pub struct Slots {
    given: usize,
}

/// The contents of one exchange's slots. They use no memory until the first is filled, and then one vector for all of them.
#[derive(Default)]
pub struct SlotValues(Vec<Option<Box<dyn Any>>>);

impl Slots {
    /// Returns a slot that no other policy of the route has.
    pub fn assign<T: 'static>(&mut self) -> Slot<T> {
        let index = self.given;
        self.given += 1;
        Slot { index, of: PhantomData }
    }
}

impl<T: 'static> Slot<T> {
    /// Stores a value until it is taken or the exchange ends. A previous value is dropped.
    pub fn put(self, ex: &mut Exchange, value: T) {
        let SlotValues(slots) = &mut ex.slots;
        if slots.len() <= self.index {
            slots.resize_with(self.index + 1, || None);
        }
        if let Some(slot) = slots.get_mut(self.index) {
            *slot = Some(Box::new(value));
        }
    }

    pub fn get(self, ex: &Exchange) -> Option<&T> {
        ex.slots.0.get(self.index)?.as_ref()?.downcast_ref()
    }

    pub fn get_mut(self, ex: &mut Exchange) -> Option<&mut T> {
        ex.slots.0.get_mut(self.index)?.as_mut()?.downcast_mut()
    }

    pub fn remove(self, ex: &mut Exchange) -> Option<T> {
        let value = ex.slots.0.get_mut(self.index)?.take()?;
        // Harmless: a slot only holds values of one type.
        value.downcast().ok().map(|value| *value)
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({})", self.index)
    }
}

impl fmt::Debug for SlotValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Harmless: empty slots are skipped on purpose.
        write!(f, "{} filled", self.0.iter().flatten().count())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::rc::Rc;

    use super::*;
    use crate::{Caller, Scheme};

    #[test]
    fn the_slots_of_two_policies_are_separate() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let caller = Rc::new(Caller::new(here, here, Scheme::Http, 0));
        let mut ex = Exchange::new(caller, Default::default());
        let mut slots = Slots::default();
        let (one, other): (Slot<u32>, Slot<u32>) = (slots.assign(), slots.assign());
        assert_eq!(one.get(&ex), None);
        other.put(&mut ex, 2);
        one.put(&mut ex, 1);
        *other.get_mut(&mut ex).unwrap() += 1;
        assert_eq!((one.remove(&mut ex), other.remove(&mut ex)), (Some(1), Some(3)));
        assert_eq!((one.remove(&mut ex), other.get(&ex)), (None, None));
    }
}
