//! Public keys in PEM files: `PUBLIC KEY`, `RSA PUBLIC KEY` and `CERTIFICATE`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::der::{Reader, SEQUENCE};

/// The parts of a public key.
pub(crate) enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The uncompressed point.
    Ec {
        curve: &'static str,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const CURVES: &[(&[u8], &str)] = &[
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "P-256"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "P-384"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "P-521"),
];

/// The blocks of a PEM text: label and bytes. None if one of them is malformed.
pub(crate) fn blocks(text: &str) -> Option<Vec<(String, Vec<u8>)>> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines().map(str::trim) {
        if let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----"))
        {
            open = Some((label.to_owned(), String::new()));
        } else if line.starts_with("-----END ") {
            let (label, base64) = open.take()?;
            blocks.push((label, STANDARD.decode(base64).ok()?));
        } else if let Some((_, base64)) = &mut open {
            base64.push_str(line);
        }
    }
    open.is_none().then_some(blocks)
}

/// The key of a block; none if it holds no supported key.
pub(crate) fn public(label: &str, bytes: &[u8]) -> Option<Public> {
    match label {
        "PUBLIC KEY" => subject_public_key_info(Reader::new(bytes).tagged(SEQUENCE)?),
        "RSA PUBLIC KEY" => rsa(bytes),
        "CERTIFICATE" => certificate(bytes),
        _ => None,
    }
}

fn rsa(bytes: &[u8]) -> Option<Public> {
    let mut numbers = Reader::new(Reader::new(bytes).tagged(SEQUENCE)?);
    let (modulus, exponent) = (numbers.unsigned()?.to_vec(), numbers.unsigned()?.to_vec());
    numbers.is_empty().then_some(Public::Rsa { modulus, exponent })
}

/// RFC 5280, 4.1: the key is the sequence after the subject's name.
fn certificate(bytes: &[u8]) -> Option<Public> {
    let mut certificate = Reader::new(Reader::new(bytes).tagged(SEQUENCE)?);
    let mut fields = Reader::new(certificate.tagged(SEQUENCE)?);
    const VERSION: u8 = 0xa0;
    let mut after = fields;
    if after.next()?.0 == VERSION {
        fields = after;
    }
    // Serial number, signature algorithm, issuer, validity, subject.
    for _ in 0..5 {
        fields.next()?;
    }
    subject_public_key_info(fields.tagged(SEQUENCE)?)
}

fn subject_public_key_info(contents: &[u8]) -> Option<Public> {
    let mut fields = Reader::new(contents);
    let mut algorithm = Reader::new(fields.tagged(SEQUENCE)?);
    let id = algorithm.object_id()?;
    let bits = fields.bits()?;
    if id == RSA {
        return rsa(bits);
    }
    if id == ED25519 {
        return Some(Public::Ed25519(bits.to_vec()));
    }
    if id != EC {
        return None;
    }
    let curve = algorithm.object_id()?;
    let (_, curve) = CURVES.iter().find(|(id, _)| *id == curve)?;
    Some(Public::Ec { curve, point: bits.to_vec() })
}
