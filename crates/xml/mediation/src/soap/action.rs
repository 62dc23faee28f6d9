//! Checks the SOAP action of a request against the action in the description of its operation.
//!
//! Owns the table of expected actions and the parsing of `SOAPAction` and of the parameter `action`. The error texts are those of
//! Kong's SOAP/XML plugin.

use std::collections::BTreeMap;

use message::Headers;
use xml::{Here, QName, Sink, Start};

use wsdl::{BINDING_11, BINDING_12};

use super::Version;

/// How the action of a request is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionRules {
    pub strictness: Strictness,
    /// Whether an empty action is accepted for an operation that has none in the description (WS-I Basic Profile 1.1, R2745).
    pub empty: bool,
}

/// Whether a request must have an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// A request without an action is accepted, whatever the description says.
    Optional,
    /// The description decides whether a request needs an action.
    Required,
}

/// The action of one operation in the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationAction {
    /// The SOAP version of the binding, or `None` if the action is for both versions.
    pub version: Option<Version>,
    /// The action as written, or `None` if the description has none.
    pub action: Option<Box<str>>,
    pub required: bool,
    /// The message exchange pattern of an operation without a reply, if that is why it has no action.
    pub unanswered: Option<Box<str>>,
}

/// Expected actions by the local name of the first element of the Body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    of: BTreeMap<Box<str>, Vec<OperationAction>>,
    /// For WSDL 1.1: the prefixes of its SOAP binding namespaces, by version.
    prefixes: Option<[Option<Box<str>>; 2]>,
}

/// The message exchange pattern of WSDL 2.0 with a reply.
pub const IN_OUT: &str = "http://www.w3.org/ns/wsdl/in-out";

/// The message exchange pattern of WSDL 2.0 with an optional reply.
pub const IN_OPT_OUT: &str = "http://www.w3.org/ns/wsdl/in-opt-out";

const INTRO: &str = "Validation of 'SOAPAction' header: ";

impl Actions {
    /// Creates an empty table for a WSDL 1.1 description with these prefixes of its SOAP binding namespaces, by version.
    pub fn of_11(prefixes: [Option<Box<str>>; 2]) -> Actions {
        Actions { prefixes: Some(prefixes), ..Actions::default() }
    }

    /// Adds an action for messages with this element. The expected action is the first that is not missing. If further operations take the
    /// same element, their actions are accepted too.
    pub fn expect(&mut self, element: &str, expected: OperationAction) {
        let all = self.of.entry(element.into()).or_default();
        let first = all.iter_mut().find(|known| known.version == expected.version);
        match first {
            Some(known) if known.action.is_none() && expected.action.is_some() => *known = expected,
            Some(_) | None => self.allow(element, expected),
        }
    }

    /// Adds one more accepted action for messages with this element.
    pub fn allow(&mut self, element: &str, expected: OperationAction) {
        let all = self.of.entry(element.into()).or_default();
        if !all.contains(&expected) {
            all.push(expected);
        }
    }

    /// Returns true if some operation that takes this element has this action.
    fn has(&self, operation: &str, version: Version, value: &[u8]) -> bool {
        let known = self.of.get(operation).map_or(&[][..], Vec::as_slice);
        let mut known = known.iter().filter(|one| one.version.is_none_or(|of| of == version));
        known.any(|one| {
            let action = one.action.as_deref().unwrap_or("");
            one.unanswered.is_none() && !action.is_empty() && action.as_bytes() == value
        })
    }

    /// Returns true if the table has an entry for messages with this element and exactly this version, even one without an action. The
    /// version `None` means an entry for both versions.
    pub fn expects(&self, element: &str, version: Option<Version>) -> bool {
        let all = self.of.get(element);
        all.is_some_and(|all| all.iter().any(|known| known.version == version))
    }

