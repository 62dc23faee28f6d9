//! Compiles `authorize`.

use std::sync::Arc;

use ::policies::authorize::{self, AuthorizeSettings};
use ::policies::expression::Expression;
use config::{At, Authorize, Report, Spanned};

use super::{Access, Facts, PolicyKind, PolicyPlace, asks_identity, or_nothing};
use crate::policy::RouteScope;

impl PolicyKind for Authorize {
    fn build(
        &self,
        written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, written.at, written.intact, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::Guards,
            asks_identity: self.groups.is_some()
                || self.rule.as_ref().is_some_and(|rule| asks_identity(&rule.value)),
            ..Facts::NONE
        }
    }
}

fn build(keys: &Authorize, at: At, intact: bool, report: &mut Report) -> Option<plan::Policy> {
    if keys.rule.is_none() && keys.groups.is_none() && intact {
        let help = "add `rule: \"request.method == 'GET'\"`, or `groups: { allow: [staff] }`";
        report.error(at, "neither a rule nor groups are given", help);
    }
    if let Some(groups) = &keys.groups {
        let (allow, deny) = (&groups.value.allow, &groups.value.deny);
        if allow.is_none() && deny.is_empty() && groups.intact {
            let help = "write `allow: [staff]`, or `deny: [blocked]`";
            report.error(groups.at, "no groups are named", help);
        }
        if let Some(empty) = allow.as_ref().filter(|list| list.value.is_empty() && list.intact) {
            report.error(
                empty.at,
                "no group is allowed, so every request would be refused",
                "name the allowed groups, or remove `allow`",
            );
        }
        let both = allow.iter().flat_map(|list| &list.value).find(|group| deny.contains(group));
        if let Some(both) = both {
            let what = format!("the group `{both}` is both allowed and denied; `deny` wins");
            report.warn(groups.at, what, "keep it in one of the two");
        }
    }
    let rule = match &keys.rule {
        Some(written) => Some(rule(written, report)?),
        None => None,
    };
    let groups = keys.groups.as_ref().map(|groups| &groups.value);
    Some(authorize::policy(AuthorizeSettings {
        rule,
        allow: groups.and_then(|groups| Some(groups.allow.as_ref()?.value.clone())),
        deny: groups.map_or_else(Vec::new, |groups| groups.deny.clone()),
    }))
}

fn rule(written: &Spanned<String>, report: &mut Report) -> Option<Arc<Expression>> {
    match Expression::compile_rule(&written.value) {
        Ok(rule) => Some(Arc::new(rule)),
        Err(why) => {
            let help = "write CEL, such as `request.method == 'GET' || 'admin' in claims.roles`";
            report.error(written.at, format!("the rule cannot be used: {why}"), help);
            None
        }
    }
}
