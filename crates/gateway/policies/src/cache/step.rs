//! The step `cache` of flows: stores messages by the rules of the policy, under a configured key.
//!
//! A request with properties that the reply may depend on, such as other methods, bodies, cookies or credentials, bypasses the cache as in
//! the policy, unless the key or a setting covers them.

use std::sync::Arc;
use std::time::Duration;

use kit::clock;
use message::{Headers, ReplyHead, RequestHead};
use policy::{CacheHindrance, CacheTerms, Exchange, KeptMessage, KeyParts, ReplyCache};

use super::directives::Directives;
use super::entry::{self, CachedReply, Times};
use super::request::{Bypass, keyed_lines};
use super::store::Store;
use super::{STORABLE_STATUSES, is_authorized};

/// Settings of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCacheSettings {
    /// The longest time for which a message is used again.
    pub ttl: Duration,
    /// The statuses of replies without freshness information to which `ttl` applies.
    pub ttl_statuses: Box<[u16]>,
    pub entry_bytes_max: usize,
    /// The methods that are cached, if configured.
    pub methods: Option<Box<[Box<str>]>>,
    pub ignores_cookies: bool,
    /// Whether a message for a client with credentials is shared with all clients, even if the replies from which it was made do not allow
    /// that.
    pub ignores_credentials: bool,
    pub key: KeyParts,
}

/// The messages of one step.
pub struct StepCache {
    pub settings: StepCacheSettings,
    pub store: Arc<Store>,
}

impl StepCache {
    /// Returns an error with the reason if a request bypasses the cache.
    fn bypass(&self, ex: &Exchange, head: &RequestHead) -> Result<(), CacheHindrance> {
        let settings = &self.settings;
        let method = head.method();
        let is_plain = matches!(method, b"GET" | b"HEAD");
        let may_be = match &settings.methods {
            Some(methods) => methods
                .iter()
                .any(|known| known.as_bytes() == method || method == b"HEAD" && &**known == "GET"),
            None => is_plain || settings.key.body || settings.key.method,
        };
        let is_keyed = settings.key.body || settings.methods.is_some() && !is_plain;
        let ignores_cookies = settings.ignores_cookies || settings.key.cookie;
        let bypass = Bypass::of(&head.headers, ex.has_body && !is_keyed, ignores_cookies);
        match bypass {
            _ if !may_be => Err("method"),
            Some(bypass) => Err(bypass.word()),
            None if Directives::of_request(&head.headers).no_store => Err(Bypass::NoStore.word()),
            None if head.headers.contains("range") => Err(Bypass::Range.word()),
            None => Ok(()),
        }
    }
}

/// Returns the full key: the method, where a HEAD counts as a GET, the configured key, and the headers about the client's URL.
fn full(head: &RequestHead, key: &str) -> Vec<u8> {
    let method: &[u8] = if head.method() == b"HEAD" { b"GET" } else { head.method() };
    // The length separates the key, which may contain any character, from the lines.
    let len = key.len().to_string();
    [method, b" ", len.as_bytes(), b" ", key.as_bytes(), &keyed_lines(&head.headers)].concat()
}

/// Returns the reason why a message with these headers is not stored, whatever its status, or `None` if it may be stored.
fn hindrance(headers: &Headers, said: &Directives) -> Option<CacheHindrance> {
    if said.no_store {
        Some("no-store")
    } else if said.private {
        Some("private")
    } else if said.no_cache {
        // A step cannot validate a stored message.
        Some("no-cache")
    } else if headers.contains("set-cookie") {
        Some("set-cookie")
    } else {
        None
    }
}

/// Returns the names in `Vary`, in lower case. One of them may be `*`.
fn varies_of(reply: &ReplyHead) -> impl Iterator<Item = String> {
    let names = reply.headers.get_all("vary").flat_map(|line| line.split(|b| *b == b','));
    let names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    // Harmless: names of headers are ASCII.
    names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
}

impl ReplyCache for StepCache {
    fn find(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
    ) -> Result<Option<KeptMessage>, CacheHindrance> {
        self.bypass(ex, head)?;
        let asked = Directives::of_request(&head.headers);
        let now = clock::now();
        let known = self.store.find(&full(head, key), &head.headers);
        match known.filter(|known| known.may_be_used(&asked, now)) {
            Some(known) => Ok(Some(known.kept("; hit", now))),
            None if head.method() == b"HEAD" => Err(Bypass::Head.word()),
            None => Ok(None),
        }
    }

    fn note(&self, head: &RequestHead, sent: &Headers, reply: &ReplyHead, terms: &mut CacheTerms) {
        let now = clock::now();
        let said = Directives::of(&reply.headers);
        let fresh_for = Times::of(&reply.headers, None, now, now).remaining();
        let status = match reply.status {
            206 | 304 | 500.. => Some("status"),
            status if fresh_for.is_none() && !self.settings.ttl_statuses.contains(&status) => {
                Some("no-freshness")
            }
            _ => None,
        };
        let mut varies: Vec<Box<str>> = Vec::new();
        let mut is_unknown = false;
        for name in varies_of(reply) {
            // If the flow has set a header, later requests cannot be compared by it. A header that the
            // flow has removed cannot affect the reply.
            let is_sent = sent.contains(&name);
            let is_the_clients =
                entry::value_of(sent, &name) == entry::value_of(&head.headers, &name);
            is_unknown |= name == "*" || is_sent && !is_the_clients;
            // A header that this request lacks is listed, too: a later request may have it.
            if is_the_clients {
                varies.push(name.into());
            }
        }
        let hindrance = status.or_else(|| hindrance(&reply.headers, &said));
        terms.add(&CacheTerms {
            hindrance: hindrance.or(is_unknown.then_some("vary")),
            fresh_for,
            replied: true,
            unshared: !said.permits_sharing(),
            varies,
        });
    }

