//! Starts the background work of an upstream: the discovery of its targets, and the work for each of them.

use std::sync::Arc;

use crate::settings::Targets;
use crate::{Upstream, discovery, health};

/// Starts the background work of an upstream on this thread's runtime.
pub fn maintain(upstream: &Arc<Upstream>) {
    for member in upstream.targets().members() {
        health::keep_up(upstream, &member.target);
    }
    if !matches!(upstream.settings.targets, Targets::Fixed(_)) {
        kit::spawn(discovery::discover(Arc::downgrade(upstream)));
    }
}
