//! Whether the action a request names is the one the description gives its operation.
//!
//! Owns the table of expected actions and the reading of `SOAPAction` and of the `action` parameter. The texts are the
//! reference system's.

use std::collections::BTreeMap;

use message::Headers;

use super::Version;

/// How strictly the action is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// A request without one passes, whatever the description says.
    Optional,
    /// The description says whether there has to be one.
    Required,
}

/// What the description says of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The version of the binding; none where both are meant.
    pub version: Option<Version>,
    pub action: Box<str>,
    pub required: bool,
    /// The pattern of an operation that is not answered, where that leaves it without an action.
    pub unanswered: Option<Box<str>>,
}

/// Expected actions by the local name of the body's first element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    pub of: BTreeMap<Box<str>, Vec<Expected>>,
}

/// Patterns of WSDL 2.0 that have a reply.
pub const IN_OUT: &str = "http://www.w3.org/ns/wsdl/in-out";
pub const IN_OPT_OUT: &str = "http://www.w3.org/ns/wsdl/in-opt-out";

const INTRO: &str = "Validation of 'SOAPAction' header: ";

impl Actions {
    pub(super) fn check(
        &self,
        strictness: Strictness,
        version: Version,
        operation: &str,
        headers: &Headers,
    ) -> Result<(), String> {
        let refused = |text: String| Err(format!("{INTRO}{text}"));
        let mut lines = headers.get_all("soapaction");
        let header = lines.next();
        if lines.next().is_some() {
            return refused("The 'SOAPAction' header is there more than once".to_owned());
        }
        let content_type = headers.get("content-type").unwrap_or_default();
        let Ok(parameter) = parameter(content_type) else { return refused(MALFORMED.to_owned()) };
        let value = match (version, header, parameter) {
            (_, Some(_), Some(_)) => return refused(BOTH.to_owned()),
            (Version::V11, None, Some(_)) => return refused(OF_12.to_owned()),
            (Version::V12, Some(_), None) => return refused(OF_11.to_owned()),
            (Version::V11, header, None) => header.map(unquoted),
            (Version::V12, None, parameter) => parameter,
        };
        if value.is_none() && strictness == Strictness::Optional {
            return Ok(());
        }
        let known = self.of.get(operation).map(Vec::as_slice).unwrap_or_default();
        let of_version = |of: &&Expected| of.version.is_none_or(|of| of == version);
        let Some(expected) = known.iter().find(of_version) else {
            return refused(format!(
                "Unable to find the Operation '{operation}' of SOAP {} in the WSDL",
                version.text()
            ));
        };
        if let Some(pattern) = &expected.unanswered {
            return refused(format!(
                "the 'pattern' found in WSDL is '{pattern}' and must be '{IN_OUT}' or '{IN_OPT_OUT}'"
            ));
        }
        let wanted = &*expected.action;
        match value {
            None if expected.required => refused(MISSING.to_owned()),
            None => Ok(()),
            Some(value) if value == wanted.as_bytes() => Ok(()),
            Some(value) => {
                let prefix = match version {
                    Version::V11 => "soap",
                    Version::V12 => "soap12",
                };
                refused(format!(
                    "The Operation Name found in '{prefix}:Body' is '{operation}'. According to the WSDL \
                     the 'SOAPAction' should be '{wanted}' and not '{}'",
                    String::from_utf8_lossy(value)
                ))
            }
        }
    }
}

const MISSING: &str =
    "The 'SOAPAction' header is not set but according to the WSDL this value is 'Required'";

const BOTH: &str =
    "'SOAPAction' for SOAP 1.1 and 'action' for SOAP 1.2 have been defined simultaneously";

/// A parameter that belongs to SOAP 1.2.
const OF_12: &str = "Found a SOAP 1.1 envelope and an 'action' field in the 'Content-Type' header \
                     linked with for SOAP 1.2";

/// A header that belongs to SOAP 1.1.
const OF_11: &str = "Found a SOAP 1.2 envelope and a 'SOAPAction' header linked with for SOAP 1.1";

const MALFORMED: &str =
    "'action' has been found in Content-Type header but it's not correctly defined";

/// Without the quotes around it, of either kind.
fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner.trim_ascii(),
        _ => value,
    }
}

/// The parameter `action` of a content type is not one.
struct Malformed;

/// The parameter `action` of a content type.
fn parameter(content_type: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    // Content types of SOAP 1.1 mostly have not even all letters of it, and nothing in quotes.
    if !content_type.iter().any(|byte| matches!(byte, b'n' | b'N' | b'"' | b'\'')) {
        return Ok(None);
    }
    let mut found = None;
    let mut rest = piece(content_type).ok_or(Malformed)?.1;
    while let Some(following) = rest {
        let (part, behind) = piece(following).ok_or(Malformed)?;
        rest = behind;
        let mut sides = part.splitn(2, |byte| *byte == b'=');
        let name = sides.next().unwrap_or_default().trim_ascii();
        if !name.eq_ignore_ascii_case(b"action") {
            continue;
        }
        let value = sides.next().ok_or(Malformed)?.trim_ascii();
        let inner = unquoted(value);
        let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
        if inner.iter().any(quotes) || found.replace(inner).is_some() {
            return Err(Malformed);
        }
    }
    Ok(found)
}

