//! `cache`: answers requests with stored replies (RFC 9111, as a shared cache).
//!
//! Owns the rules about what may be stored, for how long, and how this is reported (`Age`, and `Cache-Status` of RFC 9211).
//! Replies are stored as they pass, so they are never delayed, and an incomplete one is not stored. Range requests bypass the
//! cache, and so do requests with properties that are not in the key: bodies, cookies, other methods. If equal requests arrive
//! at the same time, one is forwarded, and the others wait to see whether its reply is stored.

mod directives;
mod entry;
mod flight;
mod kong;
mod record;
mod request;
mod step;
mod store;

use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::clock::{self, Instant};
use message::{Body, Headers, Reply, ReplyHead, RequestHead};
use policy::{
    BodyTransform, Conditions, Decision, Exchange, Flow, OnCall, OnStreamed, Onward, Policy,
    RouteOverride, Slot, Slots, Step,
};

pub use entry::{STORABLE_STATUSES, TTL_STATUSES};
pub use step::{StepCache, StepCacheSettings};
pub use store::Store;

use directives::Directives;
use entry::{CachedReply, Times};
use flight::Follower;
use record::{CachedBody, Record};
use request::{Bypass, keyed_lines};
use store::{FlightRole, Leader};

/// The settings, except the total limits, which belong to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The largest body that is stored.
    pub entry_bytes_max: usize,
    /// How long a reply without freshness information is fresh.
    pub ttl: Option<Duration>,
    /// The statuses to which `ttl` applies.
    pub ttl_statuses: Box<[u16]>,
    /// Content types of replies that are stored, in lower case. If empty, all are stored.
    pub types: Box<[String]>,
    /// The query parameters that are part of the key, or `None` for all.
    pub query: Option<Box<[String]>>,
    /// Whether directives of requests and replies are ignored.
    pub ignores_directives: bool,
    /// Whether replies describe the cache with Kong's header.
    pub kong_header: bool,
    /// Whether requests with a `Cookie` are treated like others.
    pub ignores_cookies: bool,
    /// How long a stale reply may replace an error of the upstream.
    pub stale_if_error: Duration,
    /// The maximum time that a request waits for the reply to an equal request. Zero if another cache of the route is above this one: both
    /// may use the same store, and the request would wait for itself.
    pub wait: Duration,
    /// A reply that varies by one of these headers is not stored.
    pub unknown_headers: UnknownHeaders,
    /// The names of the upstreams that policies above may choose, by index. Keys contain the names: the store outlives a plan, and the next
    /// plan may have other indices.
    pub diversions: Box<[String]>,
}

/// Headers whose values, as the upstream gets them, this policy cannot see: policies below add them for each client, or policies above have
/// removed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownHeaders {
    These(Box<[String]>),
    /// Any header, since a service below may set it.
    Any,
}

impl UnknownHeaders {
    fn has(&self, name: &str) -> bool {
        match self {
            UnknownHeaders::These(names) => {
                names.iter().any(|unseen| http1::is_alias(unseen.as_bytes(), name.as_bytes()))
            }
            UnknownHeaders::Any => true,
        }
    }
}

/// The policy. The store is taken over from the previous plan if nothing has changed.
pub fn policy(settings: CacheSettings, store: Arc<Store>, slots: &mut Slots) -> Policy {
    let cache = Arc::new(Cache { settings, store, slot: slots.assign() });
    Policy {
        name: "cache",
        request: Some(Step::Call(Box::new(LookupStep(cache.clone())))),
        response: Some(Step::Streamed(Box::new(StoreStep(cache)))),
    }
}

struct Cache {
    settings: CacheSettings,
    store: Arc<Store>,
    slot: Slot<Pending>,
}

struct LookupStep(Arc<Cache>);

struct StoreStep(Arc<Cache>);

/// State that the request step keeps for the response step.
enum Pending {
    /// The reply may be kept.
    Get(Box<CacheLookup>),
    /// The reply may invalidate stored ones.
    Unsafe { key: Box<[u8]>, url: Box<[u8]>, host: Box<[u8]>, lines: Box<[u8]> },
    /// The reply is not stored, and does not invalidate stored ones.
    Bypass(Bypass),
}

