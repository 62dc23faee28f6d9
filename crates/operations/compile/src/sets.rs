//! Expands `policy_sets` and `defaults` into the policy lists that use them, before anything else is compiled. Later stages see each
//! route's policies as if they had been written there. Each policy keeps its place in the set, so a complaint points at the shared policy.

use std::borrow::Cow;
use std::collections::HashSet;

use config::{Config, Map, Policy, Report, Spanned};

use crate::names;

/// The maximum number of policies that sets and defaults add to all routes together, such as 40 policies on each of 5,000 routes. Without a
/// bound, a small file that uses large sets many times could expand to any size.
const POLICIES_MAX: usize = 200_000;

/// Returns the configuration with all sets and defaults expanded.
pub(crate) fn expand<'c>(config: &'c Config, report: &mut Report) -> Cow<'c, Config> {
    if config.policy_sets.is_empty() && config.defaults.policies.is_empty() && !uses_any(config) {
        return Cow::Borrowed(config);
    }
    let mut sets = Sets { sets: &config.policy_sets, used: HashSet::new(), placed: 0, report };
    sets.refuse_nested();
    let defaults = sets.place(&config.defaults.policies);
    let mut all = config.clone();
    // Harmless: `all` is a copy of `config`, so `zip` drops none.
    for ((_, route), placed) in config.routes.iter().zip(all.routes.values_mut()) {
        let own = sets.place(&route.value.policies);
        let above = if route.value.defaults { defaults.as_slice() } else { &[] };
        placed.value.policies = sets.join(above, own);
    }
    // Harmless: `all` is a copy of `config`, so `zip` drops none.
    for ((_, api), placed) in config.apis.iter().zip(all.apis.values_mut()) {
        let own = sets.place(&api.value.policies);
        let above = if api.value.defaults { defaults.as_slice() } else { &[] };
        placed.value.policies = sets.join(above, own);
    }
    sets.warn_of_unused();
    Cow::Owned(all)
}

fn uses_any(config: &Config) -> bool {
    let routes = config.routes.iter().map(|(_, route)| &route.value.policies);
    let apis = config.apis.iter().map(|(_, api)| &api.value.policies);
    let mut policies = routes.chain(apis).flat_map(|policies| policies.iter());
    policies.any(|policy| matches!(policy.value, Policy::NamedSet(_)))
}

struct Sets<'c, 'r> {
    sets: &'c Map<Vec<Spanned<Policy>>>,
    used: HashSet<&'c str>,
    /// The number of policies that were added to routes so far.
    placed: usize,
    report: &'r mut Report,
}

impl<'c> Sets<'c, '_> {
    fn refuse_nested(&mut self) {
        for (_, set) in self.sets.iter() {
            for policy in set {
                if let Policy::NamedSet(name) = &policy.value {
                    let what = "a policy set cannot use another";
                    let help = format!("use both on the route, `{}` first", name.0.value);
                    self.report.error(policy.at, what, help);
                }
            }
        }
    }

    /// Returns a list in which each set is replaced by its policies.
    fn place(&mut self, policies: &'c [Spanned<Policy>]) -> Vec<Spanned<Policy>> {
        let mut placed = Vec::with_capacity(policies.len());
        for policy in policies {
            let Policy::NamedSet(name) = &policy.value else {
                placed.push(policy.clone());
                continue;
            };
            let name = &name.0;
            let Some(set) = self.sets.get(&name.value) else {
                // A set that could not be read was already reported.
                if !self.sets.has(&name.value) {
                    let meant = self.report.suggest(&name.value, self.sets.names());
                    let what = names::unknown("policy set", &name.value, meant);
                    self.report.error(name.at, what, "name one of the `policy_sets`");
                }
                continue;
            };
            self.used.insert(&name.value);
            if self.fits(set.len(), name) {
                let own = |policy: &&Spanned<Policy>| !matches!(policy.value, Policy::NamedSet(_));
                placed.extend(set.iter().filter(own).cloned());
            }
        }
        placed
    }

    fn join(
        &mut self,
        above: &[Spanned<Policy>],
        mut own: Vec<Spanned<Policy>>,
    ) -> Vec<Spanned<Policy>> {
        if let Some(first) = above.first() {
            let at = Spanned { value: String::new(), at: first.at, intact: true };
            if self.fits(above.len(), &at) {
                own.splice(..0, above.iter().cloned());
            }
        }
        own
    }

    /// Counts added policies. Returns false if there are more than [`POLICIES_MAX`], and complains about that once.
    fn fits(&mut self, more: usize, named: &Spanned<String>) -> bool {
        let before = self.placed;
        self.placed = self.placed.saturating_add(more);
        if self.placed > POLICIES_MAX && before <= POLICIES_MAX {
            let what = format!("more than {POLICIES_MAX} policies on all routes together");
            self.report.error(named.at, what, "use fewer sets on fewer routes");
        }
        self.placed <= POLICIES_MAX
    }

    fn warn_of_unused(&mut self) {
        for (name, _) in
            self.sets.iter().filter(|(name, _)| !self.used.contains(name.value.as_str()))
        {
            let what = format!("nothing uses the policy set `{}`", name.value);
            self.report.warn(name.at, what, "remove it, or write `- use: NAME` in a route");
        }
    }
}
