//! Limits by plan, and those of clients on none.

use std::collections::HashMap;

use policy::Exchange;

/// Limits by the plan of whoever asks.
#[derive(Debug)]
pub struct Tiers<T> {
    /// The first is for whoever is on no plan.
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

    /// The limits of whoever asks, with their number.
    pub(crate) fn of(&self, ex: &Exchange) -> Option<(usize, &T)> {
        let plan = if self.by_plan.is_empty() { None } else { ex.plan() };
        // The limits of whoever has no plan are the first.
        let index = plan.and_then(|plan| self.by_plan.get(plan)).copied().unwrap_or(0);
        Some((index, self.get(index)?))
    }

    /// True if clients' plans count.
    pub(crate) fn has_plans(&self) -> bool {
        !self.by_plan.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.all.get(index)
    }
}