struct CacheLookup {
    key: Box<[u8]>,
    /// The destination of the request at this policy.
    route_override: RouteOverride,
    /// The request's headers at this policy, by some of which the reply may vary.
    headers: Headers,
    at: Instant,
    /// The stored reply that has to be validated.
    stale: Option<Arc<CachedReply>>,
    /// The client's own `If-None-Match`.
    condition: Option<Box<[u8]>>,
    /// Set if other requests may wait for the reply to this one.
    leader: Option<Leader>,
}

/// The result of a look-up.
enum LookupOutcome {
    Decided(Flow),
    Wait(Box<[u8]>, Directives, Follower),
}

impl OnCall<RequestHead> for LookupStep {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        match self.0.look(ex, head) {
            LookupOutcome::Decided(flow) => Decision::Ready(flow.map(|onward| self.0.told(onward))),
            LookupOutcome::Wait(key, asked, follower) => Decision::Waits(Box::pin(async move {
                follower.landed().await;
                Ok(self.0.told(self.0.after(ex, head, key, &asked)))
            })),
        }
    }
}

impl Cache {
    /// Converts the report about the cache to the configured format, if this is a reply from the cache.
    fn told(&self, mut onward: Onward) -> Onward {
        if let Onward::Turn(reply) = &mut onward
            && self.settings.kong_header
        {
            kong::tell(&mut reply.head.headers);
        }
        onward
    }

    fn directives(&self, headers: &Headers) -> Directives {
        if self.settings.ignores_directives {
            Directives::default()
        } else {
            Directives::of_request(headers)
        }
    }

    fn look(&self, ex: &mut Exchange, head: &mut RequestHead) -> LookupOutcome {
        let is_get = match head.method() {
            b"GET" => true,
            b"HEAD" => false,
            b"OPTIONS" | b"TRACE" => return LookupOutcome::Decided(Ok(Onward::Next)),
            _ => {
                let lines = keyed_lines(&head.headers);
                let (key, url) = (self.key(ex, head, &lines), self.url(ex, head).into());
                let (host, lines) = (head.host().into(), lines.into());
                let pending = Pending::Unsafe { key, url, host, lines };
                self.slot.put(ex, pending);
                return LookupOutcome::Decided(Ok(Onward::Next));
            }
        };
        let bypass = Bypass::of(&head.headers, ex.has_body, self.settings.ignores_cookies);
        if let Some(bypass) = bypass {
            self.slot.put(ex, Pending::Bypass(bypass));
            return LookupOutcome::Decided(Ok(Onward::Next));
        }
        let asked = self.directives(&head.headers);
        let insists = if asked.no_store {
            Some(Bypass::NoStore)
        } else if head.headers.contains("range") {
            Some(Bypass::Range)
        } else {
            None
        };
        if let Some(bypass) = insists {
            self.slot.put(ex, Pending::Bypass(bypass));
            return LookupOutcome::Decided(Ok(Onward::Next));
        }
        let key = self.key(ex, head, &keyed_lines(&head.headers));
        let known = self.store.find(&key, &head.headers);
        let now = clock::now();
        if let Some(known) = known.as_ref().filter(|known| known.may_be_used(&asked, now)) {
            return LookupOutcome::Decided(Ok(Onward::Turn(known.reply(
                &head.headers,
                "; hit",
                now,
            ))));
        }
        if asked.only_if_cached {
            // The client accepts only a stored reply (RFC 9111, 5.2.1.7).
            let mut reply = Reply::new(504, Body::Empty);
            reply
                .head
                .headers
                .add_known("Cache-Status", b"tidegate; fwd=request; detail=only-if-cached");
            return LookupOutcome::Decided(Ok(Onward::Turn(reply)));
        }
        if is_get {
            let leader = match self.board(ex, head, &key, &asked) {
                FlightRole::Follow(follower) => return LookupOutcome::Wait(key, asked, follower),
                FlightRole::Lead(leader) => Some(leader),
                FlightRole::Alone => None,
            };
            self.note(ex, head, key, known, leader);
        } else {
            self.slot.put(ex, Pending::Bypass(Bypass::Head));
        }
        LookupOutcome::Decided(Ok(Onward::Next))
    }

