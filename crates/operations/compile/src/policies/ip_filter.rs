//! Compiles `ip_filter`.

use config::{IpRules, Report};
use policies::ip_filter::{self, Networks};

use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::policy::RouteScope;

impl PolicyKind for IpRules {
    fn build(
        &self,
        written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        if written.intact && self.allow.is_empty() && self.deny.is_empty() {
            let help = "write `allow: [NETWORK, ...]` or `deny: [NETWORK, ...]`, or remove it";
            report.warn(written.at, "the policy allows every address", help);
        }
        let list = |networks: &[config::Spanned<config::Network>]| {
            networks.iter().map(|network| network.value.0).collect()
        };
        let networks = Networks { allow: list(&self.allow), deny: list(&self.deny) };
        ip_filter::policy(networks, self.status.get_u16(), self.message.as_deref())
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { access: Access::FiltersAddresses, ..Facts::NONE }
    }
}
