//! `authorize`: a rule says who may do what. A rule that cannot be worked out refuses.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

use crate::expression::Expression;

struct Rule(Arc<Expression>);

/// The policy of a rule.
pub fn policy(rule: Arc<Expression>) -> Policy {
    Policy { name: "authorize", request: Some(Step::Head(Box::new(Rule(rule)))), response: None }
}

impl OnHead<RequestHead> for Rule {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let why = match self.0.holds(ex, head) {
            Ok(true) => return Ok(Onward::Next),
            Ok(false) => "authorize: the rule does not hold".to_owned(),
            Err(why) => format!("authorize: the rule cannot be worked out: {why}"),
        };
        Err(Fault::new(Kind::Forbidden, why).with_code(900_910))
    }
}
