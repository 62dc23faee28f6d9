//! A stand-in for the network of one thread: upstreams by their names, and nothing else.
//!
//! `tidegate test` and `tidegate explain --run` run a configuration that way. A thread that serves traffic never has one, and asks
//! for it only when it opens a connection. Unlike `fake`, which is by address and for tests of the gateway itself, it needs no
//! look-up of names, and covers every way out.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::{Duplex, Wire};

/// Connects in place of an upstream of this name.
type Network = Rc<dyn Fn(&str) -> io::Result<Box<dyn Duplex>>>;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// From now on this thread's connections to upstreams come from `network`, and others are refused.
pub fn network(network: impl Fn(&str) -> io::Result<Box<dyn Duplex>> + 'static) {
    NETWORK.set(Some(Rc::new(network)));
}

/// A connection to the upstream of this name; none if nothing stands in for the network.
pub fn dialled(upstream: &str) -> Option<io::Result<Wire>> {
    let network = NETWORK.with_borrow(Clone::clone)?;
    Some(network(upstream).map(Wire::Wrapped))
}

/// True if something stands in for the network of this thread.
#[must_use]
pub fn is_there() -> bool {
    NETWORK.with_borrow(Option::is_some)
}

/// Refuses a connection that is to no upstream, if there is a stand-in for the network.
pub fn refuse_others() -> io::Result<()> {
    if is_there() { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
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
