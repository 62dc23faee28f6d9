//! Limits by plan, and those of clients without a plan.

use std::collections::HashMap;

use policy::Exchange;

/// Limits by the client's plan.
#[derive(Debug)]
pub struct Tiers<T> {
    /// The limits. The first is for clients without a plan.
    all: Vec<T>,
    by_plan: HashMap<Box<str>, usize>,
}

impl<T> Tiers<T> {
    pub fn new(otherwise: T, plans: Vec<(Box<str>, T)>) -> Tiers<T> {
        let mut tiers = Tiers { all: vec![otherwise], by_plan: HashMap::new() };
        for (name, tier) in plans {
            tiers.by_plan.insert(name, tiers.all.len());
            tiers.all.push(tier);
        }
        tiers
    }

    /// Returns the limits of the client, with their index.
    pub(crate) fn of(&self, ex: &Exchange) -> Option<(usize, &T)> {
        let plan = if self.by_plan.is_empty() { None } else { ex.plan() };
        // The limits of clients without a plan are the first.
        let index = plan.and_then(|plan| self.by_plan.get(plan)).copied().unwrap_or(0);
        Some((index, self.get(index)?))
    }

    /// Returns true if there are limits by plan.
    pub(crate) fn has_plans(&self) -> bool {
        !self.by_plan.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.all.get(index)
    }
}
