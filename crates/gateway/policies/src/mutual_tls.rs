//! `mutual_tls`: authenticates clients by a certificate that the listener or a trusted proxy has verified.

use std::cell::RefCell;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::{Fault, Kind};
use kit::percent;
use message::RequestHead;
use policy::{Decision, Exchange, Flow, Identity, IdentityScheme, OnHead, Onward, Policy, Step};

use crate::identity::identity;

use tls::Certificate;

use crate::credential_check::CredentialCheck;
use crate::credentials::sha256;
use crate::verdict_cache::{VerdictCache, next_number};

/// The accepted certificates: those on any of the lists. If all lists are empty, every verified certificate is accepted.
#[derive(Debug, Clone, Default)]
pub struct TrustedCertificates {
    pub subjects: Vec<String>,
    pub names: Vec<String>,
    pub fingerprints: Vec<[u8; 32]>,
    /// The header in which a trusted proxy forwards the certificate.
    pub header: Option<String>,
    pub optional: bool,
}

/// The maximum length of a certificate in any encoding, in bytes.
const CERTIFICATE_BYTES_MAX: usize = 32 * 1024;
/// The maximum number of certificates in a worker's cache. A client uses one certificate for all its connections.
const REMEMBERED_MAX: usize = 4096;
const REMEMBERED_BYTES_MAX: usize = 16 * 1024 * 1024;

thread_local! {
    static KNOWN: RefCell<VerdictCache<Option<Arc<Identity>>>> =
        RefCell::new(VerdictCache::new(REMEMBERED_MAX, REMEMBERED_BYTES_MAX));
}

struct OnCertificate {
    number: u64,
    trusted: TrustedCertificates,
}

/// Returns the policy that accepts these certificates.
pub fn policy(trusted: TrustedCertificates) -> Policy {
    let step = OnCertificate::new(trusted);
    Policy { name: "mutual_tls", request: Some(Step::Head(Box::new(step))), response: None }
}

/// Returns the check for these certificates, for `authenticate`, which chooses among several kinds of credential.
pub fn credential(trusted: TrustedCertificates) -> Box<dyn CredentialCheck> {
    Box::new(OnCertificate::new(trusted))
}

impl CredentialCheck for OnCertificate {
    fn is_present(&self, ex: &Exchange, head: &RequestHead) -> bool {
        !matches!(self.passed_on(ex, head), Ok(None)) || ex.caller.certificate.is_some()
    }

    fn strip(&self, head: &mut RequestHead) {
        if let Some(name) = &self.trusted.header {
            head.headers.remove(name);
        }
    }

    fn challenge(&self) -> Option<String> {
        // No HTTP challenge: TLS itself requests the certificate.
        None
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        Decision::Ready(self.on_head(ex, head))
    }
}

/// Parses a fingerprint, with or without colons.
pub fn fingerprint(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    // Harmless: the caller reports a value that does not have 32 bytes.
    kit::hex::decoded(&digits)?.try_into().ok()
}

impl OnHead<RequestHead> for OnCertificate {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let passed_on = self.passed_on(ex, head);
        self.strip(head);
        let shown = match passed_on? {
            Some(der) => Some(Arc::from(der)),
            None => ex.caller.certificate.clone(),
        };
        let identity = match shown {
            Some(der) => self.identity(&der),
            None if self.trusted.optional => return Ok(Onward::Next),
            None => {
                let why = "mutual_tls: no client certificate";
                return Err(Fault::new(Kind::CredentialMissing, why).with_code(900_902));
            }
        };
        let refused = || {
            let why = "mutual_tls: the certificate is not on any list";
            Fault::new(Kind::Unauthenticated, why).with_code(900_901)
        };
        ex.identity = Some(identity.ok_or_else(refused)?);
        Ok(Onward::Next)
    }
}

impl OnCertificate {
    fn new(trusted: TrustedCertificates) -> OnCertificate {
        OnCertificate { number: next_number(), trusted }
    }