    /// Returns the beginning of a key: the URL of the request.
    fn url(&self, ex: &Exchange, head: &RequestHead) -> Vec<u8> {
        let scheme = ex.caller.scheme.name().as_bytes();
        let target = match &self.settings.query {
            Some(names) => kong::target_with(head.target(), names),
            None => head.target().into(),
        };
        let mut url = [scheme, b" ", head.host(), b" ", &target].concat();
        if let Some(path) = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref()) {
            url.extend_from_slice(b" sent ");
            url.extend_from_slice(path);
        }
        url
    }

    /// Returns the key: scheme, host and target as forwarded, and everything else that selects the reply at the upstream: the spelling of
    /// the path, the destination chosen by policies above, and the headers about the client's URL.
    fn key(&self, ex: &Exchange, head: &RequestHead, lines: &[u8]) -> Box<[u8]> {
        let mut key = self.url(ex, head);
        let RouteOverride { divert, target } = route_override(ex);
        if let Some(upstream) = divert.and_then(|at| self.settings.diversions.get(at)) {
            key.extend_from_slice(b" to ");
            key.extend_from_slice(upstream.as_bytes());
        }
        if let Some(target) = target {
            key.extend_from_slice(b" as ");
            key.extend_from_slice(&target);
        }
        key.extend_from_slice(lines);
        key.into()
    }

    /// Decides whether a request waits for another one's reply. A request that requires the upstream's own reply does not wait. A
    /// request with a credential never makes others wait, since its reply is usually not stored.
    fn board(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        key: &[u8],
        asked: &Directives,
    ) -> FlightRole {
        let insists = asked.no_cache || asked.max_age == Some(0);
        if self.settings.wait.is_zero() || insists {
            FlightRole::Alone
        } else {
            let leads = !is_authorized(ex, &head.headers);
            self.store.board(key, leads, self.settings.wait)
        }
    }

    /// Continues after the wait: uses the stored reply, or forwards the request.
    fn after(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        key: Box<[u8]>,
        asked: &Directives,
    ) -> Onward {
        let known = self.store.find(&key, &head.headers);
        let now = clock::now();
        if let Some(known) = known.as_ref().filter(|known| known.may_be_used(asked, now)) {
            return Onward::Turn(known.reply(&head.headers, "; fwd=uri-miss; collapsed", now));
        }
        self.note(ex, head, key, known, None);
        Onward::Next
    }

    /// Stores the state for the response step, and makes the request conditional if there is a stale reply.
    fn note(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        key: Box<[u8]>,
        stale: Option<Arc<CachedReply>>,
        leader: Option<Leader>,
    ) {
        let headers = head.headers.clone();
        let route_override = route_override(ex);
        let noted = ex.notes();
        if let Some(known) = stale.as_ref().filter(|known| known.has_validator()) {
            let lines = known.ask_about(&mut head.headers);
            // A cache above may have added conditions already.
            noted.conditions.get_or_insert_with(|| {
                Conditions { route_override: route_override.clone(), lines }.into()
            });
        }
        let theirs = noted.conditions.as_ref().map_or(&headers, |theirs| &theirs.lines);
        let condition = theirs.get("if-none-match").map(Box::from);
        let asked = CacheLookup {
            key,
            route_override,
            headers,
            at: clock::now(),
            stale,
            condition,
            leader,
        };
        self.slot.put(ex, Pending::Get(Box::new(asked)));
    }
}

fn route_override(ex: &Exchange) -> RouteOverride {
    ex.notes.as_ref().map_or_else(RouteOverride::default, |notes| notes.route_override())
}

impl OnStreamed<ReplyHead> for StoreStep {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let Some(pending) = self.0.slot.remove(ex) else { return Ok(None) };
        let transform = self.0.passed(ex, head, pending);
        if self.0.settings.kong_header {
            kong::tell(&mut head.headers);
        }
        Ok(transform)
    }
}

