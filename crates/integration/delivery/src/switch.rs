//! The switch by which operators pause deliveries on all nodes: a row that exists while deliveries are paused.

use std::sync::Arc;

use bytes::Bytes;
use store::{Change, Error, Expect, Store};

/// The switch of a hub or a queue.
#[derive(Debug, Clone, Copy)]
pub struct Switch<'a> {
    pub store: &'a dyn Store,
    pub table: &'a Arc<str>,
}

impl Switch<'_> {
    /// The key of the row.
    pub const KEY: &'static [u8] = b"paused";

    /// Returns true if an operator has paused deliveries.
    pub async fn is_paused(self) -> Result<bool, Error> {
        Ok(self.store.get(self.table, Self::KEY).await?.is_some())
    }

    /// Pauses or resumes deliveries. Attempts in progress are finished.
    pub async fn set(self, is_paused: bool) -> Result<(), Error> {
        let value = is_paused.then(|| Bytes::from_static(b"1"));
        let (table, key) = (self.table.clone(), Self::KEY.to_vec());
        let change = Change { table, key, value, expect: Expect::Anything };
        self.store.change(vec![change], None).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use store::{Memory, Tables as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_paused_stays_so_until_it_is_resumed() {
        let (store, table) = (Memory::new(), "queue/q/state".into());
        let switch = Switch { store: &store, table: &table };
        for is_paused in [false, true, true, false, false] {
            switch.set(is_paused).await.unwrap();
            assert_eq!(switch.is_paused().await, Ok(is_paused));
        }
        switch.set(true).await.unwrap();
        let row = store.get("queue/q/state", b"paused").await.unwrap();
        assert_eq!(row.map(|row| row.value), Some("1".into()), "other versions read this key");
    }
}
