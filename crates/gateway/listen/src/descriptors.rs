//! The file descriptors of the process, as far as client connections may take them.
//!
//! Owns the bound over all listeners. Upstreams, files and the program itself have the rest, so that clients that say nothing can
//! keep out neither others nor what these ask for.

use std::sync::atomic::{AtomicUsize, Ordering};

use plan::Plan;

use crate::clients::add_one;

/// Client connections of all listeners.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The most of them. Without a limit of the process there is none.
static ROOM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Descriptors that a small program has for itself: sockets that listen, wake-ups of the workers, the log and the store.
const OWN: usize = 32;

/// Sets the limit of the process, of which clients have what is left by a quarter for upstreams and files, and [`OWN`].
pub fn set_descriptors(limit: u64) {
    ROOM.store(for_clients(limit), Ordering::Relaxed);
}

fn for_clients(limit: u64) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // A process with fewer descriptors cannot serve; it still tries.
    limit.saturating_sub(limit / 4).saturating_sub(OWN).max(1)
}

/// One more connection, if there is room for it.
pub(crate) fn enter() -> bool {
    add_one(&OPEN, ROOM.load(Ordering::Relaxed))
}

pub(crate) fn leave() {
    OPEN.fetch_sub(1, Ordering::Relaxed);
}

/// True if the next connection takes the place of another.
pub(crate) fn are_taken() -> bool {
    OPEN.load(Ordering::Relaxed) >= ROOM.load(Ordering::Relaxed)
}

/// Warns if an operator allowed more connections than there is room for. The default is a bound and not a wish: nobody asked for so many.
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
    fn clients_leave_a_part_to_the_rest() {
        for (limit, room) in [(0, 1), (40, 1), (64, 16), (1024, 736), (1 << 20, 786_400)] {
            assert_eq!(for_clients(limit), room, "{limit}");
        }
    }
}