impl Cache {
    /// Processes a reply: invalidates stored ones, stores it, or replaces it with a stored one. Returns the transform of its body, if any.
    fn passed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        pending: Pending,
    ) -> Option<Box<dyn BodyTransform>> {
        match pending {
            Pending::Unsafe { key, url, host, lines } => {
                if (200..400).contains(&head.status) {
                    self.store.remove(&key);
                    self.invalidate(&url, &host, &lines, head);
                }
                head.headers.add_known("Cache-Status", b"tidegate; fwd=method");
                None
            }
            Pending::Bypass(bypass) => {
                let said: [&[u8]; 2] = [b"tidegate; fwd=bypass; detail=", bypass.word().as_bytes()];
                // Harmless: the parts are constants that are valid in a header.
                let _ = head.headers.add_joined("Cache-Status", &said);
                None
            }
            Pending::Get(asked) => self.replied(ex, head, *asked),
        }
    }
}

impl Cache {
    /// Invalidates the request's URL, and URLs on the same host that the reply names (RFC 9111, 4.4).
    fn invalidate(&self, url: &[u8], host: &[u8], lines: &[u8], head: &ReplyHead) {
        self.forget(url, lines);
        let front_len = url.len() - url.splitn(3, |b| *b == b' ').nth(2).map_or(0, <[u8]>::len);
        let front = url.get(..front_len).unwrap_or(url);
        for name in ["location", "content-location"] {
            let Some(place) = head.headers.get(name) else { continue };
            let path = match place.iter().position(|b| *b == b'/') {
                Some(0) if !place.starts_with(b"//") => Some(place),
                Some(_) => {
                    let rest = place.splitn(2, |b| *b == b'/').nth(1).unwrap_or(b"");
                    let rest = rest.strip_prefix(b"/").unwrap_or(rest);
                    rest.strip_prefix(host).filter(|path| path.starts_with(b"/"))
                }
                None => None,
            };
            if let Some(path) = path {
                self.forget(&[front, path].concat(), lines);
            }
        }
    }

    /// Removes the stored replies of a URL, for all upstreams.
    fn forget(&self, url: &[u8], lines: &[u8]) {
        self.store.remove(&[url, lines].concat());
        for upstream in &self.settings.diversions {
            self.store.remove(&[url, b" to ", upstream.as_bytes(), lines].concat());
        }
    }

    fn replied(
        &self,
        ex: &Exchange,
        head: &mut ReplyHead,
        asked: CacheLookup,
    ) -> Option<Box<dyn BodyTransform>> {
        if asked.went_elsewhere(ex) {
            if let Some(leader) = asked.leader {
                leader.release();
            }
            head.headers.add_known("Cache-Status", b"tidegate; fwd=bypass; detail=diverted");
            return None;
        }
        let now = clock::now();
        let failed = ex.fault.is_some() || matches!(head.status, 500 | 502..=504);
        if let Some(stale) = &asked.stale {
            if failed && stale.may_stand_in(self.settings.stale_if_error, now) {
                return Some(stale.replace(
                    head,
                    &asked,
                    "; fwd=stale; detail=stale-if-error",
                    now,
                ));
            }
            if head.status == 304 && ex.fault.is_none() && stale.has_validator() {
                return Some(self.held(ex, stale, head, &asked, now));
            }
        }
        let how: &[u8] = if asked.stale.is_some() { b"stale" } else { b"uri-miss" };
        let times = self.times(head, asked.at, now);
        let is_authorized = is_authorized(ex, &asked.headers);
        let hindrance = self.hindrance(ex, head, is_authorized, &times);
        let unseen = &self.settings.unknown_headers;
        let may_be = hindrance.is_none();
        let entry =
            if may_be { CachedReply::new(head, &asked.headers, unseen, times) } else { None };
        let why = hindrance.unwrap_or("vary").as_bytes();
        let [stored, why]: [&[u8]; 2] = match entry {
            Some(_) => [b"; stored", b""],
            None => [b"; stored=?0; detail=", why],
        };
        // Harmless: the parts are constants of the program.
        let _ = head.headers.add_joined("Cache-Status", &[b"tidegate; fwd=", how, stored, why]);
        let Some(entry) = entry else {
            // A failure does not predict whether the next reply can be stored.
            if let Some(leader) = asked.leader.filter(|_| !failed) {
                leader.release();
            }
            return None;
        };
        if head.status == 204 {
            // There is no body, so the reply is stored now.
            self.store.insert(&asked.key, Arc::new(entry));
            return None;
        }
        asked.leader.iter().for_each(Leader::moved);
        Some(Box::new(Record {
            entry,
            key: asked.key,
            leader: asked.leader,
            bytes: Some(Vec::new()),
            bytes_max: self.settings.entry_bytes_max,
            store: self.store.clone(),
        }))
    }

