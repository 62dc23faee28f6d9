//! `sse`: quotas and bounds for event streams.

use super::rate_limit::{LimitBy, Requests};
use crate::decode::keys;
use crate::values::{Size, Spanned, Timeout};

keys! {
    /// Counts the events of event streams (`text/event-stream`) and bounds them. Events pass whole, so that a stream always ends behind
    /// one. Other replies pass untouched.
    pub struct Sse {
        /// How many events pass in the time of `per`. At connect, 429 if none is left; a stream under way ends behind the last one.
        events: Option<Spanned<Requests>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// The key that shares the quota and the number of streams: `subject`, `client`, `header:NAME`, `route`, `operation` or
        /// `cel:EXPRESSION`, as for `rate_limit`. If absent, the subject, and the client of a request without one.
        by: Option<Spanned<LimitBy>>,
        /// The largest event. The stream ends before a larger one.
        // More than a hundred lines of text. A gateway holds this much for each stream whose event has begun.
        event_bytes_max: Size = Size(64 * 1024),
        /// The longest time without a byte of the upstream, comments included; the stream ends after. No limit if absent.
        idle: Option<Timeout>,
        /// How many streams may be open at once; 429 above. No limit if absent.
        connections: Option<Requests>,
    }
}
