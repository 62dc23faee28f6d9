//! The state of one exchange that policies see.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use fault::Fault;
use kit::SharedAlarm;
use kit::clock::{self, Instant};
use message::{Headers, WholeLine};

use crate::{ExchangeTrace, GrpcCall, Identity, Interim, Notes, SlotValues, Subscribed, Totals};

/// The connection on which a request arrived. All exchanges of the connection share it.
#[derive(Debug)]
pub struct Caller {
    /// The address of the peer.
    pub peer: SocketAddr,
    /// `X-Forwarded-For` with the peer's address.
    pub forwarded_for: WholeLine,
    /// The local address that the peer connected to.
    pub local: SocketAddr,
    pub scheme: Scheme,
    /// The TLS version, on a TLS connection.
    pub tls: Option<&'static str>,
    /// The server name that the client sent in its TLS handshake, in lower case.
    pub server_name: Option<Box<str>>,
    /// The client's certificate as DER, verified by the listener.
    pub certificate: Option<Arc<[u8]>>,
    /// The index of the worker that owns the connection.
    pub worker: usize,
}

/// The state of one request while it is processed. It has named fields instead of a map, so that a missing one is a compile error.
pub struct Exchange {
    pub id: RequestId,
    pub caller: Rc<Caller>,
    /// Whether the peer is one of the listener's trusted proxies, whose headers about the client are trusted.
    pub peer_trusted: bool,
    /// The client's address: the peer's, or the one that a trusted proxy named.
    pub client: IpAddr,
    pub started: Instant,
    /// Whether the request has a body, or one may still arrive. Steps that see only the head use this, because it is correct for every
    /// framing.
    pub has_body: bool,
    /// Path parameters of the route, in the order the pattern names them.
    pub parameters: Parameters,
    /// The length of the part of the matched path that stands before the part that the route's `**` matched.
    pub prefix: usize,
    /// The offset in the matched path of the part that the route's `**` matched.
    pub rest: usize,
    /// The client identity, from the first policy that found valid credentials.
    pub identity: Option<Arc<Identity>>,
    /// The client's subscription, on routes that limit by it.
    pub subscription: Option<Box<Subscribed>>,
    /// The lines that limits add to the reply. They are not in the notes, because most limited routes need no other notes.
    pub limit_lines: Option<Headers>,
    /// Notes that the route's policies leave for one another, or `None` until one of them writes some.
    pub notes: Option<Box<Notes>>,
    /// The gRPC call, if the request is one.
    pub grpc: Option<Box<GrpcCall>>,
    /// State that each policy of the route keeps for itself.
    pub slots: SlotValues,
    /// The target that was tried last, as its URL. It did not answer if all attempts failed.
    pub target: Option<Arc<str>>,
    /// Sums over the exchange's calls, including those of its policies.
    pub totals: Totals,
    /// The fault that ended the exchange or its body, for the access record.
    pub fault: Option<Fault>,
    /// The alarm for the exchange's current wait. It is reused, so that successive exchanges share one timer.
    pub alarm: SharedAlarm,
    /// The sender of interim replies to the client, if the client supports them.
    pub interim: Option<Interim>,
    /// The place of the exchange in a trace, if tracing is on.
    pub trace: Option<ExchangeTrace>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// Values of path parameters. The route has their names.
pub type Parameters = Vec<Box<[u8]>>;

impl Caller {
    pub fn new(peer: SocketAddr, local: SocketAddr, scheme: Scheme, worker: usize) -> Caller {
        let address = peer.ip().to_canonical().to_string();
        let forwarded_for = WholeLine::new("X-Forwarded-For", &address);
        let (tls, server_name, certificate) = (None, None, None);
        Caller { peer, forwarded_for, local, scheme, tls, server_name, certificate, worker }
    }
}

impl Exchange {
    /// Creates a new exchange. Its id is generated. A valid id from the client replaces it later.
    pub fn new(caller: Rc<Caller>, alarm: SharedAlarm) -> Exchange {
        Exchange {
            id: RequestId::random(),
            peer_trusted: false,
            client: caller.peer.ip(),
            caller,
            started: clock::now(),
            has_body: false,
            parameters: Parameters::new(),
            prefix: 0,
            rest: 0,
            identity: None,
            subscription: None,
            limit_lines: None,
            notes: None,
            grpc: None,
            slots: SlotValues::default(),
            target: None,
            totals: Totals::default(),
            fault: None,
            alarm,
            interim: None,
            trace: None,
        }
    }

    /// Returns the client's plan of limits: that of its subscription, or else of its identity.
    pub fn plan(&self) -> Option<&str> {
        let subscribed = self.subscription.as_ref().map(|subscribed| &*subscribed.plan);
        let of_identity = || self.identity.as_ref().and_then(|one| one.tier.as_deref());
        subscribed.or_else(of_identity)
    }

    /// Returns the notes, which are created on first use.
    pub fn notes(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }
}

/// The value of `X-Request-Id`: the client's own if it is short and printable, or else a generated one.
#[derive(Clone, Copy)]
pub struct RequestId {
    bytes: [u8; REQUEST_ID_BYTES_MAX],
    len: u8,
}

/// The maximum length of a request id in bytes. A longer id from a client is replaced. A UUID has 36 characters, and trace ids with
/// prefixes are well below the bound.
pub const REQUEST_ID_BYTES_MAX: usize = 96;

impl RequestId {
    /// Generates an id: 128 random bits as 32 hex digits. It is unique, but not secret.
    pub fn random() -> RequestId {
        let mut bytes = [0; REQUEST_ID_BYTES_MAX];
        let random = fastrand::u128(..).to_le_bytes();
        // Harmless: 16 bytes make 32 digits.
        for (pair, byte) in bytes.chunks_exact_mut(2).zip(random) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        RequestId { bytes, len: 32 }
    }

    /// Returns the client's id if it is short enough and consists of visible ASCII characters.
    pub fn from_client(value: &[u8]) -> Option<RequestId> {
        let fits = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
        let mut bytes = [0; REQUEST_ID_BYTES_MAX];
        bytes.get_mut(..value.len()).filter(|_| fits)?.copy_from_slice(value);
        Some(RequestId { bytes, len: u8::try_from(value.len()).ok()? })
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        // Harmless: an id is visible ASCII.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// Returns a hex digit, without a branch or a table.
fn digit(value: u8) -> u8 {
    value + b'0' + u8::from(value > 9) * (b'a' - b'0' - 10)
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_only_when_harmless() {
        let long = "x".repeat(REQUEST_ID_BYTES_MAX + 1);
        for (value, kept) in
            [("abc-1", true), ("", false), ("a b", false), ("a\x7f", false), (&long, false)]
        {
            assert_eq!(RequestId::from_client(value.as_bytes()).is_some(), kept, "{value}");
        }
        assert_eq!(RequestId::from_client(b"abc").unwrap().as_str(), "abc");
    }

    #[test]
    fn made_ids_are_32_hex_digits_and_differ() {
        let (a, b) = (RequestId::random(), RequestId::random());
        assert_eq!(a.as_str().len(), 32);
        assert!(a.as_str().bytes().all(|c| c.is_ascii_hexdigit()));
        assert_ne!(a.as_str(), b.as_str());
    }
}
