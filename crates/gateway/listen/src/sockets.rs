//! Listening sockets: one per worker and address, shared by SO_REUSEPORT, kept across plans.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use plan::Listener;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::clients::OpenConnections;
use crate::handover::{self, HandedSocket};

/// The bound addresses.
#[derive(Default)]
pub(crate) struct Sockets {
    bound: HashMap<Key, Bound>,
}

/// The identity of a listener across plans: its configured address. With port 0, every listener gets a different port, so its name is also
/// part of the identity.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    address: SocketAddr,
    name: Option<String>,
}

#[derive(Clone)]
struct Bound {
    name: String,
    actual: SocketAddr,
    open: Arc<OpenConnections>,
    /// Copies for a process that replaces this one.
    copies: Arc<[TcpListener]>,
}

/// The part of one listener that a worker gets.
pub(crate) struct ListenerParts {
    pub(crate) listener: Arc<Listener>,
    /// The open connections of all workers.
    pub(crate) open: Arc<OpenConnections>,
    /// The sockets that the worker does not have yet: none for a known listener, otherwise one, or several if a previous process had more
    /// workers.
    pub(crate) sockets: Vec<TcpListener>,
}

/// The number of connections that the kernel queues while a worker is busy. More than the usual 4,096, so that a
/// burst of reconnecting clients is not refused. The kernel's own limit may be lower.
const BACKLOG: i32 = 16_384;

/// The error text for an address that cannot be bound, with advice.
pub fn not_bound(address: SocketAddr, error: &io::Error) -> String {
    let found = ADVICE.iter().find(|(kind, _)| *kind == error.kind());
    let advice = found.map(|(_, advice)| format!("; {advice}")).unwrap_or_default();
    format!("{address} cannot be bound: {error}{advice}")
}

const ADVICE: [(io::ErrorKind, &str); 3] = [
    (io::ErrorKind::AddrInUse, "stop the program that listens there, or use another port"),
    (io::ErrorKind::AddrNotAvailable, "no interface of this machine has that address"),
    // Ports below 1024, unless the limit was changed.
    (
        io::ErrorKind::PermissionDenied,
        "this port needs the capability CAP_NET_BIND_SERVICE, for example with `setcap cap_net_bind_service=+ep PROGRAM` or systemd's `AmbientCapabilities`; or use a port from 1024 upwards",
    ),
];

impl Key {
    pub(crate) fn of(listener: &Listener) -> Key {
        let name = (listener.address.port() == 0).then(|| listener.name.clone());
        Key { address: listener.address, name }
    }
}

impl Sockets {
    /// Binds new addresses, and drops unused ones. Returns a list for each worker. Nothing changes if one address
    /// fails.
    pub(crate) fn bind(
        &mut self,
        listeners: &[Arc<Listener>],
        workers: usize,
    ) -> Result<Vec<Vec<ListenerParts>>, String> {
        let mut bound = HashMap::new();
        let mut lists: Vec<Vec<ListenerParts>> = (0..workers).map(|_| Vec::new()).collect();
        for listener in listeners {
            let failed = |e: io::Error| {
                let Listener { name, address, .. } = &**listener;
                format!("listen.{name}: {}", not_bound(*address, &e))
            };
            let (known, sockets) = match self.bound.get(&Key::of(listener)) {
                Some(known) => (known.clone(), Vec::new()),
                None => {
                    let mut ours = self.bound.values().chain(bound.values());
                    let is_ours = ours.any(|bound| overlap(bound.actual, listener.address));
                    open(listener, workers, is_ours).map_err(failed)?
                }
            };
            let mut shares: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
            for (at, socket) in sockets.into_iter().enumerate() {
                if let Some(share) = shares.get_mut(at % workers.max(1)) {
                    share.push(socket);
                }
            }
            // Harmless: there is a share for each worker.
            for (list, sockets) in lists.iter_mut().zip(shares) {
                let (listener, open) = (listener.clone(), known.open.clone());
                list.push(ListenerParts { listener, open, sockets });
            }
            bound.insert(Key::of(listener), Bound { name: listener.name.clone(), ..known });
        }
        let before = std::mem::replace(&mut self.bound, bound);
        self.tell_changes(&before);
        Ok(lists)
    }

