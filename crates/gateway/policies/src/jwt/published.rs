//! Fetches the keys that an issuer publishes. They are fetched in the background, kept while the issuer is unavailable, and fetched again
//! when a token names an unknown key.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fault::Kind;
use jose::{KeyError, KeySet, Token};
use kit::LocalBoxFuture;
use kit::clock;
use message::{Body, Protocol, Request, RequestHead};
use policy::{Background, Call, Caller, Fetch, Totals};
use telemetry::IssuerMetrics;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::waiters::WaiterPlace;

/// The maximum size of a key set. [`jose::KEYS_MAX`] keys with their certificates need about half of it.
pub const KEYS_BYTES_MAX: usize = 512 * 1024;

/// The shortest interval between two fetches, so that tokens with invented key ids cannot cause more fetches.
const APART: Duration = Duration::from_secs(1);
/// The pause after the first failed fetch. It doubles with each further failure.
const AWAY_MIN: Duration = Duration::from_secs(1);
/// The maximum pause after a failed fetch.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// The length of a round of background work. Work that is no longer owned ends after its round.
const ROUND: Duration = Duration::from_millis(500);
/// The maximum number of requests that wait for newer keys of one issuer. More are refused immediately.
const WAITING_MAX: usize = 1024;

/// Where the keys are fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// The path of the key set.
    Keys(String),
    /// The path of the issuer's configuration, which contains the URL of the key set (OpenID Connect Discovery 1.0, 4); the issuer's name,
    /// which it must state; and the accepted spellings of the origin that the key set must have.
    Discovery { path: String, issuer: String, origins: Vec<String> },
}

/// An issuer's published keys.
pub struct PublishedKeys {
    /// The issuer's name in the configuration, for the log.
    name: String,
    fetch: Arc<dyn Fetch>,
    location: Location,
    refresh: Duration,
    timeout: Duration,
    metrics: Arc<IssuerMetrics>,
    known: Arc<KnownKeys>,
    wanted: Notify,
    waiting: AtomicUsize,
}

/// The keys of an issuer that were fetched last. They survive a reload that changes how they are fetched, since the issuer may be
/// unavailable then.
#[derive(Debug, Default)]
pub struct KnownKeys {
    snapshot: watch::Sender<KeySnapshot>,
    generation: AtomicU64,
    /// The number of fetches begun.
    begun: AtomicU64,
}

/// The current state of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeySnapshot {
    keys: Option<Arc<KeySet>>,
    generation: u64,
    /// A hash of the text that they were parsed from.
    text: u64,
    /// The number of fetches that have ended.
    ended: u64,
    /// The number of fetches that have failed since the last success.
    failed: u32,
    /// When the next fetch is due.
    due: Option<clock::Instant>,
}

impl KeySnapshot {
    /// Verifies a token, and returns the generation of the keys.
    pub(crate) fn verify(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        let keys = self.keys.as_ref().ok_or(Refusal::NoKeys)?;
        Ok(keys.verify(token).map(|()| self.generation)?)
    }

    /// Like `verify`, if newer keys can be requested. If no key has the token's key id, only keys without an id were tried, and the token
    /// may be signed by a newer key.
    pub(crate) fn verify_or_ask(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        let is_named = self.keys.as_ref().is_some_and(|keys| keys.names(token.key_id.as_deref()));
        match self.verify(token) {
            Err(Refusal::Token(jose::Error::Signature | jose::Error::Ambiguous)) if !is_named => {
                Err(Refusal::KeyUnknown)
            }
            verified => verified,
        }
    }
}

