//! `policies` to policies: one arm for each kind.

use config::{HeadersEdit, Report, Spanned};
use policies::headers::{self, Edits};

use crate::names;

/// Builds one policy. What is wrong with it is in the report, and the plan is not built then.
pub(crate) fn build(policy: &Spanned<config::Policy>, report: &mut Report) -> plan::Policy {
    match &policy.value {
        config::Policy::Headers(keys) => {
            let request = edits(&keys.request, report);
            refuse_host(&keys.request, report);
            headers::policy(request, edits(&keys.response, report))
        }
    }
}

fn edits(keys: &HeadersEdit, report: &mut Report) -> Edits {
    let remove = keys.remove.iter();
    let remove = remove.filter_map(|name| names::changeable_header(&name.value, name.at, report));
    Edits {
        remove: remove.collect(),
        set: names::headers(&keys.set, report),
        add: names::headers(&keys.add, report),
    }
}

/// A request has exactly one Host; what it says is the route's business.
fn refuse_host(keys: &HeadersEdit, report: &mut Report) {
    let written = keys.set.iter().chain(keys.add.iter()).map(|(name, _)| name).chain(&keys.remove);
    for name in written.filter(|name| name.value.eq_ignore_ascii_case("host")) {
        let help = "write the route's `host` key: `host: target`, or a name";
        report.error(name.at, "the Host is not changed by a policy", help);
    }
}
