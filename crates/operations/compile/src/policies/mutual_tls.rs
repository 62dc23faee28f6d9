//! Compiles `mutual_tls`.

use ::policies::mutual_tls::{self, TrustedCertificates};
use config::{At, MutualTls, Report};

use super::{Access, Facts, PolicyKind, PolicyPlace, texts};
use crate::names;
use crate::policy::RouteScope;

impl PolicyKind for MutualTls {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        mutual_tls::policy(trusted(self, written.at, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { access: Access::Identifies, removes: texts(&self.header), ..Facts::NONE }
    }
}

pub(super) fn trusted(
    keys: &MutualTls,
    at: At,
    place: &RouteScope<'_, '_>,
    report: &mut Report,
) -> TrustedCertificates {
    let asked = |listener: &config::Listener| {
        let tls = listener.tls.as_ref().map(|tls| &tls.value);
        tls.is_some_and(|tls| tls.client_ca.is_some() || tls.client_auth.is_some())
    };
    let listeners = &place.config.listen;
    if keys.header.is_none() && !listeners.iter().any(|(_, listener)| asked(listener)) {
        let what = "no listener requests client certificates";
        let help = "add `tls: { client_auth: { ca: FILE } }` to a listener, or `header` for a trusted proxy";
        report.error(at, what, help);
    }
    if let Some(header) = &keys.header
        && !listeners.iter().any(|(_, listener)| !listener.trusted_proxies.is_empty())
    {
        let what = "no listener has `trusted_proxies`, so no forwarded certificate is trusted";
        report.warn(header.at, what, "name the proxies' networks, or remove `header`");
    }
    let header = keys.header.as_ref();
    let header = header.and_then(|name| names::changeable_header(&name.value, name.at, report));
    let read = |text: &config::Spanned<String>| {
        let found = mutual_tls::fingerprint(&text.value);
        if found.is_none() {
            let what = format!("`{}` is not a SHA-256 fingerprint", text.value.escape_debug());
            let help = "write the 64 hex digits of `openssl x509 -fingerprint -sha256`";
            report.error(text.at, what, help);
        }
        found
    };
    TrustedCertificates {
        subjects: keys.subjects.clone(),
        names: keys.names.clone(),
        // Harmless: `read` reports invalid fingerprints.
        fingerprints: keys.fingerprints.iter().filter_map(read).collect(),
        header,
        optional: keys.optional,
    }
}
