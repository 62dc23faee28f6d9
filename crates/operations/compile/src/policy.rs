//! The scope in which a policy is built: its route and its position there.

use config::Config;
use plan::{Slots, UNKNOWN_OPERATION};

use crate::policy_builder::PolicyBuilder;

/// The scope in which a policy is built.
pub(crate) struct RouteScope<'a, 'p> {
    /// The route's name.
    pub(crate) route: &'a str,
    pub(crate) config: &'a Config,
    /// The route itself, as written.
    pub(crate) of: &'a config::Route,
    pub(crate) builder: &'a mut PolicyBuilder<'p>,
    /// Names of the upstreams that policies of the route may divert to. Policies store the index.
    pub(crate) diversions: &'a mut Vec<String>,
    /// Operations that policies of the route distinguish. Policies store the index.
    pub(crate) operations: &'a mut Vec<String>,
    /// The slots in which policies keep state between their request step and their response step.
    pub(crate) slots: &'a mut Slots,
    /// The index of the policy in the route's list.
    pub(crate) at: usize,
}

impl RouteScope<'_, '_> {
    /// Returns the index of an operation in the route's list. A new operation is added to the list.
    pub(crate) fn operation(&mut self, name: &str) -> u32 {
        let known = self.operations.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.operations.push(name.to_owned());
            self.operations.len() - 1
        });
        u32::try_from(index).unwrap_or(UNKNOWN_OPERATION)
    }

    /// Returns the index of an upstream in the route's diversions. A new upstream is added to them.
    pub(crate) fn diversion(&mut self, upstream: &str) -> usize {
        let known = self.diversions.iter().position(|name| name == upstream);
        known.unwrap_or_else(|| {
            self.diversions.push(upstream.to_owned());
            self.diversions.len() - 1
        })
    }
}
