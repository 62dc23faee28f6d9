//! `cache`.

use std::sync::Arc;

use config::{Cache, Decode as _, Route};
use policies::cache::{self, Settings, Store};

use crate::listeners::{bytes, count};
use crate::policy::Place;

pub(crate) fn build(keys: &Cache, place: &mut Place<'_, '_>) -> plan::Policy {
    let entry_bytes_max = bytes(keys.entry_bytes_max);
    let key = format!("cache {} {} {}", place.route, keys.encode(), destination(place.of));
    let store = place.making.kept_or(&key, || {
        let entries_max = count(keys.entries_max.get());
        Arc::new(Store::new(bytes(keys.bytes_max), entry_bytes_max, entries_max))
    });
    let Cache { ttl, stale_if_error, wait, .. } = keys.clone();
    // Only policies above this one have sent a request elsewhere when it comes here.
    let diversions = place.diversions.as_slice().into();
    cache::policy(Settings { entry_bytes_max, ttl, stale_if_error, wait, diversions }, store)
}

/// Where the route ends and as what a request gets there: what another place replied is not kept on.
fn destination(route: &Route) -> String {
    let Route { upstream, respond, strip_prefix, rewrite, host, .. } = route;
    let [upstream, strip_prefix, rewrite] =
        [upstream, strip_prefix, rewrite].map(|key| key.as_ref().map(|key| &key.value));
    let respond = respond.as_ref().map(|respond| respond.value.encode());
    format!("{upstream:?} {strip_prefix:?} {rewrite:?} {:?} {respond:?}", host.value)
}
