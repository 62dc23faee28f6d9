//! Replaces the network of one thread: a function makes the connections to upstreams, by their names, and all others are refused.
//!
//! `tidegate test` and `tidegate explain --run` run a configuration this way. A thread that serves traffic never has a stand-in, and checks
//! for one only when it opens a connection. Unlike `fake`, which works by address and is for tests of the gateway itself, it needs no name
//! look-ups, and covers every outgoing connection.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::{Duplex, Wire};

/// Connects in place of the upstream with this name.
type Network = Rc<dyn Fn(&str) -> io::Result<Box<dyn Duplex>>>;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// From now on, this thread's connections to upstreams are made by `network`, and others are refused.
pub fn network(network: impl Fn(&str) -> io::Result<Box<dyn Duplex>> + 'static) {
    NETWORK.set(Some(Rc::new(network)));
}

/// Returns a connection to the upstream with this name, or `None` if there is no stand-in.
pub fn dialled(upstream: &str) -> Option<io::Result<Wire>> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    Some(network(upstream).map(Wire::Wrapped))
}

/// Returns true if this thread has a stand-in for the network.
#[must_use]
pub fn is_active() -> bool {
    NETWORK.with_borrow(Option::is_some)
}

/// If there is a stand-in for the network, refuses a connection that is not to an upstream.
pub fn refuse_others() -> io::Result<()> {
    if is_active() { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_with_a_stand_in_reaches_nothing_else() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(crate::dial::tcp("127.0.0.1", port).await.is_ok());
        assert!(dialled("orders").is_none());
        network(|upstream| match upstream {
            "orders" => Ok(Box::new(tokio::io::empty())),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        });
        assert!(matches!(dialled("orders"), Some(Ok(Wire::Wrapped(_)))));
        assert!(matches!(dialled("other"), Some(Err(_))));
        assert!(crate::dial::tcp("127.0.0.1", port).await.is_err());
        assert!(crate::dial::unix(std::path::Path::new("/tmp/none")).await.is_err());
    }
}