    fn keep(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &str,
        made: KeptMessage,
        terms: &CacheTerms,
    ) -> Result<(), CacheHindrance> {
        let said = Directives::of(&made.head.headers);
        let hindrance = terms.hindrance.or_else(|| hindrance(&made.head.headers, &said));
        let is_shared = if terms.replied { !terms.unshared } else { said.permits_sharing() };
        let settings = &self.settings;
        let may_be_shared = settings.ignores_credentials || settings.key.authorization || is_shared;
        let now = clock::now();
        let own = Times::of(&made.head.headers, None, now, now).remaining();
        let [told, own] = [terms.fresh_for, own].map(|time| time.unwrap_or(settings.ttl));
        let fresh_for = told.min(own).min(settings.ttl);
        let status = made.head.status;
        let why = if hindrance.is_some() {
            hindrance
        } else if !STORABLE_STATUSES.contains(&status) || status >= 500 {
            Some("status")
        } else if is_authorized(ex, &head.headers) && !may_be_shared {
            Some(entry::AUTHORIZATION)
        } else if fresh_for.is_zero() {
            Some("never-fresh")
        } else if made.body.len() > settings.entry_bytes_max {
            Some("too-large")
        } else {
            None
        };
        if let Some(why) = why {
            return Err(why);
        }
        let own = varies_of(&made.head).map(Into::into);
        let names: Vec<Box<str>> = terms.varies.iter().cloned().chain(own).collect();
        let times = Times::until(fresh_for, now);
        let entry = CachedReply::made(made, &head.headers, &names, times).ok_or("vary")?;
        self.store.insert(&full(head, key), Arc::new(entry));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use message::Protocol;
    use policy::{Caller, Scheme};

    fn cache() -> StepCache {
        let settings = StepCacheSettings {
            ttl: Duration::from_secs(60),
            ttl_statuses: [200].into(),
            entry_bytes_max: 1000,
            methods: None,
            ignores_cookies: false,
            ignores_credentials: false,
            key: KeyParts::default(),
        };
        StepCache { settings, store: Arc::new(Store::new(10_000, 1000, 10)) }
    }

    fn exchange() -> Exchange {
        let peer = ([192, 0, 2, 1], 1).into();
        Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default())
    }

    fn request(lines: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
        lines.iter().for_each(|(name, value)| head.headers.add_known(name, value.as_bytes()));
        head
    }

    /// Stores the message for a request that the flow forwarded without `X-Own`, and whose reply has the header `reply`.
    fn keep(
        cache: &StepCache,
        asked: &RequestHead,
        reply: (&str, &str),
    ) -> Result<(), CacheHindrance> {
        let mut head = ReplyHead::new(200);
        head.headers.add_known(reply.0, reply.1.as_bytes());
        let mut sent = asked.headers.clone();
        sent.remove("x-own");
        let mut terms = CacheTerms::default();
        cache.note(asked, &sent, &head, &mut terms);
        let made = KeptMessage { head: ReplyHead::new(200), body: Bytes::new(), mark: 0 };
        cache.keep(&exchange(), asked, "key", made, &terms)
    }

    fn is_kept(cache: &StepCache, asked: &RequestHead) -> bool {
        cache.find(&exchange(), asked, "key").unwrap().is_some()
    }

    #[test]
    fn a_message_varies_by_headers_that_its_first_request_did_not_have() {
        let (plain, german) = (request(&[]), request(&[("Accept-Language", "de")]));
        for (first, second) in [(&plain, &german), (&german, &plain)] {
            let cache = cache();
            assert_eq!(keep(&cache, first, ("Vary", "Accept-Language, X-Other")), Ok(()));
            assert!(is_kept(&cache, first));
            assert!(!is_kept(&cache, second));
        }
        // The replies cannot vary by what the flow never sends.
        let cache = cache();
        assert_eq!(keep(&cache, &request(&[("X-Own", "a")]), ("Vary", "X-Own")), Ok(()));
        assert!(is_kept(&cache, &request(&[("X-Own", "b")])));
    }

    #[test]
    fn a_message_for_a_client_is_shared_only_with_permission() {
        let asked = request(&[("Authorization", "Bearer a")]);
        for (control, kept) in [
            ("public, max-age=60", Ok(())),
            ("max-age=60, must-revalidate", Ok(())),
            ("max-age=60, proxy-revalidate", Err(entry::AUTHORIZATION)),
        ] {
            assert_eq!(keep(&cache(), &asked, ("Cache-Control", control)), kept, "{control}");
        }
    }

    #[test]
    fn a_key_is_not_mistaken_for_lines_of_the_request() {
        let plain = request(&[]);
        let lines = request(&[("X-Forwarded-Host", "a")]);
        assert_ne!(full(&plain, "key\nx-forwarded-host:a"), full(&lines, "key"));
    }
}
