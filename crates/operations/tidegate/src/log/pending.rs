//! Log records that wait to be written to standard error.
//!
//! Owns the thread that writes them while the gateway serves. A pipe whose reader has stopped accepts 64 KiB, and then blocks
//! the writer. A worker must not be blocked.

use std::io::{self, Write, stderr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The limit of waiting bytes, about 8,000 records. Further records are dropped and counted.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long the program waits at its end for the last records to be written. The reader may have stopped.
const END_MAX: Duration = Duration::from_secs(1);

static PENDING: Pending = Pending {
    state: Mutex::new(State {
        bytes: Vec::new(),
        dropped: 0,
        has_thread: false,
        is_writing: false,
    }),
    changed: Condvar::new(),
};

struct Pending {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    bytes: Vec<u8>,
    /// Records that were dropped since the last write.
    dropped: u64,
    /// Without the thread, each record is written at once.
    has_thread: bool,
    is_writing: bool,
}

/// Takes records, each in one write.
pub(super) struct Records;

impl Write for Records {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let len = record.len();
        let escaped = if super::IS_JSON.load(Relaxed) { escaped(record) } else { None };
        let record = escaped.as_deref().map_or(record, str::as_bytes);
        let mut state = PENDING.lock();
        if !state.has_thread {
            drop(state);
            return stderr().write_all(record).map(|()| len);
        }
        if state.bytes.is_empty() || state.bytes.len() + record.len() <= WAITING_BYTES_MAX {
            state.bytes.extend_from_slice(record);
            PENDING.changed.notify_all();
        } else {
            state.dropped += 1;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes characters in a JSON record that JSON allows but terminals interpret. They can only occur in texts.
fn escaped(record: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(record).ok()?;
    let is_dangerous = |c: char| c != '\n' && super::fields::is_dangerous(c);
    text.contains(is_dangerous).then(|| {
        text.chars().fold(String::new(), |mut out, c| {
            if is_dangerous(c) {
                // All of them are in the basic plane.
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            } else {
                out.push(c)
            }
            out
        })
    })
}

/// Starts the thread. From now on, logging never blocks.
pub(super) fn start() -> io::Result<()> {
    thread::Builder::new().name("log".to_owned()).spawn(write_all)?;
    PENDING.lock().has_thread = true;
    Ok(())
}

/// Waits for a while until all records are written.
pub(super) fn finish() {
    let is_busy =
        |state: &mut State| state.has_thread && (state.is_writing || !state.bytes.is_empty());
    drop(PENDING.changed.wait_timeout_while(PENDING.lock(), END_MAX, is_busy));
}

/// Writes waiting records, until the program ends.
fn write_all() {
    let mut state = PENDING.lock();
    loop {
        state.is_writing = false;
        PENDING.changed.notify_all();
        while state.bytes.is_empty() {
            state = PENDING.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writing = true;
        let (bytes, dropped) =
            (std::mem::take(&mut state.bytes), std::mem::take(&mut state.dropped));
        drop(state);
        // Harmless: there is no other place to report this failure.
        let _ = stderr().write_all(&bytes);
        if dropped > 0 {
            tracing::warn!(dropped, "records are missing here: standard error was not read");
        }
        state = PENDING.lock();
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
