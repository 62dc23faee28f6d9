//! The sender of a message, and its faults.

use fault::{Fault, Kind};
use policy::{Totals, WaitTime};

/// The sender of a message, which is at fault if the message is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Upstream,
    /// A step.
    Flow,
}

impl Sender {
    /// Returns the counter for the time spent waiting for its body.
    pub(crate) fn waits(self, totals: &Totals) -> &WaitTime {
        match self {
            Sender::Client => &totals.client_wait,
            Sender::Upstream | Sender::Flow => &totals.upstream_wait,
        }
    }

    /// Returns the kind of fault for a message of this sender that cannot be processed.
    pub(crate) fn fault_kind(self) -> Kind {
        match self {
            Sender::Client => Kind::RequestInvalid,
            Sender::Upstream => Kind::ReplyInvalid,
            Sender::Flow => Kind::FlowFailed,
        }
    }

    /// Returns the fault for a malformed message of this sender.
    pub(crate) fn malformed(self, what: &str) -> Fault {
        Fault::with_detail(self.fault_kind(), what, "The message is malformed.")
    }

    /// The fault for a message of this sender that takes more work than a flow may do.
    pub(crate) fn costly(self, what: &str) -> Fault {
        Fault::with_detail(self.fault_kind(), what, "The message takes too much work to process.")
    }
}
