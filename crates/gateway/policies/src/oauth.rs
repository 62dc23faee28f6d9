//! OAuth 2.0 for an upstream: the gateway gets an access token for itself with its client credentials (RFC 6749, 4.4).
//!
//! Owns the token and its renewal. The token is fetched in the background, with one fetch at a time, when a request needs a token and there
//! is none. A request that uses a token near its expiry also causes a fetch, but does not wait for it. A request enters by
//! [`UpstreamAddition::make`].

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use fault::{Fault, Kind};
use jose::Object;
use kit::LocalBoxFuture;
use kit::clock::{self, Instant};
use message::{Body, Protocol, ReplyHead, Request, RequestHead};
use policy::{Background, Call, Caller, Decision, Fetch, Totals, UpstreamAddition};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{timeout, timeout_at};

use crate::jwt::introspect::{client_credentials, form, is_bearer};
use crate::waiters::WaiterPlace;

/// The maximum size of a token endpoint's response. A response with the longest accepted token and its scopes has about half of this size.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The maximum length of a token. Servers refuse longer header lines.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The maximum number of requests that wait for a token. More are refused immediately.
const WAITING_MAX: usize = 1024;
/// The pause after the first failed fetch. Each further failure doubles it.
const AWAY_MIN: Duration = Duration::from_secs(1);
/// The longest pause after a failed fetch.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// The minimum interval between two replacements of refused tokens, so that an upstream that refuses every token does not cause a fetch for
/// each request.
const REFUSED_APART: Duration = Duration::from_secs(1);
/// The length of a round of background work. Work that nothing owns any more ends after its current round.
const ROUND: Duration = Duration::from_millis(500);
/// The longest time for which a token is used.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest accepted lifetime of a token. A shorter one would have expired when the request arrives.
const LIFETIME_MIN: Duration = Duration::from_secs(1);
/// The maximum length, in characters, of a text from the token endpoint in the log.
const SHOWN_CHARS_MAX: usize = 64;

/// The settings of requests to a token endpoint, and of the use of its tokens.
pub struct TokenSettings {
    /// The upstream that gets the tokens, for the log.
    pub upstream: String,
    pub fetch: Arc<dyn Fetch>,
    pub path: String,
    pub client: TokenClient,
    /// Further parameters of the token request, as pairs of a name and a value.
    pub parameters: Vec<(String, String)>,
    pub timeout: Duration,
    /// How long before its expiry a token is replaced.
    pub ahead: Duration,
    /// How long a token is used if the endpoint does not state its lifetime.
    pub lifetime: Duration,
}

/// The gateway as a client of the token endpoint.
pub struct TokenClient {
    pub id: String,
    pub secret: String,
    /// Whether the credentials are sent in the body of the request instead of `Authorization`.
    pub in_body: bool,
}

/// The access tokens of one upstream.
pub struct AccessTokens {
    upstream: String,
    fetch: Arc<dyn Fetch>,
    path: String,
    /// The value of `Authorization` for the token endpoint.
    authorization: Option<String>,
    body: String,
    timeout: Duration,
    ahead: Duration,
    lifetime: Duration,
    token: ArcSwapOption<AccessToken>,
    fetches: watch::Sender<Fetches>,
    wanted: Notify,
    waiting: AtomicUsize,
}

/// A token, ready to be sent.
struct AccessToken {
    /// The value of `Authorization`.
    line: Box<str>,
    /// When a replacement is fetched, ahead of the expiry.
    due: Instant,
    ends: Instant,
}

/// The state of fetches.
#[derive(Default)]
struct Fetches {
    ended: u64,
    /// The number of fetches that have failed in a row.
    failed: u32,
    /// The reason for the last failure.
    why: Box<str>,
    /// The earliest time of the next fetch, if it must wait.
    not_before: Option<Instant>,
    /// When a token was last discarded because the upstream refused it.
    refused: Option<Instant>,
}

