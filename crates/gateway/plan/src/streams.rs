//! The rules for a route's open streams: event streams, gRPC calls and tunnels.

use std::time::Duration;

/// Settings of the streams of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    pub reload: OnReload,
    /// How long a stream may take to end when it has to.
    pub drain: Duration,
    /// How long streams may stay with this process after an upgrade has replaced it. If absent, only the process itself limits this.
    pub upgrade: Option<Duration>,
    pub age_max: Option<Duration>,
    /// The idle timeout in both directions. If absent, it is [`IDLE_MAX`], or for tunnels the listener's timeout.
    pub idle: Option<Duration>,
}

/// The default idle timeout of an event stream or a gRPC call. A watch may be silent for minutes; one that is silent for an hour has lost
/// its peer.
pub const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The effect of a reload on the streams of a route that it changes or removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnReload {
    Keep,
    /// Streams end, unless the new plan has the route unchanged. `since` is the generation in which the route last changed.
    Close {
        since: u64,
    },
}

impl Streams {
    /// The default settings.
    pub const USUAL: Streams = Streams {
        reload: OnReload::Keep,
        drain: Duration::from_secs(30),
        upgrade: None,
        age_max: None,
        idle: None,
    };
}
