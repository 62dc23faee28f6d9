//! Keys that an issuer publishes: read beside the requests, kept while the issuer is away, and read anew as soon as a token
//! names one that is not among them.

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

/// A larger key set is none: [`jose::KEYS_MAX`] keys with their certificates have half of this.
pub const KEYS_BYTES_MAX: usize = 512 * 1024;

/// The shortest time between two times of reading. Whoever makes up names of keys can cause no more than this.
const APART: Duration = Duration::from_secs(1);
/// The time for which an issuer that fails is left alone at first, and at most.
const AWAY_MIN: Duration = Duration::from_secs(1);
const AWAY_MAX: Duration = Duration::from_secs(30);
/// The time in which one round of work looks for something to do. Work that nobody holds any more ends with its round.
const ROUND: Duration = Duration::from_millis(500);
/// Requests that may wait for newer keys at once, for one issuer. More are refused at once.
const WAITING_MAX: usize = 1024;

/// The source to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// The path of the key set.
    Keys(String),
    /// The path of the issuer's configuration, which names the key set (OpenID Connect Discovery 1.0, 4); the issuer's name, which it
    /// has to state; and scheme and host as they may be written, which the key set has to be on.
    Discovery { path: String, issuer: String, origins: Vec<String> },
}

/// An issuer's published keys.
pub struct PublishedKeys {
    /// The issuer's name in the configuration, for the log.
    name: String,
    outlet: Arc<dyn Fetch>,
    location: Location,
    refresh: Duration,
    timeout: Duration,
    metrics: Arc<IssuerMetrics>,
    known: Arc<KnownKeys>,
    wanted: Notify,
    waiting: AtomicUsize,
}

/// The keys of an issuer that were read last. They outlive a reload that changes how they are read, since the issuer may be away then.
#[derive(Debug, Default)]
pub struct KnownKeys {
    snapshot: watch::Sender<KeySnapshot>,
    generation: AtomicU64,
    /// The number of readings begun.
    begun: AtomicU64,
}

/// The present knowledge of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeySnapshot {
    keys: Option<Arc<KeySet>>,
    generation: u64,
    /// A digest of the text they were read from.
    text: u64,
    /// The number of readings that have ended, and whether the last one failed.
    ended: u64,
    failed: u32,
    /// When it is to be read next.
    due: Option<clock::Instant>,
}

impl KeySnapshot {
    /// Verifies, and gives the generation of the keys.
    pub(crate) fn verify(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        let keys = self.keys.as_ref().ok_or(Refusal::NoKeys)?;
        Ok(keys.verify(token).map(|()| self.generation)?)
    }

    /// The same where newer keys can be asked for. Where no key has the token's name, those without one were tried, and the one
    /// that signed may be newer.
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
    /// Keys that are read at once, though they may be known already.
    pub fn new(
        name: &str,
        outlet: Arc<dyn Fetch>,
        location: Location,
        (refresh, timeout): (Duration, Duration),
        metrics: Arc<IssuerMetrics>,
        known: Arc<KnownKeys>,
    ) -> PublishedKeys {
        known.snapshot.send_modify(|snapshot| snapshot.due = None);
        PublishedKeys {
            name: name.to_owned(),
            outlet,
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

    /// A token is not signed by the key that it names. The issuer may have another key of that name now, so they are read again, beside
    /// the requests.
    pub(crate) fn suspect(&self) {
        self.wanted.notify_one();
    }

    /// Waits for keys that were read after this was called; all who wait share one reading.
    pub(crate) async fn newer(&self) -> Result<KeySnapshot, Refusal> {
        let Some(_waiting) = WaiterPlace::among(&self.waiting, WAITING_MAX) else {
            return Err(Refusal::KeyUnknown);
        };
        let mut seen = self.known.snapshot.subscribe();
        let begun = self.known.begun.load(Ordering::Acquire);
        let (first, ended) = {
            let known = seen.borrow();
            (known.keys.is_none(), known.ended)
        };
        // What is being read now may be what was there before; with no key at all anything is news.
        let wanted = if first && begun > ended { begun } else { begun + 1 };
        self.wanted.notify_one();
        let patience = self.timeout + APART + ROUND;
        let read = timeout(patience, seen.wait_for(|known| known.ended >= wanted)).await;
        match read {
            Ok(Ok(known)) => Ok(known.clone()),
            Ok(Err(_)) | Err(_) if first => {
                Err(Refusal::Unavailable("its keys took too long".into()))
            }
            Ok(Err(_)) | Err(_) => Err(Refusal::KeyUnknown),
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
        let news = before.keys.is_none() || before.text != text;
        if before.failed > 0 || news {
            tracing::info!(issuer = self.name, keys = keys.len(), "the issuer's keys were read");
        }
        self.known.snapshot.send_modify(|known| {
            if news {
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
        // The first time and now and then after it: an outage is told, and does not fill the log.
        if before.failed.is_power_of_two() || before.failed == 0 {
            let serving = before.keys.as_ref().map_or(0, |keys| keys.len());
            tracing::warn!(
                issuer = self.name,
                keys = serving,
                "the issuer's keys cannot be read, the last good ones stay in use: {why}"
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
        let text = digest(&text);
        let is_new = self.known().text != text;
        for (id, why) in left {
            // Keys for encryption are ordinary; any other key may be one that tokens are signed with. It is told once for each text.
            if is_new && why != KeyError::NotForVerifying {
                tracing::warn!(issuer = self.name, key = id, "a key was left out: {why}")
            } else {
                tracing::debug!(issuer = self.name, key = id, "a key was left out: {why}")
            }
        }
        if keys.is_empty() {
            return Err("it has no key that verifies tokens".into());
        }
        if let (true, Some((algorithm, count))) = (is_new, keys.untried()) {
            let (issuer, algorithm) = (&self.name, algorithm.name());
            tracing::warn!(
                issuer,
                "{count} keys for {algorithm}: only {} are tried where no `kid` says which one",
                jose::TRIED_MAX
            );
        }
        if let (true, Some(id)) = (is_new, keys.doubled()) {
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
        let call = Call::apart(caller, deadline, &totals);
        let reply = self.outlet.fetch(call, request).await.map_err(|fault| fault.cause)?;
        if reply.head.status != 200 {
            return Err(format!("{path} answered {}", reply.head.status).into());
        }
        let body = reply.body.gather(KEYS_BYTES_MAX, Kind::ReplyTooLarge).await;
        Ok(body.map_err(|fault| fault.cause)?.to_vec())
    }
}

/// The path of the key set that a provider's configuration names.
fn discovered(text: &[u8], issuer: &str, origins: &[String]) -> Result<String, Box<str>> {
    let document = jose::object(text).ok_or("the issuer's configuration is not a JSON object")?;
    let text = |name| document.get(name).and_then(serde_json::Value::as_str);
    if text("issuer") != Some(issuer) {
        return Err("the issuer's configuration names another issuer".into());
    }
    let location = text("jwks_uri").ok_or("the issuer's configuration names no `jwks_uri`")?;
    // Harmless: a location of another origin is refused below.
    let mut paths = origins.iter().filter_map(|origin| location.strip_prefix(origin.as_str()));
    match paths.find(|path| path.starts_with('/')) {
        Some(path) => Ok(path.to_owned()),
        None => {
            Err(format!("`jwks_uri` is on another host ({location}); write it as `jwks`").into())
        }
    }
}

/// Only tells whether the text is another one.
fn digest(text: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
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
    fn a_configuration_leads_to_keys_of_the_same_host_only() {
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
