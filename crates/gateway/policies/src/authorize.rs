//! `authorize`: allows or refuses requests by a rule and the client's groups. If the rule cannot be evaluated, the request is refused.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Exchange, Flow, Identity, OnHead, Onward, Policy, Step};

use crate::expression::Expression;

/// The conditions of a request, all of which must hold.
#[derive(Debug, Default)]
pub struct AuthorizeSettings {
    pub rule: Option<Arc<Expression>>,
    /// The client must be in at least one of these groups.
    pub allow: Option<Vec<String>>,
    /// The client must not be in any of these groups.
    pub deny: Vec<String>,
}

/// Returns the policy for these settings.
pub fn policy(settings: AuthorizeSettings) -> Policy {
    Policy { name: "authorize", request: Some(Step::Head(Box::new(settings))), response: None }
}

impl OnHead<RequestHead> for AuthorizeSettings {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let refused = self.refused_group(ex.identity.as_deref());
        match refused.or_else(|| self.refused_by_rule(ex, head)) {
            None => Ok(Onward::Next),
            Some(why) => {
                Err(Fault::new(Kind::Forbidden, format!("authorize: {why}")).with_code(900_910))
            }
        }
    }
}

impl AuthorizeSettings {
    fn refused_group(&self, identity: Option<&Identity>) -> Option<String> {
        let groups = identity.map_or(&[][..], |identity| &identity.groups);
        let denied = groups.iter().find(|group| self.deny.iter().any(|one| **one == ***group));
        if let Some(group) = denied {
            return Some(format!(
                "the client is in the group `{}`, which `deny` names",
                shown(group)
            ));
        }
        let allow = self.allow.as_ref()?;
        if groups.iter().any(|group| allow.iter().any(|one| **one == **group)) {
            None
        } else {
            let named = groups.get(..NAMED_MAX).unwrap_or(groups);
            let mut theirs = named.iter().map(|one| shown(one)).collect::<Vec<_>>().join(", ");
            match groups.len() - named.len() {
                0 if groups.is_empty() => theirs.push_str("none"),
                0 => {}
                more => theirs.push_str(&format!(" and {more} more")),
            }
            Some(format!(
                "the client is in none of the groups {}; its groups are: {theirs}",
                allow.join(", "),
            ))
        }
    }

    fn refused_by_rule(&self, ex: &Exchange, head: &RequestHead) -> Option<String> {
        match self.rule.as_ref()?.holds(ex, head) {
            Ok(true) => None,
            Ok(false) => Some("the rule does not hold".to_owned()),
            Err(why) => Some(format!("the rule cannot be evaluated: {why}")),
        }
    }
}

/// The maximum number of a client's groups that the log lists. Some clients have hundreds.
const NAMED_MAX: usize = 16;

fn shown(group: &str) -> String {
    group.escape_debug().to_string()
}
