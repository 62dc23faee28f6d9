//! Error texts of invalid messages, with the wording and error codes of libxml2, as in replies of Kong's SOAP/XML plugin. Clients may rely
//! on them.
//!
//! Owns the table from schema rules to codes. Where libxml2's wording needs details that our validator does not report, our own text is
//! used.

use xml::{ErrorKind, Here, QName, Sink, Start};
use xsd::{Breach, Invalid, TypeName};

/// Maximum number of names in libxml2's list of expected elements.
const EXPECTED_MAX: usize = 10;

/// libxml2 truncates messages of at least this size to `LEFT_BYTES`. A message may quote a value that is as long as the document.
const CUT_FROM_BYTES: usize = 63_848;

/// The size of a truncated message.
const LEFT_BYTES: usize = 149;

/// Returns `Error Node: <name>, Error code: <n>, Line: <l>, Message: ...`.
pub fn invalid(invalid: &Invalid, message: &[u8]) -> String {
    let about = &invalid.about;
    // For an attribute, the reported node is its element.
    let node = about.element.as_ref().unwrap_or(&about.name);
    let node = node.rsplit('}').next().unwrap_or_default();
    let line = line_of(message, invalid);
    let (code, text) = worded(invalid);
    let of = match &about.element {
        Some(element) => format!("Element '{element}', attribute '{}': ", about.name),
        None => format!("Element '{}': ", about.name),
    };
    let message = cut(format!("{of}{text}"));
    format!("Error Node: {node}, Error code: {code}, Line: {line}, Message: {message}")
}

fn cut(mut message: String) -> String {
    if message.len() >= CUT_FROM_BYTES {
        let mut at = LEFT_BYTES;
        while !message.is_char_boundary(at) {
            at -= 1;
        }
        // Harmless: libxml2 cuts its messages in the same place.
        message.truncate(at);
    }
    message
}

/// Returns the text for a message that is not well-formed XML.
pub fn malformed(error: &xml::Error, message: &[u8]) -> String {
    match not_starting_as_xml(error, message) {
        Some(text) => format!("Invalid XML input. {text}"),
        None => format!("Invalid XML input. Line: {}, Message: {}", error.at.line, error.kind),
    }
}

/// Returns libxml2's text for a message whose very beginning is not XML, or `None` if it begins like XML.
pub fn not_starting_as_xml(error: &xml::Error, bytes: &[u8]) -> Option<String> {
    // Harmless: only the beginning of the text is examined.
    let text = String::from_utf8_lossy(bytes);
    let begins = text.trim_start_matches('\u{feff}').trim_start();
    let message = match begins.chars().next() {
        None => "Document is empty",
        Some('<') => return None,
        Some(_) => "Start tag expected, '<' not found",
    };
    Some(format!("Error code: 4, Line: {}, Message: {message}", error.at.line))
}

/// Returns libxml2's text for a message that is not well-formed. Where libxml2's wording needs details that the parser does not report,
/// our own text is used.
pub fn malformed_text(error: &xml::Error, bytes: &[u8]) -> String {
    if let Some(text) = not_starting_as_xml(error, bytes) {
        return text;
    }
    let line = error.at.line;
    let mut open = OpenElements::default();
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    let read = xml::parse(bytes, &options, &mut open);
    debug_assert!(read.is_err());
    match (&error.kind, open.elements.last()) {
        (ErrorKind::MismatchedEnd { found, .. }, Some((name, from))) => format!(
            "Error code: 76, Line: {line}, Message: Opening and ending tag mismatch: {name} line {from} and \
             {found}"
        ),
        (ErrorKind::Unfinished(_), Some((name, from))) => {
            format!(
                "Error code: 77, Line: {line}, Message: Premature end of data in tag {name} line {from}"
            )
        }
        (kind, _) => format!("Line: {line}, Message: {kind}"),
    }
}

/// The open elements: their names as written, and their lines.
#[derive(Default)]
struct OpenElements {
    elements: Vec<(String, u32)>,
}

