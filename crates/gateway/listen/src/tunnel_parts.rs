//! What the two ways to join a tunnel have in common: its ends, how long it may be silent, and what it has forwarded.

use std::time::Duration;

use kit::Wire;

/// The bytes forwarded in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PassedBytes {
    pub(crate) up: u64,
    pub(crate) down: u64,
}

/// How long a tunnel may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    /// While both sides are open.
    pub(crate) open: Duration,
    /// Once one side has ended and only the other one may still send.
    pub(crate) half_closed: Duration,
}

/// One side of a tunnel, with the bytes already read from it.
pub(crate) struct TunnelEnd {
    pub(crate) wire: Wire,
    pub(crate) first_bytes: Vec<u8>,
}
