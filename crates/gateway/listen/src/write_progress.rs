//! The progress of a slow client that still takes its reply.
//!
//! That the system takes bytes says little: it holds megabytes, and may take no more for minutes while the client reads
//! on. So the system is asked what the client acknowledged, when a deadline comes and not before.

use std::any::Any;
use std::time::Duration;

use kit::Wire;
use kit::wire::{Delivery, delivery};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Looks at one wait for a client.
#[derive(Default)]
pub(crate) struct WriteProgress {
    /// The finding of the last look.
    before: Option<Option<Delivery>>,
}

impl WriteProgress {
    /// When to look first: there is nothing to compare that with, so it is soon.
    pub(crate) fn first_look(timeout: Duration) -> Duration {
        timeout / 4
    }

    /// A wait that has been looked at.
    pub(crate) fn since(wire: &Wire) -> WriteProgress {
        WriteProgress { before: Some(socket(wire).and_then(delivery)) }
    }

    /// Nobody has looked yet.
    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// True if the client has acknowledged anything since the last look. The first only looks.
    pub(crate) fn goes_on(&mut self, wire: &Wire) -> bool {
        let now = socket(wire).and_then(delivery);
        let Some(before) = self.before.replace(now) else { return true };
        let acknowledged = |told: Option<Delivery>| told.map(|told| told.acknowledged);
        acknowledged(now) > acknowledged(before)
    }

    /// True if bytes that were written last may still be on their way.
    pub(crate) fn is_behind(&self) -> bool {
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
