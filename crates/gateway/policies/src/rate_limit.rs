//! `rate_limit`: limits the number of requests per time and key. It is exact over all workers of the process.
//!
//! Owns the counts and the header lines that report them (draft-ietf-httpapi-ratelimit-headers). It does not wait: a request passes or gets
//! 429 at once. If several nodes share counts, however, most requests wait for the shared store, see [`shared`].

mod cost;
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
    Decision, Exchange, Flow, Limited, OnCall, OnHead, Onward, Policy, RequestLimit, Slots, Step,
};

pub use cost::CostSettings;
pub use counts::{KeyCounts, WINDOWS_MAX};
pub use kong::is_named as has_kong_lines;
pub use window::{Algorithm, Window};

use crate::key::KeySource;
use crate::tiers::Tiers;
use counts::CountVerdict;
use kong::NamedLines;
use shared::{SharedCounts, StoreAnswer};
use window::seconds;

/// Settings of the policy.
#[derive(Debug)]
pub struct RateLimitSettings {
    pub by: KeySource,
    /// The limits of clients without a plan.
    pub otherwise: Tier,
    /// The limits by name of plan.
    pub plans: Vec<(Box<str>, Tier)>,
    /// The header lines that report the state of the limit.
    pub headers: LimitHeaders,
    /// The status of a refused request.
    pub status: u16,
    /// The text for refused clients.
    pub message: Option<Box<str>>,
    /// WSO2's code for exceeding this limit.
    pub code: u32,
}

/// The header lines that report the state of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHeaders {
    /// `RateLimit` and `RateLimit-Policy`.
    Draft,
    /// The header lines of Kong's `rate-limiting`.
    Kong,
    None,
}

/// The windows of one plan, all of which apply. Without windows, there is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    windows: Vec<Window>,
    /// The value of `RateLimit-Policy`.
    policy_line: Box<str>,
    /// With a shared store, the number of requests of a key that may pass without asking the store.
    slack: u32,
}

/// With a shared store, `burst / SLACK` requests of a key may pass without asking the store, so each node exceeds a limit by at most a
/// hundredth of the burst. A limit with a burst of at most `SLACK` requests is exact.
const SLACK: u32 = 100;

/// Returns the policy. The counts are taken over from the previous plan if nothing changed. `shared` shares them with other nodes.
pub fn policy(
    settings: RateLimitSettings,
    counts: Arc<KeyCounts>,
    shared: Option<Arc<SharedCounts>>,
    cost: Option<CostSettings>,
    slots: &mut Slots,
) -> Policy {
    let headers = settings.headers;
    let limit = Limit::new(settings, counts);
    if let Some(cost) = cost {
        return cost::policy(limit, shared, cost, slots);
    }
    Policy {
        name: "rate_limit",
        request: Some(match shared {
            None => Step::Head(Box::new(limit)),
            Some(shared) => Step::Call(Box::new(SharedLimit { limit, shared })),
        }),
        response: (headers != LimitHeaders::None)
            .then(|| Step::Head(Box::new(WriteLimits) as Box<dyn OnHead<ReplyHead>>)),
    }
}

/// Returns the limit for a step of a flow. With `by_route`, each route has separate counts.
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
    /// The names of Kong's header lines, if they contain the name of the limit.
    named: Option<NamedLines>,
    status: u16,
    message: Option<Box<str>>,
    code: u32,
    counts: Arc<KeyCounts>,
}

/// A limit whose counts are shared with other nodes.
struct SharedLimit {
    limit: Limit,
    shared: Arc<SharedCounts>,
}

/// The limit of a flow step.
struct StepLimit {
    limit: Limit,
    shared: Option<Arc<SharedCounts>>,
    by_route: bool,
}

/// The response step, which writes the header lines that the limits of a route have recorded.
struct WriteLimits;

impl Tier {
    /// Creates a tier. There must be at most [`WINDOWS_MAX`] windows, since further ones are not enforced.
    pub fn new(windows: Vec<Window>) -> Tier {
        let mut policy_line = String::new();
        for window in &windows {
            let comma = if policy_line.is_empty() { "" } else { ", " };
            let (name, burst) = (&window.name, window.burst);
            let per = window.per.as_secs_f64().ceil();
            let _ = write!(policy_line, "{comma}\"{name}\";q={burst};w={per}");
        }
        let burst = windows.iter().map(|window| window.burst).min().unwrap_or(0);
        Tier { windows, policy_line: policy_line.into(), slack: burst.saturating_sub(1) / SLACK }
    }

    /// Appends the value of `RateLimit`.
    fn write_states(&self, taken: &CountVerdict, out: &mut Vec<u8>) {
        // Harmless: there is one state for each window of a limit.
        for (at, (window, standing)) in self.windows.iter().zip(taken.standings).enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            window.write_state(standing, out);
        }
    }

    /// Returns the windows, all of which apply.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the number of windows.
    pub fn window_count(&self) -> usize {
        self.windows.len()
    }
}

