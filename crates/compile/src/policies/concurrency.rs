//! `concurrency`.

use config::{Concurrency, Decode as _, Report};
use policies::concurrency::{self, Places, Settings};

use super::rate_limit::by;
use crate::policy::Place;

pub(crate) fn build(
    keys: &Concurrency,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let key = format!("concurrency {} {}", place.route, keys.encode());
    let places = place.making.kept_or(&key, || std::sync::Arc::new(Places::default()));
    let settings =
        Settings { requests: keys.requests.get(), by: by(&keys.by, report), wait: keys.wait };
    concurrency::policy(settings, places, place.slots)
}