/// What stands before the first semicolon outside quotes, and behind it; nothing where a quote is not closed.
fn piece(value: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let mut quote = None;
    for (at, byte) in value.iter().enumerate() {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            (None, b';') => return Some((value.get(..at)?, value.get(at + 1..))),
            (None | Some(_), _) => {}
        }
    }
    quote.is_none().then_some((value, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: &str = "http://t/Add";

    fn checked(
        strictness: Strictness,
        version: Version,
        operation: &str,
        lines: &[(&str, &str)],
    ) -> String {
        let of = |version, action: &str, required| Expected {
            version: Some(version),
            action: action.into(),
            required,
            unanswered: None,
        };
        let both = |action: &str, required| {
            vec![of(Version::V11, action, required), of(Version::V12, action, required)]
        };
        let actions = Actions {
            of: BTreeMap::from([
                ("Add".into(), both(ADD, true)),
                ("Sub".into(), both("http://t/Sub", false)),
                ("Empty".into(), both("", false)),
                (
                    "In".into(),
                    vec![Expected {
                        unanswered: Some("in-only".into()),
                        ..of(Version::V11, "x", true)
                    }],
                ),
            ]),
        };
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.add(name, value.as_bytes()).unwrap();
        }
        match actions.check(strictness, version, operation, &headers) {
            Ok(()) => "ok".to_owned(),
            Err(text) => text.strip_prefix(INTRO).unwrap().to_owned(),
        }
    }

    #[test]
    #[allow(clippy::type_complexity, reason = "a table of cases")]
    fn the_matrix_of_headers_and_versions() {
        use Strictness::{Optional, Required};
        use Version::{V11, V12};
        let content = |parameter: &str| format!("application/soap+xml; charset=utf-8{parameter}");
        let cases: &[(Strictness, Version, &str, &[(&str, &str)], &str)] = &[
            (Required, V11, "Add", &[("SOAPAction", "http://t/Add")], "ok"),
            (Required, V11, "Add", &[("SOAPAction", "\"http://t/Add\"")], "ok"),
            (Required, V11, "Add", &[("SOAPAction", "'http://t/Add'")], "ok"),
            (Required, V11, "Add", &[], "is not set"),
            (Optional, V11, "Add", &[], "ok"),
            (Required, V11, "Sub", &[], "ok"),
            (Required, V11, "Add", &[("SOAPAction", "")], "should be 'http://t/Add' and not ''"),
            (Optional, V11, "Add", &[("SOAPAction", "\"\"")], "and not ''"),
            (Required, V11, "Empty", &[("SOAPAction", "\"\"")], "ok"),
            (
                Required,
                V11,
                "Add",
                &[("SOAPAction", "http://t/Sub")],
                "The Operation Name found in 'soap:Body' is 'Add'. According to the WSDL the 'SOAPAction' should be 'http://t/Add' and not 'http://t/Sub'",
            ),
            (Required, V11, "Add", &[("SOAPAction", ADD), ("SOAPAction", ADD)], "more than once"),
            (Required, V11, "None", &[("SOAPAction", ADD)], "Unable to find the Operation 'None'"),
            (
                Required,
                V11,
                "Add",
                &[("SOAPAction", ADD), ("Content-Type", &content("; action=x"))],
                BOTH,
            ),
            (Required, V11, "Add", &[("Content-Type", &content(";action=x"))], OF_12),
            (Required, V12, "Add", &[("SOAPAction", ADD)], OF_11),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; action=\"http://t/Add\""))],
                "ok",
            ),
            (Required, V12, "Add", &[("Content-Type", &content("; ACTION='http://t/Add'"))], "ok"),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content(";action=http://t/Add; a=b"))],
                "ok",
            ),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; action=\"http://t/Add"))],
                MALFORMED,
            ),
            (Required, V12, "Add", &[("Content-Type", &content("; action"))], MALFORMED),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; action=a; action=b"))],
                MALFORMED,
            ),
            (Required, V12, "Add", &[("Content-Type", &content("; action=\"\""))], "and not ''"),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; note=\"a;action=b\""))],
                "is not set",
            ),
            (Optional, V12, "Add", &[("Content-Type", &content(""))], "ok"),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; action=http://t/Sub"))],
                "found in 'soap12:Body' is 'Add'. According to the WSDL the 'SOAPAction' should be 'http://t/Add' and not 'http://t/Sub'",
            ),
            (Optional, V11, "None", &[], "ok"),
            (
                Required,
                V11,
                "In",
                &[("SOAPAction", "x")],
                "the 'pattern' found in WSDL is 'in-only' and must be 'http://www.w3.org/ns/wsdl/in-out' or 'http://www.w3.org/ns/wsdl/in-opt-out'",
            ),
        ];
        for (strictness, version, operation, lines, said) in cases {
            let found = checked(*strictness, *version, operation, lines);
            let fits = if *said == "ok" { found == "ok" } else { found.contains(said) };
            assert!(fits, "{strictness:?} {version:?} {operation} {lines:?}: {found}");
        }
    }
}
