//! Compiles `rate_limit`, with the plans and the stores that it may name. The step `throttle` of flows uses it, too.

use std::sync::Arc;

use config::{
    At, Config, CostRefusal, Decode as _, LimitAlgorithm, LimitBy, LimitPlan, LimitWindow,
    RateLimit, ReplyCost, Report, Requests, Spanned, Timeout, ready_plans,
};
use policies::expression::Expression;
use policies::key::KeySource;
use policies::rate_limit::shared::SharedCounts;
use policies::rate_limit::{
    self, Algorithm, CostSettings, KeyCounts, LimitHeaders, RateLimitSettings, Tier, WINDOWS_MAX,
    Window,
};

use super::stores::store;
use super::{Facts, PolicyKind, PolicyPlace, counts_identity};
use crate::listeners::count;
use crate::names;
use crate::policy::RouteScope;
use crate::policy_builder::PolicyBuilder;

/// The place of a limit.
pub(crate) struct LimitPlace<'a, 'p> {
    pub(crate) config: &'a Config,
    pub(crate) builder: &'a mut PolicyBuilder<'p>,
    /// The kind of the place: `route` or `step`.
    pub(crate) kind: &'static str,
    /// The name of the place, which keeps its counts separate from those of other places. A named limit uses its own name instead.
    pub(crate) whose: &'a str,
    /// The default key of counts.
    pub(crate) by: LimitBy,
    pub(crate) at: At,
    /// True if a missing key was not written. False if it may have been written with an error.
    pub(crate) intact: bool,
}

/// A limit with its counts, and the store that shares them with other gateways.
pub(crate) struct BuiltLimit {
    pub(crate) settings: RateLimitSettings,
    pub(crate) counts: Arc<KeyCounts>,
    pub(crate) shared: Option<Arc<SharedCounts>>,
}

impl PolicyKind for RateLimit {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let mut limited = LimitPlace {
            config: place.config,
            builder: &mut *place.builder,
            kind: "route",
            whose: place.route,
            by: if self.plans { LimitBy::Subject } else { LimitBy::Client },
            at: written.at,
            intact: written.intact,
        };
        let BuiltLimit { settings, counts, shared } = limit(self, &mut limited, report);
        let cost = self.cost.as_ref().and_then(|cost| cost_settings(&cost.value, report));
        rate_limit::policy(settings, counts, shared, cost, place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: self.plans
                || self.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
            counts: super::counts(self.by.as_ref().map(|by| &by.value)),
            ..Facts::NONE
        }
    }
}

/// Compiles `cost`: the headers in which replies state their cost, and what is refused when the limit is exceeded.
fn cost_settings(keys: &ReplyCost, report: &mut Report) -> Option<CostSettings> {
    let header = names::changeable_header(&keys.header.value, keys.header.at, report);
    let told = keys.upstream_header.as_ref();
    let told = told.map(|name| names::changeable_header(&name.value, name.at, report));
    let is_token = |name: &&Spanned<String>| http1::is_token(name.value.as_bytes());
    if let Some(name) = keys.name.as_ref().filter(|name| !is_token(name)) {
        let what = format!("`{}` is not allowed in a header name", name.value.escape_debug());
        report.error(name.at, what, "write letters, digits and dashes, such as `video`");
        return None;
    }
    Some(CostSettings {
        header: header?,
        name: keys.name.as_ref().map(|name| name.value.as_str().into()),
        refuses_requests: keys.refuse != CostRefusal::Replies,
        refuses_replies: keys.refuse != CostRefusal::Requests,
        removes: keys.remove,
        upstream_header: match told {
            Some(name) => Some(name?),
            None => None,
        },
    })
}

/// Compiles a limit.
pub(crate) fn limit(
    keys: &RateLimit,
    place: &mut LimitPlace<'_, '_>,
    report: &mut Report,
) -> BuiltLimit {
    let by = keys.by.clone().unwrap_or_else(|| Spanned::unwritten(place.by.clone()));
    let own = WindowKeys {
        requests: &keys.requests,
        per: &keys.per,
        burst: &keys.burst,
        windows: &keys.windows,
        intact: place.intact,
        algorithm: algorithm(keys),
    };
    let name = keys.name.as_ref().and_then(|name| sent_name(name, report));
    let settings = RateLimitSettings {
        by: self::by(&by, report),
        otherwise: otherwise(keys, &own, name, place, report),
        plans: plans(keys, place.config, report),
        headers: match keys.headers.value {
            config::LimitHeaders::Draft => LimitHeaders::Draft,
            config::LimitHeaders::Kong => LimitHeaders::Kong,
            config::LimitHeaders::None => LimitHeaders::None,
        },
        status: keys.status.get_u16(),
        message: keys.message.as_deref().map(Into::into),
        code: code(keys, &by.value),
    };
    warn_of_nameless(keys, &settings, report);
    let (counts, shared) = counts(keys, place, &settings, report);
    BuiltLimit { settings, counts, shared }
}

