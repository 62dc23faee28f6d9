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
}

/// Expected actions by the local name of the body's first element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    pub of: BTreeMap<Box<str>, Vec<Expected>>,
}

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
        let parameter = match parameter(headers.get("content-type").unwrap_or_default()) {
            Ok(parameter) => parameter,
            Err(why) => return refused(why.to_owned()),
        };
        let (name, value) = match (version, header, parameter) {
            (_, Some(_), Some(_)) => {
                let text = "Both the 'SOAPAction' header and the 'action' parameter of 'Content-Type' are set";
                return refused(text.to_owned());
            }
            (Version::V11, None, Some(_)) => {
                let text = "The 'action' parameter of 'Content-Type' belongs to SOAP 1.2, and the \
                            envelope is of SOAP 1.1";
                return refused(text.to_owned());
            }
            (Version::V12, Some(_), None) => {
                let text =
                    "The 'SOAPAction' header belongs to SOAP 1.1, and the envelope is of SOAP 1.2";
                return refused(text.to_owned());
            }
            (Version::V11, header, None) => ("SOAPAction", header.map(unquoted)),
            (Version::V12, None, parameter) => ("action", parameter),
        };
        let known = self.of.get(operation).map(Vec::as_slice).unwrap_or_default();
        let of_version = |of: &&Expected| of.version.is_none_or(|of| of == version);
        let Some(expected) = known.iter().find(of_version) else {
            return refused(format!(
                "Unable to find the Operation '{operation}' of SOAP {} in the WSDL",
                version.text()
            ));
        };
        let wanted = &*expected.action;
        match value {
            None if expected.required && strictness == Strictness::Required => refused(
                "The 'SOAPAction' header is not set but according to the WSDL this value is 'Required'"
                    .to_owned(),
            ),
            None => Ok(()),
            Some(value) if value == wanted.as_bytes() => Ok(()),
            Some([]) => refused(format!("The '{name}' value is empty")),
            Some(value) => refused(format!(
                "The Operation Name found in 'soap:Body' is '{operation}'. According to the WSDL the \
                 value should be '{wanted}' and not '{}'",
                String::from_utf8_lossy(value)
            )),
        }
    }
}

/// Without the quotes around it, of either kind.
fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner.trim_ascii(),
        _ => value,
    }
}

/// The parameter `action` of a content type.
fn parameter(content_type: &[u8]) -> Result<Option<&[u8]>, &'static str> {
    const MALFORMED: &str = "The 'action' parameter of 'Content-Type' is malformed";
    // Content types of SOAP 1.1 mostly have not even all letters of it, and nothing in quotes.
    if !content_type.iter().any(|byte| matches!(byte, b'n' | b'N' | b'"' | b'\'')) {
        return Ok(None);
    }
    let mut found = None;
    let mut rest = piece(content_type).ok_or(MALFORMED)?.1;
    while let Some(following) = rest {
        let (part, behind) = piece(following).ok_or(MALFORMED)?;
        rest = behind;
        let mut sides = part.splitn(2, |byte| *byte == b'=');
        let name = sides.next().unwrap_or_default().trim_ascii();
        if !name.eq_ignore_ascii_case(b"action") {
            continue;
        }
        let value = sides.next().ok_or(MALFORMED)?.trim_ascii();
        let inner = unquoted(value);
        let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
        if inner.iter().any(quotes) {
            return Err(MALFORMED);
        }
        if found.replace(inner).is_some() {
            return Err("The 'action' parameter of 'Content-Type' is there more than once");
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
        };
        let both = |action: &str, required| {
            vec![of(Version::V11, action, required), of(Version::V12, action, required)]
        };
        let actions = Actions {
            of: BTreeMap::from([
                ("Add".into(), both(ADD, true)),
                ("Sub".into(), both("http://t/Sub", false)),
                ("Empty".into(), both("", false)),
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
            (Required, V11, "Add", &[("SOAPAction", "")], "is empty"),
            (Optional, V11, "Add", &[("SOAPAction", "\"\"")], "is empty"),
            (Required, V11, "Empty", &[("SOAPAction", "\"\"")], "ok"),
            (
                Required,
                V11,
                "Add",
                &[("SOAPAction", "http://t/Sub")],
                "should be 'http://t/Add' and not 'http://t/Sub'",
            ),
            (Required, V11, "Add", &[("SOAPAction", ADD), ("SOAPAction", ADD)], "more than once"),
            (Required, V11, "None", &[("SOAPAction", ADD)], "Unable to find the Operation 'None'"),
            (
                Required,
                V11,
                "Add",
                &[("SOAPAction", ADD), ("Content-Type", &content("; action=x"))],
                "Both",
            ),
            (
                Required,
                V11,
                "Add",
                &[("Content-Type", &content(";action=x"))],
                "belongs to SOAP 1.2",
            ),
            (Required, V12, "Add", &[("SOAPAction", ADD)], "belongs to SOAP 1.1"),
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
                "malformed",
            ),
            (Required, V12, "Add", &[("Content-Type", &content("; action"))], "malformed"),
            (
                Required,
                V12,
                "Add",
                &[("Content-Type", &content("; action=a; action=b"))],
                "more than once",
            ),
            (Required, V12, "Add", &[("Content-Type", &content("; action=\"\""))], "is empty"),
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
                "and not 'http://t/Sub'",
            ),
        ];
        for (strictness, version, operation, lines, said) in cases {
            let found = checked(*strictness, *version, operation, lines);
            let fits = if *said == "ok" { found == "ok" } else { found.contains(said) };
            assert!(fits, "{strictness:?} {version:?} {operation} {lines:?}: {found}");
        }
    }
}
