//! A port on which nothing listens while a test needs it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// A loopback port that refuses connections. It is bound, so that other tests do not get it, but nothing listens on it. A server that names
/// the port explicitly can still bind it.
pub(crate) struct ClosedPort {
    pub(crate) address: SocketAddr,
    _socket: Socket,
}

impl ClosedPort {
    pub(crate) fn any() -> ClosedPort {
        ClosedPort::at("127.0.0.1:0".parse().unwrap())
    }

    /// Waits until the server that listens there has ended.
    #[track_caller]
    pub(crate) fn at(address: SocketAddr) -> ClosedPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let start = Instant::now();
        while let Err(error) = socket.bind(&address.into()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{address} is not free: {error}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        ClosedPort { address, _socket: socket }
    }
}