    /// Returns the reason why a reply must not be stored, according to its head, or `None` if it may be stored.
    fn hindrance(
        &self,
        ex: &Exchange,
        head: &ReplyHead,
        is_authorized: bool,
        times: &Times,
    ) -> Option<&'static str> {
        let bytes_max = u64::try_from(self.settings.entry_bytes_max).unwrap_or(u64::MAX);
        let announced = head.headers.get("content-length").and_then(http1::parse_content_length);
        if ex.fault.is_some() {
            Some("fault")
        } else if announced.is_some_and(|n| n > bytes_max) {
            Some("too-large")
        } else if !self.takes_type(&head.headers) {
            Some("type")
        } else {
            entry::hindrance(head, is_authorized, times)
        }
    }

    fn times(&self, head: &ReplyHead, asked: Instant, now: Instant) -> Times {
        let ttl = self.ttl(head.status);
        if self.settings.ignores_directives {
            Times::ignoring_directives(ttl, now)
        } else {
            Times::of(&head.headers, ttl, asked, now)
        }
    }

    /// Returns true if replies with this content type are stored.
    fn takes_type(&self, headers: &Headers) -> bool {
        // Harmless: a reply without a type matches no type.
        let written = headers.get("content-type").unwrap_or_default();
        let kind = message::media_type(written).to_ascii_lowercase();
        let is_it = |wanted: &String| match wanted.strip_suffix("/*") {
            Some(front) => kind.strip_prefix(front.as_bytes()).is_some_and(|r| r.starts_with(b"/")),
            None => *kind == *wanted.as_bytes(),
        };
        self.settings.types.is_empty() || self.settings.types.iter().any(is_it)
    }

    /// Returns how long a reply with this status is fresh if it has no freshness information.
    fn ttl(&self, status: u16) -> Option<Duration> {
        self.settings.ttl.filter(|_| self.settings.ttl_statuses.contains(&status))
    }

    /// Handles a 304. The stored reply is still valid for this client, but its new headers may forbid keeping it in the store.
    fn held(
        &self,
        ex: &Exchange,
        stale: &CachedReply,
        head: &mut ReplyHead,
        asked: &CacheLookup,
        now: Instant,
    ) -> Box<dyn BodyTransform> {
        let how = "; fwd=stale; fwd-status=304";
        if !stale.is_confirmed_by(&head.headers) {
            self.store.remove(&asked.key);
            return stale.replace(head, asked, how, now);
        }
        let ttl = self.ttl(stale.status());
        let mut fresh = stale.freshened(&head.headers, ttl, asked.at, now);
        if self.settings.ignores_directives {
            fresh.set_times(Times::ignoring_directives(ttl, now));
        }
        let is_known = fresh.vary_by(&asked.headers, &self.settings.unknown_headers);
        let fresh = Arc::new(fresh);
        let stays = is_known && fresh.may_stay(is_authorized(ex, &asked.headers));
        if !stays || !fresh.replaces(stale) {
            self.store.remove(&asked.key);
        }
        if stays {
            self.store.insert(&asked.key, fresh.clone());
        }
        fresh.replace(head, asked, how, now)
    }
}

impl CacheLookup {
    /// Returns true if a policy below chose another destination for this request. The key does not contain that choice.
    fn went_elsewhere(&self, ex: &Exchange) -> bool {
        ex.notes.as_ref().is_some_and(|notes| notes.went_elsewhere(&self.route_override))
    }
}

/// Returns true if the client is authenticated or sent credentials. The reply may then be for this client only (RFC 9111, 3.5).
fn is_authorized(ex: &Exchange, headers: &Headers) -> bool {
    ex.identity.is_some() || headers.contains("authorization")
}

impl CachedReply {
    /// Replaces a reply with the stored one.
    fn replace(
        &self,
        head: &mut ReplyHead,
        asked: &CacheLookup,
        how: &str,
        now: Instant,
    ) -> Box<dyn BodyTransform> {
        let reply = self.head_and_body(asked.condition.as_deref(), how, now);
        *head = reply.0;
        Box::new(CachedBody { bytes: reply.1 })
    }
}