fn algorithm(keys: &RateLimit) -> Algorithm {
    match keys.algorithm.value {
        LimitAlgorithm::Gcra => Algorithm::Gcra,
        LimitAlgorithm::Fixed => Algorithm::Fixed,
        LimitAlgorithm::Sliding => Algorithm::Sliding,
    }
}

/// Warns of windows for which Kong defines no header.
fn warn_of_nameless(keys: &RateLimit, settings: &RateLimitSettings, report: &mut Report) {
    if settings.headers != LimitHeaders::Kong {
        return;
    }
    let tiers = settings.plans.iter().map(|(_, tier)| tier).chain([&settings.otherwise]);
    let mut windows = tiers.flat_map(Tier::windows);
    if let Some(window) = windows.find(|window| !rate_limit::has_kong_lines(window.per)) {
        let rest = match keys.cost.as_ref().and_then(|cost| cost.value.name.as_ref()) {
            Some(_) => "replies have no headers for it",
            None => "replies have only `RateLimit-Limit`, `-Remaining` and `-Reset`",
        };
        let what =
            format!("Kong has no `X-RateLimit` headers for a window of {:?}; {rest}", window.per);
        let help = "use 1s, 1m, 1h, 24h, 720h (month) or 8760h (year), or `headers: draft`";
        report.warn(keys.headers.at, what, help);
    }
}

/// Returns the key that a limit counts by, in the form that the policy uses.
pub(crate) fn by(by: &Spanned<LimitBy>, report: &mut Report) -> KeySource {
    match &by.value {
        LimitBy::Client => KeySource::Client,
        LimitBy::Subject => KeySource::Subject,
        LimitBy::Route => KeySource::Everybody,
        LimitBy::Operation => KeySource::Operation,
        LimitBy::Header(name) => KeySource::Header(name.clone()),
        LimitBy::Expression(text) => match Expression::compile(text) {
            Ok(expression) => KeySource::Expression(Arc::new(expression)),
            Err(why) => {
                let help = "write a CEL expression for a text, such as `cel:claims.org` or `cel:request.query.tenant`";
                report.error(by.at, format!("the expression cannot be used: {why}"), help);
                KeySource::Everybody
            }
        },
    }
}

/// Returns the fault code of WSO2's API Manager for a limit (its table of throttling): API, resource, application, subscription, or custom
/// policy.
fn code(keys: &RateLimit, by: &LimitBy) -> u32 {
    match by {
        _ if keys.plans => 900_804,
        LimitBy::Subject => 900_803,
        LimitBy::Route | LimitBy::Operation => 900_802,
        LimitBy::Client | LimitBy::Header(_) => 900_800,
        LimitBy::Expression(_) => 900_806,
    }
}

/// The keys that a limit and a plan have in common.
struct WindowKeys<'c> {
    requests: &'c Option<Spanned<Requests>>,
    per: &'c Option<Spanned<Timeout>>,
    burst: &'c Option<Spanned<Requests>>,
    windows: &'c [Spanned<LimitWindow>],
    /// True if a missing key was not written. False if it may have been written with an error.
    intact: bool,
    algorithm: Algorithm,
}

