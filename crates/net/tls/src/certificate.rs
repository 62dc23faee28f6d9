//! Parses the fields of a certificate (RFC 5280), and checks for reasons why clients would refuse it.

use std::fmt;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Version;

use crate::Error;
use crate::pem::certificates;

/// A certificate that expires within this time gets a warning.
pub const EXPIRY_WARNING: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The fields of a certificate. They are not verified here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The last common name of the subject, which is the most specific.
    pub subject: Option<String>,
    /// Alternative names: DNS names, addresses, URIs and mail addresses.
    pub names: Vec<String>,
    /// The beginning of its validity, in seconds since the Unix epoch.
    pub not_before: i64,
    /// The end of its validity, in seconds since the Unix epoch.
    pub not_after: i64,
    /// Whether it is an X.509 version 3 certificate, the only version with extensions.
    pub is_version_3: bool,
    /// Whether its basic constraints allow it to sign other certificates.
    pub is_authority: bool,
}

/// A reason why clients refuse a certificate, or will refuse it soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProblem {
    /// X.509 version 1 or 2: it has no extensions, so it names no host, and the TLS library refuses it.
    Version1,
    /// The certificate of an authority, used as a server's or client's own certificate.
    Authority,
    /// It expired this many days ago.
    Expired { days: u64 },
    /// It becomes valid in this many days.
    NotYetValid { days: u64 },
    /// It expires in this many days.
    ExpiresSoon { days: u64 },
}

const DAY: i64 = 24 * 60 * 60;

impl Certificate {
    /// Parses a certificate in DER. Returns `None` if it is malformed, or if bytes follow it.
    pub fn read(der: &[u8]) -> Option<Certificate> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let mut subject = None;
        // Of several names, the last one is the most specific.
        for name in certificate.subject().iter_common_name() {
            subject = Some(name.as_str().ok()?.to_owned());
        }
        let mut names = Vec::new();
        if let Some(listed) = certificate.subject_alternative_name().ok()? {
            for name in &listed.value.general_names {
                if matches!(name, GeneralName::Invalid(..)) {
                    return None;
                }
                names.extend(text(name));
            }
        }
        let validity = certificate.validity();
        Some(Certificate {
            subject,
            names,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            is_version_3: certificate.version() == X509Version::V3,
            is_authority: certificate.is_ca(),
        })
    }

    /// Parses the first certificate of a PEM text, which is the holder's own.
    pub fn of_pem(pem: &[u8]) -> Result<Certificate, Error> {
        let chain = certificates(pem)?;
        let read = chain.first().and_then(|der: &CertificateDer<'_>| Certificate::read(der));
        read.ok_or_else(|| {
            Error::Certificate("its contents are not an X.509 certificate".to_owned())
        })
    }

    /// Returns the concerns about the certificate at `now` (since the Unix epoch), the most severe first.
    pub fn concerns(&self, now: Duration) -> Vec<CertificateProblem> {
        let ahead = self.not_before.saturating_sub(seconds(now));
        let dates = if ahead > 0 {
            Some(CertificateProblem::NotYetValid { days: days(ahead) })
        } else {
            CertificateProblem::of_end(self.not_after, now)
        };
        let version = (!self.is_version_3).then_some(CertificateProblem::Version1);
        let authority = self.is_authority.then_some(CertificateProblem::Authority);
        [version, authority, dates].into_iter().flatten().collect()
    }
}

