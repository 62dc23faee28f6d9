//! The switch that pauses deliveries on all nodes. Operators set it, and so does a queue that pauses itself. It is a row that exists while
//! deliveries are paused. Where the configuration pauses them, a second row says that an operator has resumed them.

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
    /// The key of the row that says that an operator has resumed what the configuration pauses.
    const RESUMED: &'static [u8] = b"resumed";

    /// Returns true if an operator has paused deliveries.
    pub async fn is_paused(self) -> Result<bool, Error> {
        Ok(self.store.get(self.table, Self::KEY).await?.is_some())
    }

    /// Returns what operators have decided: `true` for paused, `false` for resumed, or `None` if the configuration decides.
    pub async fn decision(self) -> Result<Option<bool>, Error> {
        if self.is_paused().await? {
            return Ok(Some(true));
        }
        let resumed = self.store.get(self.table, Self::RESUMED).await?;
        Ok(resumed.map(|_| false))
    }

    /// Pauses or resumes deliveries. Attempts in progress are finished.
    pub async fn set(self, is_paused: bool) -> Result<(), Error> {
        self.store.change(vec![self.change(Self::KEY, is_paused)], None).await.map(drop)
    }

    /// Returns the changes that store a decision, or that leave it to the configuration.
    pub fn decide(self, decision: Option<bool>) -> [Change; 2] {
        [
            self.change(Self::KEY, decision == Some(true)),
            self.change(Self::RESUMED, decision == Some(false)),
        ]
    }

    /// Returns the change that forgets that an operator has resumed what the configuration pauses. A pause stays.
    pub fn forget_resumption(self) -> Change {
        self.change(Self::RESUMED, false)
    }

    /// Returns the change that writes a row, or removes it.
    fn change(self, key: &[u8], is_there: bool) -> Change {
        let (table, key) = (self.table.clone(), key.to_vec());
        let value = is_there.then(|| Bytes::from_static(b"1"));
        Change { table, key, value, expect: Expect::Anything }
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

    #[tokio::test(start_paused = true)]
    async fn a_decision_is_the_last_one_or_none() {
        let (store, table) = (Memory::new(), "queue/q/state".into());
        let switch = Switch { store: &store, table: &table };
        assert_eq!(switch.decision().await, Ok(None));
        for decision in [Some(false), Some(true), Some(false), None, Some(true), None] {
            store.change(switch.decide(decision).into(), None).await.unwrap();
            assert_eq!(switch.decision().await, Ok(decision));
            assert_eq!(switch.is_paused().await, Ok(decision == Some(true)));
        }
        // A version that knows one row resumes what this one has paused.
        store.change(switch.decide(Some(true)).into(), None).await.unwrap();
        switch.set(false).await.unwrap();
        assert_eq!(switch.decision().await, Ok(None));
    }
}
