//! `authorize`: a rule and the client's groups say who may do what. A rule that cannot be worked out refuses.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Exchange, Flow, Identity, OnHead, Onward, Policy, Step};

use crate::expression::Expression;

/// What a request has to fulfil; all that is there.
#[derive(Debug, Default)]
pub struct AuthorizeSettings {
    pub rule: Option<Arc<Expression>>,
    /// The client has to be in one of these.
    pub allow: Option<Vec<String>>,
    /// The client must be in none of these.
    pub deny: Vec<String>,
}

/// The policy of these settings.
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
            Err(why) => Some(format!("the rule cannot be worked out: {why}")),
        }
    }
}

/// Groups of a client that the log names. Some are in hundreds.
const NAMED_MAX: usize = 16;

fn shown(group: &str) -> String {
    group.escape_debug().to_string()
}
