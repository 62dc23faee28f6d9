//! A policy that looks into both directions of a tunnel.

use std::task::{Context, Poll};

use telemetry::StreamEnd;

/// An end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelSide {
    Client,
    Upstream,
}

/// Bytes for the ends of a tunnel, until they are taken.
#[derive(Debug, Default)]
pub struct Outbox {
    pub client: Vec<u8>,
    pub upstream: Vec<u8>,
}

/// Decides what passes through one tunnel, and speaks to both ends itself. It belongs to one task. A side is read only while the outbox
/// of the other is empty, so that what a relay adds at once is all that it has to bound.
pub trait Relay {
    /// Bytes have come from a side.
    fn on_bytes(&mut self, from: TunnelSide, bytes: &[u8], out: &mut Outbox);

    /// Nothing more comes from a side: it has ended, or is gone.
    fn on_end(&mut self, from: TunnelSide, out: &mut Outbox);

    /// The tunnel has to leave: it ends as soon as it may. Called again and again.
    fn leave(&mut self, out: &mut Outbox);

    /// The tunnel is cut: whoever can still be told of the end is told now.
    fn cut(&mut self, why: StreamEnd, out: &mut Outbox);

    /// Ready once the tunnel is over, and what is in the outbox the last of it. Until then the task is woken for the relay's deadlines.
    fn poll_over(&mut self, cx: &mut Context<'_>, out: &mut Outbox) -> Poll<()>;
}