    fn of(&self, operation: &str, version: Version) -> Result<&OperationAction, String> {
        let known = self.of.get(operation).map_or(&[][..], Vec::as_slice);
        let expected = known.iter().find(|one| one.version.is_none_or(|of| of == version));
        expected.ok_or_else(|| self.without(operation, version))
    }

    /// Returns the error text for an operation that has no action in the description.
    fn without(&self, operation: &str, version: Version) -> String {
        let (text, namespace) = match version {
            Version::V11 => ("1.1", BINDING_11),
            Version::V12 => ("1.2", BINDING_12),
        };
        let Some(prefixes) = &self.prefixes else {
            return format!(
                "Unable to find the Operation '{operation}' of SOAP {text} in the WSDL"
            );
        };
        match prefixes.get(version.index()).and_then(Option::as_deref) {
            Some(prefix) => format!(
                "Unable to get the value of '{prefix}:operation soapAction' attribute in the WSDL linked with \
                 '{operation}' Operation name"
            ),
            None => format!(
                "Unable to find (in the WSDL 1.1) the Namespace prefix linked with the SOAP {text} Request: \
                 '{namespace}'"
            ),
        }
    }

    fn check(
        &self,
        asked: ActionRules,
        version: Version,
        operation: &str,
        value: Option<&[u8]>,
        message: &[u8],
        quotes: Quotes,
    ) -> Result<(), String> {
        // Kong's plugin, which accepts either kind of quotes, knows only one action for each element.
        let is_any = quotes == Quotes::Double;
        if is_any && value.is_some_and(|value| self.has(operation, version, value)) {
            return Ok(());
        }
        let expected = self.of(operation, version)?;
        if let Some(pattern) = &expected.unanswered {
            return Err(format!(
                "the 'pattern' found in WSDL is '{pattern}' and must be '{IN_OUT}' or '{IN_OPT_OUT}'"
            ));
        }
        let wanted = expected.action.as_deref().unwrap_or("");
        match value {
            _ if wanted.is_empty() && !asked.empty => Err(self.without(operation, version)),
            None if expected.required => Err(MISSING.to_owned()),
            None => Ok(()),
            Some(value) if value == wanted.as_bytes() => Ok(()),
            Some(value) => {
                let usual = match version {
                    Version::V11 => "soap",
                    Version::V12 => "soap12",
                };
                let prefix = prefix(message).unwrap_or_else(|| usual.to_owned());
                Err(format!(
                    "The Operation Name found in '{prefix}:Body' is '{operation}'. According to the WSDL \
                     the 'SOAPAction' should be '{wanted}' and not '{}'",
                    // Harmless: the value is only quoted in a refusal.
                    String::from_utf8_lossy(value)
                ))
            }
        }
    }
}

/// Checks the action of a request. `actions` is `None` if the schema of the operation does not come from a WSDL description.
pub(super) fn check(
    actions: Option<&Actions>,
    asked: ActionRules,
    version: Version,
    operation: &str,
    headers: &Headers,
    message: &[u8],
    quotes: Quotes,
) -> Result<(), String> {
    let checked = match named(version, headers, quotes) {
        Ok(None) if asked.strictness == Strictness::Optional => return Ok(()),
        Ok(value) => match actions {
            Some(actions) => actions.check(asked, version, operation, value, message, quotes),
            None => Err(NO_WSDL.to_owned()),
        },
        Err(text) => Err(text.to_owned()),
    };
    checked.map_err(|text| format!("{INTRO}{text}"))
}

/// Returns the prefix of a message's envelope. The message is being refused, so this delays no call of an upstream.
fn prefix(message: &[u8]) -> Option<String> {
    let mut outermost = Outermost(None);
    // Harmless: the sink stops the parser at the first element, and the message is refused anyway.
    drop(xml::parse(message, &xml::Options::default(), &mut outermost));
    outermost.0.filter(|prefix| !prefix.is_empty())
}

/// A sink that records the prefix of the first element and then stops.
struct Outermost(Option<String>);

/// Stops the parser early.
struct Stopped;

