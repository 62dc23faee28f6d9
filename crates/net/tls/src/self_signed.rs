//! A certificate that the process makes for itself, for development.

use std::sync::OnceLock;

use crate::{Error, Pair};

/// The hosts and addresses of the certificate, which only clients on this machine use.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the certificate of the process. It is the same at each call, so that a reload changes no listener.
pub fn self_signed() -> Result<Pair, Error> {
    static MADE: OnceLock<Pair> = OnceLock::new();
    if let Some(pair) = MADE.get() {
        return Ok(pair.clone());
    }
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))
        .map_err(|error| Error::Certificate(error.to_string()))?;
    let pair = Pair {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
    };
    Ok(MADE.get_or_init(|| pair).clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Certificate, Server, ServerSpec, Version};

    use super::*;

    #[test]
    fn it_is_for_this_machine_and_stays_the_same() {
        let pair = self_signed().unwrap();
        assert!(pair == self_signed().unwrap());
        let certificate = Certificate::of_pem(&pair.certificate).unwrap();
        assert_eq!(certificate.names, NAMES);
        assert!(certificate.concerns(Duration::from_secs(2_000_000_000)).is_empty());
        let spec = ServerSpec {
            default: pair,
            names: Vec::new(),
            versions: vec![Version::Tls12, Version::Tls13],
            client_ca: None,
            client_optional: false,
            http2: true,
        };
        assert!(Server::new(&spec).is_ok());
    }
}
