//! Names looked up by the system's resolver: so many at once and no more.
//!
//! The resolver may be silent for half a minute, and nothing stops it: whoever waits may go, and the thread stays. Where strangers say
//! which names are looked up, they would soon have all threads that reads of files need.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use tokio::sync::Semaphore;

use crate::task;

/// Places for look-ups of one kind. Several kinds together should have fewer than a runtime has threads for them, 512.
#[derive(Debug)]
pub struct LookUps {
    places: Semaphore,
}

impl LookUps {
    /// At most so many look-ups at once.
    #[must_use]
    pub const fn new(max: usize) -> LookUps {
        LookUps { places: Semaphore::const_new(max) }
    }

    /// The addresses of a name, perhaps none. An address needs no place.
    pub async fn find(&'static self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        #[cfg(any(test, feature = "fake"))]
        if let Some(found) = crate::fake::found(host) {
            return found.map(|ips| ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect());
        }
        let host = host.to_owned();
        let found =
            self.beside(move || (host.as_str(), port).to_socket_addrs().map(Vec::from_iter));
        found.await.unwrap_or_else(|| Err(io::Error::other("a name was not looked up")))
    }

    /// Runs a look-up in a place of its own, which it has until it has ended, whether or not somebody still waits for it.
    async fn beside<T: Send + 'static>(
        &'static self,
        look_up: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // Nobody closes the semaphore.
        let place = self.places.acquire().await.ok()?;
        task::beside(move || {
            let _place = place;
            look_up()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn addresses_are_found_and_names_are_not() {
        static PLACES: LookUps = LookUps::new(1);
        let found = PLACES.find("192.0.2.1", 80).await.unwrap();
        assert_eq!(found, ["192.0.2.1:80".parse().unwrap()]);
        let found = PLACES.find("::1", 80).await.unwrap();
        assert_eq!(found, ["[::1]:80".parse().unwrap()]);
        let local = PLACES.find("localhost", 443).await.unwrap();
        assert!(local.iter().all(|a| a.ip().is_loopback() && a.port() == 443), "{local:?}");
        assert!(!local.is_empty() && PLACES.find("a\0b", 1).await.is_err());
    }

    /// Whoever gives up waiting frees no place: the resolver is still at it.
    #[tokio::test]
    async fn what_hangs_keeps_its_place_and_no_more_begin() {
        static PLACES: LookUps = LookUps::new(2);
        let (opens, gates): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::sync_channel::<()>(1)).unzip();
        let brief = Duration::from_millis(20);
        for gate in gates {
            let hangs = PLACES.beside(move || gate.recv());
            assert!(tokio::time::timeout(brief, hangs).await.is_err());
        }
        assert!(tokio::time::timeout(brief, PLACES.beside(|| 1)).await.is_err(), "all are taken");
        // What is no look-up goes on.
        assert_eq!(task::beside(|| 2).await, Some(2));
        opens.into_iter().for_each(drop);
        assert_eq!(PLACES.beside(|| 3).await, Some(3));
    }
}
