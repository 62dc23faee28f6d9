//! A port on which nothing listens while a test needs it.

use std::net::SocketAddr;

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

    #[track_caller]
    pub(crate) fn at(address: SocketAddr) -> ClosedPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&address.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        ClosedPort { address, _socket: socket }
    }
}
