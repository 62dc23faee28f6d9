//! Limits the guessing of secrets: after too many wrong secrets, a client or an address has to wait. Others are not affected.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

/// Wrong secrets of one client, and from one address, within [`WINDOW`].
const OF_CLIENT: u32 = 10;
const OF_ADDRESS: u32 = 100;

/// The time in which wrong secrets count, and the time to wait after too many.
const WINDOW: Duration = Duration::from_secs(60);

/// The most clients and addresses. Some 8 MiB, whatever names the clients have.
const KEYS_MAX: usize = 100_000;

/// What a full table keeps at most, so that it is not gone through for each guess.
const KEPT_MAX: usize = KEYS_MAX / 4 * 3;

/// The origin of a wrong secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Guesser {
    /// The hash of a client's name, which strangers may write as long as they like. Nobody knows its key, so nobody can find another
    /// name with this hash.
    Client(u64),
    /// Who has one address of IPv6 has a network of them, 64 bits wide.
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Wrong {
    since: Instant,
    count: u32,
    /// The end of the wait, until which all its secrets are refused unchecked.
    until: Option<Instant>,
}

/// The wrong secrets of the last minutes.
#[derive(Default)]
pub(crate) struct Guesses {
    all: Mutex<HashMap<Guesser, Wrong>>,
    names: RandomState,
}

impl Guesses {
    /// How long a client at this address has to wait before its secret is looked at.
    pub(crate) fn wait(&self, client: &str, address: IpAddr) -> Option<Duration> {
        let now = clock::now();
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |guesser: Guesser| {
            let until = all.get(&guesser)?.until?;
            until.checked_duration_since(now).filter(|left| !left.is_zero())
        };
        left(self.client(client)).max(left(Guesser::of(address)))
    }

    /// Notes a wrong secret.
    pub(crate) fn note(&self, client: &str, address: IpAddr) {
        let now = clock::now();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEYS_MAX {
            make_room(&mut all, now);
        }
        let guessers = [(self.client(client), OF_CLIENT), (Guesser::of(address), OF_ADDRESS)];
        for (guesser, max) in guessers {
            let fresh = Wrong { since: now, count: 0, until: None };
            let wrong = all.entry(guesser).or_insert(fresh);
            if wrong.is_over(now) {
                *wrong = fresh;
            }
            wrong.count = wrong.count.saturating_add(1);
            if wrong.count >= max && wrong.until.is_none() {
                wrong.until = now.checked_add(WINDOW);
            }
        }
    }

    fn client(&self, name: &str) -> Guesser {
        Guesser::Client(self.names.hash_one(name))
    }
}

/// Drops those whose time is over; if that is too few, those who have not guessed enough to wait; and else all. Who makes others fill
/// the table gains less by it than the minute that ends each count anyway.
fn make_room(all: &mut HashMap<Guesser, Wrong>, now: Instant) {
    all.retain(|_, wrong| !wrong.is_over(now));
    if all.len() > KEPT_MAX {
        all.retain(|_, wrong| wrong.until.is_some());
    }
    if all.len() > KEPT_MAX {
        all.clear();
    }
}

impl Guesser {
    fn of(address: IpAddr) -> Guesser {
        let network = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
            address => address,
        };
        Guesser::Address(network)
    }
}

impl Wrong {
    fn is_over(&self, now: Instant) -> bool {
        match self.until {
            Some(until) => until <= now,
            None => now.saturating_duration_since(self.since) >= WINDOW,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_guesses_waits_and_nobody_else() {
        let guesses = Guesses::default();
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
    async fn addresses_of_one_network_count_together() {
        let guesses = Guesses::default();
        let address = |host: u32| -> IpAddr {
            let host = u128::from(host);
            Ipv6Addr::from((0x2001_0db8_u128 << 96) | host).into()
        };
        (0..OF_ADDRESS).for_each(|number| guesses.note(&number.to_string(), address(number)));
        assert_eq!(guesses.wait("b", address(OF_ADDRESS)), Some(WINDOW));
        assert_eq!(guesses.wait("b", Ipv6Addr::LOCALHOST.into()), None);
        // An address of IPv4 is the same one, however the socket writes it.
        let [plain, mapped]: [IpAddr; 2] =
            [[192, 0, 2, 1].into(), "::ffff:192.0.2.1".parse().unwrap()];
        (0..OF_ADDRESS).for_each(|number| guesses.note(&format!("c{number}"), mapped));
        assert_eq!(guesses.wait("b", plain), Some(WINDOW));
    }

    #[tokio::test(start_paused = true)]
    async fn a_million_of_guessers_take_no_more_than_the_table_has_and_those_that_wait_stay() {
        let guesses = Guesses::default();
        let own: IpAddr = [192, 0, 2, 1].into();
        (0..OF_CLIENT).for_each(|_| guesses.note("known", own));
        let length = |guesses: &Guesses| guesses.all.lock().unwrap().len();
        for number in 0..1_000_000_u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
            // A name of 1 kB takes no more than a short one.
            let name = if number % 1000 == 0 { "x".repeat(1000) } else { String::new() };
            guesses.note(&format!("{name}{number}"), address.into());
            assert!(number % 1000 != 0 || length(&guesses) <= KEYS_MAX + 2, "{number}");
        }
        assert!(length(&guesses) <= KEYS_MAX + 2, "{}", length(&guesses));
        assert_eq!(guesses.wait("known", [192, 0, 2, 2].into()), Some(WINDOW));
        // A hash map grows by doubling.
        let all = guesses.all.lock().unwrap();
        let bytes = all.capacity() * (size_of::<(Guesser, Wrong)>() + 1) * 8 / 7;
        assert!(bytes <= 16 << 20, "{bytes} bytes");
    }
}
