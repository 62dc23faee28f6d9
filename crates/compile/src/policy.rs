//! The place of a policy, for those that build it.

use config::Config;
use plan::{Slots, UNKNOWN_OPERATION};

use crate::policy_builder::PolicyBuilder;

/// The place of a policy on its route.
pub(crate) struct RouteScope<'a, 'p> {
    /// The route's name.
    pub(crate) route: &'a str,
    pub(crate) config: &'a Config,
    /// The route itself, as written.
    pub(crate) of: &'a config::Route,
    pub(crate) builder: &'a mut PolicyBuilder<'p>,
    /// Names of the upstreams that policies of the route may send an exchange to; a policy notes the index.
    pub(crate) diversions: &'a mut Vec<String>,
    /// Operations that policies of the route tell apart; a policy notes the index.
    pub(crate) operations: &'a mut Vec<String>,
    /// The slots in which policies keep state between their sides.
    pub(crate) slots: &'a mut Slots,
    /// Its index among the route's policies.
    pub(crate) at: usize,
}

impl RouteScope<'_, '_> {
    /// The index of an operation among the route's.
    pub(crate) fn operation(&mut self, name: &str) -> u32 {
        let known = self.operations.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.operations.push(name.to_owned());
            self.operations.len() - 1
        });
        u32::try_from(index).unwrap_or(UNKNOWN_OPERATION)
    }

    /// The index of an upstream among the route's diversions.
    pub(crate) fn diversion(&mut self, upstream: &str) -> usize {
        let known = self.diversions.iter().position(|name| name == upstream);
        known.unwrap_or_else(|| {
            self.diversions.push(upstream.to_owned());
            self.diversions.len() - 1
        })
    }
}
