//! `cache`: replies that are given again without asking the upstream (RFC 9111, as a shared cache).
//!
//! Owns what may be kept, for how long, and what is told of it (`Age`, and `Cache-Status` of RFC 9211). Replies are kept as they
//! pass, so a reply is never held back; one that breaks off is not kept. Ranges pass by, and so do requests that say more than
//! the key can hold: bodies, cookies, other methods. Of requests for the same that come at
//! once one asks, and the others wait whether its reply is kept.

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

pub use entry::{KEPT, TTL_STATUSES};
pub use step::{StepCache, StepCacheSettings};
pub use store::Store;

use directives::Directives;
use entry::{CachedReply, Times};
use flight::{FlightRole, Follower, Leader};
use record::{CachedBody, Record};
use request::{Bypass, keyed_lines};

/// Settings beside the sizes, which are the store's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The largest body that is kept.
    pub entry_bytes_max: usize,
    /// The time for which a reply is fresh that says nothing about it.
    pub ttl: Option<Duration>,
    /// The statuses that this holds for.
    pub ttl_statuses: Box<[u16]>,
    /// Content types of replies that are kept, in lower case; all where there are none.
    pub types: Box<[String]>,
    /// The query parameters that tell replies apart; none: all.
    pub query: Option<Box<[String]>>,
    /// Directives of requests and replies count as absent.
    pub ignores_directives: bool,
    /// Replies tell of the cache as Kong's do.
    pub tells_as_kong: bool,
    /// Requests with a `Cookie` are treated like all others.
    pub ignores_cookies: bool,
    /// The time for which a stale reply may stand in for a failing upstream.
    pub stale_if_error: Duration,
    /// The longest wait of a request for the reply to another one; zero: it does not, as below another cache of the route, which
    /// may be of the same store: it would wait for itself.
    pub wait: Duration,
    /// Facts that a kept reply cannot vary by.
    pub unseen: HiddenLines,
    /// Names of the upstreams that policies above may send a request to, by their index: the store outlives a plan, and in
    /// the next one the index may be another's.
    pub diversions: Box<[String]>,
}

/// Lines of which this policy cannot tell what the upstream sees: those that are written below it for each client, or that were
/// taken out above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HiddenLines {
    These(Box<[String]>),
    /// A service below writes whatever it likes.
    Any,
}

impl HiddenLines {
    fn has(&self, name: &str) -> bool {
        match self {
            HiddenLines::These(names) => {
                names.iter().any(|unseen| http1::is_alias(unseen.as_bytes(), name.as_bytes()))
            }
            HiddenLines::Any => true,
        }
    }
}

/// The policy. The store is the plan's before where nothing changed.
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

/// State that the request step leaves for the response step.
enum Pending {
    /// The reply may be kept.
    Get(Box<CacheLookup>),
    /// The reply may make what is kept untrue.
    Unsafe { key: Box<[u8]>, url: Box<[u8]>, host: Box<[u8]>, lines: Box<[u8]> },
    /// The reply has nothing to do with what is kept.
    Bypass(Bypass),
}

struct CacheLookup {
    key: Box<[u8]>,
    /// The destination that the request had when it came here.
    route_override: RouteOverride,
    /// As the request was here; what the reply varies by is among it.
    headers: Headers,
    at: Instant,
    /// The kept reply that has to be asked about.
    stale: Option<Arc<CachedReply>>,
    /// The client's own `If-None-Match`.
    condition: Option<Box<[u8]>>,
    /// Others wait for this one.
    leader: Option<Leader>,
}

/// The outcome of looking at a request.
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
    /// A reply of the cache's own, with what it tells in the right words.
    fn told(&self, mut onward: Onward) -> Onward {
        if let Onward::Turn(reply) = &mut onward
            && self.settings.tells_as_kong
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
        if let Some(known) = known.as_ref().filter(|known| known.may_be_given(&asked, now)) {
            return LookupOutcome::Decided(Ok(Onward::Turn(known.reply(
                &head.headers,
                "; hit",
                now,
            ))));
        }
        if asked.only_if_cached {
            // RFC 9111, 5.2.1.7.
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

    /// The front of a key: what the client asked for.
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

    /// Scheme, host and target as they are sent on, which is what a URL is, and behind them what makes it another at the upstream:
    /// how the path was written, where policies above this one send the request, and the lines that tell of another URL.
    fn key(&self, ex: &Exchange, head: &RequestHead, lines: &[u8]) -> Box<[u8]> {
        let mut key = self.url(ex, head);
        let (divert, target) = route_override(ex);
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

    /// Decides if a request waits for another one's reply. One that wants the upstream's own word does not, nor one with a
    /// credential, whose reply mostly is not kept.
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

    /// The wait is over: what is kept now is given, and else the request goes on by itself.
    fn after(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        key: Box<[u8]>,
        asked: &Directives,
    ) -> Onward {
        let known = self.store.find(&key, &head.headers);
        let now = clock::now();
        if let Some(known) = known.as_ref().filter(|known| known.may_be_given(asked, now)) {
            return Onward::Turn(known.reply(&head.headers, "; fwd=uri-miss; collapsed", now));
        }
        self.note(ex, head, key, known, None);
        Onward::Next
    }

    /// Leaves word for the response step, and asks about what is kept.
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
            // A cache above may have asked already.
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
        if self.0.settings.tells_as_kong {
            kong::tell(&mut head.headers);
        }
        Ok(transform)
    }
}

impl Cache {
    /// What becomes of a reply that passes.
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
                // Harmless: the parts are the program's own, so they can stand in a line.
                let _written = head.headers.add_joined("Cache-Status", &said);
                None
            }
            Pending::Get(asked) => self.replied(ex, head, *asked),
        }
    }
}

