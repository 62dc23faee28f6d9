//! Looks up names with the system's resolver. The number of concurrent look-ups is bounded, for each asker and for all of them together.
//!
//! The resolver may block for half a minute and cannot be interrupted: even if the waiting task is dropped, the thread remains occupied.
//! Where clients choose the names to look up, they could otherwise occupy all threads of the blocking pool, which file reads also need, and
//! one client could use up the permits of all others.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::task;

/// The permits for look-ups of one kind. All kinds together should have fewer than the 512 threads of a runtime's blocking pool.
#[derive(Debug)]
pub struct LookUps {
    /// The permits for all askers together.
    places: Semaphore,
    /// The maximum number of concurrent look-ups of one asker.
    share: usize,
    /// The permits of each asker that has a look-up.
    askers: Mutex<BTreeMap<Box<str>, Arc<Semaphore>>>,
}

/// One look-up of an asker. The share of an asker is removed with its last look-up.
struct Asker {
    of: &'static LookUps,
    name: Box<str>,
    share: Option<Arc<Semaphore>>,
    /// Whether the look-up has a permit of the share.
    has_place: bool,
}

impl LookUps {
    /// Allows `max` concurrent look-ups, of which one asker may have `share`.
    #[must_use]
    pub const fn new(max: usize, share: usize) -> LookUps {
        LookUps { places: Semaphore::const_new(max), share, askers: Mutex::new(BTreeMap::new()) }
    }

    /// Returns the addresses of a name, possibly none. If `host` is an address, no permit is needed. `asker` identifies the party that
    /// chose the name.
    pub async fn find(
        &'static self,
        asker: &str,
        host: &str,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        // Harmless: a host that is not an address is looked up below.
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        #[cfg(any(test, feature = "fake"))]
        if let Some(found) = crate::fake::found(host) {
            return found.map(|ips| ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect());
        }
        let host = host.to_owned();
        let found =
            self.beside(asker, move || (host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
        found.await.unwrap_or_else(|| Err(io::Error::other("the look-up of the name failed")))
    }

    /// Runs a look-up on another thread. It keeps its permit until it has ended, even if the caller no longer waits for it.
    async fn beside<T: Send + 'static>(
        &'static self,
        asker: &str,
        look_up: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // Waits for the asker's own share first, so that a waiting look-up does not take a permit from others.
        let asker = Asker::begin(self, asker).await?;
        // The semaphore is never closed.
        let place = self.places.acquire().await.ok()?;
        task::run_blocking(move || {
            // Harmless: the value is never read. It holds the permits until the end of the closure.
            let _place = (place, asker);
            look_up()
        })
        .await
    }

    fn askers(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<Semaphore>>> {
        self.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asker {
    /// Waits for a permit of the asker's share. Returns `None` only if a semaphore is closed, which never happens.
    async fn begin(of: &'static LookUps, name: &str) -> Option<Asker> {
        let share = {
            let mut askers = of.askers();
            let share =
                askers.entry(name.into()).or_insert_with(|| Arc::new(Semaphore::new(of.share)));
            share.clone()
        };
        let mut asker =
            Asker { of, name: name.into(), share: Some(share.clone()), has_place: false };
        share.acquire().await.ok()?.forget();
        asker.has_place = true;
        Some(asker)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let mut askers = self.of.askers();
        let Some(share) = self.share.take() else { return };
        if self.has_place {
            share.add_permits(1);
        }
        drop(share);
        // A count of 1 means that only the table still owns the share. Other look-ups obtain it only from the table, under the same lock.
        if askers.get(&self.name).is_some_and(|share| Arc::strong_count(share) == 1) {
            askers.remove(&self.name);
        }
    }
}

/// Returns roughly the registrable domain of a host: its last two labels, or three if the second-last is short, as in `example.co.uk`.
/// Names of one zone depend on the same name servers.
#[must_use]
pub fn zone(host: &str) -> &str {
    const SHORT: usize = 3;
    let mut starts = host.rmatch_indices('.').map(|(at, _)| at + 1);
    let (Some(last), Some(second)) = (starts.next(), starts.next()) else { return host };
    let is_short = last - second <= SHORT + 1;
    let start = if is_short { starts.next().unwrap_or(0) } else { second };
    host.get(start..).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn addresses_are_returned_and_names_are_looked_up() {
        static PLACES: LookUps = LookUps::new(1, 1);
        let found = PLACES.find("", "192.0.2.1", 80).await.unwrap();
        assert_eq!(found, ["192.0.2.1:80".parse().unwrap()]);
        let found = PLACES.find("", "::1", 80).await.unwrap();
        assert_eq!(found, ["[::1]:80".parse().unwrap()]);
        let local = PLACES.find("", "localhost", 443).await.unwrap();
        assert!(local.iter().all(|a| a.ip().is_loopback() && a.port() == 443), "{local:?}");
        assert!(!local.is_empty() && PLACES.find("", "a\0b", 1).await.is_err());
    }

    /// A caller that stops waiting frees no permit, since the resolver is still working.
    #[tokio::test]
    async fn what_hangs_keeps_its_place_and_no_more_begin() {
        static PLACES: LookUps = LookUps::new(2, 2);
        let (opens, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::sync_channel::<()>(1)).unzip();
        let brief = Duration::from_millis(20);
        for gate in gates {
            let hangs = PLACES.beside("", move || gate.recv());
            assert!(tokio::time::timeout(brief, hangs).await.is_err());
        }
        assert!(
            tokio::time::timeout(brief, PLACES.beside("", || 1)).await.is_err(),
            "all are taken"
        );
        // Other blocking work still runs.
        assert_eq!(task::run_blocking(|| 2).await, Some(2));
        opens.into_iter().for_each(drop);
        assert_eq!(PLACES.beside("", || 3).await, Some(3));
    }

    /// Even if all look-ups of one asker hang, those of other askers run.
    #[tokio::test]
    async fn one_asker_has_no_more_than_its_share() {
        static PLACES: LookUps = LookUps::new(4, 2);
        let (opens, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::sync_channel::<()>(1)).unzip();
        let brief = Duration::from_millis(20);
        for gate in gates {
            let hangs = PLACES.beside("ann", move || gate.recv());
            assert!(tokio::time::timeout(brief, hangs).await.is_err());
        }
        let more = PLACES.beside("ann", || 1);
        assert!(tokio::time::timeout(brief, more).await.is_err(), "her share is taken");
        for name in ["bob", "cid", ""] {
            assert_eq!(PLACES.beside(name, || 2).await, Some(2), "{name}");
        }
        assert_eq!(PLACES.askers().keys().map(|name| &**name).collect::<Vec<_>>(), ["ann"]);
        opens.into_iter().for_each(drop);
        assert_eq!(PLACES.beside("ann", || 3).await, Some(3));
        // The second of the two hanging look-ups may not have ended yet.
        let forgotten = async {
            while !PLACES.askers().is_empty() {
                tokio::time::sleep(brief).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(10), forgotten).await;
        assert!(in_time.is_ok(), "nobody is remembered");
    }

    #[test]
    fn names_of_one_registrant_have_one_zone() {
        for (host, expected) in [
            ("a.b.example.com", "example.com"),
            ("example.com", "example.com"),
            ("a.example.co.uk", "example.co.uk"),
            ("example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            ("localhost", "localhost"),
            ("", ""),
            ("hooks.internal", "hooks.internal"),
        ] {
            assert_eq!(zone(host), expected, "{host}");
        }
    }
}