    /// Logs new and dropped addresses.
    fn tell_changes(&self, before: &HashMap<Key, Bound>) {
        let mut new: Vec<_> =
            self.bound.iter().filter(|(key, _)| !before.contains_key(key)).collect();
        new.sort_by_key(|(_, bound)| &bound.name);
        for (_, Bound { name, actual, .. }) in new {
            tracing::info!(listener = name, address = %actual, "listening");
        }
        for (_, Bound { name, actual, .. }) in
            before.iter().filter(|(key, _)| !self.bound.contains_key(key))
        {
            tracing::info!(listener = name, address = %actual, "closed");
        }
    }

    /// Copies of all sockets, for a process that replaces this one.
    pub(crate) fn handed(&self) -> io::Result<Vec<HandedSocket>> {
        let of_one = self.bound.values().flat_map(|bound| {
            bound.copies.iter().map(|copy| {
                Ok(HandedSocket { key: key_of(&bound.name), socket: copy.try_clone()? })
            })
        });
        of_one.collect()
    }

    pub(crate) fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let mut list: Vec<_> = self.bound.values().map(|b| (b.name.clone(), b.actual)).collect();
        list.sort();
        list
    }
}

/// The key of a listener in the configuration.
fn key_of(name: &str) -> String {
    format!("{}{name}", handover::LISTENER)
}

/// True if the system considers two addresses the same: they are equal, or one includes the other.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| match a {
        IpAddr::V4(any) => any.is_unspecified() && b.is_ipv4(),
        // Such sockets also accept IPv4.
        IpAddr::V6(any) => any.is_unspecified(),
    };
    let (same_port, a, b) = (a.port() == b.port(), a.ip().to_canonical(), b.ip().to_canonical());
    same_port && (a == b || covers(a, b) || covers(b, a))
}

/// Opens one socket per worker, all on the port that the first one got.
///
/// The first socket listens before its port is shared, so that binding fails if another program listens on the address, even if that
/// program is another Tidegate. If this process already has a socket on the address (`is_ours`), for instance when `0.0.0.0:80` becomes
/// `127.0.0.1:80`, binding would fail too, so the port is shared from the beginning.
fn open(
    listener: &Listener,
    workers: usize,
    is_ours: bool,
) -> io::Result<(Bound, Vec<TcpListener>)> {
    let mut sockets = handover::take(&key_of(&listener.name), listener.address);
    for inherited in &sockets {
        prepare(SockRef::from(inherited))?;
    }
    if sockets.is_empty() {
        let first = socket(listener.address, is_ours)?;
        SockRef::from(&first).set_reuse_port(true)?;
        sockets.push(first);
    }
    let first = sockets.first().ok_or(io::ErrorKind::NotFound)?;
    let actual = first.local_addr()?;
    while sockets.len() < workers {
        let more = match socket(actual, true) {
            // The inherited socket was opened by another user, such as a service manager. Its port cannot be bound again, so the workers
            // share the socket.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                sockets.first().ok_or(io::ErrorKind::NotFound)?.try_clone()
            }
            opened => opened,
        };
        sockets.push(more?);
    }
    let copies = sockets.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?;
    let name = listener.name.clone();
    Ok((Bound { name, actual, open: Arc::default(), copies }, sockets))
}

/// Opens a listening socket. Accepted sockets inherit its options, which saves calls for each connection.
fn socket(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Old connections of a process that has ended must not prevent binding.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    prepare(SockRef::from(&socket))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Sets the options of all sockets, including inherited ones.
fn prepare(socket: SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    kit::wire::keep_alive(&*socket)
}

/// Makes closing send a reset instead of waiting, for a peer that would otherwise keep the socket open.
pub(crate) fn reset_on_close(socket: &tokio::net::TcpStream) {
    // Harmless: without the option, closing only takes longer.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_if_equal_or_if_one_includes_the_other() {
        for (a, b, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "0.0.0.0:81", false),
            ("127.0.0.1:80", "[::]:80", true),
            ("127.0.0.1:80", "[::1]:80", false),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
            ("[::1]:80", "[::]:80", true),
            ("[::1]:80", "0.0.0.0:80", false),
            ("0.0.0.0:80", "[::]:80", true),
        ] {
            let (first, second) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(overlap(first, second), expected, "{a} {b}");
            assert_eq!(overlap(second, first), expected, "{b} {a}");
        }
    }
}
