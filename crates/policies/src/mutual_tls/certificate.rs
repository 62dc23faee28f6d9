//! What a certificate says of its holder (RFC 5280). Whether it is to be believed was settled before.

use jose::der::{Reader, SEQUENCE};

use crate::credentials::sha256;

/// The names in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The last common name of the subject, which is the most particular.
    pub(crate) subject: Option<String>,
    /// Alternative names: DNS names, addresses, URIs and mail addresses.
    pub(crate) names: Vec<String>,
    pub(crate) fingerprint: [u8; 32],
}

const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const SET: u8 = 0x31;
const OCTETS: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

impl Certificate {
    /// Reads DER; nothing where it is no certificate.
    pub(crate) fn read(der: &[u8]) -> Option<Certificate> {
        let mut whole = Reader::new(der);
        let mut certificate = Reader::new(whole.tagged(SEQUENCE)?);
        let mut fields = Reader::new(certificate.tagged(SEQUENCE)?);
        // The signature's algorithm and the signature; somebody else has checked them.
        certificate.tagged(SEQUENCE)?;
        certificate.bits()?;
        if !whole.is_empty() {
            return None;
        }
        let mut after = fields;
        if after.next()?.0 == VERSION {
            fields = after;
        }
        // Serial number, signature algorithm, issuer, validity.
        for _ in 0..4 {
            fields.next()?;
        }
        let subject = common_name(fields.tagged(SEQUENCE)?)?;
        fields.tagged(SEQUENCE)?;
        let mut names = Vec::new();
        while !fields.is_empty() {
            let (tag, contents) = fields.next()?;
            if tag == EXTENSIONS {
                names = alternative_names(Reader::new(contents).tagged(SEQUENCE)?)?;
            }
        }
        Some(Certificate { subject, names, fingerprint: sha256(der) })
    }
}

/// The last common name of a name, which may have none.
fn common_name(name: &[u8]) -> Option<Option<String>> {
    let mut found = None;
    let mut sets = Reader::new(name);
    while !sets.is_empty() {
        let mut set = Reader::new(sets.tagged(SET)?);
        while !set.is_empty() {
            let mut pair = Reader::new(set.tagged(SEQUENCE)?);
            let id = pair.object_id()?;
            let (_, value) = pair.next()?;
            if id == COMMON_NAME {
                found = Some(std::str::from_utf8(value).ok()?.to_owned());
            }
        }
    }
    Some(found)
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Reader::new(extensions);
    while !extensions.is_empty() {
        let mut extension = Reader::new(extensions.tagged(SEQUENCE)?);
        let id = extension.object_id()?;
        let (mut tag, mut contents) = extension.next()?;
        if tag == BOOLEAN {
            (tag, contents) = extension.next()?;
        }
        if id == ALTERNATIVE_NAMES && tag == OCTETS {
            return general_names(Reader::new(contents).tagged(SEQUENCE)?);
        }
    }
    Some(Vec::new())
}

fn general_names(list: &[u8]) -> Option<Vec<String>> {
    const MAIL: u8 = 0x81;
    const DNS: u8 = 0x82;
    const URI: u8 = 0x86;
    const ADDRESS: u8 = 0x87;
    let mut names = Vec::new();
    let mut list = Reader::new(list);
    while !list.is_empty() {
        match list.next()? {
            (MAIL | DNS | URI, text) => names.push(std::str::from_utf8(text).ok()?.to_owned()),
            (ADDRESS, bytes) => names.extend(address(bytes)),
            _ => {}
        }
    }
    Some(names)
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from).ok();
    let address = v4.or_else(|| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from).ok());
    address.map(|address| address.to_string())
}
