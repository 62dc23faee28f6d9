//! Compiles the stream limits of `plans`. Their request limits are compiled in `policies::rate_limit`.

use config::{At, Config, LimitPlan, Report, Requests, Size, Spanned, Timeout, ready_plans};

use crate::names;

/// A quota on events, bytes or both within a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Window {
    pub(crate) events: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) per: Timeout,
}

/// The limits of a client's streams. Without windows, events are not limited.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Streams {
    pub(crate) windows: Vec<Window>,
    /// The maximum number of subscriptions to a hub.
    pub(crate) subscriptions: Option<Requests>,
}

/// Limits of streams by plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plans {
    /// The limits of clients without a plan.
    pub(crate) otherwise: Streams,
    pub(crate) named: Vec<(Box<str>, Streams)>,
}

/// The keys for stream limits of a policy or a hub.
pub(crate) struct LimitKeys<'c> {
    pub(crate) at: At,
    /// True if a missing key was not written. False if it may have been written with an error.
    pub(crate) intact: bool,
    /// The name of what is counted: `events` or `messages`.
    pub(crate) noun: &'static str,
    pub(crate) events: Option<&'c Spanned<Requests>>,
    pub(crate) bytes: Option<&'c Spanned<Size>>,
    pub(crate) per: Option<&'c Spanned<Timeout>>,
    pub(crate) windows: Vec<Spanned<Window>>,
    pub(crate) subscriptions: Option<Requests>,
    pub(crate) plans: bool,
    pub(crate) default: Option<&'c Spanned<String>>,
}

/// The maximum number of windows.
const WINDOWS_MAX: usize = policies::quota::WINDOWS_MAX;

pub(crate) fn bounds_streams(plan: &LimitPlan) -> bool {
    let window = |window: &Spanned<config::PlanWindow>| {
        window.value.events.is_some() || window.value.bytes.is_some()
    };
    plan.events.is_some()
        || plan.bytes.is_some()
        || plan.subscriptions.is_some()
        || plan.windows.iter().any(window)
}

pub(crate) fn bounds_requests(plan: &LimitPlan) -> bool {
    plan.requests.is_some() || plan.windows.iter().any(|window| window.value.requests.is_some())
}

/// Complains about a plan without limits that is not marked as unlimited, and about an unlimited plan with limits.
pub(crate) fn check(plan: &Spanned<LimitPlan>, report: &mut Report) {
    let keys = &plan.value;
    let is_empty = !bounds_streams(keys)
        && keys.requests.is_none()
        && keys.per.is_none()
        && keys.windows.is_empty();
    if keys.unlimited != is_empty && plan.intact {
        let (what, help) = if keys.unlimited {
            ("an unlimited plan cannot have limits", "keep one of the two")
        } else {
            ("a plan needs limits", "write `requests: 1000, per: 1m`, or `unlimited: true`")
        };
        report.error(plan.at, what, help);
    }
    for window in &keys.windows {
        let has_none = window.value.requests.is_none()
            && window.value.events.is_none()
            && window.value.bytes.is_none();
        if has_none && window.intact {
            let help = "add `requests: 100`, or `events: 100`";
            report.error(window.at, "a window needs a limit", help);
        }
    }
}

