//! Requests and replies as they pass through the gateway: a head kept as the raw bytes it came in, and a body that is
//! pulled.
//!
//! A head is its bytes plus offsets, looked up lazily; an edit appends a line to the same bytes. There is no header map
//! on the HTTP/1 path: parsing into one costs more than routing the request. A body is never gathered here unless
//! somebody asks, with a bound.
#![forbid(unsafe_code)]

mod body;
mod head;
mod headers;
mod media_type;
mod outgoing;

pub use body::{Body, Fill, Gathered, Source, Trailers};
pub use head::{Protocol, ReplyHead, RequestHead};
pub use headers::{Decided, Headers, InvalidLine, with_lines};
pub use media_type::{is_json, media_type};
pub use outgoing::{Broken, Outgoing, Outlet};

use kit::Wire;

/// A request on its way down.
pub struct Request {
    pub head: RequestHead,
    pub body: Body,
}

/// A reply on its way up.
pub struct Reply {
    pub head: ReplyHead,
    pub body: Body,
    /// Set on a 101: the stream that both sides are joined through from here on.
    pub tunnel: Option<Box<Tunnel>>,
}

/// An upgraded connection to the upstream.
pub struct Tunnel {
    pub wire: Wire,
    /// Bytes of the new protocol that arrived together with the 101.
    pub early: Vec<u8>,
    /// Whatever must live as long as the tunnel (counts, places in a breaker).
    pub held: Option<Box<dyn std::any::Any>>,
}

/// What is larger is not moved in registers but copied by a call wherever it is moved, which was every fiftieth instruction of a
/// request.
const MOVED_BYTES_MAX: usize = 128;
const _: () = assert!(size_of::<Request>() <= MOVED_BYTES_MAX);
const _: () = assert!(size_of::<Reply>() <= MOVED_BYTES_MAX);

impl Reply {
    /// A reply made here, with a body that is at hand.
    pub fn new(status: u16, body: Body) -> Reply {
        Reply { head: ReplyHead::new(status), body, tunnel: None }
    }
}
