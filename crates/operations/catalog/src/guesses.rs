//! Limits the guessing of secrets: after too many wrong secrets, a client or an address has to wait. Other clients and addresses are not
//! affected.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

/// Maximum number of wrong secrets for one client within [`WINDOW`].
const OF_CLIENT: u32 = 10;
/// Maximum number of wrong secrets from one address within [`WINDOW`].
const OF_ADDRESS: u32 = 100;

/// The time in which wrong secrets are counted. It is also the waiting time once a limit is reached.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of entries in each table. A table takes about 5 MiB, regardless of the length of clients' names.
const KEYS_MAX: usize = 50_000;

/// The number of entries to which a full table is reduced. The difference to [`KEYS_MAX`] makes the necessary scans of the table rare.
const KEPT_MAX: usize = KEYS_MAX / 4 * 3;

/// Counts recent wrong secrets.
#[derive(Default)]
pub(crate) struct GuessLimiter {
    counts: Mutex<Counts>,
    names: RandomState,
}

/// Clients and addresses have separate tables. An attacker who invents names of clients fills only the table of clients and cannot displace
/// the counts of addresses.
#[derive(Default)]
struct Counts {
    /// Clients, by the hash of their name, because a name may have any length. The hash is keyed, so an attacker cannot find another name
    /// with the same hash.
    clients: HashMap<u64, WrongSecrets>,
    addresses: HashMap<IpAddr, WrongSecrets>,
}

/// The wrong secrets for one client or from one address.
#[derive(Debug, Clone, Copy)]
struct WrongSecrets {
    /// The time of the first wrong secret. If `waits` is true, the time when the limit was reached.
    since: Instant,
    count: u32,
    /// True once the limit is reached. For [`WINDOW`], secrets are then refused without a check.
    waits: bool,
}

impl GuessLimiter {
    /// Returns how long a client at this address has to wait before its secret is checked. Returns `None` if it need not wait.
    pub(crate) fn wait(&self, client: &str, address: IpAddr) -> Option<Duration> {
        let now = clock::now();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |wrong: Option<&WrongSecrets>| {
            let wrong = wrong.filter(|wrong| wrong.waits)?;
            let left = WINDOW.checked_sub(now.saturating_duration_since(wrong.since));
            left.filter(|left| !left.is_zero())
        };
        let of_client = left(counts.clients.get(&self.names.hash_one(client)));
        of_client.max(left(counts.addresses.get(&network(address))))
    }

    /// Records a wrong secret.
    pub(crate) fn note(&self, client: &str, address: IpAddr) {
        let now = clock::now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut counts.clients, self.names.hash_one(client), OF_CLIENT, now);
        note(&mut counts.addresses, network(address), OF_ADDRESS, now);
    }
}

/// Returns the network for which an address is counted. For IPv6 it is the /64, because one user usually has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
        address => address,
    }
}

fn note<K: Eq + Hash>(all: &mut HashMap<K, WrongSecrets>, guesser: K, max: u32, now: Instant) {
    if all.len() >= KEYS_MAX && !all.contains_key(&guesser) {
        make_room(all, now);
    }
    let fresh = WrongSecrets { since: now, count: 0, waits: false };
    let wrong = all.entry(guesser).or_insert(fresh);
    if wrong.is_over(now) {
        *wrong = fresh;
    }
    wrong.count = wrong.count.saturating_add(1);
    if wrong.count >= max && !wrong.waits {
        (wrong.since, wrong.waits) = (now, true);
    }
}

/// Removes expired entries. If more than [`KEPT_MAX`] remain, also removes those with the fewest wrong secrets. Entries that wait have the
/// most, so they stay longest.
fn make_room<K: Eq + Hash>(all: &mut HashMap<K, WrongSecrets>, now: Instant) {
    all.retain(|_, wrong| !wrong.is_over(now));
    let over = all.len().saturating_sub(KEPT_MAX);
    if over == 0 {
        return;
    }
    let mut counts: Vec<u32> = all.values().map(|wrong| wrong.count).collect();
    let (below, least, _) = counts.select_nth_unstable(over - 1);
    let least = *least;
    let mut equal = over - below.iter().filter(|count| **count < least).count();
    all.retain(|_, wrong| {
        let goes = wrong.count < least || (wrong.count == least && equal > 0);
        if goes && wrong.count == least {
            equal -= 1;
        }
        !goes
    });
}

