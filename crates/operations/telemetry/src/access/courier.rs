//! The thread that sends lines to a receiver on the network: it collects batches from the rings and passes them to the sink.
//!
//! While the receiver is slow or unavailable, the thread waits and retries, and the rings fill up. Lines that do not fit are
//! dropped and counted. A batch that the receiver has not accepted within [`RETRY_MAX`] is also dropped and counted.

use super::ring::{PushOutcome, Ring};
use super::writer::Inbox;
use super::{CLOSE_MAX, FLUSH_EVERY, RING_BYTES};
use crate::count::SharedCounter;
use kit::clock::{self, Instant};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The longest time that a line waits for others of its batch.
pub const BATCH_EVERY: Duration = Duration::from_secs(1);

/// The size from which a batch is sent at once. A longer line is a separate batch.
pub const BATCH_BYTES: usize = 1 << 20;

/// How long a batch is retried. It is longer than the restart of a receiver.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The first pause between attempts to send a batch. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between attempts to send a batch.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Sends lines to a receiver on the network. It runs on the log's own thread, and may block it for a bounded time.
pub trait LineSink {
    /// Sends lines, each with its line end. Returns how many of them the receiver refused.
    fn send(&mut self, lines: &[u8]) -> Result<u64, SendFailure>;
}

/// Makes a sink on the thread that will use it.
pub type OpenSink = Box<dyn FnOnce() -> io::Result<Box<dyn LineSink>> + Send>;

/// The reason why a receiver did not accept data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFailure {
    pub why: String,
    /// True if a retry may succeed.
    pub retryable: bool,
    /// The pause that the receiver asked for.
    pub pause: Option<Duration>,
}

impl SendFailure {
    /// A temporary failure.
    pub fn temporary(why: impl Into<String>) -> SendFailure {
        SendFailure { why: why.into(), retryable: true, pause: None }
    }

    /// A permanent failure.
    pub fn permanent(why: impl Into<String>) -> SendFailure {
        SendFailure { why: why.into(), retryable: false, pause: None }
    }
}

/// The pauses between attempts to send one batch.
#[derive(Debug)]
pub struct Pauses {
    began: Instant,
    next: Duration,
}

impl Pauses {
    pub fn begin() -> Pauses {
        Pauses { began: clock::now(), next: PAUSE_MIN }
    }

    /// Returns the pause after a failure, or `None` if there is no further attempt.
    pub fn after(&mut self, failure: &SendFailure) -> Option<Duration> {
        if !failure.retryable || self.began.elapsed() >= RETRY_MAX {
            return None;
        }
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(PAUSE_MAX);
        Some(failure.pause.unwrap_or(pause).min(RETRY_MAX))
    }
}

/// Lines for a receiver that do not come from workers. Dropping it sends the remaining lines without waiting.
#[derive(Debug)]
pub struct LineQueue {
    rings: Arc<[Ring]>,
    inbox: Arc<Inbox>,
}

impl LineQueue {
    /// Starts the thread. Lines that the receiver does not accept are counted in `dropped`.
    pub fn start(name: &str, open: OpenSink, dropped: Arc<SharedCounter>) -> io::Result<LineQueue> {
        let rings: Arc<[Ring]> = std::iter::once(Ring::new(RING_BYTES)).collect();
        let inbox = Courier::start(name, open, rings.clone(), dropped)?;
        Ok(LineQueue { rings, inbox })
    }

    /// Adds a line. Returns false if there is no space.
    pub fn push(&mut self, line: &str) -> bool {
        let line = format!("{line}\n");
        match self.rings.first().map_or(PushOutcome::Full, |ring| ring.push(line.as_bytes())) {
            PushOutcome::Kept => true,
            PushOutcome::HalfFull => {
                self.inbox.wake();
                true
            }
            PushOutcome::Full => false,
        }
    }

    /// Sends the remaining lines and ends the thread. Returns false if the receiver did not accept them within [`CLOSE_MAX`].
    pub fn close(self) -> bool {
        self.inbox.close();
        self.inbox.wait_closed(CLOSE_MAX)
    }
}

