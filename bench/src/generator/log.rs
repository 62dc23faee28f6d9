//! JMeter's log of samples (CSV, `.jtl`), written while the load runs.

use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::outcome::ErrorKind;
use super::recorder::Sample;

/// The log of all threads.
pub(super) struct LogFile {
    file: Mutex<File>,
    started: Duration,
}

/// The log of one thread.
pub(super) struct SampleLog<'f> {
    file: &'f LogFile,
    lines: Vec<u8>,
    failed: Option<String>,
}

const HEADER: &[u8] = b"timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads\n";
/// Size at which lines are written. A system call for each line would cost more than the request.
const LINES_BYTES: usize = 64 << 10;

impl LogFile {
    pub(super) fn new(mut file: File, started: Duration) -> Result<LogFile, String> {
        file.write_all(HEADER).map_err(|error| error.to_string())?;
        Ok(LogFile { file: Mutex::new(file), started })
    }

    pub(super) fn of_thread(&self) -> SampleLog<'_> {
        SampleLog { file: self, lines: Vec::with_capacity(LINES_BYTES + 1024), failed: None }
    }
}

impl SampleLog<'_> {
    pub(super) fn write(&mut self, label: &str, user: u64, users: usize, sample: &Sample) {
        if self.failed.is_some() {
            return;
        }
        let begin = (self.file.started + sample.begin).as_millis();
        let elapsed = sample.end.saturating_sub(sample.begin).as_millis();
        let code = sample.status.map(|status| status.to_string());
        let (message, is_good) = match sample.result {
            Ok(()) => ("", true),
            Err(kind) => (kind.name(), false),
        };
        let Sample { received_bytes, sent_bytes, .. } = sample;
        let line = writeln!(
            self.lines,
            "{begin},{elapsed},{},{},{},Users 1-{},text,{is_good},{message},{received_bytes},{sent_bytes},{users},{users}",
            field(label),
            code.as_deref().unwrap_or("Non HTTP response code"),
            if is_good { "OK" } else { message },
            user + 1,
        );
        debug_assert!(line.is_ok());
        if self.lines.len() >= LINES_BYTES {
            self.flush();
        }
    }

    /// Writes the remaining lines. Returns an error if the log is incomplete.
    pub(super) fn finish(mut self) -> Option<String> {
        self.flush();
        self.failed
    }

    fn flush(&mut self) {
        let mut file = self.file.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&self.lines) {
            self.failed = Some(error.to_string());
        }
        self.lines.clear();
    }
}

impl ErrorKind {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Connect => "connection refused or not opened",
            ErrorKind::ConnectTimeout => "connection not opened in time",
            ErrorKind::Tls => "TLS failed",
            ErrorKind::ResponseTimeout => "reply not whole in time",
            ErrorKind::Closed => "connection closed before the whole reply",
            ErrorKind::Protocol => "reply is not HTTP or too large",
            ErrorKind::Status => "status is not the expected one",
            ErrorKind::Content => "header or body is not the expected one",
        }
    }

    /// Returns true if a complete reply was received.
    pub(super) fn has_reply(self) -> bool {
        matches!(self, ErrorKind::Status | ErrorKind::Content)
    }
}

/// Returns a field, in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
