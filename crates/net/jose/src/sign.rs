//! The gateway's own tokens: a private key that signs, and its public half as a JWK.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::algorithm::Algorithm;
use crate::json::Object;
use crate::pem;

/// A key that signs.
pub struct Signer {
    pair: Pair,
    algorithm: Algorithm,
    /// The RFC 7638 thumbprint, which is the same for a key in every process.
    id: String,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The reason why a key cannot be loaded, or why signing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignError {
    /// The text has no `PRIVATE KEY` block (PKCS#8) with a supported key.
    Key,
    /// The library failed.
    Signing,
}

impl Signer {
    /// Reads the key in the first `PRIVATE KEY` block: RSA for RS256, P-256, P-384 or Ed25519.
    pub fn from_pem(text: &str) -> Result<Signer, SignError> {
        let blocks = pem::blocks(text).ok_or(SignError::Key)?;
        let block = blocks.iter().find(|block| block.tag() == "PRIVATE KEY");
        let der = block.ok_or(SignError::Key)?.contents();
        let (pair, algorithm) = pair(der).ok_or(SignError::Key)?;
        let id = thumbprint(&pair.public_members(algorithm));
        Ok(Signer { pair, algorithm, id })
    }

    /// Returns the name of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the public half, as in a key set.
    pub fn jwk(&self) -> Value {
        let mut members = self.pair.public_members(self.algorithm);
        members.insert("use".to_owned(), "sig".into());
        members.insert("alg".to_owned(), self.algorithm.name().into());
        members.insert("kid".to_owned(), self.id.as_str().into());
        Value::Object(members)
    }

    /// Returns a token with these claims.
    pub fn sign(&self, claims: &Object) -> Result<String, SignError> {
        self.sign_as("JWT", claims)
    }

    /// Returns a token of this type (`typ`) with these claims.
    pub fn sign_as(&self, kind: &str, claims: &Object) -> Result<String, SignError> {
        let header = json!({ "alg": self.algorithm.name(), "typ": kind, "kid": self.id });
        let claims = serde_json::to_vec(claims).map_err(|_| SignError::Signing)?;
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims));
        let signature = self.pair.sign(signed.as_bytes()).ok_or(SignError::Signing)?;
        Ok(format!("{signed}.{}", encode(signature)))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, {})", self.algorithm.name(), self.id)
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the RFC 7638 thumbprint: of the required members, sorted by name, without white space.
fn thumbprint(members: &Map<String, Value>) -> String {
    let mut names: Vec<&String> = members.keys().collect();
    names.sort();
    // Harmless: the names are those of the members, so each of them is found.
    let sorted: Map<String, Value> =
        names.into_iter().filter_map(|n| Some((n.clone(), members.get(n)?.clone()))).collect();
    encode(digest::digest(&digest::SHA256, Value::Object(sorted).to_string().as_bytes()))
}

fn pair(der: &[u8]) -> Option<(Pair, Algorithm)> {
    // Harmless: other kinds of keys are tried below.
    if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
        return Some((Pair::Rsa(pair), Algorithm::Rs256));
    }
    for (kind, algorithm) in [
        (&ECDSA_P256_SHA256_FIXED_SIGNING, Algorithm::Es256),
        (&ECDSA_P384_SHA384_FIXED_SIGNING, Algorithm::Es384),
    ] {
        // Harmless: other kinds of keys are tried next.
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(kind, der) {
            return Some((Pair::Ec(pair), algorithm));
        }
    }
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
    Some((Pair::Ed25519(pair), Algorithm::EdDsa))
}

