//! Signatures of events: an HMAC over their bytes, as `METHOD=HEX`.

use std::fmt;

use aws_lc_rs::hmac;
use kit::hex;

/// The hash algorithm of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    /// The name before the `=` of a signature.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            // WebSub of 2018 and WSO2 API Manager use it. No forgery of HMAC-SHA1 is known.
            Algorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Sha256 => hmac::HMAC_SHA256,
            Algorithm::Sha384 => hmac::HMAC_SHA384,
            Algorithm::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

/// A secret with the algorithm that it is used with.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: Algorithm,
    key: hmac::Key,
}

impl SigningKey {
    pub fn new(algorithm: Algorithm, secret: &[u8]) -> SigningKey {
        SigningKey { algorithm, key: hmac::Key::new(algorithm.hmac(), secret) }
    }

    /// Signs bytes. Returns the value of the header.
    pub fn sign(&self, bytes: &[u8]) -> String {
        let tag = hmac::sign(&self.key, bytes);
        let mut text = String::with_capacity(self.algorithm.name().len() + 1 + HEX_BYTES_MAX);
        text.push_str(self.algorithm.name());
        text.push('=');
        hex::push(&mut text, tag.as_ref());
        text
    }

    /// True if a header's value is a signature of the bytes with this algorithm. The comparison takes the same time wherever
    /// the values differ.
    pub fn accepts(&self, value: &[u8], bytes: &[u8]) -> bool {
        let value = value.trim_ascii();
        let Some((method, digits)) = value.split_at_checked(self.algorithm.name().len() + 1) else {
            return false;
        };
        let names_it = method
            .strip_suffix(b"=")
            .is_some_and(|name| name.eq_ignore_ascii_case(self.algorithm.name().as_bytes()));
        let fits = (1..=HEX_BYTES_MAX).contains(&digits.len());
        let tag = if names_it && fits { hex::decoded(digits) } else { None };
        tag.is_some_and(|tag| hmac::verify(&self.key, bytes, &tag).is_ok())
    }
}

impl fmt::Debug for SigningKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// The maximum number of hexadecimal digits: the longest signature, that of SHA-512, has 64 bytes.
const HEX_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 4] =
        [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512];

    #[test]
    fn signatures_are_those_of_rfc_2202_and_4231() {
        let (secret, text) = (b"Jefe", b"what do ya want for nothing?");
        for (algorithm, begins) in [
            (Algorithm::Sha1, "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Algorithm::Sha256, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b9"),
            (Algorithm::Sha384, "sha384=af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec373"),
            (Algorithm::Sha512, "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7"),
        ] {
            let signed = SigningKey::new(algorithm, secret).sign(text);
            assert!(signed.starts_with(begins), "{signed}");
        }
    }

    #[test]
    fn only_the_right_signature_of_the_right_bytes_is_accepted() {
        for algorithm in ALL {
            let key = SigningKey::new(algorithm, b"s3cret");
            let right = key.sign(b"body");
            assert!(key.accepts(right.as_bytes(), b"body"));
            assert!(key.accepts(right.to_uppercase().as_bytes(), b"body"));
            assert!(!key.accepts(right.as_bytes(), b"bodY"));
            assert!(!SigningKey::new(algorithm, b"other").accepts(right.as_bytes(), b"body"));
            let (name, hex) = right.split_once('=').unwrap();
            let wrong = [
                String::new(),
                name.to_owned(),
                format!("{name}="),
                hex.to_owned(),
                format!("={hex}"),
                format!("{name}={}", hex.get(1..).unwrap()),
                format!("{name}={}", hex.get(2..).unwrap()),
                format!("{name}={hex}00"),
                format!("{name}={hex} x"),
                format!("{name}={hex},{name}={hex}"),
                format!("{name}={}", "zz".repeat(hex.len() / 2)),
                format!("{name}={}", "0".repeat(hex.len())),
                format!("{name}={}", "+1".repeat(hex.len() / 2)),
                format!("md5={hex}"),
                "x".repeat(100_000),
            ];
            for value in wrong {
                assert!(!key.accepts(value.as_bytes(), b"body"), "{value}");
            }
        }
    }

    #[test]
    fn a_signature_is_valid_only_for_its_algorithm() {
        let (one, other) = (SigningKey::new(ALL[0], b"k"), SigningKey::new(ALL[1], b"k"));
        assert!(!other.accepts(one.sign(b"x").as_bytes(), b"x"));
        assert!(!one.accepts(other.sign(b"x").as_bytes(), b"x"));
    }
}