impl WrongSecrets {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_guesses_has_to_wait_and_others_do_not() {
        let guesses = GuessLimiter::default();
        let (one, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        for _ in 0..OF_CLIENT {
            assert_eq!(guesses.wait("a", one), None);
            guesses.note("a", one);
        }
        assert_eq!(guesses.wait("a", other), Some(WINDOW));
        assert_eq!(guesses.wait("b", one), None);
        (OF_CLIENT..OF_ADDRESS).for_each(|number| guesses.note(&number.to_string(), one));
        assert_eq!(guesses.wait("b", one), Some(WINDOW));
        assert_eq!(guesses.wait("b", other), None);
        tokio::time::advance(WINDOW).await;
        assert_eq!(guesses.wait("a", one), None);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_network_are_counted_together() {
        let guesses = GuessLimiter::default();
        let address = |host: u32| -> IpAddr {
            let host = u128::from(host);
            Ipv6Addr::from((0x2001_0db8_u128 << 96) | host).into()
        };
        (0..OF_ADDRESS).for_each(|number| guesses.note(&number.to_string(), address(number)));
        assert_eq!(guesses.wait("b", address(OF_ADDRESS)), Some(WINDOW));
        assert_eq!(guesses.wait("b", Ipv6Addr::LOCALHOST.into()), None);
        // An IPv4 address counts the same in both notations.
        let [plain, mapped]: [IpAddr; 2] =
            [[192, 0, 2, 1].into(), "::ffff:192.0.2.1".parse().unwrap()];
        (0..OF_ADDRESS).for_each(|number| guesses.note(&format!("c{number}"), mapped));
        assert_eq!(guesses.wait("b", plain), Some(WINDOW));
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_guessers_do_not_exceed_the_tables_and_waiting_clients_stay() {
        let guesses = GuessLimiter::default();
        let own: IpAddr = [192, 0, 2, 1].into();
        (0..OF_CLIENT).for_each(|_| guesses.note("known", own));
        let lengths = |guesses: &GuessLimiter| {
            let counts = guesses.counts.lock().unwrap();
            (counts.clients.len(), counts.addresses.len())
        };
        for number in 0..1_000_000_u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
            // A name of 1 kB takes no more memory than a short one.
            let name = if number % 1000 == 0 { "x".repeat(1000) } else { String::new() };
            guesses.note(&format!("{name}{number}"), address.into());
            if number % 1000 == 0 {
                let (clients, addresses) = lengths(&guesses);
                assert!(clients <= KEYS_MAX && addresses <= KEYS_MAX, "{number}");
            }
        }
        assert_eq!(guesses.wait("known", [192, 0, 2, 2].into()), Some(WINDOW));
        // The size of a hash map in bytes is estimated from its capacity, which doubles when it grows.
        let counts = guesses.counts.lock().unwrap();
        let bytes = counts.clients.capacity() * (size_of::<(u64, WrongSecrets)>() + 1) * 8 / 7
            + counts.addresses.capacity() * (size_of::<(IpAddr, WrongSecrets)>() + 1) * 8 / 7;
        assert!(bytes <= 16 << 20, "{bytes} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn invented_names_displace_neither_addresses_nor_clients_with_many_guesses() {
        let guesses = GuessLimiter::default();
        let own: IpAddr = [192, 0, 2, 1].into();
        (1..OF_CLIENT).for_each(|_| guesses.note("known", own));
        (OF_CLIENT..OF_ADDRESS).for_each(|number| guesses.note(&format!("a{number}"), own));
        for number in 0..150_000_u32 {
            // Each of these addresses continues to guess although it has to wait.
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number % 200);
            guesses.note(&format!("b{number}"), address.into());
        }
        assert_eq!(guesses.wait("new", own), None);
        guesses.note("known", own);
        assert_eq!(guesses.wait("new", own), Some(WINDOW), "the hundredth from here");
        assert_eq!(guesses.wait("known", [192, 0, 2, 2].into()), Some(WINDOW), "its tenth");
    }
}