impl Sink for OpenElements {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let QName { prefix, local, .. } = start.name;
        let colon = if prefix.is_empty() { "" } else { ":" };
        self.elements.push((format!("{prefix}{colon}{local}"), here.position().line));
        Ok(())
    }

    fn text(&mut self, _text: &str, _cdata: bool, _here: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _name: QName<'_>, _here: Here<'_>) -> Result<(), xml::Error> {
        self.elements.pop();
        Ok(())
    }
}

/// Rules whose text contains no names. Each row: rule; whether it concerns child elements; code; text.
const PLAIN: &[(&str, bool, u16, &str)] = &[
    ("cvc-elt.1", false, 1845, "No matching global declaration available for the validation root."),
    (
        "cvc-complex-type.2.4.c",
        false,
        1845,
        "No matching global element declaration available, but demanded by the strict wildcard.",
    ),
    (
        "cvc-type.3.1.2",
        true,
        1828,
        "Element content is not allowed, because the type definition is simple.",
    ),
    (
        "cvc-complex-type.2.1",
        true,
        1841,
        "Element content is not allowed, because the content type is empty.",
    ),
    (
        "cvc-complex-type.2.1",
        false,
        1841,
        "Character content is not allowed, because the content type is empty.",
    ),
    (
        "cvc-complex-type.2.2",
        true,
        1842,
        "Element content is not allowed, because the content type is a simple type definition.",
    ),
    (
        "cvc-complex-type.2.3",
        false,
        1843,
        "Character content other than whitespace is not allowed because the content type is \
         'element-only'.",
    ),
    ("cvc-elt.2", false, 1846, "The element declaration is abstract."),
    ("cvc-elt.3.1", false, 1847, "The element is not 'nillable'."),
    (
        "cvc-elt.3.2.1",
        true,
        1848,
        "Neither character nor element content is allowed, because the element was 'nilled'.",
    ),
    (
        "cvc-elt.3.2.1",
        false,
        1848,
        "Neither character nor element content is allowed because the element is 'nilled'.",
    ),
    (
        "cvc-elt.3.2.2",
        false,
        1849,
        "The element cannot be 'nilled' because there is a fixed value constraint defined for it.",
    ),
    ("cvc-type.2", false, 1876, "The type definition is abstract."),
    (
        "cvc-assess-attr",
        false,
        1878,
        "No matching global attribute declaration available, but demanded by the strict wildcard.",
    ),
];

/// Returns true if a declaration is missing (libxml2's code 1845). In that case another schema may have it.
pub fn is_undeclared(invalid: &Invalid) -> bool {
    invalid.about.breach.is_none() && worded(invalid).0 == 1845
}

fn worded(invalid: &Invalid) -> (u16, String) {
    let about = &invalid.about;
    // If checking the value was aborted by a limit, the value is not known to be wrong.
    if about.breach.is_some() && !invalid.code.starts_with("limit") {
        return value(invalid);
    }
    let is_it = |row: &&(&str, bool, u16, &str)| row.0 == invalid.code && row.1 == about.children;
    if let Some((_, _, code, text)) = PLAIN.iter().find(is_it) {
        return (*code, (*text).to_owned());
    }
    let name = about.name.as_str();
    let (value, wanted, kind) = (text(invalid), first(invalid), named(invalid));
    match invalid.code {
        "cvc-complex-type.2.4.a" | "cvc-complex-type.2.4.d" => {
            (1871, format!("This element is not expected.{}", expected(invalid)))
        }
        "cvc-complex-type.2.4.b" => {
            (1871, format!("Missing child element(s).{}", expected(invalid)))
        }
        "cvc-type.3.1.1" => (1827, format!("The attribute '{name}' is not allowed.")),
        "cvc-complex-type.3.2.1" => (1866, format!("The attribute '{name}' is not allowed.")),
        "cvc-complex-type.3.2.2" => (1867, format!("The attribute '{name}' is not allowed.")),
        "cvc-complex-type.4" => {
            (1868, format!("The attribute '{wanted}' is required but missing."))
        }
        "cvc-attribute.4" => (1874, format!("The value '{value}' {NOT_FIXED} '{wanted}'.")),
        "cvc-elt.5.2.2.1" | "cvc-elt.5.2.2.2.1" => {
            (1857, format!("The initial value '{value}' {NOT_FIXED} '{wanted}'."))
        }
        "cvc-elt.5.2.2.2.2" => {
            (1858, format!("The actual value '{value}' {NOT_FIXED} '{wanted}'."))
        }
        "cvc-id.2" => (1824, format!("'{value}' is not a valid value of the atomic type 'xs:ID'.")),
        "cvc-elt.4.2" => (
            1851,
            format!(
                "The QName value '{kind}' of the xsi:type attribute does not resolve to a type \
                 definition."
            ),
        ),
        "cvc-elt.4.3" => (
            1852,
            format!(
                "The type definition '{kind}', specified by xsi:type, is blocked or not validly \
                 derived from the type definition of the element declaration."
            ),
        ),
        code => (other_code(code), format!("{}.", invalid.message)),
    }
}

