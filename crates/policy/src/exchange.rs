//! The state of one exchange, as policies see it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use fault::Fault;
use kit::SharedAlarm;
use kit::clock::{self, Instant};
use message::Headers;

use crate::{Filled, Identity, Interim, Notes, Totals};

/// The connection a request came by. One for all its exchanges.
#[derive(Debug)]
pub struct Caller {
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The peer's address as forwarding headers name it.
    pub peer_text: String,
    /// This side, as the peer addressed it.
    pub local: SocketAddr,
    pub scheme: Scheme,
    /// The TLS version, on a TLS connection.
    pub tls: Option<&'static str>,
    /// The certificate the client showed and the listener checked, as DER.
    pub certificate: Option<Arc<[u8]>>,
    /// Index of the worker the connection lives on.
    pub worker: usize,
}

/// What is known about one request on its way through. Named fields, no map: what is missing is a compile error.
pub struct Exchange {
    pub id: RequestId,
    pub caller: Rc<Caller>,
    /// The peer is one of the listener's trusted proxies: what it says about the client is believed.
    pub peer_trusted: bool,
    /// Who sent the request: the peer, or the address that a trusted proxy named.
    pub client: IpAddr,
    pub started: Instant,
    /// The request has a body, or one may still come: for steps that see the head alone, whatever the wire's framing says.
    pub has_body: bool,
    /// Path parameters of the route, in the order the pattern names them.
    pub parameters: Parameters,
    /// Where in the matched path that begins which the route's `**` stands for.
    pub rest: usize,
    /// Who was found to be asking, by the first policy that asked for credentials and believed them.
    pub identity: Option<Arc<Identity>>,
    /// The lines that limits add to the reply. Apart from the notes, which most limited routes need for nothing else.
    pub limit_lines: Option<Headers>,
    /// What policies of the route note for one another; nothing on routes whose policies note nothing.
    pub notes: Option<Box<Notes>>,
    /// What policies of the route keep for themselves.
    pub slots: Filled,
    /// The target that answered, as its URL.
    pub target: Option<Arc<str>>,
    /// What its calls came to, those of its policies included.
    pub totals: Totals,
    /// The fault that ended the exchange or its body, for the access record.
    pub fault: Option<Fault>,
    /// The deadline for what the exchange waits for outside. It belongs to the exchange's task, so that one timer serves all
    /// exchanges of a connection.
    pub alarm: SharedAlarm,
    /// Where interim replies of its upstream go, where the client knows such.
    pub interim: Option<Interim>,
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

/// Values of path parameters. Their names are the route's.
pub type Parameters = Vec<Box<[u8]>>;

impl Caller {
    pub fn new(peer: SocketAddr, local: SocketAddr, scheme: Scheme, worker: usize) -> Caller {
        let peer_text = peer.ip().to_canonical().to_string();
        Caller { peer, peer_text, local, scheme, tls: None, certificate: None, worker }
    }
}

impl Exchange {
    /// An exchange that has just begun. The id is a new one until the client's own is known.
    pub fn new(caller: Rc<Caller>, alarm: SharedAlarm) -> Exchange {
        Exchange {
            id: RequestId::made(),
            peer_trusted: false,
            client: caller.peer.ip(),
            caller,
            started: clock::now(),
            has_body: false,
            parameters: Parameters::new(),
            rest: 0,
            identity: None,
            limit_lines: None,
            notes: None,
            slots: Filled::default(),
            target: None,
            totals: Totals::default(),
            fault: None,
            alarm,
            interim: None,
        }
    }

    /// The notes, made on first use.
    pub fn notes(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }
}

/// What `X-Request-Id` says: the client's own where it is harmless, else one made here.
#[derive(Clone, Copy)]
pub struct RequestId {
    bytes: [u8; REQUEST_ID_BYTES_MAX],
    len: u8,
}

/// A client's id longer than this is replaced: a UUID has 36, trace ids with prefixes stay well below.
pub const REQUEST_ID_BYTES_MAX: usize = 96;

impl RequestId {
    /// 128 random bits as 32 hex digits. Unique, not secret.
    pub fn made() -> RequestId {
        let mut bytes = [0; REQUEST_ID_BYTES_MAX];
        let random = fastrand::u128(..).to_le_bytes();
        for (pair, byte) in bytes.chunks_exact_mut(2).zip(random) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        RequestId { bytes, len: 32 }
    }

    /// The client's id, if it is short enough and all of it is visible ASCII.
    pub fn kept(value: &[u8]) -> Option<RequestId> {
        let fits = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
        let mut bytes = [0; REQUEST_ID_BYTES_MAX];
        bytes.get_mut(..value.len()).filter(|_| fits)?.copy_from_slice(value);
        Some(RequestId { bytes, len: u8::try_from(value.len()).ok()? })
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// A hex digit, without a branch or a table.
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
            assert_eq!(RequestId::kept(value.as_bytes()).is_some(), kept, "{value}");
        }
        assert_eq!(RequestId::kept(b"abc").unwrap().as_str(), "abc");
    }

    #[test]
    fn made_ids_are_32_hex_digits_and_differ() {
        let (a, b) = (RequestId::made(), RequestId::made());
        assert_eq!(a.as_str().len(), 32);
        assert!(a.as_str().bytes().all(|c| c.is_ascii_hexdigit()));
        assert_ne!(a.as_str(), b.as_str());
    }
}
