//! Compiles `ws_security` and `ws_addressing` of an upstream to SOAP header blocks.

use std::sync::Arc;

use ::policies::ws_security::{AddressedTo, OwnAddressing, OwnHeaders};
use config::{PasswordForm, Report, Size, Upstream, UpstreamWsAddressing, UpstreamWsSecurity};
use mediation::ws_addressing::AddressingVersion;
use mediation::ws_security::{OwnSecurity, OwnUsername};
use plan::UpstreamAddition;
use plan::upstreams::Targets;

use crate::listeners::bytes;
use crate::policy_builder::PolicyBuilder;

/// The bound on message size for an upstream without `ws_security`, which has a key for it.
const BYTES_MAX: Size = Size(10 * 1024 * 1024);

/// Returns the header blocks, if the upstream has any. The outer `None` means that there was a complaint.
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
    let made = builder
        .kept_or(&key, || Arc::new(OwnHeaders { security, addressing, bytes_max: bytes(limit) }));
    Some(Some(made))
}

fn security(
    keys: &config::Spanned<UpstreamWsSecurity>,
    report: &mut Report,
) -> Option<OwnSecurity> {
    let UpstreamWsSecurity { username, password, password_type, timestamp, .. } = &keys.value;
    let username = match (username, password) {
        (Some(name), Some(password)) => {
            let (name, password) = (name.value.clone(), password.value.0.clone());
            Some(OwnUsername { name, password, is_digest: *password_type == PasswordForm::Digest })
        }
        (None, None) => None,
        // If the key could not be read, that was already reported.
        (Some(name), None) => {
            if keys.intact {
                report.error(name.at, "a name without its password", "add `password`");
            }
            return None;
        }
        (None, Some(password)) => {
            if keys.intact {
                report.error(password.at, "a password without its name", "add `username`");
            }
            return None;
        }
    };
    if username.is_none() && timestamp.is_none() {
        let help = "add `username` and `password`, or `timestamp: 5m`";
        report.error(keys.at, "a WS-Security header with nothing in it", help);
        return None;
    }
    Some(OwnSecurity {
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
        (Some(to), _) => AddressedTo::Fixed(to.value.clone()),
        (None, Targets::Fixed(targets) | Targets::EachAddress(targets)) => {
            // An upstream without targets was already reported.
            AddressedTo::Origin(targets.first()?.url())
        }
        (None, Targets::Service(_)) => {
            let what = "the address for WS-Addressing is not known: DNS names the targets";
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