impl Cache {
    /// RFC 9111, 4.4: what was asked for, and what the reply says was changed on the same host.
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

    /// Drops what is kept of a URL, whichever upstream it came from.
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
        let unseen = &self.settings.unseen;
        let may_be = hindrance.is_none();
        let entry =
            if may_be { CachedReply::new(head, &asked.headers, unseen, times) } else { None };
        let why = hindrance.unwrap_or("vary").as_bytes();
        let [stored, why]: [&[u8]; 2] = match entry {
            Some(_) => [b"; stored", b""],
            None => [b"; stored=?0; detail=", why],
        };
        // The parts are the program's own.
        let _written =
            head.headers.add_joined("Cache-Status", &[b"tidegate; fwd=", how, stored, why]);
        let Some(entry) = entry else {
            // A failure says nothing about the next reply.
            if let Some(leader) = asked.leader.filter(|_| !failed) {
                leader.release();
            }
            return None;
        };
        if head.status == 204 {
            // There is no body whose end would be seen.
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

    /// Why a reply is not kept, as far as its head tells.
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
            Times::told(ttl, now)
        } else {
            Times::of(&head.headers, ttl, asked, now)
        }
    }

    /// True for the content types that are kept.
    fn takes_type(&self, headers: &Headers) -> bool {
        // Harmless: a reply without a type is of none.
        let written = headers.get("content-type").unwrap_or_default();
        let kind = message::media_type(written).to_ascii_lowercase();
        let is_it = |wanted: &String| match wanted.strip_suffix("/*") {
            Some(front) => kind.strip_prefix(front.as_bytes()).is_some_and(|r| r.starts_with(b"/")),
            None => *kind == *wanted.as_bytes(),
        };
        self.settings.types.is_empty() || self.settings.types.iter().any(is_it)
    }

    /// The time for which a reply of this status is fresh that says nothing about it.
    fn ttl(&self, status: u16) -> Option<Duration> {
        self.settings.ttl.filter(|_| self.settings.ttl_statuses.contains(&status))
    }

    /// The upstream says that what is kept holds, and perhaps that it may be kept no longer.
    fn held(
        &self,
        ex: &Exchange,
        stale: &CachedReply,
        head: &mut ReplyHead,
        asked: &CacheLookup,
        now: Instant,
    ) -> Box<dyn BodyTransform> {
        let how = "; fwd=stale; fwd-status=304";
        if !stale.is_meant_by(&head.headers) {
            self.store.remove(&asked.key);
            return stale.replace(head, asked, how, now);
        }
        let ttl = self.ttl(stale.status());
        let mut fresh = stale.freshened(&head.headers, ttl, asked.at, now);
        if self.settings.ignores_directives {
            fresh.set_times(Times::told(ttl, now));
        }
        let is_known = fresh.vary_by(&asked.headers, &self.settings.unseen);
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
    /// A policy below chose another way for this one request, which the key does not tell.
    fn went_elsewhere(&self, ex: &Exchange) -> bool {
        ex.notes.as_ref().is_some_and(|notes| notes.went_elsewhere(&self.route_override))
    }
}

/// Somebody asks for themselves (RFC 9111, 3.5).
fn is_authorized(ex: &Exchange, headers: &Headers) -> bool {
    ex.identity.is_some() || headers.contains("authorization")
}

impl CachedReply {
    /// Puts what is kept in the place of a reply.
    fn replace(
        &self,
        head: &mut ReplyHead,
        asked: &CacheLookup,
        how: &str,
        now: Instant,
    ) -> Box<dyn BodyTransform> {
        let reply = self.told(asked.condition.as_deref(), how, now);
        *head = reply.0;
        Box::new(CachedBody { bytes: reply.1 })
    }
}
