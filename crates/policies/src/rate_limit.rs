//! `rate_limit`: so many requests in so long, by whoever asks. Exact over all workers of the process.
//!
//! Owns the counts and the header lines that tell of them (draft-ietf-httpapi-ratelimit-headers). Never waits: a
//! request passes or is 429 at once. Only where several nodes count together it asks for most of them, see [`shared`].

mod counts;
mod kong;
pub mod shared;
mod window;

use std::fmt::Write as _;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::scratch;
use message::{Headers, ReplyHead, RequestHead};
use policy::{
    Decision, Exchange, Flow, Limited, OnCall, OnHead, Onward, Policy, RequestLimit, Step,
};

pub use counts::{KeyCounts, WINDOWS_MAX};
pub use kong::is_named as has_kong_lines;
pub use window::{Algorithm, Window};

use crate::key::KeySource;
use crate::tiers::Tiers;
use counts::CountVerdict;
use shared::{SharedCounts, StoreAnswer};
use window::seconds;

/// Settings of the policy.
#[derive(Debug)]
pub struct RateLimitSettings {
    pub by: KeySource,
    /// For whoever is on no plan.
    pub otherwise: Tier,
    /// By the names of plans.
    pub plans: Vec<(Box<str>, Tier)>,
    /// The header lines that tell how a key stands.
    pub headers: LimitHeaders,
    /// The status of a refused request.
    pub status: u16,
    /// The text that a refused client reads.
    pub message: Option<Box<str>>,
    /// The reference system's code for being over this limit.
    pub code: u32,
}

/// The header lines that tell how a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHeaders {
    /// `RateLimit` and `RateLimit-Policy`.
    Draft,
    /// Those of Kong's `rate-limiting`.
    Kong,
    None,
}

/// The windows of one plan; all of them hold. None: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    windows: Vec<Window>,
    /// The value of `RateLimit-Policy`.
    told: Box<str>,
    /// Requests of a key that pass before others are asked, where several nodes count together.
    slack: u32,
}

/// One request of so many of a burst may pass before others are asked: what passes too much is at most that part for each node,
/// and nothing below two such parts.
const SLACK: u32 = 100;

/// The policy. The counts are the plan's before where nothing changed; `shared` are who else counts in them.
pub fn policy(
    settings: RateLimitSettings,
    counts: Arc<KeyCounts>,
    shared: Option<Arc<SharedCounts>>,
) -> Policy {
    let headers = settings.headers;
    let limit = Limit::new(settings, counts);
    Policy {
        name: "rate_limit",
        request: Some(match shared {
            None => Step::Head(Box::new(limit)),
            Some(shared) => Step::Call(Box::new(SharedLimit { limit, shared })),
        }),
        response: (headers != LimitHeaders::None)
            .then(|| Step::Head(Box::new(Tell) as Box<dyn OnHead<ReplyHead>>)),
    }
}

/// The same for a step of a flow. `by_route`: requests by different routes have different counts.
pub fn step(
    settings: RateLimitSettings,
    counts: Arc<KeyCounts>,
    shared: Option<Arc<SharedCounts>>,
    by_route: bool,
) -> Box<dyn RequestLimit> {
    Box::new(StepLimit { limit: Limit::new(settings, counts), shared, by_route })
}

struct Limit {
    by: KeySource,
    tiers: Tiers<Tier>,
    headers: LimitHeaders,
    status: u16,
    message: Option<Box<str>>,
    code: u32,
    counts: Arc<KeyCounts>,
}

/// One that others count in too.
struct SharedLimit {
    limit: Limit,
    shared: Arc<SharedCounts>,
}

/// One of a step.
struct StepLimit {
    limit: Limit,
    shared: Option<Arc<SharedCounts>>,
    by_route: bool,
}

/// Writes what the limits of a route noted on the way down.
struct Tell;

impl Tier {
    /// At most [`WINDOWS_MAX`]; the rest would not be counted.
    pub fn new(windows: Vec<Window>) -> Tier {
        let mut told = String::new();
        for window in &windows {
            let comma = if told.is_empty() { "" } else { ", " };
            let (name, burst) = (&window.name, window.burst);
            let per = window.per.as_secs_f64().ceil();
            // Harmless: writing to a String does not fail.
            let _always_ok = write!(told, "{comma}\"{name}\";q={burst};w={per}");
        }
        let burst = windows.iter().map(|window| window.burst).min().unwrap_or(0);
        Tier { windows, told: told.into(), slack: burst.saturating_sub(1) / SLACK }
    }

    /// Appends the value of `RateLimit`.
    fn tell(&self, taken: &CountVerdict, out: &mut Vec<u8>) {
        // Harmless: there are as many standings as a limit may have windows.
        for (at, (window, standing)) in self.windows.iter().zip(taken.standings).enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            window.tell(standing, out);
        }
    }

    /// Its windows, all of which hold.
    pub fn all_windows(&self) -> &[Window] {
        &self.windows
    }

    /// The number of windows that hold at once.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }
}

impl Limit {
    fn new(settings: RateLimitSettings, counts: Arc<KeyCounts>) -> Limit {
        let RateLimitSettings { by, otherwise, plans, headers, status, message, code } = settings;
        Limit { by, tiers: Tiers::new(otherwise, plans), headers, status, message, code, counts }
    }

