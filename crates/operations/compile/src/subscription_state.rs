//! The state that all `subscription` policies share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::{Report, Spanned};
use policies::subscription::{NamedPlan, PlanCounts, SubscriberMaps};

use crate::names;

/// The state that all `subscription` policies share.
#[derive(Default)]
pub(crate) struct Subscriptions {
    /// All plans by name, including predefined ones.
    pub(crate) plans: HashMap<String, Arc<NamedPlan>>,
    /// The names of plans that could not be read, which was already reported.
    pub(crate) unreadable: HashSet<String>,
    pub(crate) maps: Option<SubscriberMaps>,
    pub(crate) counts: Arc<PlanCounts>,
}

impl Subscriptions {
    /// Returns the plan of this name, or complains.
    pub(crate) fn plan(
        &self,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<Arc<NamedPlan>> {
        let found = self.plans.get(&name.value).cloned();
        if found.is_none() && !self.unreadable.contains(&name.value) {
            let meant = report.suggest(&name.value, self.plans.keys().map(String::as_str));
            let help = "name one of the `plans`, or a built-in plan such as `Gold`";
            report.error(name.at, names::unknown("plan", &name.value, meant), help);
        }
        found
    }

    /// Returns all plans, in no particular order.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &Arc<NamedPlan>> {
        self.plans.values()
    }

    pub(crate) fn maps(&self) -> SubscriberMaps {
        let none = || SubscriberMaps { live: Arc::default(), written: Arc::default() };
        self.maps.clone().unwrap_or_else(none)
    }

    pub(crate) fn counts(&self) -> Arc<PlanCounts> {
        self.counts.clone()
    }
}
