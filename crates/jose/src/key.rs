//! One key, and the algorithms it may verify.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::algorithm::Algorithm;
use crate::json::Object;
use crate::pem::Public;
use crate::{der, roca};

/// A key that verifies signatures.
pub struct Key {
    /// The key's name in tokens (`kid`), if it has one.
    pub id: Option<Box<str>>,
    /// The key's algorithms, each with its verifier.
    verifiers: Vec<(Algorithm, Verifier)>,
}

enum Verifier {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// The reason why a key cannot be used. It never contains anything of the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// A member is missing, doubled or invalid.
    Malformed,
    /// An unsupported kind of key, curve or algorithm.
    Unsupported,
    /// `use` or `key_ops` give the key another purpose.
    NotForVerifying,
    /// `alg` does not fit this kind of key.
    Mismatch,
    /// Another key of the set has the same name and algorithm.
    Doubled,
    /// A shared secret beside public keys.
    Exposed,
    /// Too short, or made by a method that is known to be broken.
    Weak,
}

/// The smallest RSA modulus that is accepted (NIST SP 800-131A).
const RSA_BITS_MIN: usize = 2048;
/// Verifying with a larger modulus takes so long that a client could keep a worker busy.
const RSA_BITS_MAX: usize = 8192;
/// A longer exponent is unusual and slow. Ordinary ones have three bytes.
const EXPONENT_BYTES_MAX: usize = 4;

impl Key {
    /// Parses a JWK.
    pub fn from_jwk(jwk: &Object) -> Result<Key, KeyError> {
        // A key for encryption may have an algorithm that is not known here.
        is_for_verifying(jwk)?;
        let algorithm = named(jwk)?;
        let verifiers = match text(jwk, "kty")? {
            "RSA" => rsa(&bytes(jwk, "n")?, &bytes(jwk, "e")?)?,
            "EC" => {
                let (x, y) = (bytes(jwk, "x")?, bytes(jwk, "y")?);
                ec(text(jwk, "crv")?, &[&[4], &x[..], &y[..]].concat())?
            }
            "OKP" if text(jwk, "crv")? == "Ed25519" => ed25519(&bytes(jwk, "x")?)?,
            "oct" => secret(&bytes(jwk, "k")?)?,
            _ => return Err(KeyError::Unsupported),
        };
        let id = match jwk.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.as_str().into()),
            Some(_) => return Err(KeyError::Malformed),
        };
        Key { id, verifiers }.only(algorithm)
    }

    pub(crate) fn of_secret(bytes: &[u8]) -> Result<Key, KeyError> {
        Ok(Key { id: None, verifiers: secret(bytes)? })
    }

    pub(crate) fn from_public(public: &Public) -> Result<Key, KeyError> {
        let verifiers = match public {
            Public::Rsa { modulus, exponent } => rsa(modulus, exponent)?,
            Public::Ec { curve, point } => ec(curve, point)?,
            Public::Ed25519(bytes) => ed25519(bytes)?,
        };
        Ok(Key { id: None, verifiers })
    }

    /// Restricts the key to its algorithm, if it names one.
    fn only(mut self, algorithm: Option<Algorithm>) -> Result<Key, KeyError> {
        if let Some(algorithm) = algorithm {
            self.verifiers.retain(|(known, _)| *known == algorithm);
        }
        if self.verifiers.is_empty() { Err(KeyError::Mismatch) } else { Ok(self) }
    }

    /// The algorithms that the key may be used for.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.verifiers.iter().map(|(algorithm, _)| *algorithm)
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.verifiers.iter().any(|(_, verifier)| matches!(verifier, Verifier::Secret(_)))
    }

    /// True if `signature` is this key's signature over `message` with that algorithm.
    pub(crate) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verifier = self.verifiers.iter().find(|(known, _)| *known == algorithm);
        match verifier.map(|(_, verifier)| verifier) {
            None => false,
            Some(Verifier::Public(key)) => key.verify_sig(message, signature).is_ok(),
            Some(Verifier::Secret(key)) => hmac::verify(key, message, signature).is_ok(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {:?})", self.id, self.algorithms().collect::<Vec<_>>())
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyError::Malformed => "it cannot be read",
            KeyError::Unsupported => "its kind, curve or algorithm is not supported",
            KeyError::NotForVerifying => "`use` or `key_ops` say that it is not for signatures",
            KeyError::Mismatch => "its `alg` is not for this kind of key",
            KeyError::Doubled => "another key has the same `kid`, so neither of them is used",
            KeyError::Exposed => "it is a shared secret beside public keys, so it is not secret",
            KeyError::Weak => "it is too short or made in a broken way",
        })
    }
}

