//! One connection: the limits of the peer, the state of its streams, and the output.

mod client;
mod receive;
mod reply;
mod send;
mod stream;
mod tunnel;

use std::task::Waker;

use crate::block::Head;
use crate::hpack::Decoder;
use crate::{Code, Error, frame};
use client::EndedStream;
pub use client::{RequestLine, StreamFailure};
use receive::PartialBlock;
use stream::{Stream, Streams};

/// The connection preface: the first bytes that a client sends (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Receive windows. They are large enough that an upload does not wait for round trips, and small enough that a thousand stalled streams do
/// not fill the memory.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The initial size of the connection's and each stream's window (6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// The maximum size of a window (6.9.1).
const WINDOW_MAX: i64 = 0x7fff_ffff;

/// The maximum number of unsent output bytes. Beyond it, neither streams nor the peer are read until some of it is written.
const UNSENT_BYTES_MAX: usize = 128 * 1024;

/// The maximum capacity that an empty buffer keeps.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// The number of resets that a client may make in a burst (CVE-2023-44487). A browser that leaves a page may reset a hundred streams.
const RESETS_MAX: u32 = 256;

/// The number of completed streams that offset one reset. It is greater than one, since a completed stream may have been cheap, while the
/// upstream may continue to work on a reset one. A client of a slow service may legitimately cancel one call in eight.
const ENDS_PER_RESET: u32 = 8;

/// The number of additional resets allowed per second.
pub const RESETS_PER_SECOND: u32 = 32;

/// The maximum number of consecutive frames that neither open a stream nor carry data, such as PING or SETTINGS. [`Session::rest`] resets
/// the count.
const FRAMES_WITHOUT_PROGRESS_MAX: u32 = 10_000;

/// The payload of the PING sent at a graceful shutdown. Its answer shows that all earlier requests have arrived.
const SHUTDOWN_PING: [u8; 8] = *b"last one";

/// The limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The maximum number of open streams.
    pub streams_max: u32,
    /// The maximum size of one head: its names and values, plus 32 bytes per header line.
    pub head_bytes_max: usize,
}

/// The result of reading one frame.
#[derive(Debug)]
pub struct ReadOutcome {
    /// The number of input bytes consumed.
    pub len: usize,
    pub event: Event,
}

/// The effect of a frame on the connection loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The caller has nothing to do. If the frame concerned a stream, its task was woken.
    Nothing,
    /// A new stream. Its header lines are in the block that was passed to [`Session::read`].
    Request { stream: u32, head: Head },
}

/// The result of reading a stream's body.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Bytes were appended, and more may follow.
    More,
    /// The last bytes were appended. The value is the trailers in HTTP/1 form.
    End(Vec<u8>),
    /// No bytes have arrived yet.
    None,
    /// The stream was reset.
    Gone,
}

/// The state of one side of a connection.
pub struct Session {
    config: Config,
    side: Side,
    decoder: Decoder,
    preface_state: PrefaceState,
    /// An incomplete block of header lines.
    unfinished: Option<PartialBlock>,
    streams: Streams,
    /// The number of the last stream that the client opened.
    last_opened: u32,
    /// The number of the last stream that this side accepted, for GOAWAY.
    last_stream: u32,
    receive: Window,
    /// The number of bytes that this side may still send on the connection.
    room: i64,
    /// The number of bytes that this side may send on a new stream.
    room_first: i64,
    out: Vec<u8>,
    sent: usize,
    /// Whether the peer was told that this side compresses heads without a dynamic table.
    table_size_sent: bool,
    /// Resets counted against the client. Each reset adds [`ENDS_PER_RESET`], and each completed stream subtracts 1.
    resets: u32,
    /// The number of consecutive frames that neither opened a stream nor carried data.
    frames_without_progress: u32,
    leaving: ShutdownState,
    /// The number of streams that the server allows to be open.
    streams_allowed: u32,
    /// Streams that have ended but that the caller has not closed yet, with the unread parts of their replies.
    lost: Vec<EndedStream>,
}

/// Which side of the connection this session is. The meaning of some frames depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

/// How much of the peer's preface has been read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum PrefaceState {
    Nothing,
    Preface,
    Settings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ShutdownState {
    No,
    /// GOAWAY was sent, followed by a PING that the client has not answered yet.
    Announced,
    /// No further streams are accepted.
    Refusing,
}

/// A receive window.
struct Window {
    /// The number of bytes that the peer may still send.
    left: i64,
    /// The number of bytes that were read but not yet returned to the peer.
    used: u32,
    size: u32,
}

impl Window {
    fn new(size: u32) -> Window {
        Window { left: i64::from(size), used: 0, size }
    }

    /// Charges received bytes. Returns false if the peer has exceeded the window.
    fn charge(&mut self, len: u32) -> bool {
        self.left -= i64::from(len);
        self.left >= 0
    }

    /// Counts bytes that were read. Once they are half of the window, returns their number for a WINDOW_UPDATE.
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
    /// Creates the server's side of a connection. The first output is the server's SETTINGS.
    pub fn new(config: Config) -> Session {
        let mut session = Session::with_side(config, Side::Server, CONNECTION_WINDOW);
        session.write_settings();
        session
    }

