//! `control`: one configuration for several gateways.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, Percent, Spanned};

keys! {
    /// One configuration for several gateways.
    pub struct SharedControl {
        /// `store`: a change on one gateway is applied to all gateways that share its store.
        follow: Spanned<ControlSource>,
        /// How many gateways, including the one where the change was made, try a change before the others adopt it. With 0, all adopt it at
        /// once.
        canary: Between<0, 64> = const { Between::new(1) },
        /// How long these gateways try it.
        // Long enough for most routes to have had requests, and short enough to wait for.
        hold: Duration = Duration::from_secs(60),
        /// By how much the share of requests that end in a server error may rise during this time. If it rises more, the change is
        /// reverted.
        error_rate: Percent = const { Percent::of(1) },
    }
}

words! {
    /// Where the configuration of all gateways is kept.
    pub enum ControlSource {
        /// In the store.
        Store = "store",
    }
}
