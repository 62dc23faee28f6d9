//! State that outlives a plan: counts of limits, key sets, caches, compiled documents.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Things by a description of their making. The next plan takes over those that it needs with the same description, and drops
/// the rest.
#[derive(Default)]
pub struct CarriedState {
    things: HashMap<String, Arc<dyn Any + Send + Sync>>,
}

impl CarriedState {
    /// The thing with this key: already there, taken over from the previous plan, or made now. The key describes everything
    /// that the thing was made of, beginning with its kind.
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

    /// The thing of this key in the plan before, if that will do, or else this one.
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
        // Harmless: a state of another type is another one.
        self.things.get(key).cloned()?.downcast().ok()
    }
}