impl WindowKeys<'_> {
    fn is_empty(&self) -> bool {
        self.requests.is_none() && self.per.is_none() && self.windows.is_empty()
    }

    fn window(
        &self,
        name: Option<&str>,
        requests: u32,
        per: &Spanned<Timeout>,
        burst: Option<(u32, At)>,
        report: &mut Report,
    ) -> Window {
        let per_text = per.value.encode();
        let name = name.unwrap_or_else(|| per_text.as_str().unwrap_or("limit"));
        let time = per.value.0;
        if self.algorithm == Algorithm::Gcra {
            let burst = burst.map_or(requests, |(burst, _)| burst);
            return Window::new(name, requests, time, burst);
        }
        if time.subsec_nanos() != 0 || time.is_zero() {
            let what = "a window aligned to the clock must be a whole number of seconds";
            report.error(per.at, what, "write `per: 1s` or more, or `algorithm: gcra`");
        }
        if let Some((_, at)) = burst {
            let what = "`burst` has no effect on windows aligned to the clock: all `requests` may come at once";
            report.error(at, what, "remove it, or write `algorithm: gcra`");
        }
        Window::on_clock(name, requests, time, self.algorithm)
    }

    fn tier(&self, name: Option<&str>, at: At, report: &mut Report) -> Tier {
        let mut windows = Vec::new();
        match (self.requests, self.per) {
            (Some(requests), Some(per)) => {
                let burst = self.burst.as_ref().map(|burst| (burst.value.get(), burst.at));
                windows.push(self.window(name, requests.value.get(), per, burst, report));
            }
            (Some(_), None) | (None, Some(_)) if !self.intact => {}
            (Some(alone), None) => {
                report.error(alone.at, "`requests` needs `per`", "add `per: 1m`");
            }
            (None, Some(alone)) => {
                let help = "add `requests: 100`";
                report.error(alone.at, "`per` needs `requests`", help);
            }
            (None, None) => {
                if let Some(burst) = self.burst
                    && self.intact
                {
                    let help = "add `requests: 100, per: 1m`";
                    report.error(burst.at, "`burst` needs `requests` and `per`", help);
                }
            }
        }
        for written in self.windows {
            let LimitWindow { requests, per, burst } = &written.value;
            let burst = burst.map(|burst| (burst.get(), written.at));
            windows.push(self.window(None, requests.get(), per, burst, report));
        }
        if windows.len() > WINDOWS_MAX {
            let what = format!("a limit can have at most {WINDOWS_MAX} windows");
            report.error(at, what, "remove those that others imply");
        }
        Tier::new(windows)
    }
}

/// Returns the limits of clients without a plan.
fn otherwise(
    keys: &RateLimit,
    own: &WindowKeys<'_>,
    name: Option<&str>,
    place: &LimitPlace<'_, '_>,
    report: &mut Report,
) -> Tier {
    let at = place.at;
    if let Some(default) = &keys.default {
        if !keys.plans {
            report.error(default.at, "`default` needs `plans: true`", "add `plans: true`");
        }
        if !own.is_empty() {
            let what = "clients without a plan have both `default` and separate limits";
            report.error(default.at, what, "keep `default`, or keep `requests` and `per`");
        }
        let plans = &place.config.plans;
        return match plans.get(&default.value) {
            Some(plan) => {
                if !applies_to_requests(&plan.value) {
                    let what = format!("the plan `{}` has no limit of requests", default.value);
                    report.error(default.at, what, "add `requests: 100` to it, or name another");
                }
                tier(&default.value, plan, algorithm(keys), report)
            }
            // A plan that could not be read was already reported.
            None if plans.has(&default.value) => Tier::default(),
            None => {
                let ready = || ready_plans(default.at);
                if let Some((name, plan)) = ready().find(|(name, _)| *name == default.value) {
                    if !applies_to_requests(&plan.value) {
                        let what = format!("the plan `{name}` has no limit of requests");
                        report.error(default.at, what, "name another plan, such as `Bronze`");
                    }
                    return tier(name, &plan, algorithm(keys), report);
                }
                let known = plans.names().chain(ready().map(|(name, _)| name));
                let meant = report.suggest(&default.value, known);
                let what = names::unknown("plan", &default.value, meant);
                let help = "name one of the `plans`, or a built-in plan such as `Bronze`";
                report.error(default.at, what, help);
                Tier::default()
            }
        };
    }
    if own.is_empty() && own.burst.is_none() && own.intact {
        let help = if keys.plans {
            "add `default: PLAN`, or `requests: 100, per: 1m`"
        } else {
            "write `requests: 100, per: 1m`"
        };
        let what = if keys.plans {
            "clients without a plan have no limit"
        } else {
            "the rate limit has no limit"
        };
        report.error(at, what, help);
    }
    own.tier(name, at, report)
}