impl From<xml::Error> for Stopped {
    fn from(_: xml::Error) -> Stopped {
        Stopped
    }
}

impl Sink for Outermost {
    type Error = Stopped;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), Stopped> {
        self.0 = Some(start.name.prefix.to_owned());
        Err(Stopped)
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), Stopped> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), Stopped> {
        Ok(())
    }
}

/// Returns the action that a request names in the place that its version specifies.
fn named(
    version: Version,
    headers: &Headers,
    quotes: Quotes,
) -> Result<Option<&[u8]>, &'static str> {
    let mut lines = headers.get_all("soapaction");
    let header = lines.next();
    if lines.next().is_some() {
        return Err("The 'SOAPAction' header is there more than once");
    }
    let content_type = headers.get("content-type").unwrap_or(b"");
    let Ok(parameter) = parameter(content_type, quotes) else { return Err(MALFORMED) };
    match (version, header, parameter) {
        (_, Some(_), Some(_)) => Err(BOTH),
        (Version::V11, None, Some(_)) => Err(OF_12),
        (Version::V12, Some(_), None) => Err(OF_11),
        (Version::V11, header, None) => Ok(header.map(|value| quotes.unquoted(value))),
        (Version::V12, None, parameter) => Ok(parameter),
    }
}

const NO_WSDL: &str = "Unable to find the 'wsdl:definitions' for WSDL 1.1 or 'wsdl2:description' \
                       for WSDL 2.0 in the WSDL definition";

const MISSING: &str =
    "The 'SOAPAction' header is not set but according to the WSDL this value is 'Required'";

const BOTH: &str =
    "'SOAPAction' for SOAP 1.1 and 'action' for SOAP 1.2 have been defined simultaneously";

/// SOAP 1.1 message with the parameter of SOAP 1.2.
const OF_12: &str = "Found a SOAP 1.1 envelope and an 'action' field in the 'Content-Type' header \
                     linked with for SOAP 1.2";

/// SOAP 1.2 message with the header of SOAP 1.1.
const OF_11: &str = "Found a SOAP 1.2 envelope and a 'SOAPAction' header linked with for SOAP 1.1";

const MALFORMED: &str =
    "'action' has been found in Content-Type header but it's not correctly defined";

/// The quotes that may surround an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Double quotes of a quoted string (RFC 9110, 5.6.4).
    Double,
    /// Double or single quotes, as Kong's SOAP/XML plugin accepts.
    Either,
}

impl Quotes {
    /// Removes the surrounding quotes.
    fn unquoted(self, value: &[u8]) -> &[u8] {
        let value = value.trim_ascii();
        match (value, self) {
            ([b'"', inner @ .., b'"'], _) | ([b'\'', inner @ .., b'\''], Quotes::Either) => {
                inner.trim_ascii()
            }
            _ => value,
        }
    }
}

/// The parameter `action` of a content type is malformed.
struct MalformedAction;

/// Returns the parameter `action` of a content type.
fn parameter(content_type: &[u8], quotes: Quotes) -> Result<Option<&[u8]>, MalformedAction> {
    // Fast path: most content types of SOAP 1.1 contain neither an `n` nor a quote.
    if !content_type.iter().any(|byte| matches!(byte, b'n' | b'N' | b'"' | b'\'')) {
        return Ok(None);
    }
    let mut found = None;
    let mut rest = piece(content_type, quotes).ok_or(MalformedAction)?.1;
    while let Some(following) = rest {
        let (part, behind) = piece(following, quotes).ok_or(MalformedAction)?;
        rest = behind;
        let mut sides = part.splitn(2, |byte| *byte == b'=');
        let name = sides.next().unwrap_or(b"").trim_ascii();
        if !name.eq_ignore_ascii_case(b"action") {
            continue;
        }
        let value = sides.next().ok_or(MalformedAction)?.trim_ascii();
        let inner = quotes.unquoted(value);
        let quote = |byte: &u8| matches!(byte, b'"' | b'\'');
        if inner.iter().any(quote) || found.replace(inner).is_some() {
            return Err(MalformedAction);
        }
    }
    Ok(found)
}

