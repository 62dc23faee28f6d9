//! Stored replies: whether a reply may be stored, its age, and when it may be used (RFC 9111, 3 and 4).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kit::clock::{self, Instant};
use message::{Body, Headers, Reply, ReplyHead};
use policy::KeptMessage;

use super::UnknownHeaders;
use super::directives::{Directives, seconds};

/// A stored reply. It is immutable once it is in the store.
#[derive(Debug, Clone)]
pub(super) struct CachedReply {
    head: ReplyHead,
    body: Bytes,
    /// The headers that a request must have to get this reply: names with their values.
    varies: Vec<(String, Vec<u8>)>,
    times: Times,
    /// A number that a step of a flow assigns.
    mark: u64,
}

/// The times that determine freshness, computed when the reply arrived.
#[derive(Debug, Clone)]
pub(super) struct Times {
    directives: Directives,
    arrived: Instant,
    /// The age of the reply when it arrived.
    age: Duration,
    fresh_for: Duration,
    /// True if the reply or the operator sets the freshness.
    has_freshness: bool,
}

impl Times {
    /// Returns the times of a reply. `ttl` applies to replies without freshness information.
    pub(super) fn of(
        headers: &Headers,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> Times {
        Times::with_age(headers, headers.get("age"), ttl, asked, now)
    }

    /// Returns the times of a message that is fresh for this long, and is not used after that.
    pub(super) fn until(fresh_for: Duration, now: Instant) -> Times {
        let directives = Directives { must_revalidate: true, ..Directives::default() };
        Times { directives, arrived: now, age: Duration::ZERO, fresh_for, has_freshness: true }
    }

    /// Returns the times of a reply whose directives are ignored.
    pub(super) fn ignoring_directives(ttl: Option<Duration>, now: Instant) -> Times {
        let has_freshness = ttl.is_some();
        let (directives, age) = (Directives::default(), Duration::ZERO);
        Times {
            directives,
            arrived: now,
            age,
            fresh_for: ttl.unwrap_or(Duration::ZERO),
            has_freshness,
        }
    }

    /// The remaining freshness, if the freshness is known.
    pub(super) fn remaining(&self) -> Option<Duration> {
        self.has_freshness.then(|| self.fresh_for.saturating_sub(self.age))
    }

    /// Computes the times. `age` is the `Age` of the received reply: after a 304, `headers` are the stored ones, which have no `Age`.
    fn with_age(
        headers: &Headers,
        age: Option<&[u8]>,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> Times {
        let directives = Directives::of(headers);
        let wall = UNIX_EPOCH + clock::wall();
        let date = headers.get("date").and_then(date);
        // RFC 9111, 4.2.3.
        let apparent = date.map_or(Duration::ZERO, |date| between(date, wall));
        let received_age = Duration::from_secs(age.map_or(0, seconds));
        let age = apparent.max(received_age + now.duration_since(asked));
        let expires = || {
            let line = headers.get("expires")?;
            // An invalid date means expired.
            let until = date_or(line, date.unwrap_or(wall));
            Some(between(date.unwrap_or(wall), until))
        };
        let max_age = directives.s_maxage.or(directives.max_age).map(Duration::from_secs);
        let fresh_for = max_age.or_else(expires).or(ttl);
        let has_freshness = fresh_for.is_some();
        Times {
            directives,
            arrived: now,
            age,
            fresh_for: fresh_for.unwrap_or(Duration::ZERO),
            has_freshness,
        }
    }
}

/// Returns the time from `one` to `other`, or zero if `other` is earlier.
fn between(one: SystemTime, other: SystemTime) -> Duration {
    other.duration_since(one).unwrap_or(Duration::ZERO)
}

fn date(text: &[u8]) -> Option<SystemTime> {
    // Harmless: an invalid date is ignored, except in `Expires`, where the caller treats it as expired (RFC 9111, 5.3).
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

fn date_or(text: &[u8], other: SystemTime) -> SystemTime {
    date(text).unwrap_or(other)
}

/// Adds the current time as the `Date` of a message that arrived without one (RFC 9110, 6.6.1).
fn date_now(headers: &mut Headers) {
    let now = httpdate::fmt_http_date(UNIX_EPOCH + clock::wall());
    headers.add_known("Date", now.as_bytes());
}

/// Statuses that may be stored if the reply sets its freshness. 206 is excluded, since partial replies are not
/// combined.
pub const STORABLE_STATUSES: [u16; 13] =
    [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 501];

/// Statuses to which `ttl` applies: successes (206 is never stored), and permanent redirects. Errors are excluded: a client could
/// cause one, which others would then get.
pub const TTL_STATUSES: [u16; 5] = [200, 203, 204, 301, 308];

/// Returns the reason why a reply is not stored (RFC 9111, 3 and 3.5), for `detail` in `Cache-Status`, or `None` if it may be stored. A
/// reply that sets a cookie is always treated as private. [`AUTHORIZATION`] is checked last, because it depends on the request: the same
/// reply to a request without credentials may be stored.
pub(super) fn hindrance(
    head: &ReplyHead,
    is_authorized: bool,
    times: &Times,
) -> Option<&'static str> {
    let Times { directives, .. } = times;
    let may_be_used =
        !times.fresh_for.is_zero() && !directives.no_cache || has_validator(&head.headers);
    let hindrances = [
        (!STORABLE_STATUSES.contains(&head.status), "status"),
        (head.is_event_stream(), "event-stream"),
        (directives.no_store, "no-store"),
        (directives.private, "private"),
        (head.headers.contains("set-cookie"), "set-cookie"),
        (!times.has_freshness, "no-freshness"),
        (!may_be_used, "never-fresh"),
        (is_authorized && !directives.permits_sharing(), AUTHORIZATION),
    ];
    hindrances.iter().find(|(hinders, _)| *hinders).map(|(_, why)| *why)
}

/// The reason for not storing the reply to a request with credentials. Such a reply is stored only if its directives allow sharing it.
pub(super) const AUTHORIZATION: &str = "authorization";

fn has_validator(headers: &Headers) -> bool {
    headers.contains("etag") || headers.contains("last-modified")
}

impl CachedReply {
    /// Creates the entry of a reply, with an empty body. Returns `None` if the reply varies by headers whose values are unknown.
    pub(super) fn new(
        head: &ReplyHead,
        request: &Headers,
        unseen: &UnknownHeaders,
        times: Times,
    ) -> Option<CachedReply> {
        let mut head = head.clone();
        head.headers.retain(|name, _| !is_of_one_reply(name));
        if !head.headers.contains("date") {
            date_now(&mut head.headers);
        }
        let (body, varies) = (Bytes::new(), Vec::new());
        let mut entry = CachedReply { head, body, varies, times, mark: 0 };
        entry.vary_by(request, unseen).then_some(entry)
    }

    /// Creates the entry of a step's message, which varies by these request headers. Returns `None` if their values are unknown.
    pub(super) fn made(
        made: KeptMessage,
        request: &Headers,
        names: &[Box<str>],
        times: Times,
    ) -> Option<CachedReply> {
        let KeptMessage { mut head, body, mark } = made;
        head.headers.retain(|name, _| !is_of_one_reply(name));
        if !head.headers.contains("date") {
            date_now(&mut head.headers);
        }
        if names.iter().any(|name| &**name == "*" || has_alias(request, name)) {
            return None;
        }
        let varies = names.iter().map(|name| (name.to_string(), value_of(request, name))).collect();
        Some(CachedReply { head, body, varies, times, mark })
    }

    /// Returns the whole message for a step, without regard to the client's conditions.
    pub(super) fn kept(&self, how: &str, now: Instant) -> KeptMessage {
        let (head, body) = self.head_and_body(None, how, now);
        KeptMessage { head, body, mark: self.mark }
    }

    /// Records the request headers named in `Vary`. Returns false if the reply varies by everything, or by a header whose value is unknown.
    pub(super) fn vary_by(&mut self, request: &Headers, unseen: &UnknownHeaders) -> bool {
        self.varies.clear();
        let lines = self.head.headers.get_all("vary");
        let names = lines.flat_map(|line| line.split(|b| *b == b',')).map(<[u8]>::trim_ascii);
        for name in names.filter(|name| !name.is_empty()) {
            let Ok(name) = std::str::from_utf8(name) else { return false };
            if name == "*" || unseen.has(name) || has_alias(request, name) {
                return false;
            }
            self.varies.push((name.to_ascii_lowercase(), value_of(request, name)));
        }
        true
    }

    pub(super) fn with_body(&self, body: Bytes) -> CachedReply {
        CachedReply { body, ..self.clone() }
    }

    pub(super) fn status(&self) -> u16 {
        self.head.status
    }

    pub(super) fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// Returns true if the reply can be validated.
    pub(super) fn has_validator(&self) -> bool {
        has_validator(&self.head.headers)
    }

    /// Returns true if a 304 with these headers refers to this reply, judging by the validators of both (RFC 9111, 4.3.4).
    pub(super) fn is_confirmed_by(&self, update: &Headers) -> bool {
        let lines = &self.head.headers;
        match (update.get("etag"), lines.get("etag")) {
            (Some(named), Some(own)) => {
                named == own || named.starts_with(b"W/") && bare(named) == bare(own)
            }
            (Some(_), None) => false,
            (None, _) => match (update.get("last-modified"), lines.get("last-modified")) {
                (Some(named), Some(own)) => named == own,
                (None, _) | (_, None) => true,
            },
        }
    }

    /// Replaces headers with those of the 304 (RFC 9111, 4.3.4), and computes the freshness again.
    pub(super) fn freshened(
        &self,
        update: &Headers,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> CachedReply {
        let mut entry = self.clone();
        let lines = &mut entry.head.headers;
        let is_updated = |name: &[u8]| {
            !is_of_one_reply(name)
                && !name.get(..8).is_some_and(|n| n.eq_ignore_ascii_case(b"content-"))
        };
        for (name, _) in update.iter().filter(|(name, _)| is_updated(name)) {
            lines.retain(|known, _| !known.eq_ignore_ascii_case(name));
        }
        for (name, value) in update.iter().filter(|(name, _)| is_updated(name)) {
            // Harmless: header names are tokens, which are ASCII.
            lines.add_known(std::str::from_utf8(name).unwrap_or_default(), value);
        }
        if !update.contains("date") {
            // The stored date is that of an earlier reply.
            lines.remove("date");
            date_now(lines);
        }
        entry.times = Times::with_age(lines, update.get("age"), ttl, asked, now);
        entry
    }

    /// Returns true if the reply, with the headers of a 304, may stay in the store.
    pub(super) fn may_stay(&self, is_authorized: bool) -> bool {
        hindrance(&self.head, is_authorized, &self.times).is_none()
    }

    /// Returns true if the request selects this variant.
    pub(super) fn fits(&self, request: &Headers) -> bool {
        self.varies.iter().all(|(name, value)| value_of(request, name) == *value)
    }

    /// Returns true if the same requests select both replies.
    pub(super) fn replaces(&self, other: &CachedReply) -> bool {
        self.varies == other.varies
    }

    /// Returns the approximate size of the reply in memory.
    pub(super) fn bytes(&self) -> usize {
        /// The approximate size of everything except the headers and the body.
        const FIXED_BYTES: usize = 512;
        let lines: usize = self.head.headers.iter().map(|(n, v)| n.len() + v.len() + 28).sum();
        FIXED_BYTES + lines + self.body.len()
    }

    fn age(&self, now: Instant) -> Duration {
        self.times.age + now.duration_since(self.times.arrived)
    }

    /// Returns true if the reply may be used without validation for a request with these directives (RFC 9111, 4.2 and 5.2.1).
    pub(super) fn may_be_used(&self, asked: &Directives, now: Instant) -> bool {
        let Times { directives, fresh_for, .. } = &self.times;
        let age = self.age(now);
        let least = Duration::from_secs(asked.min_fresh.unwrap_or(0));
        let stale = (age + least).saturating_sub(*fresh_for);
        let is_fresh = age + least < *fresh_for;
        let may_be_stale = !directives.forbids_stale()
            && asked.max_stale.is_some_and(|max| stale <= Duration::from_secs(max));
        let is_young = asked.max_age.is_none_or(|max| age <= Duration::from_secs(max));
        !directives.no_cache && !asked.no_cache && is_young && (is_fresh || may_be_stale)
    }

    /// Returns true if the reply may be used in place of an error of the upstream (`stale-if-error`, RFC 5861, 4).
    pub(super) fn may_stand_in(&self, configured: Duration, now: Instant) -> bool {
        let Times { directives, fresh_for, .. } = &self.times;
        let longest = directives.stale_if_error.map_or(configured, Duration::from_secs);
        let stale = self.age(now).saturating_sub(*fresh_for);
        let forbidden = directives.forbids_stale() || directives.no_cache;
        !longest.is_zero() && stale <= longest && !forbidden
    }

    /// Replaces the request's conditions with those that validate this reply. Returns the client's conditions.
    pub(super) fn ask_about(&self, request: &mut Headers) -> Headers {
        let lines = &self.head.headers;
        let mut before = Headers::new();
        for (name, condition) in [("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")]
        {
            request.get_all(condition).for_each(|value| before.add_known(condition, value));
            request.remove(condition);
            if let Some(value) = lines.get(name) {
                request.add_known(condition, value);
            }
        }
        before
    }

    /// Returns the reply to a request, or a 304 if the request's conditions show that the client has the current version.
    pub(super) fn reply(&self, request: &Headers, how: &str, now: Instant) -> Reply {
        let condition = request.get("if-none-match");
        let (head, body) = self.head_and_body(condition, how, now);
        let not_since = condition.is_none()
            && request.get("if-modified-since").is_some_and(|since| {
                match (head.headers.get("last-modified").and_then(date), date(since)) {
                    (Some(changed), Some(since)) => changed <= since,
                    (None, _) | (_, None) => false,
                }
            });
        let mut reply = Reply::new(head.status, Body::whole(body));
        reply.head = head;
        if not_since && reply.head.status == 200 {
            reply.head.status = 304;
            reply.body = Body::Empty;
        }
        reply
    }

    /// Returns the head and the body for the client, or a 304 and no body if `condition`, the client's `If-None-Match`, names the reply.
    pub(super) fn head_and_body(
        &self,
        condition: Option<&[u8]>,
        how: &str,
        now: Instant,
    ) -> (ReplyHead, Bytes) {
        let mut head = self.head.clone();
        let age = self.age(now).as_secs();
        head.headers.add_known("Age", age.to_string().as_bytes());
        let left = i128::from(self.times.fresh_for.as_secs()) - i128::from(age);
        let status = format!("tidegate{how}; ttl={left}");
        head.headers.add_known("Cache-Status", status.as_bytes());
        let etag = self.head.headers.get("etag");
        let has_it = condition.is_some_and(|tags| names_tag(tags, etag));
        if has_it && head.status == 200 {
            head.status = 304;
            return (head, Bytes::new());
        }
        (head, self.body.clone())
    }
}

/// Returns true if an `If-None-Match` names the entity tag, by weak comparison (RFC 9110, 13.1.2).
fn names_tag(tags: &[u8], etag: Option<&[u8]>) -> bool {
    let mut listed = tags.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    etag.is_some_and(|etag| listed.any(|tag| tag == b"*" || bare(tag) == bare(etag)))
}

/// Returns an entity tag without the prefix of weak tags.
fn bare(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Returns true if there is another header whose name differs only in `_` for `-`. CGI services cannot distinguish the two.
fn has_alias(headers: &Headers, name: &str) -> bool {
    let of_name = |other: &[u8]| http1::is_alias(other, name.as_bytes());
    let is_other = |other: &[u8]| of_name(other) && !other.eq_ignore_ascii_case(name.as_bytes());
    headers.iter().any(|(other, _)| is_other(other))
}

/// Returns all values of a header, joined with commas.
pub(super) fn value_of(headers: &Headers, name: &str) -> Vec<u8> {
    headers.get_all(name).collect::<Vec<_>>().join(&b","[..])
}

/// Headers that belong to a single reply and are not stored.
fn is_of_one_reply(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [
        b"content-length",
        b"age",
        b"x-request-id",
        b"cache-status",
        b"ratelimit",
        b"ratelimit-policy",
        b"proxy-authenticate",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}
