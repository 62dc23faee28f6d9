//! `concurrency`.

use config::{Concurrency, Decode as _, Report};
use policies::concurrency::{self, ConcurrencySettings};
use policies::permits::Permits;

use super::rate_limit::by;
use crate::policy::RouteScope;

pub(crate) fn build(
    keys: &Concurrency,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let key = format!("concurrency {} {}", place.route, keys.encode());
    let places = place.builder.kept_or(&key, || std::sync::Arc::new(Permits::default()));
    let settings = ConcurrencySettings {
        requests: keys.requests.get(),
        by: by(&keys.by, report),
        wait: keys.wait,
    };
    concurrency::policy(settings, places, place.slots)
}
