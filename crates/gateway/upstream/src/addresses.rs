//! The addresses of a target's name: those of the latest look-up, which new connections use in turn, and those whose
//! connections may stay open.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kit::clock::{self, Instant};
use tokio::sync::Mutex;

use crate::resolver;
use crate::settings::Dns;

/// The known addresses of a name.
#[derive(Default)]
pub(crate) struct Addresses {
    /// The addresses of the last successful look-up, in order. The system's resolver limits its answers to 64 KiB.
    pub(crate) latest: ArcSwap<Vec<SocketAddr>>,
    /// The addresses in `latest`, and those that fewer than [`MISSES_MAX`] successive look-ups have missed, in order.
    kept: ArcSwap<Vec<SocketAddr>>,
    next: AtomicU32,
    /// Increases when addresses are no longer kept.
    losses: AtomicU32,
    /// Held by the look-up in progress, so that others wait for it.
    looking: Mutex<LookUpState>,
}

#[derive(Default)]
struct LookUpState {
    /// Each kept address, and how many look-ups have missed it.
    seen: Vec<(SocketAddr, u32)>,
    /// The time and the reason of the last failure.
    failed: Option<(Instant, io::ErrorKind, String)>,
}

/// The number of successive look-ups that have to miss an address before its connections are closed. Some resolvers answer with
/// a different part of the addresses each time, and connections are expensive.
const MISSES_MAX: u32 = 6;

/// How long the failure of a look-up also answers later look-ups.
const FAILURE_TIME: Duration = Duration::from_secs(1);

impl Addresses {
    /// Creates the addresses of a target that is configured by address. It is never looked up.
    pub(crate) fn literal(address: SocketAddr) -> Addresses {
        let addresses = Addresses::default();
        addresses.found(&mut Vec::new(), vec![address]);
        addresses
    }

    /// Takes over the addresses of the same name from another value, until the first look-up.
    pub(crate) fn inherit(&self, before: &Addresses) {
        let latest = before.latest.load_full();
        self.kept.store(latest.clone());
        self.latest.store(latest);
    }

    /// The next address to connect to, in turn, so that all addresses of a name share the load.
    pub(crate) fn next(&self) -> Option<SocketAddr> {
        let addresses = self.latest.load();
        let turn = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        addresses.get(turn.checked_rem(addresses.len())?).copied()
    }

    /// A number that changes when addresses are no longer kept.
    pub(crate) fn losses(&self) -> u32 {
        self.losses.load(Ordering::Relaxed)
    }

    /// True if a connection to this address may stay.
    pub(crate) fn keep(&self, address: SocketAddr) -> bool {
        self.kept.load().binary_search(&address).is_ok()
    }

    /// Sets the latest addresses.
    pub(crate) fn set(&self, addresses: Vec<SocketAddr>) {
        if **self.latest.load() != addresses {
            self.latest.store(Arc::new(addresses));
        }
    }

    /// Looks the name up. If that fails, the addresses stay. Returns how long they are valid, if the answer has a TTL.
    pub(crate) async fn look_up(
        &self,
        dns: &Dns,
        host: &str,
        port: u16,
    ) -> io::Result<Option<Duration>> {
        let mut state = self.looking.lock().await;
        self.look_up_in(&mut state, dns, host, port).await
    }

    /// The first look-up. Requests that arrive before its end all wait for it.
    pub(crate) async fn first(&self, dns: &Dns, host: &str, port: u16) -> io::Result<()> {
        let mut state = self.looking.lock().await;
        if !self.latest.load().is_empty() {
            return Ok(());
        }
        if let Some((at, kind, why)) = &state.failed
            && clock::now().duration_since(*at) < FAILURE_TIME
        {
            return Err(io::Error::new(*kind, why.as_str()));
        }
        self.look_up_in(&mut state, dns, host, port).await.map(|_ttl| ())
    }

    async fn look_up_in(
        &self,
        state: &mut LookUpState,
        dns: &Dns,
        host: &str,
        port: u16,
    ) -> io::Result<Option<Duration>> {
        let found = resolver::look_up(dns, host).await;
        match found.all() {
            Ok(all) => {
                state.failed = None;
                let addresses = all.into_iter().map(|ip| SocketAddr::new(ip, port));
                self.found(&mut state.seen, addresses.collect());
                Ok(found.ttl)
            }
            Err(error) => {
                state.failed = Some((clock::now(), error.kind(), error.to_string()));
                Err(error)
            }
        }
    }

    fn found(&self, seen: &mut Vec<(SocketAddr, u32)>, mut found: Vec<SocketAddr>) {
        found.sort_unstable();
        found.dedup();
        let missed = seen.iter().filter(|(address, _)| found.binary_search(address).is_err());
        let missed = missed.map(|(address, misses)| (*address, misses + 1));
        let mut now: Vec<(SocketAddr, u32)> = found.iter().map(|address| (*address, 0)).collect();
        now.extend(missed.filter(|(_, misses)| *misses < MISSES_MAX));
        now.sort_unstable();
        let kept: Vec<SocketAddr> = now.iter().map(|(address, _)| *address).collect();
        let lost = seen.iter().any(|(address, _)| kept.binary_search(address).is_err());
        *seen = now;
        if **self.kept.load() != kept {
            self.kept.store(Arc::new(kept));
        }
        if lost {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
        self.set(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(last: &[u8]) -> Vec<SocketAddr> {
        last.iter().map(|last| SocketAddr::from(([192, 0, 2, *last], 80))).collect()
    }

    fn of(known: &Addresses, last: u8) -> (bool, bool) {
        let address = SocketAddr::from(([192, 0, 2, last], 80));
        (known.latest.load().contains(&address), known.keep(address))
    }

    /// New addresses are used at once. Missing ones are not connected to, but kept for a while.
    #[test]
    fn connections_leave_an_address_that_is_gone_for_good() {
        let (known, mut seen) = (Addresses::default(), Vec::new());
        known.found(&mut seen, addresses(&[2, 1, 1]));
        assert_eq!(**known.latest.load(), addresses(&[1, 2]));
        for _ in 1..MISSES_MAX {
            known.found(&mut seen, addresses(&[3, 2]));
            assert_eq!((of(&known, 1), of(&known, 3)), ((false, true), (true, true)));
        }
        assert_eq!(known.losses(), 0);
        known.found(&mut seen, addresses(&[3, 2]));
        assert_eq!((of(&known, 1), known.losses()), ((false, false), 1));
        assert_eq!((of(&known, 2), of(&known, 3)), ((true, true), (true, true)));
    }

    #[test]
    fn an_address_that_comes_back_in_time_is_kept() {
        let (known, mut seen) = (Addresses::default(), Vec::new());
        for round in 0..100 {
            known.found(&mut seen, addresses(&[round % 4, 10]));
        }
        assert_eq!((known.losses(), seen.len()), (0, 5));
    }

    #[test]
    fn a_thousand_addresses_are_taken_in_turn() {
        let (known, mut seen) = (Addresses::default(), Vec::new());
        let all = (0..1000_u16).map(|n| {
            let [high, low] = n.to_be_bytes();
            SocketAddr::from(([198, 51, high, low], 80))
        });
        let all: Vec<SocketAddr> = all.collect();
        known.found(&mut seen, all.clone());
        let taken: std::collections::BTreeSet<_> = (0..1000).filter_map(|_| known.next()).collect();
        assert_eq!(taken.len(), all.len());
    }
}