const NOT_FIXED: &str = "does not match the fixed value constraint";

/// Returns the invalid value.
fn text(invalid: &Invalid) -> &str {
    invalid.about.value.as_deref().unwrap_or("")
}

/// Returns the first of the expected names or values.
fn first(invalid: &Invalid) -> &str {
    invalid.about.expected.first().map_or("", String::as_str)
}

fn named(invalid: &Invalid) -> &str {
    match &invalid.about.type_name {
        Some(TypeName::Global(name) | TypeName::BuiltIn(name)) => name,
        Some(TypeName::Local) | None => "",
    }
}

/// Returns the code of a rule for which our own text is used.
fn other_code(code: &str) -> u16 {
    const CODES: &[(&str, u16)] = &[
        ("cvc-complex-type.5.1", 1869),
        ("cvc-complex-type.5.2", 1870),
        ("cvc-type.1", 1875),
        ("limit.regex_steps_max", 1839),
    ];
    let known = CODES.iter().find(|(known, _)| *known == code);
    // 1877 is the code for identity constraints. The few other rules that remain, such as `cvc-id.1` and limits, share it.
    known.map_or(1877, |(_, number)| *number)
}

/// Returns code and text for a value that does not match its type.
fn value(invalid: &Invalid) -> (u16, String) {
    let about = &invalid.about;
    let value = text(invalid);
    match &about.breach {
        Some(Breach::Facet { name, found, allowed }) => facet(name, found, allowed),
        Some(Breach::Prefix) => {
            let what = "has no corresponding namespace declaration in scope.";
            (1824, format!("The QName value '{value}' {what}"))
        }
        Some(Breach::Value) | None => {
            let code = match about.variety {
                "list" => 1825,
                "union" => 1826,
                _ => 1824,
            };
            let kind = format!("{} type", about.variety);
            let of = match &about.type_name {
                Some(TypeName::BuiltIn(name)) => format!("{kind} 'xs:{name}'"),
                Some(TypeName::Global(name)) => format!("{kind} '{name}'"),
                Some(TypeName::Local) | None => format!("local {kind}"),
            };
            (code, format!("'{value}' is not a valid value of the {of}."))
        }
    }
}

fn facet(name: &str, found: &str, allowed: &[String]) -> (u16, String) {
    let limit = allowed.first().map_or("", String::as_str);
    let length =
        |what: &str| format!("The value has a length of '{found}'; this {what} of '{limit}'.");
    let value = |what: String| format!("The value '{found}' {what}.");
    let (code, text) = match name {
        "length" => (1830, length("differs from the allowed length")),
        "minLength" => (1831, length("underruns the allowed minimum length")),
        "maxLength" => (1832, length("exceeds the allowed maximum length")),
        "minInclusive" => {
            (1833, value(format!("is less than the minimum value allowed ('{limit}')")))
        }
        "maxInclusive" => {
            (1834, value(format!("is greater than the maximum value allowed ('{limit}')")))
        }
        "minExclusive" => (1835, value(format!("must be greater than '{limit}'"))),
        "maxExclusive" => (1836, value(format!("must be less than '{limit}'"))),
        "totalDigits" => (1837, value(format!("has more digits than are allowed ('{limit}')"))),
        "fractionDigits" => {
            (1838, value(format!("has more fractional digits than are allowed ('{limit}')")))
        }
        "enumeration" => {
            let set = allowed.join("', '");
            (1840, value(format!("is not an element of the set {{'{set}'}}")))
        }
        _ => (1839, value(format!("is not accepted by the pattern '{limit}'"))),
    };
    (code, format!("[facet '{name}'] {text}"))
}