impl Pair {
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            Pair::Ec(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Pair::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
        }
    }

    /// Returns only the required members.
    fn public_members(&self, algorithm: Algorithm) -> Map<String, Value> {
        let mut members = Map::new();
        let mut say = |name: &str, value: String| {
            members.insert(name.to_owned(), Value::String(value));
        };
        match self {
            Pair::Rsa(pair) => {
                let key = pair.public_key();
                say("kty", "RSA".to_owned());
                say("n", encode(key.modulus().big_endian_without_leading_zero()));
                say("e", encode(key.exponent().big_endian_without_leading_zero()));
            }
            Pair::Ec(pair) => {
                // An uncompressed point: 4, x, y (SEC 1, section 2.3.3).
                let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                let p256 = algorithm == Algorithm::Es256;
                say("kty", "EC".to_owned());
                say("crv", if p256 { "P-256" } else { "P-384" }.to_owned());
                say("x", encode(x));
                say("y", encode(y));
            }
            Pair::Ed25519(pair) => {
                say("kty", "OKP".to_owned());
                say("crv", "Ed25519".to_owned());
                say("x", encode(pair.public_key().as_ref()));
            }
        }
        members
    }
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SignError::Key => "no supported private key (PKCS#8 PEM: RSA, P-256, P-384 or Ed25519)",
            SignError::Signing => "signing failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, KeySet, Token};

    fn pem(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key);
        (key.serialize_pem(), format!("{}{}", key.public_key_pem(), certificate.unwrap().pem()))
    }

    #[test]
    fn signed_tokens_verify_with_the_published_key() {
        for algorithm in [
            &rcgen::PKCS_RSA_SHA256,
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
            &rcgen::PKCS_ED25519,
        ] {
            let (private, public) = pem(algorithm);
            let signer = Signer::from_pem(&private).unwrap();
            let text = signer.sign(&json!({ "sub": "a" }).as_object().cloned().unwrap()).unwrap();
            let token = Token::parse(text.as_bytes()).unwrap();
            let jwks = json!({ "keys": [signer.jwk()] }).to_string();
            let (published, left) = KeySet::from_json(jwks.as_bytes()).unwrap();
            assert!(left.is_empty(), "{left:?}");
            assert_eq!(published.verify(&token), Ok(()), "{signer:?}");

            let from_pem = KeySet::from_pem(&public).unwrap();
            assert_eq!(from_pem.len(), 2, "the key and the certificate");
            assert_eq!(from_pem.verify(&token), Ok(()), "{signer:?}");

            let (other, _) = pem(algorithm);
            let other = json!({ "keys": [Signer::from_pem(&other).unwrap().jwk()] }).to_string();
            let (other, _) = KeySet::from_json(other.as_bytes()).unwrap();
            assert_eq!(other.verify(&token), Err(Error::KeyUnknown));
        }
    }

    #[test]
    fn members_of_a_set_that_are_not_keys_are_reported() {
        let (private, _) = pem(&rcgen::PKCS_ED25519);
        let key = Signer::from_pem(&private).unwrap().jwk();
        let text = json!({ "keys": ["a text", key, null] }).to_string();
        let (keys, left) = KeySet::from_json(text.as_bytes()).unwrap();
        assert_eq!((keys.len(), left.len()), (1, 2), "{left:?}");
        assert!(left.iter().all(|(id, why)| id.is_none() && *why == crate::KeyError::Malformed));
    }

    #[test]
    fn a_token_that_too_many_keys_match_is_ambiguous() {
        let pems: Vec<_> = (0..9).map(|_| pem(&rcgen::PKCS_ED25519)).collect();
        let public: String = pems.iter().map(|(_, public)| public.as_str()).collect();
        let keys = KeySet::from_pem(&public).unwrap();
        let verified = |private: &str| {
            let signer = Signer::from_pem(private).unwrap();
            let text = signer.sign(&json!({ "sub": "a" }).as_object().cloned().unwrap()).unwrap();
            keys.verify(&Token::parse(text.as_bytes()).unwrap())
        };
        assert_eq!(verified(&pems[0].0), Ok(()));
        assert_eq!(verified(&pems[8].0), Err(Error::Ambiguous));
        let (unknown, _) = pem(&rcgen::PKCS_ED25519);
        assert_eq!(verified(&unknown), Err(Error::Ambiguous));
    }

    #[test]
    fn the_thumbprint_is_that_of_the_rfc() {
        // RFC 7638, 3.1.
        let members = json!({
            "kty": "RSA", "e": "AQAB",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        let members = members.as_object().unwrap();
        assert_eq!(thumbprint(members), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }
}
