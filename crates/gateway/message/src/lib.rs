//! Requests and replies in transit through the gateway: the head is kept as the raw bytes received, and the body is pulled.
//!
//! A head is its bytes plus offsets. An edit appends a line to the same bytes. There is no header map: building one costs more than
//! routing the request. A body is buffered only if a step needs it, and with a bound.
#![forbid(unsafe_code)]

mod body;
mod chunk;
mod content_lines;
mod direct;
mod event_stream;
mod head;
mod headers;
mod media_type;
mod outgoing;
mod room;
mod upgrade;
mod view;
mod weighted;

pub use body::{Body, Fill, GatheredBody, Source, Trailers};
pub use chunk::Chunk;
pub use content_lines::ignores_content;
pub use direct::{DirectBytes, DirectWriter};
pub use event_stream::{Block, EventScanner};
pub use head::{Protocol, ReplyHead, RequestHead, host_name};
pub use headers::{DecidedNames, Headers, InvalidLine, Names, WholeLine, with_lines};
pub use media_type::{is_json, media_type};
pub use outgoing::{CopyError, Outgoing, WriteTarget};
pub use room::{no_room, room};
pub use upgrade::Upgrade;
pub use view::View;
pub use weighted::weighted;

use kit::Wire;

/// A request on its way to the upstream.
pub struct Request {
    pub head: RequestHead,
    pub body: Body,
}

/// A reply on its way to the client.
pub struct Reply {
    pub head: ReplyHead,
    pub body: Body,
    /// For a 101: the upgraded connection, to be joined with the client's connection.
    pub tunnel: Option<Box<Tunnel>>,
}

/// An upgraded connection to the upstream.
pub struct Tunnel {
    pub wire: Wire,
    /// Bytes of the new protocol that arrived together with the 101.
    pub first_bytes: Vec<u8>,
    /// Whatever must live as long as the tunnel, such as counts and permits.
    pub guards: Option<Box<dyn std::any::Any>>,
}

/// The maximum size of a value that is moved without a call of `memcpy`. These calls accounted for 2% of the instructions of a request.
const MOVED_BYTES_MAX: usize = 128;
const _: () = assert!(size_of::<Request>() <= MOVED_BYTES_MAX);
const _: () = assert!(size_of::<Reply>() <= MOVED_BYTES_MAX);

impl Reply {
    /// Makes a reply of the gateway itself, with a body in memory.
    pub fn new(status: u16, body: Body) -> Reply {
        Reply { head: ReplyHead::new(status), body, tunnel: None }
    }
}
