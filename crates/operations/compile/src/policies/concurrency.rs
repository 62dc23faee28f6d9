//! Compiles `concurrency`.

use config::{Concurrency, Decode as _, Report};
use policies::concurrency::{self, ConcurrencySettings};
use policies::permits::Permits;

use super::rate_limit::by;
use super::{Facts, PolicyKind, PolicyPlace, counts, counts_identity};
use crate::policy::RouteScope;

impl PolicyKind for Concurrency {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let key = format!("concurrency {} {}", place.route, self.encode());
        let places = place.builder.reuse_or_build(&key, || std::sync::Arc::new(Permits::default()));
        let settings = ConcurrencySettings {
            requests: self.requests.get(),
            by: by(&self.by, report),
            wait: self.wait,
        };
        concurrency::policy(settings, places, place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: counts_identity(&self.by.value),
            counts: counts(Some(&self.by.value)),
            ..Facts::NONE
        }
    }
}
