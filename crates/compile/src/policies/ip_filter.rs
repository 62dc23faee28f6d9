//! `ip_filter`.

use config::{At, IpRules, Report};
use policies::ip_filter::{self, Networks};

pub(crate) fn build(keys: &IpRules, at: At, intact: bool, report: &mut Report) -> plan::Policy {
    if intact && keys.allow.is_empty() && keys.deny.is_empty() {
        let help = "write `allow: [NETWORK, ...]` or `deny: [NETWORK, ...]`, or remove it";
        report.warn(at, "it allows every address", help);
    }
    let list = |networks: &[config::Spanned<config::Network>]| {
        networks.iter().map(|network| network.value.0).collect()
    };
    let networks = Networks { allow: list(&keys.allow), deny: list(&keys.deny) };
    ip_filter::policy(networks, keys.status.get_u16(), keys.message.as_deref())
}
