//! Open streams, in the order in which they were opened.

use std::collections::VecDeque;
use std::task::Waker;

use super::Window;
use super::reply::PendingReply;

/// The number of remembered streams that this side has reset. Frames that the peer sent on them before it received the reset are not an
/// error.
const RESET_KEPT: usize = 64;

/// One stream, from its head until both sides have finished.
pub(super) struct Stream {
    pub(super) number: u32,
    /// Whether the peer may still send.
    pub(super) is_receiving: bool,
    /// Whether the client asked for a tunnel. Then only DATA frames follow.
    pub(super) is_tunnel: bool,
    /// Received bytes that are not read yet, at most the window.
    pub(super) body: Vec<u8>,
    /// The number of bytes still to come, if the peer announced a length.
    pub(super) announced: Option<u64>,
    pub(super) trailers: Vec<u8>,
    pub(super) receive: Window,
    /// The peer's window for data from this side on this stream.
    pub(super) room: i64,
    /// Whether this side may still send. A server's stream ends once the server has finished sending, unless it is a tunnel.
    pub(super) is_sending: bool,
    /// On a client, the reply that the stream waits for.
    pub(super) reply: Option<Box<PendingReply>>,
    task: Option<Waker>,
    /// Whether the client waits for a 100 before it sends its body.
    pub(super) owes_continue: bool,
    pub(super) wants_body: bool,
    pub(super) wants_room: bool,
}

impl Stream {
    pub(super) fn new(
        number: u32,
        is_receiving: bool,
        announced: Option<u64>,
        room: i64,
        window: u32,
    ) -> Stream {
        Stream {
            number,
            is_receiving,
            is_tunnel: false,
            body: Vec::new(),
            announced,
            trailers: Vec::new(),
            receive: Window::new(window),
            room,
            is_sending: true,
            reply: None,
            task: None,
            owes_continue: false,
            wants_body: false,
            wants_room: false,
        }
    }

    pub(super) fn wait(&mut self, task: &Waker) {
        match &mut self.task {
            Some(known) => known.clone_from(task),
            None => self.task = Some(task.clone()),
        }
    }

    pub(super) fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    pub(super) fn wake_reader(&mut self) {
        if std::mem::take(&mut self.wants_body) {
            self.wake();
        }
    }

    pub(super) fn wake_writer(&mut self) {
        if std::mem::take(&mut self.wants_room) {
            self.wake();
        }
    }
}

/// The streams of a connection.
#[derive(Default)]
pub(super) struct Streams {
    open: Vec<Stream>,
    reset: VecDeque<u32>,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Stream> {
        self.open.get(self.place(number)?)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Stream> {
        let place = self.place(number)?;
        self.open.get_mut(place)
    }

    /// Returns the index of an open stream. Numbers only grow, so the streams are sorted by number.
    fn place(&self, number: u32) -> Option<usize> {
        // Harmless: the error is the place for an insertion, and a stream that is not open has no index.
        self.open.binary_search_by_key(&number, |stream| stream.number).ok()
    }

    pub(super) fn push(&mut self, stream: Stream) {
        self.open.push(stream);
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Stream> {
        let place = self.place(number)?;
        Some(self.open.remove(place))
    }

    /// Returns the numbers of open streams above `last`.
    pub(super) fn numbers_above(&self, last: u32) -> Vec<u32> {
        let numbers = self.open.iter().map(|stream| stream.number);
        numbers.filter(|number| *number > last).collect()
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Stream> {
        std::mem::take(&mut self.open).into_iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    pub(super) fn wake_writers(&mut self) {
        self.open.iter_mut().for_each(Stream::wake_writer);
    }

    pub(super) fn note_reset(&mut self, number: u32) {
        if self.reset.len() == RESET_KEPT {
            self.reset.pop_front();
        }
        self.reset.push_back(number);
    }

    /// Returns true if this side reset the stream recently.
    pub(super) fn was_reset(&self, number: u32) -> bool {
        self.reset.contains(&number)
    }
}
