//! State that is carried over from one plan to the next: counts of limits, key sets, caches, compiled documents.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Values by a key that describes how they were made. The next plan takes over the values that it needs under the same key, and drops the
/// rest.
#[derive(Default)]
pub struct CarriedState {
    things: HashMap<String, Arc<dyn Any + Send + Sync>>,
}

impl CarriedState {
    /// Returns the value with this key: one of this plan, one taken over from the previous plan, or one made now. The key describes
    /// everything that the value was made of, beginning with its kind.
    pub fn take_over<T, E>(
        &mut self,
        previous: Option<&CarriedState>,
        key: &str,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E>
    where
        T: Any + Send + Sync,
    {
        let known = self.get(key).or_else(|| previous?.get(key));
        let thing = match known {
            Some(thing) => thing,
            None => make()?,
        };
        self.things.insert(key.to_owned(), thing.clone());
        Ok(thing)
    }

    /// Returns the value with this key in the previous plan if `will_do` accepts it, or else the new value.
    pub fn take_over_if<T>(
        &mut self,
        previous: Option<&CarriedState>,
        key: &str,
        will_do: impl FnOnce(&T) -> bool,
        new: &Arc<T>,
    ) -> Arc<T>
    where
        T: Any + Send + Sync,
    {
        let known = previous.and_then(|kept| kept.get(key)).filter(|known| will_do(known));
        let thing = known.unwrap_or_else(|| new.clone());
        self.things.insert(key.to_owned(), thing.clone());
        thing
    }

    fn get<T: Any + Send + Sync>(&self, key: &str) -> Option<Arc<T>> {
        // Harmless: a value of another type is a different value, so it is not taken over.
        self.things.get(key).cloned()?.downcast().ok()
    }
}