fn text<'j>(jwk: &'j Object, name: &str) -> Result<&'j str, KeyError> {
    jwk.get(name).and_then(Value::as_str).ok_or(KeyError::Malformed)
}

fn bytes(jwk: &Object, name: &str) -> Result<Vec<u8>, KeyError> {
    URL_SAFE_NO_PAD.decode(text(jwk, name)?).map_err(|_| KeyError::Malformed)
}

fn named(jwk: &Object) -> Result<Option<Algorithm>, KeyError> {
    match jwk.get("alg") {
        None => Ok(None),
        Some(Value::String(name)) => Algorithm::named(name).map(Some).ok_or(KeyError::Unsupported),
        Some(_) => Err(KeyError::Malformed),
    }
}

fn is_for_verifying(jwk: &Object) -> Result<(), KeyError> {
    let used = jwk.get("use").is_none_or(|used| used == "sig");
    let operations = match jwk.get("key_ops") {
        None => true,
        Some(Value::Array(operations)) => operations.iter().any(|operation| operation == "verify"),
        Some(_) => false,
    };
    if used && operations { Ok(()) } else { Err(KeyError::NotForVerifying) }
}

type Verifiers = Vec<(Algorithm, Verifier)>;

fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Verifiers, KeyError> {
    let modulus = without_zeros(modulus);
    let exponent = without_zeros(exponent);
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |b| b.leading_zeros() as usize);
    let odd = exponent.last().is_some_and(|last| last % 2 == 1);
    let believed = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits)
        && odd
        && exponent != [1]
        && exponent.len() <= EXPONENT_BYTES_MAX
        && !roca::is_weak(modulus);
    if !believed {
        return Err(KeyError::Weak);
    }
    let der = der::rsa_public_key(modulus, exponent);
    let kinds: [(Algorithm, &'static dyn VerificationAlgorithm); 6] = [
        (Algorithm::Rs256, &signature::RSA_PKCS1_2048_8192_SHA256),
        (Algorithm::Rs384, &signature::RSA_PKCS1_2048_8192_SHA384),
        (Algorithm::Rs512, &signature::RSA_PKCS1_2048_8192_SHA512),
        (Algorithm::Ps256, &signature::RSA_PSS_2048_8192_SHA256),
        (Algorithm::Ps384, &signature::RSA_PSS_2048_8192_SHA384),
        (Algorithm::Ps512, &signature::RSA_PSS_2048_8192_SHA512),
    ];
    kinds.into_iter().map(|(algorithm, kind)| public(algorithm, kind, &der)).collect()
}

fn ec(curve: &str, point: &[u8]) -> Result<Verifiers, KeyError> {
    let (algorithm, kind): (_, &'static dyn VerificationAlgorithm) = match curve {
        "P-256" => (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED),
        "P-384" => (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED),
        "P-521" => (Algorithm::Es512, &signature::ECDSA_P521_SHA512_FIXED),
        _ => return Err(KeyError::Unsupported),
    };
    Ok(vec![public(algorithm, kind, point)?])
}

fn ed25519(bytes: &[u8]) -> Result<Verifiers, KeyError> {
    Ok(vec![public(Algorithm::EdDsa, &signature::ED25519, bytes)?])
}

fn public(
    algorithm: Algorithm,
    kind: &'static dyn VerificationAlgorithm,
    bytes: &[u8],
) -> Result<(Algorithm, Verifier), KeyError> {
    let key = ParsedPublicKey::new(kind, bytes).map_err(|_| KeyError::Malformed)?;
    Ok((algorithm, Verifier::Public(key)))
}

/// RFC 7518, 3.2: a key has to be at least as long as the hash.
fn secret(bytes: &[u8]) -> Result<Verifiers, KeyError> {
    let kinds = [
        (Algorithm::Hs256, hmac::HMAC_SHA256, 32),
        (Algorithm::Hs384, hmac::HMAC_SHA384, 48),
        (Algorithm::Hs512, hmac::HMAC_SHA512, 64),
    ];
    let long_enough = kinds.into_iter().filter(|(_, _, least)| bytes.len() >= *least);
    let verifiers: Verifiers = long_enough
        .map(|(algorithm, kind, _)| {
            (algorithm, Verifier::Secret(Box::new(hmac::Key::new(kind, bytes))))
        })
        .collect();
    if verifiers.is_empty() { Err(KeyError::Weak) } else { Ok(verifiers) }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}