impl CertificateProblem {
    /// Returns the concern at `now` about a certificate that expires at `not_after`, both since the Unix epoch. Returns `None` if the
    /// certificate is valid for longer than [`EXPIRY_WARNING`].
    pub fn of_end(not_after: i64, now: Duration) -> Option<CertificateProblem> {
        let left = not_after.saturating_sub(seconds(now));
        match left {
            ..0 => Some(CertificateProblem::Expired { days: days(left.saturating_neg()) }),
            _ if left < seconds(EXPIRY_WARNING) => {
                Some(CertificateProblem::ExpiresSoon { days: days(left) })
            }
            _ => None,
        }
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn days(seconds: i64) -> u64 {
    u64::try_from(seconds / DAY).unwrap_or(0)
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some((*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => address(bytes),
        GeneralName::OtherName(..)
        | GeneralName::X400Address(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EDIPartyName(_)
        | GeneralName::RegisteredID(_)
        | GeneralName::Invalid(..) => None,
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from));
    Some(address.ok()?.to_string())
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateProblem::Version1 => {
                write!(f, "the certificate is not of X.509 version 3, which TLS clients require")
            }
            CertificateProblem::Authority => write!(
                f,
                "the certificate is an authority's (CA:TRUE), which strict clients refuse as a server's or client's own"
            ),
            CertificateProblem::Expired { days } => {
                write!(f, "the certificate expired {} ago", Days(*days))
            }
            CertificateProblem::NotYetValid { days } => {
                write!(f, "the certificate becomes valid in {}", Days(*days))
            }
            CertificateProblem::ExpiresSoon { days } => {
                write!(f, "the certificate expires in {}", Days(*days))
            }
        }
    }
}

impl CertificateProblem {
    /// Returns a remedy, with an openssl command. `file` is the certificate's file.
    pub fn help(self, file: &str) -> String {
        match self {
            CertificateProblem::Version1 => format!(
                "`openssl x509 -in {file} -noout -text` shows its version; sign it again with `-extfile` or `-copy_extensions copy`, which make version 3"
            ),
            CertificateProblem::Authority => format!(
                "`openssl x509 -in {file} -noout -ext basicConstraints` shows it; for a self-signed one, `openssl req -x509 ... -addext basicConstraints=critical,CA:FALSE`"
            ),
            CertificateProblem::Expired { .. }
            | CertificateProblem::NotYetValid { .. }
            | CertificateProblem::ExpiresSoon { .. } => {
                format!("`openssl x509 -in {file} -noout -dates` shows its dates; renew it")
            }
        }
    }
}

/// Displays a number of days in words.
struct Days(u64);

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "less than a day"),
            1 => write!(f, "1 day"),
            days => write!(f, "{days} days"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version 1 certificate, made by `openssl x509 -req` without extensions, for `old.test`, valid for a hundred years.
    const VERSION_1: &[u8] = include_bytes!("../tests/version-1.pem");

    #[test]
    fn a_truncated_certificate_is_refused() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let bytes = made.cert.der().to_vec();
        let certificate = Certificate::read(&bytes).unwrap();
        assert_eq!(certificate.names, ["a.test"]);
        assert_eq!(certificate.subject.as_deref(), Some("rcgen self signed cert"));
        for cut in 0..bytes.len() {
            assert!(Certificate::read(&bytes[..cut]).is_none(), "{cut}");
        }
        assert!(Certificate::read(&[&bytes[..], b"x"].concat()).is_none());
    }

    #[test]
    fn the_reasons_to_refuse_a_certificate_are_listed() {
        let now = Duration::from_secs(100 * 86_400);
        let good = Certificate {
            subject: None,
            names: Vec::new(),
            not_before: 0,
            not_after: 1_000 * 86_400,
            is_version_3: true,
            is_authority: false,
        };
        let cases = [
            (good.clone(), vec![]),
            (
                Certificate { is_authority: true, ..good.clone() },
                vec![CertificateProblem::Authority],
            ),
            (
                Certificate { not_after: 98 * 86_400, is_version_3: false, ..good.clone() },
                vec![CertificateProblem::Version1, CertificateProblem::Expired { days: 2 }],
            ),
            (
                Certificate { not_before: 101 * 86_400, ..good.clone() },
                vec![CertificateProblem::NotYetValid { days: 1 }],
            ),
            (
                Certificate { not_after: 129 * 86_400, ..good.clone() },
                vec![CertificateProblem::ExpiresSoon { days: 29 }],
            ),
            (Certificate { not_after: 130 * 86_400, ..good }, vec![]),
        ];
        for (certificate, concerns) in cases {
            assert_eq!(certificate.concerns(now), concerns, "{certificate:?}");
        }
    }

    #[test]
    fn a_certificate_of_version_1_is_parsed() {
        let certificate = Certificate::of_pem(VERSION_1).unwrap();
        assert!(!certificate.is_version_3);
        assert_eq!(certificate.subject.as_deref(), Some("old.test"));
    }
}
