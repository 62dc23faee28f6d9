//! Test tokens: a key, the JSON Web Tokens it signs, and the key set that verifies them.
//!
//! For demos and tests. It never verifies anything, and its keys must never protect real data.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

/// A signature algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256: small keys and tokens, made quickly.
    #[default]
    Es256,
    /// RSA of 2048 bits, which most issuers use.
    Rs256,
}

/// The claims of a token.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// `iss`
    pub issuer: Option<String>,
    /// `sub`
    pub subject: Option<String>,
    /// `aud`: one is written as a string, several as a list.
    pub audiences: Vec<String>,
    /// `scope`, separated by spaces.
    pub scope: Option<String>,
    /// `exp`, counted from now.
    pub expires_in: Option<Duration>,
    /// Other claims; they override the ones above.
    pub others: Map<String, Value>,
}

/// A key that signs tokens.
#[derive(Debug)]
pub struct Minter {
    key: Key,
    /// RFC 7638 thumbprint: the same for the same key in every process.
    id: String,
}

#[derive(Debug)]
enum Key {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

impl Minter {
    /// Generates a new key, which is not stored.
    ///
    /// # Errors
    ///
    /// If no key can be generated.
    pub fn new(algorithm: Algorithm) -> io::Result<Self> {
        Self::from_pem(&generate(algorithm)?)
    }

    /// Loads the key in the file (PEM, of either algorithm). If the file does not exist, generates a key and stores it there.
    ///
    /// # Errors
    ///
    /// If the file can be neither read nor created, or contains no supported signing key.
    pub fn load_or_create(file: &Path, algorithm: Algorithm) -> io::Result<Self> {
        match fs::read_to_string(file) {
            Ok(pem) => Self::from_pem(&pem),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pem = generate(algorithm)?;
                let mut options = OpenOptions::new();
                let mut created = options.write(true).create_new(true).mode(0o600).open(file)?;
                created.write_all(pem.as_bytes())?;
                Self::from_pem(&pem)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a signed token.
    ///
    /// # Errors
    ///
    /// If the signature cannot be made.
    pub fn mint(&self, claims: &Claims) -> io::Result<String> {
        let now = kit::clock::wall();
        let header = json!({ "alg": self.key.algorithm(), "typ": "JWT", "kid": self.id });
        let claims = Value::Object(claims.members(now));
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.key.sign(signed.as_bytes()).map_err(io::Error::other)?;
        Ok(format!("{signed}.{}", encode(signature)))
    }

    /// Returns the key set (RFC 7517) with the public key, in the form that issuers publish.
    #[must_use]
    pub fn jwks(&self) -> Value {
        let mut key = self.key.public_members();
        key.insert("use".to_owned(), "sig".into());
        key.insert("alg".to_owned(), self.key.algorithm().into());
        key.insert("kid".to_owned(), self.id.as_str().into());
        json!({ "keys": [key] })
    }

    fn from_pem(pem: &str) -> io::Result<Self> {
        let key = Key::from_pem(pem)?;
        let members = Value::Object(key.public_members()).to_string();
        let id = encode(digest::digest(&digest::SHA256, members.as_bytes()));
        Ok(Self { key, id })
    }
}

fn generate(algorithm: Algorithm) -> io::Result<String> {
    let algorithm = match algorithm {
        Algorithm::Es256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        Algorithm::Rs256 => &rcgen::PKCS_RSA_SHA256,
    };
    let key = rcgen::KeyPair::generate_for(algorithm).map_err(io::Error::other)?;
    Ok(key.serialize_pem())
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Claims {
    fn members(&self, now: Duration) -> Map<String, Value> {
        let mut members = Map::new();
        let audience = match self.audiences.as_slice() {
            [] => None,
            [audience] => Some(Value::from(audience.as_str())),
            audiences => Some(Value::from(audiences)),
        };
        let expires = self.expires_in.map(|expires_in| (now + expires_in).as_secs().into());
        let named = [
            ("iss", self.issuer.as_deref().map(Value::from)),
            ("sub", self.subject.as_deref().map(Value::from)),
            ("aud", audience),
            ("scope", self.scope.as_deref().map(Value::from)),
            ("iat", Some(now.as_secs().into())),
            ("exp", expires),
        ];
        for (name, value) in named {
            members.extend(value.map(|value| (name.to_owned(), value)));
        }
        members.extend(self.others.clone());
        members
    }
}

impl Key {
    fn from_pem(pem: &str) -> io::Result<Self> {
        let wrong = || io::Error::other("no unencrypted private key of ECDSA P-256 or RSA as PEM");
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| wrong())?;
        let (bytes, curve) = (der.secret_der(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let elliptic = match &der {
            PrivateKeyDer::Sec1(_) => EcdsaKeyPair::from_private_key_der(curve, bytes),
            PrivateKeyDer::Pkcs1(_) | PrivateKeyDer::Pkcs8(_) | _ => {
                EcdsaKeyPair::from_pkcs8(curve, bytes)
            }
        };
        // Harmless: a key of another kind is tried below.
        if let Ok(key) = elliptic {
            return Ok(Self::Es256(key));
        }
        // PKCS#1, or PKCS#8.
        let rsa = RsaKeyPair::from_der(bytes).or_else(|_| RsaKeyPair::from_pkcs8(bytes));
        rsa.map(Self::Rs256).map_err(|_| wrong())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, aws_lc_rs::error::Unspecified> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) => Ok(key.sign(&random, message)?.as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                Ok(signature)
            }
        }
    }

    /// Returns the required members in lexical order, in which RFC 7638 hashes them.
    fn public_members(&self) -> Map<String, Value> {
        let members = match self {
            Self::Es256(key) => {
                // An uncompressed point: 4, x, y (SEC 1, section 2.3.3).
                let point = key.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                json!({ "crv": "P-256", "kty": "EC", "x": encode(x), "y": encode(y) })
            }
            Self::Rs256(key) => {
                let modulus = key.public_key().modulus();
                let exponent = key.public_key().exponent();
                json!({
                    "e": encode(exponent.big_endian_without_leading_zero()),
                    "kty": "RSA",
                    "n": encode(modulus.big_endian_without_leading_zero()),
                })
            }
        };
        if let Value::Object(members) = members { members } else { Map::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
        UnparsedPublicKey,
    };

    fn decode(text: &Value) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap()
    }

    /// Verifies a token with only the published key set.
    fn verifies(token: &str, jwks: &Value) -> bool {
        let key = &jwks["keys"][0];
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        match key["alg"].as_str().unwrap() {
            "ES256" => {
                let point = [vec![4], decode(&key["x"]), decode(&key["y"])].concat();
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed.as_bytes(), &signature).is_ok()
            }
            _ => {
                let key = RsaPublicKeyComponents { n: decode(&key["n"]), e: decode(&key["e"]) };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).is_ok()
            }
        }
    }