impl LimitKeys<'_> {
    /// Compiles the limits of clients with and without a plan.
    pub(crate) fn compile(&self, config: &Config, report: &mut Report) -> Plans {
        Plans { otherwise: self.otherwise(config, report), named: self.named(config, report) }
    }

    fn is_empty(&self) -> bool {
        self.events.is_none()
            && self.bytes.is_none()
            && self.per.is_none()
            && self.windows.is_empty()
            && self.subscriptions.is_none()
    }

    /// Returns all plans except those that limit only requests. A ready plan is left out if the configuration has a plan of the same name.
    fn named(&self, config: &Config, report: &mut Report) -> Vec<(Box<str>, Streams)> {
        if !self.plans {
            return Vec::new();
        }
        let written = config.plans.iter().filter(|(_, plan)| {
            // A plan without any limit is unlimited, or gets a complaint.
            bounds_streams(&plan.value) || !bounds_requests(&plan.value)
        });
        let mut named: Vec<_> = written
            .map(|(name, plan)| (name.value.as_str().into(), of_plan(plan, report)))
            .collect();
        for (name, plan) in ready_plans(self.at) {
            let bounds = bounds_streams(&plan.value) || plan.value.unlimited;
            if bounds && !config.plans.has(name) {
                named.push((name.into(), of_plan(&plan, report)));
            }
        }
        named
    }

    fn otherwise(&self, config: &Config, report: &mut Report) -> Streams {
        let Some(default) = self.default else {
            if self.plans && self.is_empty() && self.intact {
                let help = format!("add `default: AsyncBronze`, or `{}: 100, per: 1m`", self.noun);
                report.error(self.at, "clients without a plan have no limit", help.as_str());
            }
            return self.own(report);
        };
        if !self.plans {
            report.error(default.at, "`default` needs `plans: true`", "add `plans: true`");
        }
        if !self.is_empty() {
            let what = "clients without a plan have both `default` and separate limits";
            let help = format!("keep `default`, or keep `{}` and `per`", self.noun);
            report.error(default.at, what, help.as_str());
        }
        self.default_plan(default, config, report)
    }

    fn default_plan(
        &self,
        default: &Spanned<String>,
        config: &Config,
        report: &mut Report,
    ) -> Streams {
        if let Some(plan) = config.plans.get(&default.value) {
            if bounds_requests(&plan.value) && !bounds_streams(&plan.value) {
                let what = format!("the plan `{}` has no limit of events", default.value);
                report.error(default.at, what, "add `events: 100` to it, or name another");
            }
            return of_plan(plan, report);
        }
        // A plan that could not be read was already reported.
        if config.plans.has(&default.value) {
            return Streams::default();
        }
        let ready = || ready_plans(default.at);
        if let Some((name, plan)) = ready().find(|(name, _)| *name == default.value) {
            if bounds_requests(&plan.value) {
                let what = format!("the plan `{name}` has no limit of events");
                report.error(default.at, what, "name another plan, such as `AsyncBronze`");
            }
            return of_plan(&plan, report);
        }
        let known = config.plans.names().chain(ready().map(|(name, _)| name));
        let meant = report.suggest(&default.value, known);
        let what = names::unknown("plan", &default.value, meant);
        let help = "name one of the `plans`, or a built-in plan such as `AsyncBronze`";
        report.error(default.at, what, help);
        Streams::default()
    }

    /// Returns the limits written in the policy or hub itself.
    fn own(&self, report: &mut Report) -> Streams {
        let counted = self.events.map(|events| events.at).or(self.bytes.map(|bytes| bytes.at));
        let mut windows = Vec::new();
        match (counted, self.per) {
            (Some(_), Some(per)) => windows.push(Window {
                events: self.events.map(|events| u64::from(events.value.get())),
                bytes: self.bytes.map(|bytes| bytes.value.0),
                per: per.value,
            }),
            (Some(at), None) if self.intact => {
                report.error(at, "an amount needs a period", "add `per: 1m`");
            }
            (None, Some(alone)) if self.intact => {
                let help = format!("add `{}: 600`", self.noun);
                report.error(alone.at, "a period needs an amount", help.as_str());
            }
            (Some(_) | None, None) | (None, Some(_)) => {}
        }
        for window in &self.windows {
            if window.value.events.is_none() && window.value.bytes.is_none() && window.intact {
                let help = format!("add `{}: 100`", self.noun);
                report.error(window.at, "a window needs a limit", help.as_str());
            }
            windows.push(window.value);
        }
        check_count(windows.len(), self.at, report);
        Streams { windows, subscriptions: self.subscriptions }
    }
}

fn of_plan(plan: &Spanned<LimitPlan>, report: &mut Report) -> Streams {
    check(plan, report);
    let keys = &plan.value;
    let counted = keys.events.as_ref().map(|events| events.at);
    if let Some(at) = counted.or(keys.bytes.as_ref().map(|bytes| bytes.at))
        && keys.per.is_none()
        && plan.intact
    {
        report.error(at, "an amount needs a period", "add `per: 1d`");
    }
    let windows = windows_of(keys);
    check_count(windows.len(), plan.at, report);
    Streams { windows, subscriptions: keys.subscriptions.as_ref().map(|max| max.value) }
}

/// Returns the windows of a plan that count events or bytes.
pub(crate) fn windows_of(keys: &LimitPlan) -> Vec<Window> {
    let events = keys.events.as_ref().map(|events| u64::from(events.value.get()));
    let bytes = keys.bytes.as_ref().map(|bytes| bytes.value.0);
    let mut windows = Vec::new();
    if let Some(per) = &keys.per
        && (events.is_some() || bytes.is_some())
    {
        windows.push(Window { events, bytes, per: per.value });
    }
    // Harmless: a window without `events` and `bytes` limits only requests.
    windows.extend(keys.windows.iter().filter_map(|window| {
        let config::PlanWindow { events, bytes, per, .. } = &window.value;
        let (events, bytes) = (events.map(|events| events.get().into()), bytes.map(|max| max.0));
        (events.is_some() || bytes.is_some()).then_some(Window { events, bytes, per: per.value })
    }));
    windows
}

fn check_count(count: usize, at: At, report: &mut Report) {
    if count > WINDOWS_MAX {
        let what = format!("a limit can have at most {WINDOWS_MAX} windows");
        report.error(at, what, "remove those that others imply");
    }
}