impl Limit {
    fn new(settings: RateLimitSettings, counts: Arc<KeyCounts>) -> Limit {
        let RateLimitSettings { by, otherwise, plans, headers, status, message, code } = settings;
        let (tiers, named) = (Tiers::new(otherwise, plans), None);
        Limit { by, tiers, headers, named, status, message, code, counts }
    }

    fn refusal(&self, tier: &Tier, taken: &CountVerdict, wait: u64) -> Fault {
        let cause = format!("over the limit {}", tier.policy_line);
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
            LimitHeaders::Kong => match &self.named {
                Some(named) => named
                    .lines(&tier.windows, &taken.standings)
                    .map(|(name, value)| (name.to_owned(), value.to_string()))
                    .fold(fault, |fault, (name, value)| fault.with_header(name, value)),
                None => kong::lines(&tier.windows, &taken.standings)
                    .fold(fault, |fault, (name, value)| fault.with_header(name, value.to_string())),
            },
            LimitHeaders::Draft => {
                let mut standing = Vec::new();
                tier.write_states(taken, &mut standing);
                fault
                    // Harmless: names of windows are UTF-8, and the rest is ASCII.
                    .with_header("RateLimit", String::from_utf8(standing).unwrap_or_default())
                    .with_header("RateLimit-Policy", tier.policy_line.clone())
            }
        }
    }
}

/// The key under which a request is counted.
struct CountedKey<'l> {
    tier: &'l Tier,
    /// The index of the tier in the policy.
    number: u32,
    key: u64,
}

impl Limit {
    /// Returns the key of a request, or `None` if there is no limit. Requests with a different `apart` have separate counts.
    fn counted(&self, ex: &Exchange, head: &RequestHead, apart: &str) -> Option<CountedKey<'_>> {
        let (index, tier) = self.tiers.of(ex).filter(|(_, tier)| !tier.windows.is_empty())?;
        // A client that changes its plan starts with new counts.
        let mut hash = self.counts.hash();
        hash.write(&index.to_le_bytes());
        hash.write(apart.as_bytes());
        self.by.write(ex, head, &mut hash);
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        Some(CountedKey { tier, number, key: hash.finish() })
    }

    /// Decides by the local counts alone. Returns `None` if the shared store must be asked.
    fn alone(&self, key: &CountedKey<'_>, shared: Option<&SharedCounts>) -> Option<CountVerdict> {
        let CountedKey { tier, number, key } = *key;
        match shared {
            Some(shared) if !shared.is_away() => {
                self.counts.take_without_asking(key, number, &tier.windows, tier.slack)
            }
            Some(_) | None => Some(self.counts.take(key, number, &tier.windows)),
        }
    }

    /// Decides by the shared store.
    async fn together(&self, key: &CountedKey<'_>, shared: &SharedCounts) -> CountVerdict {
        let CountedKey { tier, number, key } = *key;
        match shared.ask(key, number, true).await {
            Some(StoreAnswer { passes, numbers, now }) => {
                CountVerdict::from_store(&tier.windows, passes, &numbers, now)
            }
            // The store is unavailable, so the local counts decide.
            None => self.counts.take(key, number, &tier.windows),
        }
    }

    /// Records the header lines for the reply, or refuses the request.
    fn decided(
        &self,
        tier: &Tier,
        taken: &CountVerdict,
        reply_lines: &mut Option<Headers>,
    ) -> Flow {
        if let Some(wait) = taken.wait {
            return Err(self.refusal(tier, taken, wait));
        }
        self.add_lines(tier, taken, reply_lines);
        Ok(Onward::Next)
    }

    fn add_lines(&self, tier: &Tier, taken: &CountVerdict, reply_lines: &mut Option<Headers>) {
        match self.headers {
            LimitHeaders::None => {}
            LimitHeaders::Draft => {
                let mut standing = scratch::lend();
                tier.write_states(taken, &mut standing);
                let lines = reply_lines.get_or_insert_with(Headers::new);
                lines.add_known("RateLimit", &standing);
                lines.add_known("RateLimit-Policy", tier.policy_line.as_bytes());
            }
            LimitHeaders::Kong => {
                let lines = reply_lines.get_or_insert_with(Headers::new);
                let mut add = |name: &str, value: u64| {
                    lines.add_known(name, itoa::Buffer::new().format(value).as_bytes());
                };
                let standings = &taken.standings;
                match &self.named {
                    None => kong::lines(&tier.windows, standings).for_each(|(n, v)| add(n, v)),
                    Some(named) => {
                        named.lines(&tier.windows, standings).for_each(|(n, v)| add(n, v));
                    }
                }
            }
        }
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
            let mut reply_lines = None;
            self.limit.decided(key.tier, &taken, &mut reply_lines).map(|_| reply_lines)
        })
    }
}

impl OnHead<ReplyHead> for WriteLimits {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        if let Some(lines) = ex.limit_lines.take() {
            head.headers.add_all(&lines);
        }
        Ok(Onward::Next)
    }
}