    #[test]
    fn tokens_verify_with_the_published_key_only() {
        for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
            let minter = Minter::new(algorithm).unwrap();
            let token = minter.mint(&Claims::default()).unwrap();
            assert!(verifies(&token, &minter.jwks()), "{algorithm:?}");
            let (head, rest) = token.split_once('.').unwrap();
            assert!(!verifies(&format!("{head}.x{rest}"), &minter.jwks()), "{algorithm:?}");
            let another = Minter::new(algorithm).unwrap();
            assert!(!verifies(&token, &another.jwks()), "{algorithm:?}");
        }
    }

    #[test]
    fn claims_are_written_as_asked() {
        let minter = Minter::new(Algorithm::Es256).unwrap();
        let claims = Claims {
            issuer: Some("https://issuer".to_owned()),
            subject: Some("alice".to_owned()),
            audiences: vec!["a".to_owned(), "b".to_owned()],
            scope: Some("read write".to_owned()),
            expires_in: Some(Duration::from_secs(60)),
            others: Map::from_iter([("scope".to_owned(), "other".into())]),
        };
        let token = minter.mint(&claims).unwrap();
        let parts: Vec<Value> = token
            .split('.')
            .take(2)
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0]["kid"], minter.jwks()["keys"][0]["kid"]);
        let said = &parts[1];
        assert_eq!(said["aud"], json!(["a", "b"]));
        assert_eq!(said["scope"], "other");
        assert_eq!(said["exp"].as_u64().unwrap() - said["iat"].as_u64().unwrap(), 60);
    }

    #[test]
    fn a_key_file_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let made = Minter::load_or_create(&file, Algorithm::Rs256).unwrap();
        let loaded = Minter::load_or_create(&file, Algorithm::Es256).unwrap();
        assert_eq!(made.jwks(), loaded.jwks());
        fs::write(&file, "no key").unwrap();
        assert!(Minter::load_or_create(&file, Algorithm::Es256).is_err());
    }
}
