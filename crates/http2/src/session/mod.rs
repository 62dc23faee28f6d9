//! One connection: what a client may send when, what is kept for its streams, what is to be written.

mod receive;
mod send;
mod stream;

use std::task::Waker;

use crate::block::Head;
use crate::hpack::Decoder;
use crate::{Code, Error, frame};
use receive::Unfinished;
use stream::{Stream, Streams};

/// What a client begins with (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Receive windows. Large enough that an upload does not wait for the round trip, small enough that a thousand stalled
/// streams do not fill the memory.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What both windows are before anybody has said anything (6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// No window may be larger (6.9.1).
const WINDOW_MAX: i64 = 0x7fff_ffff;

/// What may wait to be written. More is not asked for, of streams or of the client, until some of it is gone.
const UNSENT_BYTES_MAX: usize = 128 * 1024;

/// What a buffer keeps of its memory while nothing is in it.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// Streams that the client may have reset at once (CVE-2023-44487): a browser that leaves a page resets a hundred.
const RESETS_MAX: u32 = 256;

/// So many streams that end allow one more reset. What one of them costs is next to nothing, and what a reset one has begun at an
/// upstream may go on there; a client that gives up one call in eight is a slow service's.
const ENDS_PER_RESET: u32 = 8;

/// So many more it may reset each second, whatever ends.
pub const RESETS_PER_SECOND: u32 = 32;

/// Frames that carry nothing, one after the other without a [`Session::rest`].
const FRUITLESS_MAX: u32 = 10_000;

/// What is asked for when nobody else is let in any more, so that requests under way are known to have arrived.
const LAST_CALL: [u8; 8] = *b"last one";

/// What a listener allows.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Open at once.
    pub streams_max: u32,
    /// Names and values of one head, and 32 bytes a line.
    pub head_bytes_max: usize,
}

/// What one frame came to.
#[derive(Debug)]
pub struct Read {
    /// Bytes of the input that it took.
    pub len: usize,
    pub event: Event,
}

/// What a frame means to the connection's loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing, or something for a stream's task, which has been woken.
    Nothing,
    /// A new stream; its head is in the block that was given.
    Request { stream: u32, head: Head },
}

/// Bytes of a request's body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// There were some, appended.
    More,
    /// And they were the last; these are the trailers, in HTTP/1's form.
    End(Vec<u8>),
    /// There are none yet.
    None,
    /// The stream was reset.
    Gone,
}

/// The state of one connection.
pub struct Session {
    config: Config,
    decoder: Decoder,
    begun: Begun,
    /// A block of header lines whose end has not come.
    unfinished: Option<Unfinished>,
    streams: Streams,
    /// Of the streams that the client opened, the last, and the last that was let in.
    last_opened: u32,
    last_stream: u32,
    receive: Window,
    /// What the client has left for us, over all streams.
    room: i64,
    /// What it gives to a new stream.
    room_first: i64,
    out: Vec<u8>,
    sent: usize,
    /// The client's table was told to be empty.
    forgot: bool,
    /// Of what the client may reset, what it has; in parts, of which one reset has [`ENDS_PER_RESET`].
    resets: u32,
    fruitless: u32,
    leaving: Leaving,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Begun {
    Nothing,
    Preface,
    Settings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client was told, and asked for a sign that it has read it.
    Announced,
    /// Streams after the last are not begun.
    Refusing,
}

/// What we still take, and what was read of it and not given back.
struct Window {
    left: i64,
    used: u32,
    size: u32,
}

impl Window {
    fn new(size: u32) -> Window {
        Window { left: i64::from(size), used: 0, size }
    }

    /// False if the peer sent more than it may.
    fn take(&mut self, len: u32) -> bool {
        self.left -= i64::from(len);
        self.left >= 0
    }

    /// What to give back, once it is worth a frame.
    fn give(&mut self, len: u32) -> Option<u32> {
        self.used += len;
        if self.used < self.size / 2 {
            return None;
        }
        self.left += i64::from(self.used);
        Some(std::mem::take(&mut self.used))
    }
}

impl Session {
    /// Begins a connection: the first thing to write is what we allow.
    pub fn new(config: Config) -> Session {
        let mut session = Session {
            config,
            decoder: Decoder::default(),
            begun: Begun::Nothing,
            unfinished: None,
            streams: Streams::default(),
            last_opened: 0,
            last_stream: 0,
            receive: Window::new(CONNECTION_WINDOW),
            room: i64::from(FIRST_WINDOW),
            room_first: i64::from(FIRST_WINDOW),
            out: Vec::new(),
            sent: 0,
            forgot: false,
            resets: 0,
            fruitless: 0,
            leaving: Leaving::No,
        };
        session.say_settings();
        session
    }

