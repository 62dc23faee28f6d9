//! Tokens of every kind, good and bad, as an issuer or an attacker makes them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::harness::Origin;

/// A key of an issuer.
pub(crate) struct Key {
    pair: Pair,
    id: String,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair, &'static Curve),
    Ed25519(Ed25519KeyPair),
}

/// A curve, with an algorithm for its keys.
pub(crate) struct Curve {
    name: &'static str,
    algorithm: &'static str,
    signing: &'static EcdsaSigningAlgorithm,
}

pub(crate) static P256: Curve = Curve {
    name: "P-256",
    algorithm: "ES256",
    signing: &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
};
pub(crate) static P384: Curve = Curve {
    name: "P-384",
    algorithm: "ES384",
    signing: &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
};
pub(crate) static P521: Curve = Curve {
    name: "P-521",
    algorithm: "ES512",
    signing: &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
};

/// Keys take long to make; those of the tests are these.
pub(crate) static RSA: LazyLock<Key> = LazyLock::new(|| {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    Key { pair: Pair::Rsa(pair), id: "rsa".to_owned() }
});
pub(crate) static EC: LazyLock<Key> = LazyLock::new(|| Key::new("ec"));
pub(crate) static OTHER_EC: LazyLock<Key> = LazyLock::new(|| Key::new("other"));
pub(crate) static ED: LazyLock<Key> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::generate().unwrap();
    Key { pair: Pair::Ed25519(pair), id: "ed".to_owned() }
});

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Key {
    /// A new key on P-256.
    pub(crate) fn new(id: &str) -> Key {
        Key::on(&P256, id)
    }

    /// A new key on a curve.
    pub(crate) fn on(curve: &'static Curve, id: &str) -> Key {
        let pair = EcdsaKeyPair::generate(curve.signing).unwrap();
        Key { pair: Pair::Ec(pair, curve), id: id.to_owned() }
    }

    fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_, curve) => curve.algorithm,
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// The public half, pinned to no algorithm but by its kind.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let key = pair.public_key();
                json!({
                    "kty": "RSA",
                    "n": base64(key.modulus().big_endian_without_leading_zero()),
                    "e": base64(key.exponent().big_endian_without_leading_zero()),
                })
            }
            Pair::Ec(pair, curve) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({ "kty": "EC", "crv": curve.name, "x": base64(x), "y": base64(y) })
            }
            Pair::Ed25519(pair) => {
                let x = base64(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        };
        jwk["kid"] = self.id.as_str().into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// The public half as PEM.
    pub(crate) fn pem(&self) -> String {
        let der = match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Pair::Ec(pair, _) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
        };
        let lines: Vec<String> = STANDARD
            .encode(der)
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
    }

    /// A token with these claims in addition to those of a valid one.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let mut all = json!({ "iss": "https://idp.test", "sub": "alice", "exp": now() + 600 });
        let all_claims = all.as_object_mut().unwrap();
        for (name, value) in claims.as_object().unwrap() {
            if value.is_null() {
                drop(all_claims.remove(name))
            } else {
                drop(all_claims.insert(name.clone(), value.clone()))
            }
        }
        self.sign(&json!({ "alg": self.algorithm(), "kid": self.id }).to_string(), &all.to_string())
    }

    /// A token with exactly this header and payload, signed as the header specifies if the key allows it.
    pub(crate) fn sign(&self, header: &str, payload: &str) -> String {
        let signed = format!("{}.{}", base64(header), base64(payload));
        let random = SystemRandom::new();
        let bytes = signed.as_bytes();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let kind: &'static dyn signature::RsaEncoding = if header.contains("RS384") {
                    &signature::RSA_PKCS1_SHA384
                } else if header.contains("RS512") {
                    &signature::RSA_PKCS1_SHA512
                } else if header.contains("PS256") {
                    &signature::RSA_PSS_SHA256
                } else if header.contains("PS384") {
                    &signature::RSA_PSS_SHA384
                } else if header.contains("PS512") {
                    &signature::RSA_PSS_SHA512
                } else {
                    &signature::RSA_PKCS1_SHA256
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(kind, &random, bytes, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair, _) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{signed}.{}", base64(signature))
    }
}

/// A token whose signature is a HMAC with these bytes as the key: an attacker's, made with a public key.
pub(crate) fn hmac_token(secret: &[u8], header: &str, payload: &str) -> String {
    let signed = format!("{}.{}", base64(header), base64(payload));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", base64(tag))
}

/// Starts an issuer that is found by discovery: its name is the URL of the origin with `/realm`. Its only key is [`EC`].
pub(crate) fn issuer_by_discovery() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let own = format!("http://{}", request.get("host").unwrap());
            let (status, body) = match request.target() {
                "/realm/.well-known/openid-configuration" => {
                    let found =
                        json!({ "issuer": format!("{own}/realm"), "jwks_uri": format!("{own}/k") });
                    (200, found.to_string())
                }
                "/k" => (200, jwks(&[&EC])),
                _ => (404, String::new()),
            };
            let length = body.len();
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        }
    })
}

/// A key set.
pub(crate) fn jwks(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() }).to_string()
}
