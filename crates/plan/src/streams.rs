//! Rules for a route's open streams: event streams and tunnels.

use std::time::Duration;

/// Settings of the streams of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    pub reload: OnReload,
    /// The time that a stream that has to leave may take.
    pub drain: Duration,
    pub age_max: Option<Duration>,
    /// For how long nothing may pass in either direction. If absent, [`IDLE_MAX`], and for tunnels the time of the listener.
    pub idle: Option<Duration>,
}

/// The silence of an event stream or a call whose route says nothing of it. Watches are silent for minutes; one that is for an hour has
/// lost its other end.
pub const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The effect of a reload on the streams of a route that it changes or removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnReload {
    Keep,
    /// They leave, unless the new plan has the route since the same generation as this one.
    Close {
        since: u64,
    },
}

impl Streams {
    /// The settings of a route that has none.
    pub const USUAL: Streams = Streams {
        reload: OnReload::Keep,
        drain: Duration::from_secs(30),
        age_max: None,
        idle: None,
    };
}
