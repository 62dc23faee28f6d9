//! Fakes the network, name resolution and the wall clock of one thread, for tests. The program itself never enables the feature `fake`.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use crate::{Duplex, Wire};

/// Connects to an address in place of the network.
type Network = Rc<dyn Fn(SocketAddr) -> io::Result<Box<dyn Duplex>>>;

/// Looks up names in place of the system's resolver.
type Names = Rc<dyn Fn(&str) -> io::Result<Vec<IpAddr>>>;

thread_local! {
    static NAMES: RefCell<Option<Names>> = const { RefCell::new(None) };
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
    static WALL: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
}

/// From now on, this thread's connections to upstreams are made by `network`.
pub fn network(network: impl Fn(SocketAddr) -> io::Result<Box<dyn Duplex>> + 'static) {
    NETWORK.set(Some(Rc::new(network)));
}

/// From now on, this thread looks up names by `names`.
pub fn names(names: impl Fn(&str) -> io::Result<Vec<IpAddr>> + 'static) {
    NAMES.set(Some(Rc::new(names)));
}

/// Sets this thread's wall clock to `time`. It advances with the monotonic clock, which may be paused.
pub fn wall(time: Duration) {
    WALL.set(Some((time, Instant::now())));
}

pub(crate) fn dialled(address: SocketAddr) -> Option<io::Result<Wire>> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    Some(network(address).map(Wire::Wrapped))
}

pub(crate) fn found(host: &str) -> Option<io::Result<Vec<IpAddr>>> {
    let names = NAMES.with_borrow(Clone::clone)?;
    Some(names(host))
}

pub(crate) fn wall_now() -> Option<Duration> {
    let (time, since) = WALL.get()?;
    Some(time + since.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_advances_with_the_paused_clock() {
        wall(Duration::from_secs(1000));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(crate::clock::wall(), Duration::from_secs(1005));
    }

    #[tokio::test]
    async fn a_thread_connects_to_its_fake_network() {
        network(|address| match address.port() {
            1 => Ok(Box::new(tokio::io::empty())),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        });
        let wire = crate::dial::to("192.0.2.1:1".parse().unwrap()).await;
        assert!(matches!(wire, Ok(Wire::Wrapped(_))));
        let refused = crate::dial::to("192.0.2.1:2".parse().unwrap()).await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(io::ErrorKind::ConnectionRefused));
    }
}
