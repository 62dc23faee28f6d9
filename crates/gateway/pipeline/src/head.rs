//! What a step needs of a head, a request's or a reply's, beside the head itself.

use fault::Kind;
use message::{Headers, ReplyHead, RequestHead};
use policy::{Exchange, WaitTime};

/// A head for a step: a request's or a reply's.
pub(crate) trait Head {
    /// The kind of the fault for a body that is too large to buffer.
    const TOO_LARGE: Kind;

    const IS_REPLY: bool;

    /// The sum of the time spent waiting for its body.
    fn wait(ex: &Exchange) -> &WaitTime;

    fn headers(&mut self) -> &mut Headers;

    /// True if its body may never end (an event stream).
    fn is_endless(&self) -> bool;
}

impl Head for RequestHead {
    const TOO_LARGE: Kind = Kind::BodyTooLarge;
    const IS_REPLY: bool = false;

    fn wait(ex: &Exchange) -> &WaitTime {
        &ex.totals.client_wait
    }

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn is_endless(&self) -> bool {
        false
    }
}

impl Head for ReplyHead {
    const TOO_LARGE: Kind = Kind::ReplyTooLarge;
    const IS_REPLY: bool = true;

    fn wait(ex: &Exchange) -> &WaitTime {
        &ex.totals.upstream_wait
    }

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn is_endless(&self) -> bool {
        self.is_event_stream()
    }
}
