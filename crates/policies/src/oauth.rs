//! OAuth 2.0 for an upstream: an access token for the gateway itself, by its client credentials (RFC 6749, 4.4).
//!
//! Owns the token and its renewal. The token endpoint is asked beside the requests, by one fetch at a time, when a request needs a
//! token and there is none. Requests that use a token near its end cause a fetch too, and do not wait for it. A request enters by
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

/// A larger answer of a token endpoint is refused: with the longest token and the names of its scopes it has half of this.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Servers refuse longer headers.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Requests that may wait for the first token at once. More are refused at once.
const WAITING_MAX: usize = 1024;
/// The time for which a token endpoint that fails is not asked again, at first and at most.
const AWAY_MIN: Duration = Duration::from_secs(1);
const AWAY_MAX: Duration = Duration::from_secs(30);
/// The shortest time between two tokens that are refused, so that an upstream that refuses every token does not cause a fetch for each
/// request.
const REFUSED_APART: Duration = Duration::from_secs(1);
/// The time in which one round of work looks for something to do. Work that nobody holds any more ends with its round.
const ROUND: Duration = Duration::from_millis(500);
/// No token is used for longer.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// A token that lives shorter is of no use: it has ended when the request arrives.
const LIFETIME_MIN: Duration = Duration::from_secs(1);
/// Characters of the endpoint's own words that the log shows.
const WORDS_MAX: usize = 64;

/// What is asked of a token endpoint, and for how long its tokens are used.
pub struct TokenSettings {
    /// The upstream that gets the tokens, for the log.
    pub upstream: String,
    pub outlet: Arc<dyn Fetch>,
    pub path: String,
    pub client: TokenClient,
    /// The parameters of the request beside the client, by name.
    pub parameters: Vec<(String, String)>,
    pub timeout: Duration,
    /// How long before its end a token is replaced.
    pub ahead: Duration,
    /// How long a token is used whose end the endpoint does not say.
    pub lifetime: Duration,
}

/// The gateway as a client of the token endpoint.
pub struct TokenClient {
    pub id: String,
    pub secret: String,
    /// The credentials stand in the body of the request, not in `Authorization`.
    pub in_body: bool,
}

/// The access tokens of one upstream.
pub struct AccessTokens {
    upstream: String,
    outlet: Arc<dyn Fetch>,
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

/// A token, as it is sent.
struct AccessToken {
    /// The value of `Authorization`.
    line: Box<str>,
    /// When it is to be replaced.
    due: Instant,
    ends: Instant,
}

/// The fetches so far.
#[derive(Default)]
struct Fetches {
    ended: u64,
    /// Those that failed in a row.
    failed: u32,
    /// The reason why the last one failed.
    why: Box<str>,
    /// The endpoint is not asked before.
    not_before: Option<Instant>,
    /// When a token was last given up because the upstream refused it.
    refused: Option<Instant>,
}

impl AccessTokens {
    /// Tokens of which none is known yet.
    pub fn new(settings: TokenSettings) -> AccessTokens {
        let TokenSettings { upstream, outlet, path, client, parameters, .. } = settings;
        let authorization =
            (!client.in_body).then(|| client_credentials(&client.id, &client.secret));
        let own = client.in_body.then(|| {
            [("client_id".to_owned(), client.id), ("client_secret".to_owned(), client.secret)]
        });
        // Harmless: without it there are no parameters for it.
        let parameters = parameters.into_iter().chain(own.into_iter().flatten());
        let body = parameters
            .fold("grant_type=client_credentials".to_owned(), |body, (name, value)| {
                format!("{body}&{}={}", form(&name), form(&value))
            });
        AccessTokens {
            upstream,
            outlet,
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

    /// The token of the moment. One that ends soon is replaced beside the requests.
    fn current(&self) -> Option<Arc<AccessToken>> {
        let now = clock::now();
        let token = self.token.load_full().filter(|token| now < token.ends)?;
        if now >= token.due {
            self.wanted.notify_one();
        }
        Some(token)
    }

    /// A token, after a wait for it if there is none. All who wait share one fetch.
    async fn token(&self, deadline: Option<Instant>) -> Result<Arc<AccessToken>, Fault> {
        let Some(_place) = WaiterPlace::among(&self.waiting, WAITING_MAX) else {
            return Err(self.unavailable(&format!("{WAITING_MAX} requests wait for a token")));
        };
        let mut fetches = self.fetches.subscribe();
        let ended = fetches.borrow().ended;
        // A fetch may have ended since the caller looked.
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

    /// Gives up a token that the upstream refused. False if the upstream refuses tokens too often.
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
                "the upstream refuses its access token, which is fetched again"
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
        let call = Call::apart(caller, began.checked_add(self.timeout), &totals);
        let reply = self.outlet.fetch(call, request).await.map_err(|fault| fault.cause)?;
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
        let token = text("access_token").ok_or("its token endpoint gives no `access_token`")?;
        if token.len() > TOKEN_BYTES_MAX || !is_bearer(token.as_bytes()) {
            return Err("what its token endpoint gives is not a bearer token".into());
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
            return Err("its token has ended when it comes (`expires_in`)".into());
        }
        let ahead = self.ahead.min(lifetime / 2);
        let at = |after: Duration| began.checked_add(after).ok_or("its token lives too long");
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
            // The first time and now and then after it: an outage is told, and does not fill the log.
            Some(why) if before == 0 || before.is_power_of_two() => {
                let has_token = self.token.load().is_some();
                tracing::warn!(upstream = self.upstream, has_token, "no access token: {why}");
            }
            Some(_) => {}
        }
        // Harmless: the error was told above.
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

    /// True if a fetch is due, and the endpoint may be asked.
    fn needs_fetch(&self) -> bool {
        let now = clock::now();
        let may_ask = self.fetches.borrow().not_before.is_none_or(|time| now >= time);
        may_ask && self.token.load().as_ref().is_none_or(|token| now >= token.due)
    }
}

/// A number of seconds; some servers write it as a text.
fn seconds(said: &Value) -> Option<Duration> {
    let number = match said {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let is_time = number.is_finite() && number >= 0.0;
    is_time.then(|| Duration::from_secs_f64(number.min(LIFETIME_MAX.as_secs_f64())))
}

/// The beginning of a text of the token endpoint, for the log.
fn shown(text: &str) -> String {
    // Harmless: it is only shown.
    text.chars().take(WORDS_MAX).collect::<String>().escape_debug().to_string()
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
            // Another request may have replaced it already.
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
