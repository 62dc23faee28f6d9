//! Compiles the steps that keep state between messages: `throttle`, `cache` and `wire_tap`. A reload keeps the state of unchanged steps.

use std::sync::Arc;

use ::flows::{Action, Cache, TapPermits, Throttle, WireTap};
use config::{
    CacheCookies, CacheStep, Decode as _, LimitBy, NamedStep, RateLimit, Spanned, WireTapStep,
};
use expression::Kind;
use policies::cache::{self, StepCache, StepCacheSettings, Store};
use policies::rate_limit;

use super::steps::{StepKind, StepPlace};
use super::{Compiler, Namespaces};
use crate::listeners::{bytes, count};
use crate::policies::rate_limit::{BuiltLimit, LimitPlace, limit};

impl StepKind for RateLimit {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.throttle(self, place.step)))
    }
}

impl StepKind for CacheStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.cache(self, place.namespaces, place.depth)?))
    }
}

impl StepKind for WireTapStep {
    fn action<'a>(
        &'a self,
        place: &StepPlace<'a, '_>,
        compiler: &mut Compiler<'a, '_>,
    ) -> Option<Box<dyn Action>> {
        Some(Box::new(compiler.wire_tap(self, place)?))
    }
}

impl<'a> Compiler<'a, '_> {
    /// Compiles a `throttle`, which has the keys of the policy `rate_limit`. Without `by`, all messages of the step share one count; with
    /// `plans`, each subject has its own.
    fn throttle(&mut self, keys: &RateLimit, step: &Spanned<NamedStep>) -> Throttle {
        if let Some(cost) = &keys.cost {
            let what = "a step `throttle` counts messages; it sees no reply with their cost";
            self.report.error(cost.at, what, "remove `cost`, or use the policy `rate_limit`");
        }
        let whose = self.name_of("throttle", &keys.encode().to_string());
        let mut place = LimitPlace {
            config: self.config,
            builder: &mut *self.builder,
            kind: "step",
            whose: &whose,
            by: if keys.plans { LimitBy::Subject } else { LimitBy::Route },
            at: step.at,
            intact: step.intact,
        };
        let BuiltLimit { settings, counts, shared } = limit(keys, &mut place, self.report);
        let by_route = keys.by.as_ref().is_some_and(|by| by.value == LimitBy::Route);
        Throttle(rate_limit::step(settings, counts, shared, by_route))
    }

    fn cache(
        &mut self,
        keys: &'a CacheStep,
        namespaces: &Namespaces,
        depth: usize,
    ) -> Option<Cache> {
        let name = self.name_of("cache", &keys.encode().to_string());
        let key = self.template(&keys.key, Kind::Key, namespaces);
        let steps = self.inner("steps", &keys.steps, namespaces, depth);
        let methods = self.methods(keys.methods.as_deref());
        let entry_bytes_max = bytes(keys.entry_bytes_max);
        let (bytes_max, entries_max) = (bytes(keys.bytes_max), count(keys.entries_max.get()));
        let store = self.builder.reuse_or_build(&name, || {
            Arc::new(Store::new(bytes_max, entry_bytes_max, entries_max))
        });
        let key = key?;
        let settings = StepCacheSettings {
            ttl: keys.ttl.0,
            ttl_statuses: cache::TTL_STATUSES.into(),
            entry_bytes_max,
            methods: methods?,
            ignores_cookies: keys.cookies == CacheCookies::Ignore,
            ignores_credentials: keys.credentials == CacheCookies::Ignore,
            key: self.table.parts_of(&key),
        };
        Some(Cache { key, steps: steps?, kept: Arc::new(StepCache { settings, store }) })
    }

    fn methods(&mut self, written: Option<&[Spanned<String>]>) -> Option<Option<Box<[Box<str>]>>> {
        let Some(written) = written else { return Some(None) };
        let methods: Vec<Option<_>> =
            written.iter().map(|method| crate::names::method(method, self.report)).collect();
        let methods = methods.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Some(methods.into_iter().map(Into::into).collect()))
    }

    fn wire_tap(&mut self, keys: &'a WireTapStep, place: &StepPlace<'a, '_>) -> Option<WireTap> {
        let StepPlace { step, namespaces, depth } = *place;
        if keys.steps.0.is_empty() && step.intact {
            let help = "add steps, such as `steps: [{ call: audit }]`";
            self.report.error(step.at, "`wire_tap` needs steps", help);
        }
        let name = self.name_of("wire_tap", &keys.encode().to_string());
        let permits = self.builder.reuse_or_build(&name, || Arc::new(TapPermits::default()));
        let (timeout, flow) = (self.flow_timeout(), self.under_way.last().copied());
        let steps = self.inner("steps", &keys.steps, namespaces, depth)?;
        let flow = flow.unwrap_or("").into();
        Some(WireTap { steps, max: count(keys.max.get()), timeout, flow, permits })
    }

    /// Returns a name that identifies a stateful step, independent of its position in the flow.
    fn name_of(&mut self, step: &str, keys: &str) -> String {
        let flow = self.under_way.last().copied().unwrap_or("");
        let name = format!("{step} of flow {flow} {keys}");
        let number = self.equal.entry(name.clone()).or_default();
        *number += 1;
        format!("{name} {number}")
    }
}