fn expected(invalid: &Invalid) -> String {
    let about = &invalid.about;
    // Harmless: libxml2 lists the same number of names.
    let names: Vec<&str> = about.expected.iter().take(EXPECTED_MAX).map(String::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" Expected is ( {one} )."),
        many => format!(" Expected is one of ( {} ).", many.join(", ")),
    }
}

/// Returns the line of the element that a complaint is about. A complaint from the end of an element or from its text has the position
/// of that end or text. The message is therefore parsed again, to find the start of the element. It is refused anyway, so this delays no
/// call of an upstream.
fn line_of(message: &[u8], invalid: &Invalid) -> u32 {
    let mut lines = Lines { wanted: invalid.at.offset, open: Vec::new(), found: None };
    let options = xml::Options::default();
    match xml::parse(message, &options, &mut lines) {
        Ok(()) | Err(Stopped) => lines.found.unwrap_or(invalid.at.line),
    }
}

/// A sink that finds the element around an offset.
struct Lines {
    wanted: u64,
    open: Vec<u32>,
    found: Option<u32>,
}

/// Stops the parser early.
struct Stopped;

impl From<xml::Error> for Stopped {
    fn from(_: xml::Error) -> Stopped {
        Stopped
    }
}

impl Lines {
    fn settle(&mut self, here: Here<'_>) -> Result<(), Stopped> {
        if here.offset() >= self.wanted {
            self.found = self.open.last().copied();
            Err(Stopped)
        } else {
            Ok(())
        }
    }
}

impl Sink for Lines {
    type Error = Stopped;

    fn start(&mut self, _start: &Start<'_>, here: Here<'_>) -> Result<(), Stopped> {
        self.open.push(here.position().line);
        self.settle(here)
    }

    fn text(&mut self, _text: &str, _cdata: bool, here: Here<'_>) -> Result<(), Stopped> {
        self.settle(here)
    }

    fn end(&mut self, _name: QName<'_>, here: Here<'_>) -> Result<(), Stopped> {
        self.settle(here)?;
        self.open.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::malformed_text;

    #[test]
    fn messages_that_are_not_well_formed_have_the_codes_of_libxml2() {
        for (message, text) in [
            ("", "Error code: 4, Line: 1, Message: Document is empty"),
            ("a", "Error code: 4, Line: 1, Message: Start tag expected, '<' not found"),
            (
                "<a>\n<p:b xmlns:p='u'>\n</c></a>",
                "Error code: 76, Line: 3, Message: Opening and ending tag mismatch: p:b line 2 and c",
            ),
            (
                "<a>\n<b></a></b>",
                "Error code: 76, Line: 2, Message: Opening and ending tag mismatch: b line 2 and a",
            ),
            (
                "<a>\n<b/>\n",
                "Error code: 77, Line: 3, Message: Premature end of data in tag a line 1",
            ),
            ("<a><b", "Error code: 77, Line: 1, Message: Premature end of data in tag a line 1"),
            ("<a", "Line: 1, Message: the document ends within a start tag"),
            ("<a>&</a>", "Line: 1, Message: a reference needs a name, which cannot begin with `<`"),
            (
                "<!DOCTYPE a [<!ENTITY e '<b></c>'>]><a>&e;</a>",
                "Line: 1, Message: in the entity `e`: found `</c>`, expected `</b>`",
            ),
        ] {
            let options =
                xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
            let error = xml::Document::parse(message.as_bytes(), &options).unwrap_err();
            assert_eq!(malformed_text(&error, message.as_bytes()), text, "{message}");
        }
    }
}
