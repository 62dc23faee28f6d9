//! Public keys in PEM files: `PUBLIC KEY`, `RSA PUBLIC KEY` and `CERTIFICATE`.

use ::pem::Pem;

use crate::der::{Reader, SEQUENCE};

/// The parts of a public key.
pub(crate) enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The point, uncompressed.
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

/// Returns the blocks of a PEM text, or `None` if one of them is malformed.
pub(crate) fn blocks(text: &str) -> Option<Vec<Pem>> {
    // The library parses the lines of a block before an empty line as headers, so empty lines are removed.
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let blocks = ::pem::parse_many(&text).ok()?;
    // The library ignores a block without an end line. It was meant as a key, so it must be an error.
    (blocks.len() == text.matches("-----BEGIN ").count()).then_some(blocks)
}

/// Returns the key in a block, or `None` if it contains no supported key.
pub(crate) fn public(block: &Pem) -> Option<Public> {
    let bytes = block.contents();
    match block.tag() {
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

/// Returns the key of a certificate: the sequence after the subject's name (RFC 5280, 4.1).
fn certificate(bytes: &[u8]) -> Option<Public> {
    let mut certificate = Reader::new(Reader::new(bytes).tagged(SEQUENCE)?);
    let mut fields = Reader::new(certificate.tagged(SEQUENCE)?);
    const VERSION: u8 = 0xa0;
    let mut after = fields;
    if after.next()?.0 == VERSION {
        fields = after;
    }
    // Skips serial number, signature algorithm, issuer, validity and subject.
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

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = "-----BEGIN PUBLIC KEY-----\nAQID\nBAUG\n-----END PUBLIC KEY-----\n";

    #[test]
    fn blocks_are_found_whatever_stands_between_them() {
        let two = format!("of the first issuer\n{BLOCK}\nand of the other:\n\n{BLOCK}");
        for end in ["\n", "\r\n", "\n  ", "\n\n", "\r\n \r\n"] {
            let text = &two.replace('\n', end);
            let blocks = blocks(text).expect(text);
            let read: Vec<_> = blocks.iter().map(|block| (block.tag(), block.contents())).collect();
            assert_eq!(read, [("PUBLIC KEY", &[1, 2, 3, 4, 5, 6][..]); 2], "{text:?}");
        }
        assert!(blocks("no key").is_some_and(|blocks| blocks.is_empty()));
    }

    #[test]
    fn a_malformed_block_is_refused() {
        for (whole, broken) in [
            ("-----END PUBLIC KEY-----", ""),
            ("-----END PUBLIC KEY-----", "-----END PUBLIC KEY"),
            ("-----END PUBLIC", "-----END PRIVATE"),
            ("-----BEGIN PUBLIC", "------BEGIN PUBLIC"),
            ("AQID", "AQ!D"),
            ("AQID", "AQI"),
        ] {
            for text in
                [BLOCK.replace(whole, broken), format!("{BLOCK}{}", BLOCK.replace(whole, broken))]
            {
                assert!(blocks(&text).is_none(), "{text}");
            }
        }
    }
}