impl AccessTokens {
    /// Creates the tokens of an upstream. No token is fetched yet.
    pub fn new(settings: TokenSettings) -> AccessTokens {
        let TokenSettings { upstream, fetch, path, client, parameters, .. } = settings;
        let authorization =
            (!client.in_body).then(|| client_credentials(&client.id, &client.secret));
        let own = client.in_body.then(|| {
            [("client_id".to_owned(), client.id), ("client_secret".to_owned(), client.secret)]
        });
        // Harmless: credentials in `Authorization` add no parameters.
        let parameters = parameters.into_iter().chain(own.into_iter().flatten());
        let body = parameters
            .fold("grant_type=client_credentials".to_owned(), |body, (name, value)| {
                format!("{body}&{}={}", form(&name), form(&value))
            });
        AccessTokens {
            upstream,
            fetch,
            path,
            authorization,
            body,
            timeout: settings.timeout,
            ahead: settings.ahead,
            lifetime: settings.lifetime,
            token: ArcSwapOption::empty(),
            fetches: watch::Sender::default(),
            wanted: Notify::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Returns the current token. A token that expires soon is replaced in the background.
    fn current(&self) -> Option<Arc<AccessToken>> {
        let now = clock::now();
        let token = self.token.load_full().filter(|token| now < token.ends)?;
        if now >= token.due {
            self.wanted.notify_one();
        }
        Some(token)
    }

    /// Returns a token, and waits for it if there is none. All waiting requests share one fetch.
    async fn token(&self, deadline: Option<Instant>) -> Result<Arc<AccessToken>, Fault> {
        let Some(_place) = WaiterPlace::among(&self.waiting, WAITING_MAX) else {
            return Err(self.unavailable(&format!("{WAITING_MAX} requests wait for a token")));
        };
        let mut fetches = self.fetches.subscribe();
        let ended = fetches.borrow().ended;
        // A fetch may have ended since the caller checked.
        if let Some(token) = self.current() {
            return Ok(token);
        }
        {
            let now = fetches.borrow();
            if now.not_before.is_some_and(|time| clock::now() < time) {
                return Err(self.unavailable(&now.why));
            }
        }
        self.wanted.notify_one();
        let patience = clock::now() + self.timeout + ROUND;
        let patience = deadline.map_or(patience, |deadline| deadline.min(patience));
        let waited = timeout_at(patience, fetches.wait_for(|now| now.ended > ended)).await;
        match (self.current(), waited) {
            (Some(token), _) => Ok(token),
            (None, Ok(Ok(now))) => Err(self.unavailable(&now.why)),
            (None, Ok(Err(_)) | Err(_)) => Err(self.unavailable("the token took too long")),
        }
    }

    #[cold]
    fn unavailable(&self, why: &str) -> Fault {
        let cause = format!("no access token for the upstream {}: {why}", self.upstream);
        Fault::new(Kind::TokenUnavailable, cause).with_header("Retry-After", "1")
    }

    /// Discards a token that the upstream has refused. Returns false if the upstream refuses tokens too often.
    fn give_up(&self, refused: &AccessToken) -> bool {
        let now = clock::now();
        let apart = |last: Instant| now.saturating_duration_since(last) >= REFUSED_APART;
        let may = self.fetches.send_if_modified(|fetches| {
            let may = fetches.refused.is_none_or(apart);
            if may {
                fetches.refused = Some(now);
            }
            may
        });
        if may {
            tracing::info!(
                upstream = self.upstream,
                "the upstream refuses its access token; a new token is fetched"
            );
            let known = self.token.load_full();
            if known.is_some_and(|known| known.line == refused.line) {
                self.token.store(None);
            }
        }
        may
    }

    async fn fetch(&self, caller: &Caller) -> Result<AccessToken, Box<str>> {
        let mut head = RequestHead::new(Protocol::Http11, b"POST", self.path.as_bytes());
        head.headers.add_known("Accept", b"application/json");
        head.headers.add_known("Content-Type", b"application/x-www-form-urlencoded");
        if let Some(line) = &self.authorization {
            head.headers.add_known("Authorization", line.as_bytes());
        }
        let request = Request { head, body: Body::whole(self.body.clone().into()) };
        let began = clock::now();
        let totals = Totals::default();
        let call = Call::detached(caller, began.checked_add(self.timeout), &totals);
        let reply = self.fetch.fetch(call, request).await.map_err(|fault| fault.cause)?;
        let status = reply.head.status;
        let body = reply.body.gather(ANSWER_BYTES_MAX, Kind::ReplyTooLarge).await;
        let body = body.map_err(|fault| fault.cause)?;
        let answer = jose::object(&body);
        if status != 200 {
            let error = answer.as_ref().and_then(|answer| answer.get("error")?.as_str());
            let error = error.map(|error| format!(": {}", shown(error))).unwrap_or_default();
            return Err(format!("its token endpoint answered {status}{error}").into());
        }
        let answer = answer.ok_or("the answer of its token endpoint is not a JSON object")?;
        self.read(&answer, began)
    }

    fn read(&self, answer: &Object, began: Instant) -> Result<AccessToken, Box<str>> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let token = text("access_token").ok_or("its token endpoint returns no `access_token`")?;
        if token.len() > TOKEN_BYTES_MAX || !is_bearer(token.as_bytes()) {
            return Err("the token that its token endpoint returns is not a bearer token".into());
        }
        if let Some(kind) = answer.get("token_type")
            && !kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"))
        {
            return Err(format!(
                "its token is of the type {}, not `Bearer`",
                shown(&kind.to_string())
            )
            .into());
        }
        let lifetime = match answer.get("expires_in") {
            None | Some(Value::Null) => self.lifetime,
            Some(said) => {
                seconds(said).ok_or("`expires_in` of its token is not a number of seconds")?
            }
        };
        if lifetime < LIFETIME_MIN {
            return Err("its token has already expired on arrival (`expires_in`)".into());
        }
        let ahead = self.ahead.min(lifetime / 2);
        let at = |after: Duration| {
            began.checked_add(after).ok_or("the lifetime of its token is too long")
        };
        Ok(AccessToken {
            line: format!("Bearer {token}").into(),
            due: at(lifetime - ahead)?,
            ends: at(lifetime)?,
        })
    }

    fn learn(&self, fetched: Result<AccessToken, Box<str>>) {
        let failed = fetched.as_ref().err().cloned();
        let before = self.fetches.borrow().failed;
        match &failed {
            None if before > 0 => {
                tracing::info!(upstream = self.upstream, "there is an access token again");
            }
            None => {}
            // Logged the first time and at growing intervals, so that an outage is reported without filling the log.
            Some(why) if before == 0 || before.is_power_of_two() => {
                let has_token = self.token.load().is_some();
                tracing::warn!(
                    upstream = self.upstream,
                    has_token,
                    "the access token could not be fetched: {why}"
                );
            }
            Some(_) => {}
        }
        // Harmless: the error was logged above.
        if let Ok(token) = fetched {
            self.token.store(Some(Arc::new(token)));
        }
        self.fetches.send_modify(|fetches| {
            fetches.ended += 1;
            let Some(why) = failed else {
                fetches.failed = 0;
                fetches.not_before = None;
                return;
            };
            fetches.why = why;
            fetches.failed = fetches.failed.saturating_add(1);
            let doubled = AWAY_MIN.saturating_mul(1 << (fetches.failed - 1).min(5));
            fetches.not_before = clock::now().checked_add(doubled.min(AWAY_MAX));
        });
    }

    /// Returns true if a fetch is due and may be made now.
    fn needs_fetch(&self) -> bool {
        let now = clock::now();
        let may_ask = self.fetches.borrow().not_before.is_none_or(|time| now >= time);
        may_ask && self.token.load().as_ref().is_none_or(|token| now >= token.due)
    }
}

/// Parses a number of seconds, which some servers write as a text.
fn seconds(said: &Value) -> Option<Duration> {
    let number = match said {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let is_time = number.is_finite() && number >= 0.0;
    is_time.then(|| Duration::from_secs_f64(number.min(LIFETIME_MAX.as_secs_f64())))
}

/// Returns the beginning of a text from the token endpoint, for the log.
fn shown(text: &str) -> String {
    // Harmless: the text is only displayed.
    text.chars().take(SHOWN_CHARS_MAX).collect::<String>().escape_debug().to_string()
}

fn set(request: &mut Request, token: &AccessToken) {
    request.head.headers.remove("authorization");
    request.head.headers.add_known("Authorization", token.line.as_bytes());
}

impl UpstreamAddition for AccessTokens {
    fn make<'a>(
        &'a self,
        request: &'a mut Request,
        deadline: Option<Instant>,
    ) -> Decision<'a, Result<(), Fault>> {
        if let Some(token) = self.current() {
            set(request, &token);
            return Decision::Ready(Ok(()));
        }
        Decision::Waits(Box::pin(async move {
            set(request, &*self.token(deadline).await?);
            Ok(())
        }))
    }

    fn renew<'a>(
        &'a self,
        request: &'a mut Request,
        reply: &ReplyHead,
        deadline: Option<Instant>,
    ) -> Option<LocalBoxFuture<'a, bool>> {
        if reply.status != 401 {
            return None;
        }
        Some(Box::pin(async move {
            let sent = request.head.headers.get("authorization").map(<[u8]>::to_vec);
            let is_sent = |token: &AccessToken| Some(token.line.as_bytes()) == sent.as_deref();
            // Another request may have replaced the refused token already.
            if let Some(known) = self.current()
                && is_sent(&known)
                && !self.give_up(&known)
            {
                return false;
            }
            match self.token(deadline).await {
                Ok(token) => {
                    set(request, &token);
                    true
                }
                Err(why) => {
                    tracing::debug!("{}", why.cause);
                    false
                }
            }
        }))
    }
}

impl Background for AccessTokens {
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let asked = timeout(ROUND, self.wanted.notified()).await.is_ok();
            if asked && self.needs_fetch() {
                self.learn(self.fetch(caller).await);
            }
            Duration::ZERO
        })
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.load(Ordering::Relaxed);
        f.debug_struct("AccessTokens")
            .field("upstream", &self.upstream)
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
