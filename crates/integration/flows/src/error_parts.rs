//! Parts of `$error` that are computed from a fault.

use fault::{Fault, Kind};

/// The text of `$error.detail` for a fault.
pub(crate) fn detail(fault: &Fault) -> &str {
    let told = fault.more.as_ref().and_then(|more| more.errors.first());
    told.map_or(&*fault.cause, |told| told)
}

/// Returns the number that Synapse gives to a fault, or 0 if it has none.
pub(crate) fn code(fault: &Fault) -> u32 {
    let of_reply = || fault.more.as_ref()?.code.filter(|_| fault.kind == Kind::UpstreamStatus);
    // Harmless: 0 is a fault without a number.
    fault.kind.synapse_code().or_else(of_reply).unwrap_or_default()
}