fn plans(keys: &RateLimit, config: &Config, report: &mut Report) -> Vec<(Box<str>, Tier)> {
    if !keys.plans {
        return Vec::new();
    }
    let mut named: Vec<_> = config
        .plans
        .iter()
        .filter(|(_, plan)| applies_to_requests(&plan.value))
        .map(|(name, plan)| {
            (name.value.as_str().into(), tier(&name.value, plan, algorithm(keys), report))
        })
        .collect();
    for (name, plan) in ready_plans(At::NOWHERE) {
        if !config.plans.has(name) && applies_to_requests(&plan.value) {
            named.push((name.into(), tier(name, &plan, algorithm(keys), report)));
        }
    }
    named
}

/// Returns false for a plan that limits only streams. Its clients are treated as clients without a plan.
fn applies_to_requests(plan: &LimitPlan) -> bool {
    !crate::plans::bounds_streams(plan) || crate::plans::bounds_requests(plan)
}

fn tier(name: &str, plan: &Spanned<LimitPlan>, algorithm: Algorithm, report: &mut Report) -> Tier {
    let LimitPlan { requests, per, burst, .. } = &plan.value;
    // Without `requests`, `per` belongs to the limit on events.
    let per =
        if crate::plans::bounds_streams(&plan.value) && requests.is_none() { &None } else { per };
    // Harmless: a window without `requests` limits only streams.
    let windows: Vec<_> = plan
        .value
        .windows
        .iter()
        .filter_map(|window| {
            let requests = window.value.requests?;
            let value = LimitWindow { requests, per: window.value.per, burst: window.value.burst };
            Some(Spanned { value, at: window.at, intact: window.intact })
        })
        .collect();
    crate::plans::check(plan, report);
    let intact = plan.intact;
    let written = WindowKeys { requests, per, burst, windows: &windows, intact, algorithm };
    let named = Spanned { value: name.to_owned(), at: plan.at, intact: true };
    let name = sent_name(&named, report).map(str::to_owned);
    written.tier(name.as_deref(), plan.at, report)
}

/// Returns a name if it can be written in a header line as a quoted string (RFC 9651, 3.3.3).
fn sent_name<'n>(name: &'n Spanned<String>, report: &mut Report) -> Option<&'n str> {
    let good = |c: char| (' '..='~').contains(&c) && c != '"' && c != '\\';
    if name.value.is_empty() || !name.value.chars().all(good) {
        let what = format!("`{}` is not allowed in a header value", name.value.escape_debug());
        report.error(name.at, what, "use letters, digits, spaces and dashes");
        return None;
    }
    Some(&name.value)
}

/// Returns the counts, taken over from the previous plan if the limit did not change, and the store that shares them.
fn counts(
    keys: &RateLimit,
    place: &mut LimitPlace<'_, '_>,
    settings: &RateLimitSettings,
    report: &mut Report,
) -> (Arc<KeyCounts>, Option<Arc<SharedCounts>>) {
    let whose = keys.name.as_ref().map_or(place.whose, |name| &name.value);
    // Names of limits and names of routes are separate, and limits with different keys or plans do not share counts.
    let kind =
        if keys.name.is_some() { format!("{} name", place.kind) } else { place.kind.to_owned() };
    let key = format!(
        "rate_limit {kind} {whose} {} {:?} {:?}",
        keys.encode(),
        settings.otherwise,
        settings.plans
    );
    let keys_max = count(keys.keys_max.get());
    let tiers = settings.plans.iter().map(|(_, tier)| tier).chain([&settings.otherwise]);
    let windows = tiers.map(Tier::window_count).fold(0, usize::max);
    let Some(name) = &keys.shared else {
        let new = || Arc::new(KeyCounts::counting(keys_max, windows, algorithm(keys)));
        return (place.builder.reuse_or_build(&key, new), None);
    };
    let Some(store) = store(name, place.config, report) else {
        return (Arc::new(KeyCounts::new(1, 1)), None);
    };
    let metrics = place.builder.telemetry.store(&name.value);
    let shared = place.builder.reuse_or_build(&format!("{key} {store:?}"), || {
        // Gateways with the same configuration compute the same hash. Without the configuration, the hash cannot be computed.
        let text = format!("{key} {:?}", store.password);
        let counts = KeyCounts::known_by(keys_max, windows, algorithm(keys), &text);
        let counts = Arc::new(counts);
        Arc::new(SharedCounts::new(
            store,
            counts,
            settings.otherwise.clone(),
            &settings.plans,
            metrics,
        ))
    });
    place.builder.work(shared.clone());
    (shared.counts(), Some(shared))
}
