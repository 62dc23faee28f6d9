//! Compiles `user_agent`.

use config::{Report, Spanned, UserAgent};
use policies::user_agent::{self, UserAgents};
use regex::bytes::RegexSet;

use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::policy::RouteScope;

impl PolicyKind for UserAgent {
    fn build(
        &self,
        written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        if written.intact && self.robots && self.deny.is_empty() {
            let help = "write `deny: [\"^curl/\"]`, remove `robots`, or remove the policy";
            report.warn(written.at, "the policy allows every program", help);
        }
        let (allow, deny) = (set(&self.allow, report), set(&self.deny, report));
        let agents = UserAgents { allow, deny, robots: self.robots };
        super::or_nothing(user_agent::policy(agents))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { access: Access::FiltersAddresses, ..Facts::NONE }
    }
}

fn set(list: &[Spanned<String>], report: &mut Report) -> RegexSet {
    let texts: Vec<&str> = list.iter().map(|text| text.value.as_str()).collect();
    user_agent::expressions(&texts).unwrap_or_else(|(at, why)| {
        if let Some(text) = list.get(at) {
            let what = format!("this regular expression cannot be used: {why}");
            report.error(text.at, what, "write one without look-around, such as `^curl/`");
        }
        RegexSet::empty()
    })
}
