//! `authorize`.

use std::sync::Arc;

use ::policies::authorize;
use ::policies::expression::Expression;
use config::{Authorize, Report};

pub(crate) fn build(keys: &Authorize, report: &mut Report) -> Option<plan::Policy> {
    match Expression::compile_rule(&keys.rule.value) {
        Ok(rule) => Some(authorize::policy(Arc::new(rule))),
        Err(why) => {
            let help = "write CEL, such as `request.method == 'GET' || 'admin' in claims.roles`";
            report.error(keys.rule.at, format!("the rule cannot be used: {why}"), help);
            None
        }
    }
}
