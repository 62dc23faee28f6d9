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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_users_of_synapse_know() {
        for (fault, expected) in [
            (Fault::new(Kind::ConnectFailure, "why"), 101_503),
            (Fault::new(Kind::UpstreamTimeout, "why"), 101_504),
            (Fault::new(Kind::Template, "why"), 0),
            (Fault::new(Kind::UpstreamStatus, "why"), 0),
            (Fault::new(Kind::UpstreamStatus, "why").with_code(500_000), 500_000),
            // A number that another kind of fault carries is not that of a reply.
            (Fault::new(Kind::Template, "why").with_code(500_000), 0),
        ] {
            assert_eq!(code(&fault), expected, "{fault:?}");
        }
    }
}
