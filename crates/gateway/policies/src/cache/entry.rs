//! One kept reply: whether it may be kept, how old it is, and when it may be given (RFC 9111, 3 and 4).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kit::clock::{self, Instant};
use message::{Body, Headers, Reply, ReplyHead};
use policy::KeptMessage;

use super::HiddenLines;
use super::directives::{Directives, seconds};

/// A kept reply. Never changed once it is in the store.
#[derive(Debug, Clone)]
pub(super) struct CachedReply {
    head: ReplyHead,
    body: Bytes,
    /// The lines that a request has to have for this reply to be its own: names with their values.
    varies: Vec<(String, Vec<u8>)>,
    times: Times,
    /// A number of a step's own.
    mark: u64,
}

/// The times that decide about freshness, settled when the reply came.
#[derive(Debug, Clone)]
pub(super) struct Times {
    said: Directives,
    came: Instant,
    /// The age that it had when it came.
    age: Duration,
    fresh_for: Duration,
    /// The reply, or the operator, says how long it is fresh.
    is_told: bool,
}

impl Times {
    /// `ttl` is for replies that say nothing.
    pub(super) fn of(
        headers: &Headers,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> Times {
        Times::with_age(headers, headers.get("age"), ttl, asked, now)
    }

    /// Those of a message that is fresh for a time, and given to nobody after it.
    pub(super) fn until(fresh_for: Duration, now: Instant) -> Times {
        let said = Directives { must_revalidate: true, ..Directives::default() };
        Times { said, came: now, age: Duration::ZERO, fresh_for, is_told: true }
    }

    /// Those of a reply whose directives do not count.
    pub(super) fn told(ttl: Option<Duration>, now: Instant) -> Times {
        let is_told = ttl.is_some();
        let (said, age) = (Directives::default(), Duration::ZERO);
        Times { said, came: now, age, fresh_for: ttl.unwrap_or(Duration::ZERO), is_told }
    }

    /// The time for which it is still fresh, if anything says so.
    pub(super) fn left(&self) -> Option<Duration> {
        self.is_told.then(|| self.fresh_for.saturating_sub(self.age))
    }

    /// `age` is what the reply said that has just come.
    fn with_age(
        headers: &Headers,
        age: Option<&[u8]>,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> Times {
        let said = Directives::of(headers);
        let wall = UNIX_EPOCH + clock::wall();
        let date = headers.get("date").and_then(date);
        // RFC 9111, 4.2.3.
        let apparent = date.map_or(Duration::ZERO, |date| between(date, wall));
        let told = Duration::from_secs(age.map_or(0, seconds));
        let age = apparent.max(told + now.duration_since(asked));
        let expires = || {
            let line = headers.get("expires")?;
            // What cannot be read has expired.
            let until = date_or(line, date.unwrap_or(wall));
            Some(between(date.unwrap_or(wall), until))
        };
        let max_age = said.s_maxage.or(said.max_age).map(Duration::from_secs);
        let fresh_for = max_age.or_else(expires).or(ttl);
        let is_told = fresh_for.is_some();
        Times { said, came: now, age, fresh_for: fresh_for.unwrap_or(Duration::ZERO), is_told }
    }
}

/// The time from one to the other; zero if the other is earlier.
fn between(one: SystemTime, other: SystemTime) -> Duration {
    other.duration_since(one).unwrap_or(Duration::ZERO)
}

fn date(text: &[u8]) -> Option<SystemTime> {
    // Harmless: a date that cannot be read counts as absent, and `Expires` as over (RFC 9111, 5.3).
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

fn date_or(text: &[u8], other: SystemTime) -> SystemTime {
    date(text).unwrap_or(other)
}

/// A message without a date is of the moment at which it came (RFC 9110, 6.6.1).
fn date_now(headers: &mut Headers) {
    let now = httpdate::fmt_http_date(UNIX_EPOCH + clock::wall());
    headers.add_known("Date", now.as_bytes());
}

/// Statuses that may be kept if the reply says for how long. 206 is not: parts are not put together here.
pub const KEPT: [u16; 13] = [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414, 501];

/// Statuses that a time of the operator's holds for: what succeeds (206 is never kept), and permanent redirects. A client can bring
/// about errors, which would then be given to others.
pub const TTL_STATUSES: [u16; 5] = [200, 203, 204, 301, 308];

/// Why a reply is not kept (RFC 9111, 3 and 3.5), for `detail` in `Cache-Status`; nothing where it may be. A reply with a cookie is
/// somebody's own, whatever it says. [`AUTHORIZATION`] is the last: another who asks may be given such a reply.
pub(super) fn hindrance(
    head: &ReplyHead,
    is_authorized: bool,
    times: &Times,
) -> Option<&'static str> {
    let Times { said, .. } = times;
    let is_shared = said.public || said.s_maxage.is_some() || said.must_revalidate;
    let may_be_given = !times.fresh_for.is_zero() && !said.no_cache || has_validator(&head.headers);
    let hindrances = [
        (!KEPT.contains(&head.status), "status"),
        (head.is_event_stream(), "event-stream"),
        (said.no_store, "no-store"),
        (said.private, "private"),
        (head.headers.contains("set-cookie"), "set-cookie"),
        (!times.is_told, "no-freshness"),
        (!may_be_given, "never-fresh"),
        (is_authorized && !is_shared, AUTHORIZATION),
    ];
    hindrances.iter().find(|(hinders, _)| *hinders).map(|(_, why)| *why)
}

/// The header that shows who asks; such a reply is kept only if it says that it is for all.
pub(super) const AUTHORIZATION: &str = "authorization";

fn has_validator(headers: &Headers) -> bool {
    headers.contains("etag") || headers.contains("last-modified")
}

impl CachedReply {
    /// A reply that is about to pass. None if what it varies by cannot be known.
    pub(super) fn new(
        head: &ReplyHead,
        request: &Headers,
        unseen: &HiddenLines,
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

    /// A message of a step, which varies by these lines of the request. None if that cannot be known.
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

    /// The message for a step, whole whatever the client has.
    pub(super) fn kept(&self, how: &str, now: Instant) -> KeptMessage {
        let (head, body) = self.told(None, how, now);
        KeptMessage { head, body, mark: self.mark }
    }

    /// Notes what a request has to say for this to be its reply, as `Vary` names it. False if that cannot be known: it is
    /// everything, or a line that is unseen here.
    pub(super) fn vary_by(&mut self, request: &Headers, unseen: &HiddenLines) -> bool {
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

    /// It can be asked about.
    pub(super) fn has_validator(&self) -> bool {
        has_validator(&self.head.headers)
    }

    /// True if a 304 is about this reply: the validator that it names is this one's (RFC 9111, 4.3.4).
    pub(super) fn is_meant_by(&self, news: &Headers) -> bool {
        let lines = &self.head.headers;
        match (news.get("etag"), lines.get("etag")) {
            (Some(named), Some(own)) => {
                named == own || named.starts_with(b"W/") && bare(named) == bare(own)
            }
            (Some(_), None) => false,
            (None, _) => match (news.get("last-modified"), lines.get("last-modified")) {
                (Some(named), Some(own)) => named == own,
                (None, _) | (_, None) => true,
            },
        }
    }

    /// The lines of the 304 replace those of their names (RFC 9111, 4.3.4), and how long it is fresh is worked out anew.
    pub(super) fn freshened(
        &self,
        news: &Headers,
        ttl: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) -> CachedReply {
        let mut entry = self.clone();
        let lines = &mut entry.head.headers;
        let is_news = |name: &[u8]| {
            !is_of_one_reply(name)
                && !name.get(..8).is_some_and(|n| n.eq_ignore_ascii_case(b"content-"))
        };
        for (name, _) in news.iter().filter(|(name, _)| is_news(name)) {
            lines.retain(|known, _| !known.eq_ignore_ascii_case(name));
        }
        for (name, value) in news.iter().filter(|(name, _)| is_news(name)) {
            // Harmless: a name is a token.
            lines.add_known(std::str::from_utf8(name).unwrap_or_default(), value);
        }
        if !news.contains("date") {
            // The date of what is kept is that of a reply before.
            lines.remove("date");
            date_now(lines);
        }
        entry.times = Times::with_age(lines, news.get("age"), ttl, asked, now);
        entry
    }

    /// True if it may still be kept, with the lines of a 304.
    pub(super) fn may_stay(&self, is_authorized: bool) -> bool {
        hindrance(&self.head, is_authorized, &self.times).is_none()
    }

    /// The request asks for this variant.
    pub(super) fn fits(&self, request: &Headers) -> bool {
        self.varies.iter().all(|(name, value)| value_of(request, name) == *value)
    }

    /// Both are given to the same requests.
    pub(super) fn replaces(&self, other: &CachedReply) -> bool {
        self.varies == other.varies
    }

    /// About as much memory.
    pub(super) fn bytes(&self) -> usize {
        /// The parts that are not text.
        const BOOKS: usize = 512;
        let lines: usize = self.head.headers.iter().map(|(n, v)| n.len() + v.len() + 28).sum();
        BOOKS + lines + self.body.len()
    }

    fn age(&self, now: Instant) -> Duration {
        self.times.age + now.duration_since(self.times.came)
    }

    /// RFC 9111, 4.2 and 5.2.1.
    pub(super) fn may_be_given(&self, asked: &Directives, now: Instant) -> bool {
        let Times { said, fresh_for, .. } = &self.times;
        let age = self.age(now);
        let least = Duration::from_secs(asked.min_fresh.unwrap_or(0));
        let stale = (age + least).saturating_sub(*fresh_for);
        let is_fresh = age + least < *fresh_for;
        let may_be_stale = !said.must_revalidate
            && said.s_maxage.is_none()
            && asked.max_stale.is_some_and(|max| stale <= Duration::from_secs(max));
        let is_young = asked.max_age.is_none_or(|max| age <= Duration::from_secs(max));
        !said.no_cache && !asked.no_cache && is_young && (is_fresh || may_be_stale)
    }

    /// RFC 5861, 4.
    pub(super) fn may_stand_in(&self, configured: Duration, now: Instant) -> bool {
        let Times { said, fresh_for, .. } = &self.times;
        let longest = said.stale_if_error.map_or(configured, Duration::from_secs);
        let stale = self.age(now).saturating_sub(*fresh_for);
        let forbidden = said.must_revalidate || said.no_cache || said.s_maxage.is_some();
        !longest.is_zero() && stale <= longest && !forbidden
    }

    /// Makes the request ask whether this reply still holds. Gives what it asked before.
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

    pub(super) fn reply(&self, request: &Headers, how: &str, now: Instant) -> Reply {
        let condition = request.get("if-none-match");
        let (head, body) = self.told(condition, how, now);
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

    /// Head and body as the client gets them, 304 if it has them.
    pub(super) fn told(
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

/// RFC 9110, 13.1.2, by weak comparison.
fn names_tag(tags: &[u8], etag: Option<&[u8]>) -> bool {
    let mut listed = tags.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    etag.is_some_and(|etag| listed.any(|tag| tag == b"*" || bare(tag) == bare(etag)))
}

/// A tag without the mark of a weak one.
fn bare(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// A line of another spelling, with `_` for `-`, of which a service behind CGI cannot tell it.
fn has_alias(headers: &Headers, name: &str) -> bool {
    let of_name = |other: &[u8]| http1::is_alias(other, name.as_bytes());
    let is_other = |other: &[u8]| of_name(other) && !other.eq_ignore_ascii_case(name.as_bytes());
    headers.iter().any(|(other, _)| is_other(other))
}

/// All lines of a name as one value.
pub(super) fn value_of(headers: &Headers, name: &str) -> Vec<u8> {
    headers.get_all(name).collect::<Vec<_>>().join(&b","[..])
}

/// Lines that are said of one reply and not of what is kept.
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
