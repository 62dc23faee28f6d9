//! The subject of a certificate as a list of attributes, and its text form (RFC 4514).

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// Short names of attribute types, each with its object identifier (RFC 4514, section 3, and the names that OpenSSL prints).
const TYPES: &[(&str, &str)] = &[
    ("CN", "2.5.4.3"),
    ("SN", "2.5.4.4"),
    ("SERIALNUMBER", "2.5.4.5"),
    ("C", "2.5.4.6"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("S", "2.5.4.8"),
    ("STREET", "2.5.4.9"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("T", "2.5.4.12"),
    ("TITLE", "2.5.4.12"),
    ("GN", "2.5.4.42"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("E", "1.2.840.113549.1.9.1"),
    ("EMAILADDRESS", "1.2.840.113549.1.9.1"),
];

/// A distinguished name. Two names are the same if they have the same relative names in the same or in reverse order: RFC 4514 begins with
/// the last one, OpenSSL with the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject(Vec<RelativeName>);

/// The attributes of one relative name, sorted: pairs of an object identifier and a value.
type RelativeName = Vec<(String, String)>;

impl Subject {
    /// Parses a text such as `CN=ops,O=Tide`. The error describes the mistake to the operator.
    pub fn parse(text: &str) -> Result<Subject, String> {
        let mut names = vec![RelativeName::new()];
        for (part, end) in parts(text)? {
            let (kind, value) = part.split_once('=').ok_or("an attribute has no `=`")?;
            let attribute = (object_identifier(kind.trim())?, unescaped(value.trim_start())?);
            if let Some(last) = names.last_mut() {
                last.push(attribute);
                last.sort();
            }
            if end == ',' {
                names.push(RelativeName::new());
            }
        }
        if names.iter().any(Vec::is_empty) {
            Err("a relative name is empty".to_owned())
        } else {
            Ok(Subject(names))
        }
    }

    /// Returns the subject of a certificate (DER), or `None` if it cannot be parsed, or has a value that is not text.
    pub fn of_certificate(der: &[u8]) -> Option<Subject> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let mut names = Vec::new();
        for relative in certificate.subject().iter_rdn() {
            let mut attributes = RelativeName::new();
            for attribute in relative.iter() {
                let value = attribute.as_str().ok()?;
                attributes.push((attribute.attr_type().to_id_string(), value.to_owned()));
            }
            attributes.sort();
            names.push(attributes);
        }
        (!names.is_empty()).then_some(Subject(names))
    }

    /// Returns true if both are the same name.
    pub fn is_same(&self, other: &Subject) -> bool {
        self.0 == other.0 || self.0.iter().rev().eq(&other.0)
    }
}

/// Splits a text into attributes. Returns each with the separator after it: `+`, `,` (also for `;`), or `\0` after the last one.
fn parts(text: &str) -> Result<Vec<(String, char)>, String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                part.push(c);
                part.push(rest.next().ok_or("it ends in `\\`")?);
            }
            ',' | ';' => parts.push((std::mem::take(&mut part), ',')),
            '+' => parts.push((std::mem::take(&mut part), '+')),
            c => part.push(c),
        }
    }
    parts.push((part, '\0'));
    Ok(parts)
}

fn object_identifier(kind: &str) -> Result<String, String> {
    let dotted = kind.strip_prefix("OID.").unwrap_or(kind);
    if !dotted.is_empty() && dotted.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Ok(dotted.to_owned());
    }
    let known = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
    known
        .map(|(_, id)| (*id).to_owned())
        .ok_or_else(|| format!("`{kind}` is not a known attribute type"))
}

/// Removes the escapes of a value. Spaces at its end count only if they are escaped.
fn unescaped(value: &str) -> Result<String, String> {
    if value.starts_with('#') {
        return Err("a value in hexadecimal cannot be compared; write its text".to_owned());
    }
    let (mut bytes, mut kept) = (Vec::new(), 0);
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        let mut encoded = [0; 4];
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut encoded).as_bytes());
            if c != ' ' {
                kept = bytes.len();
            }
            continue;
        }
        let escaped = rest.next().ok_or("it ends in `\\`")?;
        let low = rest.peek().and_then(|low| low.to_digit(16));
        match (escaped.to_digit(16), low) {
            (Some(high), Some(low)) => {
                rest.next();
                bytes.push(u8::try_from(high << 4 | low).unwrap_or(u8::MAX));
            }
            _ => bytes.extend_from_slice(escaped.encode_utf8(&mut encoded).as_bytes()),
        }
        kept = bytes.len();
    }
    // Harmless: unescaped spaces at the end of a value are insignificant (RFC 4514).
    bytes.truncate(kept);
    if bytes.is_empty() {
        Err("an attribute has no value".to_owned())
    } else {
        String::from_utf8(bytes).map_err(|_| "a value is not UTF-8".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_by_their_attributes_in_either_order() {
        let read = |text: &str| Subject::parse(text).unwrap();
        let ops = read("CN=ops,O=Tide");
        for (text, same) in [
            ("CN=ops, O=Tide", true),
            ("O=Tide,CN=ops", true),
            ("cn = ops;o=Tide", true),
            ("2.5.4.3=ops,OID.2.5.4.10=Tide", true),
            ("CN=\\6fps,O=Tide", true),
            ("CN=ops,O=Tide ", true),
            ("CN=ops", false),
            ("CN=ops,O=Tide,C=DE", false),
            ("CN=ops+O=Tide", false),
            ("CN=Ops,O=Tide", false),
            ("CN=ops\\,O=Tide,O=Tide", false),
        ] {
            assert_eq!(read(text).is_same(&ops), same, "{text}");
        }
        assert!(read("CN=a+UID=b").is_same(&read("UID=b+CN=a")));
        for text in ["", "ops", "CN=ops,", "XX=ops", "CN=", "CN=#0403", "CN=a\\"] {
            assert!(Subject::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_certificate_has_the_subject_it_was_made_with() {
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Tide, Inc");
        params.distinguished_name.push(rcgen::DnType::CommonName, "ops");
        let key = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let subject = Subject::of_certificate(made.der()).unwrap();
        assert!(subject.is_same(&Subject::parse("CN=ops,O=Tide\\, Inc").unwrap()));
        assert_eq!(Subject::of_certificate(b"x"), None);
    }
}
