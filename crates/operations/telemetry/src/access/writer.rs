//! The thread that writes lines: it empties the rings into the sink and sleeps. It may block, since nobody waits for it.

use super::ring::Ring;
use super::{FLUSH_EVERY, Sink};
use crate::count::SharedCounter;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Requests to the writer.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    closing: AtomicBool,
    reopening: AtomicBool,
    closed: Mutex<bool>,
    closes: Condvar,
    thread: OnceLock<Thread>,
}

/// The state of the thread.
pub(super) struct Writer {
    sink: Sink,
    out: Out,
    rings: Arc<[Ring]>,
    inbox: Arc<Inbox>,
    dropped: Arc<SharedCounter>,
    lines: Vec<u8>,
    /// True if the last write failed. This is logged once, not for each batch.
    failing: bool,
}

/// The opened sink.
enum Out {
    Stdout(io::Stdout),
    Stderr(io::Stderr),
    File(File),
}

impl Writer {
    /// Opens the sink and starts the thread. It is a thread instead of a task, since a full disk or a stopped reader of
    /// standard output blocks it, and our runtimes must never block.
    pub(super) fn start(
        sink: Sink,
        rings: Arc<[Ring]>,
        dropped: Arc<SharedCounter>,
    ) -> io::Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        let out = Out::open(&sink)?;
        let writer = Writer {
            sink,
            out,
            rings,
            inbox: inbox.clone(),
            dropped,
            lines: Vec::new(),
            failing: false,
        };
        let thread = thread::Builder::new().name("access-log".into()).spawn(|| writer.run())?;
        inbox.set_thread(thread.thread());
        Ok(inbox)
    }

    fn run(mut self) {
        loop {
            // Read before the rings are emptied, so that lines from before the close are written.
            let closing = self.inbox.is_closing();
            // Earlier lines belong to the old file, so the rings are emptied first.
            let reopening = self.inbox.reopening.swap(false, Acquire);
            let wrote = self.empty();
            if reopening {
                self.reopen();
            }
            if closing {
                return self.inbox.set_closed();
            }
            if !wrote {
                thread::park_timeout(FLUSH_EVERY);
            }
        }
    }

    /// Writes the lines in the rings. Returns false if there were none.
    fn empty(&mut self) -> bool {
        let mut count = 0;
        for ring in &*self.rings {
            count += ring.take(&mut self.lines);
        }
        if count == 0 {
            return false;
        }
        let result = self.out.write(&self.lines);
        self.lines.clear();
        self.note(result, count);
        true
    }

    /// Counts lines that could not be written, and logs the failure once until writing works again.
    fn note(&mut self, result: io::Result<()>, count: u64) {
        match result {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.dropped.add(count);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(%error, sink = ?self.sink, "the access log cannot be written");
                }
            }
        }
    }

    fn reopen(&mut self) {
        match Out::open(&self.sink) {
            Ok(out) => self.out = out,
            Err(error) => {
                tracing::error!(%error, sink = ?self.sink, "the access log could not be reopened; the old file stays in use");
            }
        }
    }
}

impl Out {
    fn open(sink: &Sink) -> io::Result<Out> {
        Ok(match sink {
            Sink::Stdout => Out::Stdout(io::stdout()),
            Sink::Stderr => Out::Stderr(io::stderr()),
            Sink::File(path) => Out::File(OpenOptions::new().create(true).append(true).open(path)?),
        })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            // Rust flushes standard output at line ends, but all lines of one call are one write.
            Out::Stdout(out) => {
                let mut out = out.lock();
                out.write_all(lines)?;
                out.flush()
            }
            Out::Stderr(out) => out.lock().write_all(lines),
            Out::File(out) => out.write_all(lines),
        }
    }
}

impl Inbox {
    /// Sets the thread to wake.
    pub(super) fn set_thread(&self, thread: &Thread) {
        self.thread.get_or_init(|| thread.clone());
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    /// Wakes the writer to empty the rings now.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub(super) fn reopen(&self) {
        self.reopening.store(true, Release);
        self.wake();
    }

    pub(super) fn close(&self) {
        if !self.closing.swap(true, Release) {
            self.wake();
        }
    }

    /// Waits until the last line is written. Returns false if that takes too long.
    pub(super) fn wait_closed(&self, max: Duration) -> bool {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closes.wait_timeout_while(closed, max, |closed| !*closed);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn set_closed(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closes.notify_all();
    }
}
