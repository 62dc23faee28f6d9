//! Converts the public key of a key set to PEM, for gateways that do not read key sets.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// The name of the signature's algorithm, and the key.
pub(super) struct PublicKey {
    pub(super) algorithm: String,
    pub(super) pem: String,
}

/// What precedes a point of P-256: `SubjectPublicKeyInfo` with its curve (RFC 5480).
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
/// `rsaEncryption` with its parameters (RFC 3279).
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;

/// Returns the first key of the set.
pub(super) fn read(jwks: &Path) -> io::Result<PublicKey> {
    let set: Value = serde_json::from_slice(&std::fs::read(jwks)?)?;
    let key = set.get("keys").and_then(|keys| keys.get(0)).unwrap_or(&Value::Null);
    public_key(key).ok_or_else(|| {
        io::Error::other(format!("{}: the first key must be RSA or P-256", jwks.display()))
    })
}

fn public_key(key: &Value) -> Option<PublicKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let (der, usual) = match (text("kty")?, text("crv")) {
        ("RSA", _) => (rsa(&bytes("n")?, &bytes("e")?), "RS256"),
        ("EC", Some("P-256")) => ([P256, &bytes("x")?, &bytes("y")?].concat(), "ES256"),
        _ => return None,
    };
    let base64 = STANDARD.encode(der);
    let lines: Vec<&str> =
        base64.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let pem =
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"));
    Some(PublicKey { algorithm: text("alg").unwrap_or(usual).to_owned(), pem })
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    // Without a leading zero, a number whose highest bit is set would be negative.
    let number = |bytes: &[u8]| {
        if bytes.first().is_some_and(|first| *first >= 0x80) {
            tagged(INTEGER, &[&[0], bytes].concat())
        } else {
            tagged(INTEGER, bytes)
        }
    };
    let key = tagged(SEQUENCE, &[number(modulus), number(exponent)].concat());
    let bits = tagged(BIT_STRING, &[vec![0], key].concat());
    tagged(SEQUENCE, &[RSA.to_vec(), bits].concat())
}

/// Returns a DER element: tag, length and content.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag];
    match length.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    };

    use super::*;
    use backends::token::{Algorithm, Claims, Minter};

    #[test]
    fn a_token_verifies_with_the_key_as_pem() {
        for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
            let minter = Minter::new(algorithm).unwrap();
            let set = minter.jwks();
            let key = public_key(&set["keys"][0]).unwrap();
            let der: String = key.pem.lines().filter(|line| !line.starts_with('-')).collect();
            let der = STANDARD.decode(der).unwrap();
            let token = minter.mint(&Claims::default()).unwrap();
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let verified = match algorithm {
                Algorithm::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, der)
                    .verify(signed.as_bytes(), &signature),
                Algorithm::Rs256 => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der)
                    .verify(signed.as_bytes(), &signature),
            };
            assert!(verified.is_ok(), "{algorithm:?} {}", key.pem);
        }
    }
}
