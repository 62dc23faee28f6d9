//! The limit of client connections that follows from the process's limit of file descriptors.
//!
//! Owns the limit over all listeners. The other descriptors are reserved for upstreams, files and the program itself, so that idle clients
//! cannot prevent other clients from being served.

use std::sync::atomic::{AtomicUsize, Ordering};

use plan::Plan;

/// The number of open client connections of all listeners.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The maximum of [`OPEN`]. It is `usize::MAX` if the process has no limit of descriptors.
static ROOM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The descriptors reserved for the program itself: listening sockets, wake-ups of the workers, the log and the store.
const OWN: usize = 32;

/// Derives the limit of client connections from `limit`, the process's limit of descriptors. A quarter of it is for upstreams and files,
/// [`OWN`] for the program, and the rest for clients.
pub fn set_descriptors(limit: u64) {
    ROOM.store(for_clients(limit), Ordering::Relaxed);
}

fn for_clients(limit: u64) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Even with too few descriptors, the process tries to serve one client.
    limit.saturating_sub(limit / 4).saturating_sub(OWN).max(1)
}

/// Counts a connection, if there is a descriptor for it.
pub(crate) fn enter() -> bool {
    add_one(&OPEN, ROOM.load(Ordering::Relaxed))
}

/// Adds one to a count, unless the limit is reached.
pub(crate) fn add_one(open: &AtomicUsize, max: usize) -> bool {
    let free = |open: usize| (open < max).then_some(open + 1);
    open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).is_ok()
}

pub(crate) fn leave() {
    OPEN.fetch_sub(1, Ordering::Relaxed);
}

/// True if the next connection has to take the place of another.
pub(crate) fn is_exhausted() -> bool {
    OPEN.load(Ordering::Relaxed) >= ROOM.load(Ordering::Relaxed)
}

/// Warns if the configuration allows more connections than there are descriptors for. Defaults do not count, since no operator chose them.
pub(crate) fn warn_of(plan: &Plan) {
    let room = ROOM.load(Ordering::Relaxed);
    let allowed = plan
        .listeners
        .iter()
        .filter(|listener| listener.limits.connections_max_written)
        .fold(0usize, |sum, listener| sum.saturating_add(listener.limits.connections_max));
    if allowed > room {
        tracing::warn!(
            "the limit of file descriptors leaves room for {room} client connections, and `connections_max` of the listeners allows {allowed}: raise the hard limit (`ulimit -Hn`, or LimitNOFILE of systemd), or lower `connections_max`"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::for_clients;

    #[test]
    fn clients_get_only_a_part_of_the_descriptors() {
        for (limit, room) in [(0, 1), (40, 1), (64, 16), (1024, 736), (1 << 20, 786_400)] {
            assert_eq!(for_clients(limit), room, "{limit}");
        }
    }
}
