//! Limits the guessing of secrets: after too many wrong secrets, a client or an address has to wait. Others are not affected.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

/// Wrong secrets of one client, and from one address, within [`WINDOW`].
const OF_CLIENT: u32 = 10;
const OF_ADDRESS: u32 = 100;

/// The time in which wrong secrets count, and the time to wait after too many.
const WINDOW: Duration = Duration::from_secs(60);

/// The most clients and addresses. A full table drops those whose time is over, or else all.
const KEYS_MAX: usize = 100_000;

/// The origin of a wrong secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Guesser {
    Client(String),
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
pub(crate) struct Guesses(Mutex<HashMap<Guesser, Wrong>>);

impl Guesses {
    /// How long a client at this address has to wait before its secret is looked at.
    pub(crate) fn wait(&self, client: &str, address: IpAddr) -> Option<Duration> {
        let now = clock::now();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |guesser: Guesser| {
            let until = all.get(&guesser)?.until?;
            until.checked_duration_since(now).filter(|left| !left.is_zero())
        };
        left(Guesser::Client(client.to_owned())).max(left(Guesser::Address(address)))
    }

    /// Notes a wrong secret.
    pub(crate) fn note(&self, client: &str, address: IpAddr) {
        let now = clock::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEYS_MAX {
            all.retain(|_, wrong| !wrong.is_over(now));
            if all.len() >= KEYS_MAX {
                all.clear();
            }
        }
        let guessers = [
            (Guesser::Client(client.to_owned()), OF_CLIENT),
            (Guesser::Address(address), OF_ADDRESS),
        ];
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
}
