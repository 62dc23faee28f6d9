//! Detects whether a slow client still reads its reply.
//!
//! Whether the system accepts bytes says little about the client: the system buffers megabytes, and may then accept no more for minutes
//! although the client reads. So the system is asked how much the client has acknowledged, but only when a deadline is reached.

use std::any::Any;
use std::time::Duration;

use kit::Wire;
use kit::wire::{Delivery, delivery};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The checks during one wait for a client.
#[derive(Default)]
pub(crate) struct WriteProgress {
    /// The result of the last check.
    before: Option<Option<Delivery>>,
}

impl WriteProgress {
    /// Returns the time until the first check. It is short, since the first check only records the state that the next one compares with.
    pub(crate) fn first_look(timeout: Duration) -> Duration {
        timeout / 4
    }

    /// Begins a wait with a check now.
    pub(crate) fn since(wire: &Wire) -> WriteProgress {
        WriteProgress { before: Some(socket(wire).and_then(delivery)) }
    }

    /// True if there has been no check yet.
    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// True if the client has acknowledged anything since the last check. The first call only records the state.
    pub(crate) fn has_progressed(&mut self, wire: &Wire) -> bool {
        let now = socket(wire).and_then(delivery);
        let Some(before) = self.before.replace(now) else { return true };
        let acknowledged = |told: Option<Delivery>| told.map(|told| told.acknowledged);
        acknowledged(now) > acknowledged(before)
    }

    /// True if, at the last check, the client had not acknowledged all written bytes.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        matches!(self.before, Some(Some(told)) if !told.is_done)
    }
}

fn socket(wire: &Wire) -> Option<&TcpStream> {
    match wire {
        Wire::Plain(socket) => Some(socket),
        Wire::Wrapped(stream) => {
            let stream: &dyn Any = &**stream;
            stream.downcast_ref().map(|tls: &TlsStream<TcpStream>| tls.get_ref().0)
        }
    }
}
