//! Describes the reasons of failed handshakes for operators.

use std::fmt;
use std::io;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{CertificateError, OtherError};

use crate::certificate::CertificateProblem;

/// The peer whose certificate was verified.
#[derive(Debug, Clone, Copy)]
pub enum Peer<'a> {
    /// A client of the gateway.
    Client,
    /// A server at `address` (`HOST:PORT`), whose certificate must be for `name`.
    Server { address: &'a str, name: &'a str },
}

/// Explains why a handshake with this peer failed. For a server's certificate, the text includes an openssl command that shows the fault.
pub fn failure(error: &io::Error, peer: Peer<'_>) -> String {
    let rustls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(why)) = rustls else { return error.to_string() };
    let said = match (concern(why), why) {
        (Some(concern), _) => concern.to_string(),
        (None, CertificateError::UnknownIssuer) => {
            "the certificate is not signed by a trusted authority".to_owned()
        }
        (None, why) => format!("the certificate is not valid: {why}"),
    };
    match peer {
        Peer::Client => format!("client certificate: {said}"),
        Peer::Server { address, name } => {
            format!("{said}; {}", InspectCommand { address, name, why })
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the libraries may add errors")]
fn concern(why: &CertificateError) -> Option<CertificateProblem> {
    match why {
        CertificateError::ExpiredContext { time, not_after } => {
            Some(CertificateProblem::Expired { days: days(*not_after, *time) })
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            Some(CertificateProblem::NotYetValid { days: days(*time, *not_before) })
        }
        CertificateError::Other(OtherError(inner)) => {
            match inner.downcast_ref::<webpki::Error>()? {
                webpki::Error::CaUsedAsEndEntity => Some(CertificateProblem::Authority),
                webpki::Error::UnsupportedCertVersion => Some(CertificateProblem::Version1),
                _ => None,
            }
        }
        _ => None,
    }
}

fn days(from: UnixTime, to: UnixTime) -> u64 {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    Duration::from_secs(seconds).as_secs() / (24 * 60 * 60)
}

/// The shell command that shows the faulty part of a server's certificate.
struct InspectCommand<'a> {
    address: &'a str,
    name: &'a str,
    why: &'a CertificateError,
}

impl fmt::Display for InspectCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match concern(self.why) {
            Some(CertificateProblem::Version1) => "-text",
            Some(CertificateProblem::Authority) => "-ext basicConstraints",
            Some(_) => "-dates",
            None => "-issuer -subject -ext subjectAltName",
        };
        let InspectCommand { address, name, .. } = self;
        write!(
            f,
            "`openssl s_client -connect {address} -servername {name} </dev/null | openssl x509 -noout {part}` shows it"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn invalid(why: CertificateError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(why))
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_named() {
        let other = |error: webpki::Error| CertificateError::Other(OtherError(Arc::new(error)));
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let cases = [
            (other(webpki::Error::UnsupportedCertVersion), "not of X.509 version 3", "-text"),
            (
                other(webpki::Error::CaUsedAsEndEntity),
                "an authority's (CA:TRUE)",
                "basicConstraints",
            ),
            (
                CertificateError::ExpiredContext { time: at(3 * 86_400), not_after: at(0) },
                "expired 3 days ago",
                "-dates",
            ),
            (
                CertificateError::NotValidYetContext { time: at(0), not_before: at(86_400) },
                "becomes valid in 1 day",
                "-dates",
            ),
            (CertificateError::UnknownIssuer, "is not signed by a trusted authority", "-issuer"),
        ];
        let server = Peer::Server { address: "10.0.0.1:443", name: "a.test" };
        for (why, said, part) in cases {
            let told = failure(&invalid(why.clone()), server);
            assert!(told.contains(said), "{told}");
            let line = "`openssl s_client -connect 10.0.0.1:443 -servername a.test </dev/null | openssl x509 -noout ";
            assert!(told.contains(line) && told.contains(part), "{told}");
            let told = failure(&invalid(why), Peer::Client);
            assert!(told.contains(said) && !told.contains("openssl"), "{told}");
        }
        let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        assert_eq!(failure(&closed, server), "tls handshake eof");
    }
}