impl Drop for LineQueue {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

/// The state of the thread.
pub(super) struct Courier {
    name: String,
    sink: Box<dyn LineSink>,
    rings: Arc<[Ring]>,
    inbox: Arc<Inbox>,
    dropped: Arc<SharedCounter>,
    batch: Vec<u8>,
    /// The time at which the batch got its first line.
    began: Option<Instant>,
    /// True if the last attempt failed. This is logged once, not for each batch.
    failing: bool,
}

impl Courier {
    /// Starts the thread and makes the sink on it.
    pub(super) fn start(
        name: &str,
        open: OpenSink,
        rings: Arc<[Ring]>,
        dropped: Arc<SharedCounter>,
    ) -> io::Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        let (opened, receive_opened) = sync_channel(1);
        let (name, of_thread) = (name.to_owned(), inbox.clone());
        let body = move || {
            let Some(sink) = report_opened(open(), &opened) else { return };
            let courier = Courier {
                name,
                sink,
                rings,
                inbox: of_thread,
                dropped,
                batch: Vec::new(),
                began: None,
                failing: false,
            };
            courier.run()
        };
        let thread = thread::Builder::new().name("access-log".into()).spawn(body)?;
        inbox.set_thread(thread.thread());
        match receive_opened.recv() {
            Ok(opened) => opened.map(|()| inbox),
            Err(_) => Err(io::Error::other("its thread has ended")),
        }
    }

    fn run(mut self) {
        loop {
            // Read before the rings are emptied, so that lines from before the close are sent.
            let closing = self.inbox.is_closing();
            self.gather();
            if self.is_due(closing) {
                self.deliver();
            } else if closing {
                return self.inbox.set_closed();
            } else {
                thread::park_timeout(FLUSH_EVERY);
            }
        }
    }

    /// Takes lines from the rings until the batch is large enough.
    fn gather(&mut self) {
        for ring in &*self.rings {
            if self.batch.len() < BATCH_BYTES {
                ring.take(&mut self.batch);
            }
        }
        if !self.batch.is_empty() {
            self.began.get_or_insert_with(clock::now);
        }
    }

    fn is_due(&self, closing: bool) -> bool {
        let waited = self.began.map(|began| began.elapsed());
        waited.is_some_and(|waited| {
            closing || self.batch.len() >= BATCH_BYTES || waited >= BATCH_EVERY
        })
    }

    fn deliver(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.began = None;
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            let (piece, after) = split_at_line_end(rest);
            self.send(piece);
            rest = after;
        }
        // The memory is kept for the next batch.
        self.batch = batch;
        self.batch.clear();
    }

    /// Sends a piece, with retries if they may help, and counts lost lines.
    fn send(&mut self, piece: &[u8]) {
        let mut pauses = Pauses::begin();
        loop {
            match self.sink.send(piece) {
                Ok(refused) => {
                    self.dropped.add(refused);
                    self.failing = false;
                    return;
                }
                Err(failure) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        let (why, to) = (&failure.why, &self.name);
                        tracing::error!(to, "lines of the log cannot be sent: {why}");
                    }
                    let was_closing = self.inbox.is_closing();
                    let pause = pauses.after(&failure).filter(|_| !was_closing);
                    let Some(pause) = pause else { return self.dropped.add(count(piece)) };
                    self.wait(pause);
                }
            }
        }
    }

    /// Waits for a time, or until the log is closed. Workers may wake the thread early, because a ring is half full.
    fn wait(&self, pause: Duration) {
        let until = clock::now() + pause;
        while !self.inbox.is_closing() {
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

/// Reports whether the sink could be made, and returns it.
fn report_opened(
    opened: io::Result<Box<dyn LineSink>>,
    to: &SyncSender<io::Result<()>>,
) -> Option<Box<dyn LineSink>> {
    let (sink, result) = match opened {
        Ok(sink) => (Some(sink), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Harmless: the starting thread waits for this message.
    let _ = to.send(result);
    sink
}

/// Splits off the first lines that fit into a batch.
fn split_at_line_end(lines: &[u8]) -> (&[u8], &[u8]) {
    if lines.len() <= BATCH_BYTES {
        return (lines, &[]);
    }
    let first = lines.get(..BATCH_BYTES).unwrap_or(lines);
    let end = first.iter().rposition(|byte| *byte == b'\n');
    // One line is longer than a batch.
    let end = end.or_else(|| lines.iter().position(|byte| *byte == b'\n'));
    lines.split_at_checked(end.map_or(lines.len(), |at| at + 1)).unwrap_or((lines, &[]))
}

fn count(lines: &[u8]) -> u64 {
    let ends = lines.iter().filter(|byte| **byte == b'\n').count();
    u64::try_from(ends).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_end_with_a_line() {
        let line = |bytes: usize| [vec![b'x'; bytes - 1], vec![b'\n']].concat();
        for (lengths, first) in [
            (vec![10, 20], 30),
            (vec![BATCH_BYTES - 5, 5, 5], BATCH_BYTES),
            (vec![BATCH_BYTES - 5, 6], BATCH_BYTES - 5),
            (vec![BATCH_BYTES + 7, 6], BATCH_BYTES + 7),
        ] {
            let lines: Vec<u8> = lengths.iter().flat_map(|bytes| line(*bytes)).collect();
            let (piece, rest) = split_at_line_end(&lines);
            assert_eq!((piece.len(), rest.len()), (first, lines.len() - first), "{lengths:?}");
        }
    }
}
