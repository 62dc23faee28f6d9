//! By whom a limit counts, as a number. The number is a keyed hash: nothing a client sent is kept, and nobody can aim at
//! another's count.

use std::net::IpAddr;

use message::RequestHead;
use policy::Exchange;

use crate::hash::{Hash, Key};

/// By whom a limit counts.
#[derive(Debug)]
pub enum By {
    /// The client's address; of IPv6, the network of 64 bits that one subscriber has.
    Client,
    /// Who was found to be asking; the client where nobody was.
    Subject,
    /// The value of a header; the client where there is none.
    Header(String),
    /// All requests together.
    Everybody,
}

impl By {
    /// Adds what tells this request's key from others.
    pub(crate) fn write(&self, ex: &Exchange, head: &RequestHead, hash: &mut Hash) {
        match self {
            By::Client => write_client(ex.client, hash),
            By::Subject => match &ex.identity {
                Some(identity) => {
                    hash.write(identity.scheme.name().as_bytes());
                    hash.write(identity.subject.as_bytes());
                }
                None => write_client(ex.client, hash),
            },
            By::Header(name) => match head.headers.get(name) {
                Some(value) => {
                    hash.write(b"header");
                    hash.write(value);
                }
                None => write_client(ex.client, hash),
            },
            By::Everybody => {}
        }
    }

    /// The whole key, for who counts nothing else by it.
    pub(crate) fn hash(&self, key: Key, ex: &Exchange, head: &RequestHead) -> u64 {
        let mut hash = key.start();
        self.write(ex, head, &mut hash);
        hash.finish()
    }
}

fn write_client(client: IpAddr, hash: &mut Hash) {
    match client.to_canonical() {
        IpAddr::V4(address) => hash.write(&address.octets()),
        IpAddr::V6(address) => hash.write(address.octets().get(..8).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Protocol;
    use policy::{Caller, Identity, IdentityScheme, Scheme};

    fn exchange(client: &str, subject: Option<&str>) -> Exchange {
        let client: IpAddr = client.parse().unwrap();
        let peer = (client, 1).into();
        let caller = Caller::new(peer, peer, Scheme::Http, 0);
        let mut ex = Exchange::new(caller.into(), Default::default());
        ex.identity = subject.map(|subject| {
            let scheme = IdentityScheme::Jwt;
            Identity { subject: subject.into(), scheme, claims: None, tier: None }.into()
        });
        ex
    }

    #[test]
    fn who_is_the_same_and_who_is_not() {
        let key = Key::random();
        let head = |value: &str| {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
            head.headers.add("X-Key", value.as_bytes()).unwrap();
            head
        };
        let header = By::Header("x-key".to_owned());
        let cases = [
            (&By::Client, ("192.0.2.1", None, "a"), ("192.0.2.1", Some("x"), "b"), true),
            (&By::Client, ("192.0.2.1", None, "a"), ("::ffff:192.0.2.1", None, "a"), true),
            (&By::Client, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), false),
            (&By::Client, ("2001:db8::1", None, "a"), ("2001:db8::f:2", None, "a"), true),
            (&By::Client, ("2001:db8::1", None, "a"), ("2001:db8:0:1::1", None, "a"), false),
            (&By::Subject, ("192.0.2.1", Some("x"), "a"), ("192.0.2.2", Some("x"), "b"), true),
            (&By::Subject, ("192.0.2.1", Some("x"), "a"), ("192.0.2.1", Some("y"), "a"), false),
            (&By::Subject, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), false),
            (&header, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), true),
            (&header, ("192.0.2.1", None, "a"), ("192.0.2.1", None, "b"), false),
            (&By::Everybody, ("192.0.2.1", None, "a"), ("192.0.2.2", Some("x"), "b"), true),
        ];
        for (by, one, other, same) in cases {
            let of = |(client, subject, value): (&str, Option<&str>, &str)| {
                by.hash(key, &exchange(client, subject), &head(value))
            };
            assert_eq!(of(one) == of(other), same, "{by:?} {one:?} {other:?}");
        }
    }
}
