//! `cache`.

use std::sync::Arc;

use config::{Cache, Decode as _};
use policies::cache::{self, Settings, Store};

use crate::listeners::{bytes, count};
use crate::policy::Place;

pub(crate) fn build(keys: &Cache, place: &mut Place<'_, '_>) -> plan::Policy {
    let entry_bytes_max = bytes(keys.entry_bytes_max);
    let key = format!("cache {} {}", place.route, keys.encode());
    let store = place.making.kept_or(&key, || {
        let entries_max = count(keys.entries_max.get());
        Arc::new(Store::new(bytes(keys.bytes_max), entry_bytes_max, entries_max))
    });
    let Cache { ttl, stale_if_error, wait, .. } = keys.clone();
    let settings = Settings { entry_bytes_max, ttl, stale_if_error, wait };
    cache::policy(settings, store)
}
