//! The interface of a policy that inspects both directions of a tunnel.

use std::task::{Context, Poll};

use telemetry::StreamEnd;

/// An end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelSide {
    Client,
    Upstream,
}

/// Bytes to be sent to the two ends of a tunnel.
#[derive(Debug, Default)]
pub struct Outbox {
    pub client: Vec<u8>,
    pub upstream: Vec<u8>,
}

/// Decides what passes through one tunnel, and may send additional data to both ends. It belongs to one task. A side is read only while the
/// outbox for the other side is empty, so a relay only has to bound what it adds in one call.
pub trait Relay {
    /// Called when bytes have arrived from a side.
    fn on_bytes(&mut self, from: TunnelSide, bytes: &[u8], out: &mut Outbox);

    /// Called when a side has ended or disconnected, so that no more bytes arrive from it.
    fn on_end(&mut self, from: TunnelSide, out: &mut Outbox);

    /// Asks the tunnel to end at the next message boundary. May be called repeatedly.
    fn leave(&mut self, out: &mut Outbox);

    /// Called when the tunnel is cut. The relay may still notify the ends.
    fn cut(&mut self, why: StreamEnd, out: &mut Outbox);

    /// Ready once the tunnel is over. The outbox then has its last bytes. Until then, the task is woken for the relay's deadlines.
    fn poll_over(&mut self, cx: &mut Context<'_>, out: &mut Outbox) -> Poll<()>;
}
