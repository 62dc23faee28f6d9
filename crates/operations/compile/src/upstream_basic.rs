//! Compiles `basic` of an upstream: the credentials that its requests carry.

use std::sync::Arc;

use ::policies::own_basic::OwnBasic;
use config::{Report, Upstream};
use plan::UpstreamAddition;

use crate::policy_builder::PolicyBuilder;

/// Returns the credentials, `Some(None)` for an upstream without them, or `None` after a complaint.
pub(crate) fn compile(
    upstream: &Upstream,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<Option<Arc<dyn UpstreamAddition>>> {
    let Some(basic) = &upstream.basic else { return Some(None) };
    if upstream.oauth.is_some() {
        let what = "`basic` and `oauth` both set `Authorization`";
        report.error(basic.at, what, "write one of them");
        return None;
    }
    let (name, password) = (&basic.value.username, &basic.value.password);
    // RFC 7617, section 2, forbids control characters.
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if name.value.is_empty() || name.value.contains(':') || !is_plain(&name.value) {
        let what = "the name in `basic` must not be empty or contain colons or control characters";
        report.error(name.at, what, "write another name");
        return None;
    }
    let password = &password.value.0;
    if !is_plain(password) {
        let what = "the password in `basic` must not contain control characters";
        report.error(basic.value.password.at, what, "write another password");
        return None;
    }
    let key = format!("own basic {:?} {password:?}", name.value);
    Some(Some(builder.reuse_or_build(&key, || Arc::new(OwnBasic::new(&name.value, password)))))
}
