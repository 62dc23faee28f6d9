//! Counts the open connections of a listener over all workers: in total, and for each client.
//!
//! Its locks are taken when a connection is opened or closed, never for a request. Its size depends only on the open
//! connections: a client without any has no entry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::descriptors::{self, add_one};

/// With this many shards, two workers rarely need the same lock.
const SHARDS: usize = 16;

/// The counts of a listener's open connections.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    all: AtomicUsize,
    of_client: [Mutex<HashMap<u64, usize>>; SHARDS],
}

/// One connection in its client's count. It is removed from the count when this is dropped.
pub(crate) struct CountedConnection {
    open: Arc<OpenConnections>,
    client: u64,
}

impl OpenConnections {
    /// Counts a connection, unless the limit or the number of descriptors is reached.
    pub(crate) fn enter(&self, max: usize) -> bool {
        if !add_one(&self.all, max) {
            return false;
        }
        let is_room = descriptors::enter();
        if !is_room {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
        is_room
    }

    pub(crate) fn leave(&self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        descriptors::leave();
    }

    /// Counts a connection of this client, unless the client's limit is reached.
    pub(crate) fn count(
        self: &Arc<OpenConnections>,
        client: IpAddr,
        max: usize,
    ) -> Option<CountedConnection> {
        let client = key_of(client);
        let mut shard = self.shard(client)?;
        let count = shard.entry(client).or_default();
        let free = *count < max;
        *count += usize::from(free);
        free.then(|| CountedConnection { open: self.clone(), client })
    }

    fn shard(&self, client: u64) -> Option<MutexGuard<'_, HashMap<u64, usize>>> {
        // The last bits differ most: those of an IPv4 address, or those of an IPv6 network that identify the subscriber.
        let at = usize::try_from(client % SHARDS as u64).unwrap_or(0);
        self.of_client.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let Some(mut shard) = self.open.shard(self.client) else { return };
        let left = shard.get_mut(&self.client).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == 0 {
            shard.remove(&self.client);
        }
    }
}

/// The key of a client: the address for IPv4, and for IPv6 the network of 64 bits that one subscriber has. The two kinds cannot collide,
/// since no IPv6 network in use begins with 32 zero bits.
fn key_of(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_and_forgotten() {
        let open = Arc::new(OpenConnections::default());
        let count = |client: &str| open.count(client.parse().unwrap(), 2);
        let held = [count("192.0.2.1"), count("::ffff:192.0.2.1"), count("2001:db8::1")];
        assert!(held.iter().all(Option::is_some));
        assert!(count("192.0.2.1").is_none());
        let more = [count("192.0.2.2"), count("2001:db8::2"), count("2001:db8:0:1::1")];
        assert!(more.iter().all(Option::is_some));
        assert!(count("2001:db8::3").is_none(), "the same network");
        drop(held);
        assert!(count("192.0.2.1").is_some());
        drop(more);
        assert!(open.of_client.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
