//! State that is carried over from one plan to the next: counts of limits, key sets, caches, compiled documents.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Values by a key that describes how they were made. The next plan takes over the values that it needs under the same key, and drops the
/// rest.
#[derive(Default)]
pub struct CarriedState {
    values: HashMap<String, Arc<dyn Any + Send + Sync>>,
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
        let value = match known {
            Some(value) => value,
            None => make()?,
        };
        self.values.insert(key.to_owned(), value.clone());
        Ok(value)
    }

    /// Returns the value with this key in the previous plan if `is_usable` accepts it, or else the new value.
    pub fn take_over_if<T>(
        &mut self,
        previous: Option<&CarriedState>,
        key: &str,
        is_usable: impl FnOnce(&T) -> bool,
        new: &Arc<T>,
    ) -> Arc<T>
    where
        T: Any + Send + Sync,
    {
        let known = previous.and_then(|kept| kept.get(key)).filter(|known| is_usable(known));
        let value = known.unwrap_or_else(|| new.clone());
        self.values.insert(key.to_owned(), value.clone());
        value
    }

    fn get<T: Any + Send + Sync>(&self, key: &str) -> Option<Arc<T>> {
        // Harmless: a value of another type is a different value, so it is not taken over.
        self.values.get(key).cloned()?.downcast().ok()
    }
}
