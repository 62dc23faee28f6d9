//! `sse`: quotas and bounds for event streams.

use std::time::Duration;

use super::rate_limit::{LimitBy, Requests};
use crate::decode::{keys, words};
use crate::values::{Between, OneOrMore, Size, Spanned, Timeout};

keys! {
    /// Counts the events of event streams (`text/event-stream`) and bounds them. Events pass whole, so that a stream always ends after
    /// one. Other replies pass untouched.
    pub struct Sse {
        /// How many events pass in the time of `per`. At connect, 429 if none is left; an open stream ends after the last one.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events pass in the time of `per`, likewise.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `1s` or `1m`. It begins with its first event.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which have to hold, such as `[{ events: 10, per: 1s }, { bytes: 1GiB, per: 1d }]`.
        windows: Vec<Spanned<EventWindow>> = Vec::new(),
        /// Whether the limits of the client's plan apply, as in the section `plans`; those written here are for clients without one.
        plans: bool = false,
        /// The plan of clients without one, such as `AsyncBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Shares quotas with other gateways, through one of the `stores`.
        shared: Option<Spanned<String>>,
        /// The key that shares the quota and the number of streams: `subject`, `client`, `header:NAME`, `route`, `operation` or
        /// `cel:EXPRESSION`, as for `rate_limit`. If absent, the subject, and the client of a request without one.
        by: Option<Spanned<LimitBy>>,
        /// The largest event. The stream is cut before a larger one, so that it does not look complete.
        // Models send whole answers as one event. A gateway holds this much for each stream whose event has begun.
        event_bytes_max: Spanned<Size> = Spanned::unwritten(Size(1024 * 1024)),
        /// The longest time without a byte of the upstream, comments included; the stream ends after. No limit if absent.
        idle: Option<Timeout>,
        /// How many streams may be open at once; 429 above. No limit if absent.
        connections: Option<Requests>,
        /// Opens one stream of the upstream for all clients that ask for the same.
        share: Option<Spanned<SseShare>>,
    }
}

keys! {
    /// At most this many events, and bytes of events, in this time.
    pub struct EventWindow {
        /// How many events pass in the time of `per`.
        events: Option<Requests>,
        /// How many bytes of events pass in the time of `per`.
        bytes: Option<Size>,
        /// The time, such as `1s` or `1m`.
        per: Timeout,
    }
}

keys! {
    /// One stream of the upstream for many clients.
    pub struct SseShare {
        /// What clients have to have in common: `path`, the path and query as the upstream sees them.
        by: ShareBy = ShareBy::Path,
        /// How many events are kept, for clients that come back with `Last-Event-ID` and for slow ones.
        replay: Between<1, 1_000_000> = const { Between::new(1_000) },
        /// What becomes of a client whose next event is not kept any more: `drop` ends its stream, `skip` goes on with the oldest event that
        /// is kept.
        // A client that is told comes back with its last id, and knows that it missed something.
        slow: SlowClient = SlowClient::Drop,
        /// How long the stream stays open without a client; `0s` closes it at once.
        linger: Duration = Duration::from_secs(10),
        /// Headers of clients that the upstream sees. Clients with other values have a stream of their own.
        headers: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
    }
}

words! {
    /// What clients of a shared stream have in common.
    pub enum ShareBy {
        /// The path and query as the upstream sees them.
        Path = "path",
    }
}

words! {
    /// The fate of a client that falls behind.
    pub enum SlowClient {
        /// Its stream ends.
        Drop = "drop",
        /// It goes on with the oldest event that is kept.
        Skip = "skip",
    }
}