    fn with_side(config: Config, side: Side, window: u32) -> Session {
        Session {
            config,
            side,
            decoder: Decoder::default(),
            preface_state: PrefaceState::Nothing,
            unfinished: None,
            streams: Streams::default(),
            last_opened: 0,
            last_stream: 0,
            receive: Window::new(window),
            room: i64::from(FIRST_WINDOW),
            room_first: i64::from(FIRST_WINDOW),
            out: Vec::new(),
            sent: 0,
            table_size_sent: false,
            resets: 0,
            frames_without_progress: 0,
            leaving: ShutdownState::No,
            streams_allowed: u32::MAX,
            lost: Vec::new(),
        }
    }

    fn write_settings(&mut self) {
        match self.side {
            Side::Server => {
                let settings = self.server_settings();
                self.write_setting_frames(&settings);
            }
            Side::Client => {
                let settings = self.client_settings();
                self.write_setting_frames(&settings);
            }
        }
    }

    fn write_setting_frames(&mut self, settings: &[(u16, u32)]) {
        frame::begin(&mut self.out, settings.len() * 6, frame::kind::SETTINGS, 0, 0);
        for (name, value) in settings {
            self.out.extend_from_slice(&name.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        let more = self.receive.size - FIRST_WINDOW;
        frame::word(&mut self.out, frame::kind::WINDOW_UPDATE, 0, more);
    }

    fn server_settings(&self) -> [(u16, u32); 4] {
        const MAX_CONCURRENT_STREAMS: u16 = 0x3;
        const INITIAL_WINDOW_SIZE: u16 = 0x4;
        const MAX_HEADER_LIST_SIZE: u16 = 0x6;
        const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
        let head = u32::try_from(self.config.head_bytes_max).unwrap_or(u32::MAX);
        [
            (MAX_CONCURRENT_STREAMS, self.config.streams_max),
            (INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (MAX_HEADER_LIST_SIZE, head),
            (ENABLE_CONNECT_PROTOCOL, 1),
        ]
    }

    /// Returns the number of open streams.
    pub fn open(&self) -> usize {
        self.streams.len()
    }

    /// Returns true if the peer's settings have arrived.
    pub fn has_begun(&self) -> bool {
        self.preface_state == PrefaceState::Settings
    }

    /// Returns true if a block of header lines is incomplete.
    pub fn is_within_head(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Returns the unsent output.
    pub fn unsent(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// Records that `len` bytes of the output were written. Once all of it is written, wakes the streams that wait for room.
    pub fn sent(&mut self, len: usize) {
        self.sent += len;
        if self.sent < self.out.len() {
            // With a slow peer, the output may never become empty, so written bytes are removed earlier.
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

    /// Returns the number of bytes that may still be added to the output.
    fn space(&self) -> usize {
        UNSENT_BYTES_MAX.saturating_sub(self.unsent().len())
    }

    /// Returns the memory that the output occupies, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.out.capacity()
    }

    /// Returns true if the output is full.
    pub fn is_full(&self) -> bool {
        self.space() == 0
    }

    /// Resets the count that is limited by `FRAMES_WITHOUT_PROGRESS_MAX`. The caller does this from time to time.
    pub fn rest(&mut self) {
        self.frames_without_progress = 0;
    }

    /// Returns true if resets are counted against the client.
    pub fn has_resets(&self) -> bool {
        self.resets > 0
    }

    /// Reduces the count of resets. The caller does this as time passes: see [`RESETS_PER_SECOND`].
    pub fn reset_flood_count(&mut self, resets: u32) {
        self.resets = self.resets.saturating_sub(resets.saturating_mul(ENDS_PER_RESET));
    }

    /// Counts a reset that the client has sent, or has caused by an error.
    fn count_reset(&mut self) {
        self.resets = self.resets.saturating_add(ENDS_PER_RESET);
    }

    /// Sends a PING.
    pub fn ping(&mut self) {
        frame::ping(&mut self.out, 0, *b"tidegate");
    }

    /// Announces that the connection will end (6.8). Requests that the client sends before it has read the announcement are still served.
    pub fn leave(&mut self) {
        if self.leaving == ShutdownState::No {
            self.leaving = ShutdownState::Announced;
            frame::goaway(&mut self.out, 0x7fff_ffff, Code::NO_ERROR, "");
            frame::ping(&mut self.out, 0, SHUTDOWN_PING);
        }
    }

    /// Accepts no further streams. Open streams may finish.
    pub fn refuse(&mut self) {
        if self.leaving != ShutdownState::Refusing {
            self.leaving = ShutdownState::Refusing;
            frame::goaway(&mut self.out, self.last_stream, Code::NO_ERROR, "");
        }
    }

    /// Returns true if either side has announced the end of the connection.
    pub fn is_leaving(&self) -> bool {
        self.leaving != ShutdownState::No
    }

    /// Returns true if the connection is finished: all streams have ended, and no other may begin.
    pub fn is_over(&self) -> bool {
        self.leaving == ShutdownState::Refusing && self.streams.len() == 0
    }

    /// Ends all streams, and sends the reason to the peer.
    pub fn fail(&mut self, error: &Error) {
        frame::goaway(&mut self.out, self.last_stream, error.code, error.why);
        self.abandon();
    }

    /// Ends all streams without output: the peer has disconnected, or a GOAWAY with an error is already queued.
    pub fn abandon(&mut self) {
        match self.side {
            Side::Server => self.streams.take_all().for_each(|stream| stream.wake()),
            Side::Client => self.lose_all(),
        }
    }

    /// Returns true if the stream has neither been reset nor ended.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some()
    }

    /// Registers the task to wake when the stream is reset, has received bytes or has room to send.
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
    if buffer.capacity() > KEPT_BYTES_MAX { *buffer = Vec::new() } else { buffer.clear() }
}
