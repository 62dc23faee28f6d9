//! `sse`: quotas and bounds for event streams.

use std::time::Duration;

use super::rate_limit::{LimitBy, Requests};
use crate::decode::{keys, words};
use crate::values::{Between, OneOrMore, Size, Spanned, Timeout};

keys! {
    /// Counts and limits the events of event streams (`text/event-stream`). Events are passed as a whole, so that a stream always ends
    /// after a complete event. Other replies pass unchanged.
    pub struct Sse {
        /// How many events pass in the time of `per`. If none is left, a new stream gets 429; an open stream ends after the last one.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events pass in the time of `per`, likewise.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `1s` or `1m`. It begins with its first event.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which apply, such as `[{ events: 10, per: 1s }, { bytes: 1GiB, per: 1d }]`.
        windows: Vec<Spanned<EventWindow>> = Vec::new(),
        /// Whether the limits of the client's plan apply, as in the section `plans`; those written here are for clients without one.
        plans: bool = false,
        /// The plan of clients without one, such as `AsyncBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Shares quotas with other gateways, through one of the `stores`.
        shared: Option<Spanned<String>>,
        /// The key that shares the quota and the number of streams: `subject`, `client`, `header:NAME`, `route`, `operation` or
        /// `cel:EXPRESSION`, as for `rate_limit`. If absent, the subject, and the client of a request without one; with `plans`, the
        /// subscription, if there is one.
        by: Option<Spanned<LimitBy>>,
        /// The largest event. The stream is cut before a larger one, so that it does not look complete.
        // Some language models send a whole answer as one event. The gateway holds up to this much for each stream with an incomplete
        // event.
        event_bytes_max: Spanned<Size> = Spanned::unwritten(Size(1024 * 1024)),
        /// The longest time without data from the upstream, including comments. Then the stream ends. No limit if absent.
        idle: Option<Timeout>,
        /// How many streams may be open at once; 429 above. No limit if absent.
        connections: Option<Requests>,
        /// Opens one stream of the upstream for all clients that ask for the same.
        share: Option<Spanned<SseShare>>,
    }
}

keys! {
    /// A maximum number of events, and bytes of events, per time.
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
        /// What clients must have in common to share a stream: `path`, the path and query that are sent to the upstream.
        by: ShareBy = ShareBy::Path,
        /// How many events are kept, for clients that reconnect with `Last-Event-ID` and for slow ones.
        replay: Between<1, 1_000_000> = const { Between::new(1_000) },
        /// What happens to a client whose next event is no longer kept: `drop` ends its stream, `skip` continues with the oldest event that
        /// is kept.
        // A client whose stream ends reconnects with its last id, and knows that it has missed events.
        slow: SlowClient = SlowClient::Drop,
        /// How long the stream stays open without a client; `0s` closes it at once.
        linger: Duration = Duration::from_secs(10),
        /// Headers of clients that are sent to the upstream. Clients with different values get different streams.
        headers: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
    }
}

words! {
    /// What clients of a shared stream have in common.
    pub enum ShareBy {
        /// The path and query that are sent to the upstream.
        Path = "path",
    }
}

words! {
    /// What happens to a client that falls behind.
    pub enum SlowClient {
        /// Its stream ends.
        Drop = "drop",
        /// It continues with the oldest event that is kept.
        Skip = "skip",
    }
}
