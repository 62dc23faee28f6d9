//! Compiles the keys `ws_security` and `ws_addressing` of an upstream to SOAP header blocks.

use std::sync::Arc;

use ::policies::ws_security::{OutboundHeaders, OwnAddressing, ToAddress};
use config::{PasswordForm, Report, Size, Upstream, UpstreamWsAddressing, UpstreamWsSecurity};
use mediation::ws_addressing::AddressingVersion;
use mediation::ws_security::{OutboundSecurity, OwnUsername};
use plan::UpstreamAddition;
use plan::upstreams::Targets;

use crate::listeners::bytes;
use crate::policy_builder::PolicyBuilder;

/// Maximum message size for an upstream without `ws_security`. With `ws_security`, its key `body_bytes_max` sets the limit.
const BYTES_MAX: Size = Size(10 * 1024 * 1024);

/// Returns the header blocks, or `Some(None)` if the upstream has none. Returns `None` after a complaint.
pub(crate) fn compile(
    upstream: &Upstream,
    targets: &Targets,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<Option<Arc<dyn UpstreamAddition>>> {
    let security = match &upstream.ws_security {
        Some(keys) => Some(security(keys, report)?),
        None => None,
    };
    let addressing = match &upstream.ws_addressing {
        Some(keys) => Some(addressing(keys, targets, report)?),
        None => None,
    };
    if security.is_none() && addressing.is_none() {
        return Some(None);
    }
    let limit = upstream.ws_security.as_ref().map_or(BYTES_MAX, |keys| keys.value.body_bytes_max);
    let username = security.as_ref().and_then(|security| security.username.as_ref());
    let username = username.map(|own| (&own.name, &own.password, own.is_digest));
    let key = format!(
        "own headers {:?} {username:?} {addressing:?} {limit:?}",
        security.as_ref().map(|security| (security.timestamp, security.must_understand)),
    );
    let made = builder.reuse_or_build(&key, || {
        Arc::new(OutboundHeaders { security, addressing, bytes_max: bytes(limit) })
    });
    Some(Some(made))
}

fn security(
    keys: &config::Spanned<UpstreamWsSecurity>,
    report: &mut Report,
) -> Option<OutboundSecurity> {
    let UpstreamWsSecurity { username, password, password_type, timestamp, .. } = &keys.value;
    let username = match (username, password) {
        (Some(name), Some(password)) => {
            let (name, password) = (name.value.clone(), password.value.0.clone());
            Some(OwnUsername { name, password, is_digest: *password_type == PasswordForm::Digest })
        }
        (None, None) => None,
        // If `intact` is false, a key could not be read, which was already reported.
        (Some(name), None) => {
            if keys.intact {
                report.error(name.at, "`username` needs `password`", "add `password`");
            }
            return None;
        }
        (None, Some(password)) => {
            if keys.intact {
                report.error(password.at, "`password` needs `username`", "add `username`");
            }
            return None;
        }
    };
    if username.is_none() && timestamp.is_none() {
        let help = "add `username` and `password`, or `timestamp: 5m`";
        report.error(keys.at, "the WS-Security header would be empty", help);
        return None;
    }
    Some(OutboundSecurity {
        username,
        timestamp: timestamp.as_ref().map(|life| life.value.0),
        must_understand: keys.value.must_understand,
    })
}

fn addressing(
    keys: &config::Spanned<UpstreamWsAddressing>,
    targets: &Targets,
    report: &mut Report,
) -> Option<OwnAddressing> {
    let UpstreamWsAddressing { version, to, action } = &keys.value;
    let to = match (to, targets) {
        (Some(to), _) => ToAddress::Fixed(to.value.clone()),
        (None, Targets::Fixed(targets) | Targets::EachAddress(targets)) => {
            // An upstream without targets was already reported.
            ToAddress::Origin(targets.first()?.url())
        }
        (None, Targets::Service(_)) => {
            let what = "the WS-Addressing address is unknown because DNS supplies the targets";
            report.error(keys.at, what, "add `to: \"https://HOST/PATH\"`");
            return None;
        }
    };
    Some(OwnAddressing {
        version: match version {
            config::WsAddressingVersion::Final => AddressingVersion::Final,
            config::WsAddressingVersion::Submission => AddressingVersion::Submission,
        },
        to,
        action: action.as_ref().map(|action| action.value.clone()),
    })
}
