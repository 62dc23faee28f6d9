//! A port that nobody listens at, for as long as a test needs it.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

/// A port of the loopback that refuses connections. It is bound, so that no other test is given it, and not listened to. A server that
/// names it may still take it.
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
