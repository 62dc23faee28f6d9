//! `control`: one configuration for several gateways.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, Percent, Spanned};

keys! {
    /// One configuration for several gateways.
    pub struct SharedControl {
        /// `store`: a change made on one gateway goes to all that share its store.
        follow: Spanned<ControlSource>,
        /// How many gateways try a change, the one where it was made among them, before the others take it. 0: all take it at once.
        canary: Between<0, 64> = const { Between::new(1) },
        /// How long they try it.
        // Long enough for most routes to have had requests, and short enough to wait for.
        hold: Duration = Duration::from_secs(60),
        /// By how much the share of requests that end in a server error may rise meanwhile. If it rises more, the change is withdrawn.
        error_rate: Percent = const { Percent::of(1) },
    }
}

words! {
    /// Where the configuration of all gateways is.
    pub enum ControlSource {
        /// In the store.
        Store = "store",
    }
}
