//! Computes the key by which a limit counts. It is a keyed hash, so no input of the client is stored, and no client can choose input that
//! yields another client's key.

use std::net::IpAddr;
use std::sync::Arc;

use message::RequestHead;
use policy::Exchange;

use crate::expression::Expression;
use crate::hash::{Hash, Key};

/// What a limit counts by.
#[derive(Debug)]
pub enum KeySource {
    /// The client's address; for IPv6, the /64 network, which usually belongs to one subscriber.
    Client,
    /// The subject of the client identity, or the address if there is none.
    Subject,
    /// The subscription, or the subject if there is none.
    Subscription,
    /// The value of a header, or the address if there is none.
    Header(String),
    /// The value of an expression, or the address if it yields no text.
    Expression(Arc<Expression>),
    /// All requests together.
    Everybody,
    /// The called operation. All unknown operations share one key.
    Operation,
}

impl KeySource {
    /// Adds the request's key to a hash.
    pub(crate) fn write(&self, ex: &Exchange, head: &RequestHead, hash: &mut Hash) {
        match self {
            KeySource::Client => write_client(ex.client, hash),
            KeySource::Subject => write_subject(ex, hash),
            KeySource::Subscription => match &ex.subscription {
                Some(subscribed) => {
                    hash.write(b"subscription");
                    hash.write(&subscribed.digest.to_le_bytes());
                }
                None => write_subject(ex, hash),
            },
            KeySource::Header(name) => match head.headers.get(name) {
                Some(value) => {
                    hash.write(b"header");
                    hash.write(value);
                }
                None => write_client(ex.client, hash),
            },
            KeySource::Expression(expression) => match expression.text(ex, head) {
                Ok(text) => {
                    hash.write(b"expression");
                    hash.write(text.as_bytes());
                }
                Err(_) => write_client(ex.client, hash),
            },
            KeySource::Everybody => {}
            KeySource::Operation => {
                let index = ex.notes.as_ref().and_then(|notes| notes.operation);
                hash.write(&index.unwrap_or(policy::UNKNOWN_OPERATION).to_le_bytes());
            }
        }
    }

    /// Returns the hash of the key alone.
    pub(crate) fn hash(&self, key: Key, ex: &Exchange, head: &RequestHead) -> u64 {
        let mut hash = key.start();
        self.write(ex, head, &mut hash);
        hash.finish()
    }
}

fn write_subject(ex: &Exchange, hash: &mut Hash) {
    match &ex.identity {
        Some(identity) => hash.write(&identity.digest),
        None => write_client(ex.client, hash),
    }
}

fn write_client(client: IpAddr, hash: &mut Hash) {
    match client.to_canonical() {
        IpAddr::V4(address) => hash.write(&address.octets()),
        IpAddr::V6(address) => hash.write(&((address.to_bits() >> 64) as u64).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::identity;
    use message::Protocol;
    use policy::{Caller, IdentityScheme, Scheme};

    fn exchange(client: &str, subject: Option<&str>) -> Exchange {
        let client: IpAddr = client.parse().unwrap();
        let peer = (client, 1).into();
        let caller = Caller::new(peer, peer, Scheme::Http, 0);
        let mut ex = Exchange::new(caller.into(), Default::default());
        ex.identity =
            subject.map(|subject| identity(subject, IdentityScheme::Jwt, None, None).into());
        ex
    }

    #[test]
    fn keys_are_equal_exactly_if_their_sources_are() {
        let key = Key::random();
        let head = |value: &str| {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
            head.headers.add("X-Key", value.as_bytes()).unwrap();
            head
        };
        let header = KeySource::Header("x-key".to_owned());
        let expression = |text| KeySource::Expression(Arc::new(Expression::compile(text).unwrap()));
        let (tenant, missing) =
            (expression("request.headers['x-key']"), expression("claims.missing"));
        let cases = [
            (&tenant, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), true),
            (&tenant, ("192.0.2.1", None, "a"), ("192.0.2.1", None, "b"), false),
            (&missing, ("192.0.2.1", None, "a"), ("192.0.2.1", None, "b"), true),
            (&missing, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), false),
            (&KeySource::Client, ("192.0.2.1", None, "a"), ("192.0.2.1", Some("x"), "b"), true),
            (&KeySource::Client, ("192.0.2.1", None, "a"), ("::ffff:192.0.2.1", None, "a"), true),
            (&KeySource::Client, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), false),
            (&KeySource::Client, ("2001:db8::1", None, "a"), ("2001:db8::f:2", None, "a"), true),
            (&KeySource::Client, ("2001:db8::1", None, "a"), ("2001:db8:0:1::1", None, "a"), false),
            (
                &KeySource::Subject,
                ("192.0.2.1", Some("x"), "a"),
                ("192.0.2.2", Some("x"), "b"),
                true,
            ),
            (
                &KeySource::Subject,
                ("192.0.2.1", Some("x"), "a"),
                ("192.0.2.1", Some("y"), "a"),
                false,
            ),
            (&KeySource::Subject, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), false),
            (&header, ("192.0.2.1", None, "a"), ("192.0.2.2", None, "a"), true),
            (&header, ("192.0.2.1", None, "a"), ("192.0.2.1", None, "b"), false),
            (&KeySource::Everybody, ("192.0.2.1", None, "a"), ("192.0.2.2", Some("x"), "b"), true),
        ];
        for (by, one, other, same) in cases {
            let of = |(client, subject, value): (&str, Option<&str>, &str)| {
                by.hash(key, &exchange(client, subject), &head(value))
            };
            assert_eq!(of(one) == of(other), same, "{by:?} {one:?} {other:?}");
        }
    }
}