impl PublishedKeys {
    /// Creates published keys. They are fetched at once, even if keys are already known.
    pub fn new(
        name: &str,
        fetch: Arc<dyn Fetch>,
        location: Location,
        refresh: Duration,
        timeout: Duration,
        metrics: Arc<IssuerMetrics>,
        known: Arc<KnownKeys>,
    ) -> PublishedKeys {
        known.snapshot.send_modify(|snapshot| snapshot.due = None);
        PublishedKeys {
            name: name.to_owned(),
            fetch,
            location,
            refresh,
            timeout,
            metrics,
            known,
            wanted: Notify::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    pub(crate) fn known(&self) -> KeySnapshot {
        self.known.snapshot.borrow().clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.known.generation.load(Ordering::Acquire)
    }

    /// Called if a token is not signed by the key that it names. The issuer may have replaced the key under the same id, so the keys are
    /// fetched again in the background.
    pub(crate) fn suspect(&self) {
        self.wanted.notify_one();
    }

    /// Waits for keys from a fetch that began after this call. All waiting requests share one fetch.
    pub(crate) async fn newer(&self) -> Result<KeySnapshot, Refusal> {
        let Some(_waiting) = WaiterPlace::among(&self.waiting, WAITING_MAX) else {
            return Err(Refusal::KeysOverdue("too many requests wait for newer keys"));
        };
        let mut seen = self.known.snapshot.subscribe();
        let begun = self.known.begun.load(Ordering::Acquire);
        let (first, ended) = {
            let known = seen.borrow();
            (known.keys.is_none(), known.ended)
        };
        // A fetch in progress may still return old keys, so the next one is awaited. If no key is known at all, the current one is enough.
        let wanted = if first && begun > ended { begun } else { begun + 1 };
        self.wanted.notify_one();
        let patience = self.timeout + APART + ROUND;
        let read = timeout(patience, seen.wait_for(|known| known.ended >= wanted)).await;
        match read {
            Ok(Ok(known)) => Ok(known.clone()),
            Ok(Err(_)) | Err(_) if first => {
                Err(Refusal::Unavailable("its keys did not arrive in time".into()))
            }
            Ok(Err(_)) | Err(_) => Err(Refusal::KeysOverdue("newer keys did not arrive in time")),
        }
    }

    async fn read(&self, caller: &Rc<Caller>) {
        self.known.begun.fetch_add(1, Ordering::AcqRel);
        let read = self.fetch(caller, clock::now().checked_add(self.timeout)).await;
        let now = clock::now();
        match read {
            Ok((keys, text)) => self.learn(keys, text, now),
            Err(why) => self.fail(&why, now),
        }
    }

    fn learn(&self, keys: KeySet, text: u64, now: clock::Instant) {
        self.metrics.read(keys.len());
        let before = self.known();
        let is_new = before.keys.is_none() || before.text != text;
        if before.failed > 0 || is_new {
            tracing::info!(issuer = self.name, keys = keys.len(), "the issuer's keys were read");
        }
        self.known.snapshot.send_modify(|known| {
            if is_new {
                known.keys = Some(Arc::new(keys));
                known.generation += 1;
                known.text = text;
            }
            known.failed = 0;
            known.ended += 1;
            known.due = now.checked_add(self.refresh);
            self.known.generation.store(known.generation, Ordering::Release);
        });
    }

    fn fail(&self, why: &str, now: clock::Instant) {
        self.metrics.failed();
        let before = self.known();
        // Logged the first time and at growing intervals, so that an outage is reported without filling the log.
        if before.failed.is_power_of_two() || before.failed == 0 {
            let serving = before.keys.as_ref().map_or(0, |keys| keys.len());
            tracing::warn!(
                issuer = self.name,
                keys = serving,
                "the issuer's keys cannot be read: {why}; the keys known so far stay in use"
            );
        }
        self.known.snapshot.send_modify(|known| {
            known.failed = known.failed.saturating_add(1);
            known.ended += 1;
            let doubled = AWAY_MIN.saturating_mul(1 << (known.failed - 1).min(5));
            known.due = now.checked_add(doubled.min(AWAY_MAX));
        });
    }

    async fn fetch(
        &self,
        caller: &Caller,
        deadline: Option<clock::Instant>,
    ) -> Result<(KeySet, u64), Box<str>> {
        let path = match &self.location {
            Location::Keys(path) => path.clone(),
            Location::Discovery { path, issuer, origins } => {
                let text = self.get(caller, path, deadline).await?;
                discovered(&text, issuer, origins)?
            }
        };
        let text = self.get(caller, &path, deadline).await?;
        let (keys, left) = KeySet::of_issuer(&text).ok_or("it is not a key set")?;
        let keys = keys.without_secrets();
        let text = kit::hash::fixed(&text);
        let is_new = self.known().text != text;
        for (id, why) in left {
            // Encryption keys are expected and ignored. Any other unusable key may be one that signs tokens, so it is logged, once for each
            // version of the key set.
            if is_new && why != KeyError::NotForVerifying {
                tracing::warn!(issuer = self.name, key = id, "a key was ignored: {why}")
            } else {
                tracing::debug!(issuer = self.name, key = id, "a key was ignored: {why}")
            }
        }
        if keys.is_empty() {
            return Err("it has no key that verifies tokens".into());
        }
        if let (true, Some((algorithm, count))) = (is_new, keys.untried()) {
            let (issuer, algorithm) = (&self.name, algorithm.name());
            tracing::warn!(
                issuer,
                "{count} keys for {algorithm}: only {} are tried for tokens without a `kid`",
                jose::TRIED_MAX
            );
        }
        if let (true, Some(id)) = (is_new, keys.duplicate_id()) {
            let issuer = &self.name;
            tracing::warn!(issuer, key = id, "another key has the same `kid`, so both are tried");
        }
        Ok((keys, text))
    }

    async fn get(
        &self,
        caller: &Caller,
        path: &str,
        deadline: Option<clock::Instant>,
    ) -> Result<Vec<u8>, Box<str>> {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", path.as_bytes());
        head.headers.add_known("Accept", b"application/json");
        let request = Request { head, body: Body::Empty };
        let totals = Totals::default();
        let call = Call::detached(caller, deadline, &totals);
        let reply = self.fetch.fetch(call, request).await.map_err(|fault| fault.cause)?;
        if reply.head.status != 200 {
            return Err(format!("{path} answered {}", reply.head.status).into());
        }
        let body = reply.body.gather(KEYS_BYTES_MAX, Kind::ReplyTooLarge).await;
        Ok(body.map_err(|fault| fault.cause)?.to_vec())
    }
}

/// Returns the path of the key set that the issuer's configuration names.
fn discovered(text: &[u8], issuer: &str, origins: &[String]) -> Result<String, Box<str>> {
    let document = jose::object(text).ok_or("the issuer's configuration is not a JSON object")?;
    let text = |name| document.get(name).and_then(serde_json::Value::as_str);
    if text("issuer") != Some(issuer) {
        return Err("the issuer's configuration names another issuer".into());
    }
    let location = text("jwks_uri").ok_or("the issuer's configuration names no `jwks_uri`")?;
    // Harmless: a URL with another origin is refused below.
    let mut paths = origins.iter().filter_map(|origin| location.strip_prefix(origin.as_str()));
    match paths.find(|path| path.starts_with('/')) {
        Some(path) => Ok(path.to_owned()),
        None => {
            Err(format!("`jwks_uri` is on another host ({location}); write it as `jwks`").into())
        }
    }
}

impl Background for PublishedKeys {
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let due = self.known.snapshot.borrow().due;
            let pause = due.map(|due| due.saturating_duration_since(clock::now()));
            let pause = pause.unwrap_or(Duration::ZERO);
            if pause > Duration::ZERO {
                let wanted = timeout(pause.min(ROUND), self.wanted.notified()).await;
                if wanted.is_err() && pause > ROUND {
                    return Duration::ZERO;
                }
            }
            self.read(caller).await;
            APART
        })
    }
}

impl fmt::Debug for PublishedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("location", &self.location).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_on_another_host_are_refused() {
        let document = |issuer: &str, keys: &str| {
            format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}"}}"#).into_bytes()
        };
        let origins = ["https://a".to_owned(), "https://a:443".to_owned()];
        let found = |text: &[u8]| discovered(text, "https://a", &origins);
        assert_eq!(found(&document("https://a", "https://a:443/k?x")), Ok("/k?x".to_owned()));
        assert_eq!(found(&document("https://a", "https://a/k")), Ok("/k".to_owned()));
        for (issuer, keys) in [
            ("https://b", "https://a:443/k"),
            ("https://a", "https://b/k"),
            ("https://a", "https://a:4430/k"),
            ("https://a", "https://a:443@b/k"),
            ("https://a", "http://a:443/k"),
        ] {
            assert!(found(&document(issuer, keys)).is_err(), "{issuer} {keys}");
        }
    }
}
