//! The access log: one line for each exchange.
//!
//! A worker formats its line into memory of its own thread and copies it into its own ring. One thread empties the rings into
//! the sink, at the latest [`FLUSH_EVERY`] later; lines for a receiver on the network are collected for up to [`BATCH_EVERY`]. A worker
//! never waits for the sink: if its ring is full, the line is dropped and counted. Values of a request are escaped in every format, so
//! no request can end a line, forge one, or send control characters to a terminal.

mod courier;
mod field;
mod format;
mod ring;
mod template;
mod writer;

#[cfg(test)]
mod tests;

pub use courier::{BATCH_BYTES, BATCH_EVERY, LineQueue, LineSink, OpenSink, Pauses, SendFailure};
pub use field::Field;
pub use template::{Template, TemplateError};

use crate::Telemetry;
use crate::count::SharedCounter;
use crate::names::Total;
use crate::span::SpanIds;
use courier::Courier;
use grpc::Outcome;
use ring::{PushOutcome, Ring};
use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use writer::{Inbox, Writer};

/// The longest delay of a line until the thread takes it from the ring. Operators who watch the log do not notice it.
pub const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// How long the program waits at its end for the last lines to be written.
pub const CLOSE_MAX: Duration = Duration::from_secs(2);

/// Memory for one worker's unwritten lines: about 3,000 lines, which is 30 ms of full load.
pub const RING_BYTES: usize = 1 << 20;

/// The content of one line. Text from a peer is bytes, since it was not validated.
#[derive(Debug, Clone, Copy)]
pub struct AccessEntry<'a> {
    /// The beginning of the request, since the Unix epoch (`kit::clock::wall`).
    pub time: Duration,
    /// The client's address: that of the peer, or the one that a trusted proxy has sent.
    pub client: IpAddr,
    pub method: &'a [u8],
    pub host: Option<&'a [u8]>,
    /// The request target as received.
    pub path: &'a [u8],
    /// `HTTP/1.1`, `HTTP/2`.
    pub protocol: &'static str,
    pub status: u16,
    pub request_bytes: u64,
    pub reply_bytes: u64,
    pub duration: Duration,
    /// The part of the duration spent waiting for upstreams.
    pub upstream_wait: Duration,
    /// The part of the duration spent waiting for the client to take the reply.
    pub client_wait: Duration,
    pub route: Option<&'a str>,
    pub upstream: Option<&'a str>,
    /// The address of the target.
    pub upstream_target: Option<&'a str>,
    pub request_id: Option<&'a [u8]>,
    /// The span of the exchange, if there are traces.
    pub trace: Option<SpanIds>,
    pub user_agent: Option<&'a [u8]>,
    /// `TLSv1.3`; `None` on a plain connection.
    pub tls: Option<&'static str>,
    /// The label of the fault's kind.
    pub fault: Option<&'static str>,
    /// The fault's cause, for operators.
    pub cause: Option<&'a str>,
    /// The operation that was called, if a policy distinguishes operations.
    pub operation: Option<&'a str>,
    /// The label of the call's SOAP fault.
    pub soap_fault: Option<&'static str>,
    /// The name of the client identity.
    pub subject: Option<&'a str>,
    /// Retries: the attempts after the first of each call.
    pub retries: u32,
    /// Events that passed, if a policy counts them.
    pub events: Option<u64>,
    /// The label of the reason for which a policy ended the stream.
    pub stream_end: Option<&'static str>,
    /// The end of a call of gRPC.
    pub grpc_status: Option<Outcome>,
    /// Configured fields by name. Only lines in JSON have them.
    pub extra: &'a [(&'a str, ExtraValue<'a>)],
}

/// The value of a configured field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraValue<'a> {
    /// Text from any source.
    Text(&'a [u8]),
    Number(u64),
    Boolean(bool),
}

impl AccessEntry<'_> {
    /// The gateway's own part of the duration.
    fn own(&self) -> Duration {
        self.duration.saturating_sub(self.upstream_wait).saturating_sub(self.client_wait)
    }
}

/// The format of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, with every field.
    Json,
    Template(Template),
}

/// The destination of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    Stdout,
    Stderr,
    /// Appended to; created if it does not exist.
    File(PathBuf),
}

/// A running access log. Dropping it writes the remaining lines and ends its thread, without waiting for it.
#[derive(Debug)]
pub struct AccessLog {
    format: Format,
    rings: Arc<[Ring]>,
    inbox: Arc<Inbox>,
    dropped: Arc<SharedCounter>,
}

thread_local! {
    /// The line being formatted. It grows to the longest line of the thread and is reused.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AccessLog {
    /// Opens the sink and starts the thread that writes to it.
    pub fn start(format: Format, sink: Sink, telemetry: &Telemetry) -> io::Result<AccessLog> {
        let (rings, dropped) = (rings(telemetry), telemetry.total(Total::AccessLogDropped));
        let inbox = Writer::start(sink, rings.clone(), dropped.clone())?;
        Ok(AccessLog { format, rings, inbox, dropped })
    }

    /// Starts the thread that sends the lines to a receiver on the network. `name` is the receiver's address, for the program's log.
    /// Nothing is connected yet.
    pub fn start_sending(
        format: Format,
        name: &str,
        open: OpenSink,
        telemetry: &Telemetry,
    ) -> io::Result<AccessLog> {
        let (rings, dropped) = (rings(telemetry), telemetry.total(Total::AccessLogDropped));
        let inbox = Courier::start(name, open, rings.clone(), dropped.clone())?;
        Ok(AccessLog { format, rings, inbox, dropped })
    }

    /// Writes one line for a worker. Only that worker may call this for its index, since its ring has one writer.
    pub fn write(&self, worker: usize, entry: &AccessEntry<'_>) {
        LINE.with_borrow_mut(|line| {
            line.clear();
            self.format.write(entry, line);
            line.push(b'\n');
            match self.rings.get(worker).map_or(PushOutcome::Full, |ring| ring.push(line)) {
                PushOutcome::Kept => {}
                PushOutcome::HalfFull => self.inbox.wake(),
                PushOutcome::Full => self.dropped.add(1),
            }
        });
    }

    /// Reopens the file after it was renamed. Earlier lines go to the old file.
    pub fn reopen(&self) {
        self.inbox.reopen();
    }

    /// Writes the remaining lines and ends the thread. Returns false if the sink did not accept them within [`CLOSE_MAX`].
    pub fn close(self) -> bool {
        self.inbox.close();
        self.inbox.wait_closed(CLOSE_MAX)
    }
}

/// A ring for each worker.
fn rings(telemetry: &Telemetry) -> Arc<[Ring]> {
    (0..telemetry.workers()).map(|_| Ring::new(RING_BYTES)).collect()
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl Format {
    fn write(&self, entry: &AccessEntry<'_>, line: &mut Vec<u8>) {
        match self {
            Format::Json => format::json(entry, line),
            Format::Template(template) => template.write(entry, line),
        }
    }
}