    fn refusal(&self, tier: &Tier, taken: &CountVerdict, wait: u64) -> Fault {
        let cause = format!("over the limit {}", tier.told);
        let wait = seconds(wait).max(1).to_string();
        let fault = Fault::new(Kind::RateLimited, cause)
            .with_code(self.code)
            .with_header("Retry-After", wait);
        let fault = Fault { detail: self.message.clone(), ..fault };
        let fault = if self.status == Kind::RateLimited.status() {
            fault
        } else {
            fault.with_status(self.status)
        };
        match self.headers {
            LimitHeaders::None => fault,
            LimitHeaders::Kong => kong::lines(&tier.windows, &taken.standings)
                .fold(fault, |fault, (name, value)| fault.with_header(name, value.to_string())),
            LimitHeaders::Draft => {
                let mut standing = Vec::new();
                tier.tell(taken, &mut standing);
                fault
                    // Harmless: names of windows are texts, and the rest are digits.
                    .with_header("RateLimit", String::from_utf8(standing).unwrap_or_default())
                    .with_header("RateLimit-Policy", tier.told.clone())
            }
        }
    }
}

/// The key under which a request is counted.
struct CountedKey<'l> {
    tier: &'l Tier,
    /// Of the tier, as the policy numbers them.
    number: u32,
    key: u64,
}

impl Limit {
    /// Nothing where there is no limit. Requests that differ in `apart` have different counts.
    fn counted(&self, ex: &Exchange, head: &RequestHead, apart: &str) -> Option<CountedKey<'_>> {
        let (index, tier) = self.tiers.of(ex).filter(|(_, tier)| !tier.windows.is_empty())?;
        // Whoever changes its plan begins anew.
        let mut hash = self.counts.hash();
        hash.write(&index.to_le_bytes());
        hash.write(apart.as_bytes());
        self.by.write(ex, head, &mut hash);
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        Some(CountedKey { tier, number, key: hash.finish() })
    }

    /// The verdict without anybody else. None: the others who count too have to be asked.
    fn alone(&self, key: &CountedKey<'_>, shared: Option<&SharedCounts>) -> Option<CountVerdict> {
        let CountedKey { tier, number, key } = *key;
        match shared {
            Some(shared) if !shared.is_away() => {
                self.counts.take_untold(key, number, &tier.windows, tier.slack)
            }
            Some(_) | None => Some(self.counts.take(key, number, &tier.windows)),
        }
    }

    async fn together(&self, key: &CountedKey<'_>, shared: &SharedCounts) -> CountVerdict {
        let CountedKey { tier, number, key } = *key;
        match shared.ask(key, number).await {
            Some(StoreAnswer { passes, numbers, now }) => {
                CountVerdict::elsewhere(&tier.windows, passes, &numbers, now)
            }
            // Alone, then.
            None => self.counts.take(key, number, &tier.windows),
        }
    }

    /// Adds what replies say of it, or refuses.
    fn decided(&self, tier: &Tier, taken: &CountVerdict, told: &mut Option<Headers>) -> Flow {
        if let Some(wait) = taken.wait {
            return Err(self.refusal(tier, taken, wait));
        }
        match self.headers {
            LimitHeaders::None => {}
            LimitHeaders::Draft => {
                let mut standing = scratch::lend();
                tier.tell(taken, &mut standing);
                let lines = told.get_or_insert_with(Headers::new);
                lines.add_known("RateLimit", &standing);
                lines.add_known("RateLimit-Policy", tier.told.as_bytes());
            }
            LimitHeaders::Kong => {
                let lines = told.get_or_insert_with(Headers::new);
                for (name, value) in kong::lines(&tier.windows, &taken.standings) {
                    lines.add_known(name, itoa::Buffer::new().format(value).as_bytes());
                }
            }
        }
        Ok(Onward::Next)
    }
}

impl OnHead<RequestHead> for Limit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Some(CountedKey { tier, number, key }) = self.counted(ex, head, "") else {
            return Ok(Onward::Next);
        };
        let taken = self.counts.take(key, number, &tier.windows);
        self.decided(tier, &taken, &mut ex.limit_lines)
    }
}

impl OnCall<RequestHead> for SharedLimit {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let Some(key) = self.limit.counted(ex, head, "") else {
            return Decision::Ready(Ok(Onward::Next));
        };
        if let Some(taken) = self.limit.alone(&key, Some(&self.shared)) {
            return Decision::Ready(self.limit.decided(key.tier, &taken, &mut ex.limit_lines));
        }
        Decision::Waits(Box::pin(async move {
            let taken = self.limit.together(&key, &self.shared).await;
            self.limit.decided(key.tier, &taken, &mut ex.limit_lines)
        }))
    }
}

impl RequestLimit for StepLimit {
    fn admit<'a>(&'a self, ex: &'a Exchange, head: &'a RequestHead, route: &'a str) -> Limited<'a> {
        Box::pin(async move {
            let apart = if self.by_route { route } else { "" };
            let Some(key) = self.limit.counted(ex, head, apart) else { return Ok(None) };
            let shared = self.shared.as_deref();
            let taken = match (self.limit.alone(&key, shared), shared) {
                (None, Some(shared)) => self.limit.together(&key, shared).await,
                (None, None) => self.limit.counts.take(key.key, key.number, &key.tier.windows),
                (Some(taken), _) => taken,
            };
            let mut told = None;
            self.limit.decided(key.tier, &taken, &mut told).map(|_| told)
        })
    }
}

impl OnHead<ReplyHead> for Tell {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        if let Some(lines) = ex.limit_lines.take() {
            head.headers.add_all(&lines);
        }
        Ok(Onward::Next)
    }
}