    /// Returns the certificate that a trusted proxy forwards. The header of other peers is ignored.
    fn passed_on(&self, ex: &Exchange, head: &RequestHead) -> Result<Option<Vec<u8>>, Fault> {
        let Some(name) = self.trusted.header.as_deref().filter(|_| ex.peer_trusted) else {
            return Ok(None);
        };
        let malformed = |why: &str| {
            Fault::new(Kind::Unauthenticated, format!("mutual_tls: {why}")).with_code(900_901)
        };
        let mut values = head.headers.get_all(name);
        let Some(value) = values.next().filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(malformed("more than one forwarded certificate"));
        }
        der(value).map(Some).ok_or_else(|| malformed("the forwarded value is not a certificate"))
    }

    /// Returns the identity for a certificate, if it is accepted.
    fn identity(&self, der: &[u8]) -> Option<Arc<Identity>> {
        let known = KNOWN.with_borrow_mut(|memory| memory.get(self.number, der).cloned());
        if let Some(known) = known {
            return known;
        }
        let fingerprint = sha256(der);
        let found = Certificate::read(der).filter(|shown| self.takes(shown, &fingerprint));
        let identity = found.map(|shown| Arc::new(holder(shown, &fingerprint)));
        KNOWN.with_borrow_mut(|memory| memory.put(self.number, der, identity.clone(), 256));
        identity
    }

    fn takes(&self, certificate: &Certificate, fingerprint: &[u8; 32]) -> bool {
        let TrustedCertificates { subjects, names, fingerprints, .. } = &self.trusted;
        (subjects.is_empty() && names.is_empty() && fingerprints.is_empty())
            || certificate.subject.as_ref().is_some_and(|subject| subjects.contains(subject))
            || certificate.names.iter().any(|name| names.iter().any(|listed| is_same(name, listed)))
            || fingerprints.contains(fingerprint)
    }
}

/// Returns the holder of a certificate, named by its subject, or else by its first alternative name, or else by its fingerprint.
fn holder(certificate: Certificate, fingerprint: &[u8; 32]) -> Identity {
    let Certificate { subject, names, .. } = certificate;
    let subject = subject
        .or_else(|| names.into_iter().next())
        .unwrap_or_else(|| kit::hex::encoded(fingerprint));
    identity(&subject, IdentityScheme::MutualTls, None, None)
}

/// Compares names. Host names are compared without case; URIs and mail addresses are compared exactly.
fn is_same(name: &str, listed: &str) -> bool {
    if name.contains(['/', ':', '@']) { name == listed } else { name.eq_ignore_ascii_case(listed) }
}

/// Decodes a forwarded certificate to DER. Proxies send PEM with joined or percent-encoded lines (nginx), or plain Base64 (HAProxy), which
/// RFC 9440 encloses in colons.
fn der(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() > CERTIFICATE_BYTES_MAX {
        return None;
    }
    let value = percent::decoded(value, false);
    let text = std::str::from_utf8(&value).ok()?.trim().trim_matches(':').trim_matches('"');
    let inner = text.strip_prefix("-----BEGIN CERTIFICATE-----");
    let inner = inner.map_or(text, |rest| rest.split("-----END").next().unwrap_or_default());
    let base64: String = inner.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    // Harmless: the caller refuses an invalid certificate.
    STANDARD.decode(base64).ok().filter(|der| !der.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_read_in_the_forms_proxies_send() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let (pem, bytes) = (made.cert.pem(), made.cert.der().to_vec());
        let base64 = STANDARD.encode(&bytes);
        let encoded = pem.replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B");
        for form in [pem.replace('\n', " "), encoded, base64.clone(), format!(":{base64}:")] {
            assert_eq!(der(form.as_bytes()).as_deref(), Some(&bytes[..]), "{form:.60}");
        }
        for bad in ["%", "%zz", "-----BEGIN", "é", ""] {
            assert_eq!(der(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn fingerprints_are_read_as_people_write_them() {
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(fingerprint(&colons), Some([0xab; 32]));
        assert_eq!(fingerprint(&"ab".repeat(32)), Some([0xab; 32]));
        assert_eq!(fingerprint("ab"), None);
    }
}