/// Splits a value at the first semicolon outside quotes. Returns `None` if a quote is not closed.
fn piece(value: &[u8], quotes: Quotes) -> Option<(&[u8], Option<&[u8]>)> {
    let (mut quote, mut escaped) = (None, false);
    for (at, byte) in value.iter().enumerate() {
        match (quote, byte) {
            (Some(_), _) if std::mem::take(&mut escaped) => {}
            // Kong's SOAP/XML plugin supports no escapes.
            (Some(b'"'), b'\\') => escaped = quotes == Quotes::Double,
            (None, b'"') => quote = Some(*byte),
            (None, b'\'') if quotes == Quotes::Either => quote = Some(*byte),
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
    const NONE: &str = "Unable to get the value of 'soap:operation soapAction' attribute in the WSDL linked with 'Empty' Operation name";

    /// Checks an action. An operation whose name ends in `!` may have an empty one.
    fn checked(
        strictness: Strictness,
        version: Version,
        operation: &str,
        lines: &[(&str, &str)],
    ) -> String {
        let of = |version, action: Option<&str>, required| OperationAction {
            version: Some(version),
            action: action.map(Box::from),
            required,
            unanswered: None,
        };
        let mut actions = Actions::of_11([Some("soap".into()), Some("s12".into())]);
        for (name, action, required) in [
            ("Add", Some(ADD), true),
            ("Sub", Some("http://t/Sub"), false),
            ("Sub", Some("http://t/Later"), true),
            ("Empty", Some(""), false),
            ("Absent", None, true),
            ("Late", None, false),
            ("Late", Some("http://t/Late"), false),
        ] {
            actions.expect(name, of(Version::V11, action, required));
            actions.expect(name, of(Version::V12, action, required));
        }
        let unanswered = Some("in-only".into());
        actions.expect("In", OperationAction { unanswered, ..of(Version::V11, Some("x"), true) });
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.add(name, value.as_bytes()).unwrap();
        }
        let asked = ActionRules { strictness, empty: operation.ends_with('!') };
        let operation = operation.trim_end_matches('!');
        match check(Some(&actions), asked, version, operation, &headers, b"", Quotes::Either) {
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
            (Required, V11, "Empty", &[("SOAPAction", "\"\"")], NONE),
            (Required, V11, "Empty", &[], NONE),
            (Optional, V11, "Empty", &[("SOAPAction", ADD)], NONE),
            (Optional, V11, "Empty", &[], "ok"),
            (Required, V11, "Absent", &[("SOAPAction", ADD)], "linked with 'Absent' Operation"),
            (Required, V12, "Absent", &[], "value of 's12:operation soapAction' attribute"),
            (Required, V11, "Empty!", &[("SOAPAction", "\"\"")], "ok"),
            (Required, V11, "Empty!", &[], "ok"),
            (Optional, V11, "Empty!", &[("SOAPAction", "x")], "should be '' and not 'x'"),
            (Required, V11, "Absent!", &[], MISSING),
            (Required, V12, "Absent!", &[("Content-Type", &content("; action=\"\""))], "ok"),
            (Required, V11, "Add!", &[("SOAPAction", "\"\"")], "and not ''"),
            (Required, V11, "Late", &[("SOAPAction", "http://t/Late")], "ok"),
            (
                Required,
                V11,
                "Add",
                &[("SOAPAction", "http://t/Sub")],
                "The Operation Name found in 'soap:Body' is 'Add'. According to the WSDL the 'SOAPAction' should be 'http://t/Add' and not 'http://t/Sub'",
            ),
            (Required, V11, "Add", &[("SOAPAction", ADD), ("SOAPAction", ADD)], "more than once"),
            (Required, V11, "None", &[("SOAPAction", ADD)], "linked with 'None' Operation"),
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