    fn say_settings(&mut self) {
        const MAX_CONCURRENT_STREAMS: u16 = 0x3;
        const INITIAL_WINDOW_SIZE: u16 = 0x4;
        const MAX_HEADER_LIST_SIZE: u16 = 0x6;
        let settings = [
            (MAX_CONCURRENT_STREAMS, self.config.streams_max),
            (INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (MAX_HEADER_LIST_SIZE, u32::try_from(self.config.head_bytes_max).unwrap_or(u32::MAX)),
        ];
        frame::begin(&mut self.out, settings.len() * 6, frame::kind::SETTINGS, 0, 0);
        for (name, value) in settings {
            self.out.extend_from_slice(&name.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        let more = CONNECTION_WINDOW - FIRST_WINDOW;
        frame::word(&mut self.out, frame::kind::WINDOW_UPDATE, 0, more);
    }

    /// Streams that have not ended.
    pub fn open(&self) -> usize {
        self.streams.len()
    }

    /// The client has said how it speaks.
    pub fn has_begun(&self) -> bool {
        self.begun == Begun::Settings
    }

    /// Header lines have begun whose end has not come.
    pub fn is_within_head(&self) -> bool {
        self.unfinished.is_some()
    }

    /// What is to be written.
    pub fn unsent(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// So much more of it was written. Streams that waited for room go on.
    pub fn sent(&mut self, len: usize) {
        self.sent += len;
        if self.sent < self.out.len() {
            // A peer that takes little at a time, and is given more each time, may never have taken all.
            if self.sent >= UNSENT_BYTES_MAX / 2 {
                self.out.drain(..self.sent);
                self.sent = 0;
            }
            return;
        }
        self.sent = 0;
        empty(&mut self.out);
        self.streams.wake_writers();
    }

    /// How much more may wait to be written.
    fn space(&self) -> usize {
        UNSENT_BYTES_MAX.saturating_sub(self.unsent().len())
    }

    /// Memory that is held for what is to be written.
    pub fn held_bytes(&self) -> usize {
        self.out.capacity()
    }

    /// Enough waits to be written.
    pub fn is_full(&self) -> bool {
        self.space() == 0
    }

    /// Time has passed: frames without a use are counted anew.
    pub fn rest(&mut self) {
        self.fruitless = 0;
    }

    /// Whether there is something to forgive.
    pub fn has_resets(&self) -> bool {
        self.resets > 0
    }

    /// Forgives resets, as time passes.
    pub fn forgive(&mut self, resets: u32) {
        self.resets = self.resets.saturating_sub(resets.saturating_mul(ENDS_PER_RESET));
    }

    /// The client had a stream reset, by its own word or by what it did to it.
    fn count_reset(&mut self) {
        self.resets = self.resets.saturating_add(ENDS_PER_RESET);
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) {
        frame::ping(&mut self.out, 0, *b"tidegate");
    }

    /// Says that the connection will end (6.8). What the client sends until it has read that is still served.
    pub fn leave(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::goaway(&mut self.out, 0x7fff_ffff, Code::NO_ERROR, "");
            frame::ping(&mut self.out, 0, LAST_CALL);
        }
    }

    /// Lets no stream begin any more; those that are open end in their time.
    pub fn refuse(&mut self) {
        if self.leaving != Leaving::Refusing {
            self.leaving = Leaving::Refusing;
            frame::goaway(&mut self.out, self.last_stream, Code::NO_ERROR, "");
        }
    }

    /// The client was told to go, or is going by itself.
    pub fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// Nothing will come any more: every stream has ended, and no other may begin.
    pub fn is_over(&self) -> bool {
        self.leaving == Leaving::Refusing && self.streams.len() == 0
    }

    /// Ends all streams, and says why.
    pub fn fail(&mut self, error: &Error) {
        frame::goaway(&mut self.out, self.last_stream, error.code, error.why);
        self.abandon();
    }

    /// Ends all streams: there is nobody to say anything to.
    pub fn abandon(&mut self) {
        self.streams.take_all().for_each(|stream| stream.wake());
    }

    /// The stream is as it was: neither reset nor at its end.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some()
    }

    /// Remembers whom to wake when the stream is reset, has bytes or room, where it was found without.
    pub fn wait(&mut self, stream: u32, task: &Waker) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.wait(task);
        }
    }

    fn find(&mut self, stream: u32) -> Option<&mut Stream> {
        self.streams.get_mut(stream)
    }
}

fn empty(buffer: &mut Vec<u8>) {
    match buffer.capacity() > KEPT_BYTES_MAX {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}
