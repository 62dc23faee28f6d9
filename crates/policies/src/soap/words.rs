//! What is wrong with a message, in the words and codes of libxml2, which clients of the reference system compare.
//!
//! Owns the table of rules to codes. A rule libxml2 words by pieces we do not have keeps our own sentence.

use xml::{Here, QName, Sink, Start};
use xsd::{Invalid, TypeName};

/// libxml2 names no more than these of what could stand somewhere.
const EXPECTED_MAX: usize = 10;

/// `Error Node: <name>, Error code: <n>, Line: <l>, Message: ...`
pub(super) fn invalid(invalid: &Invalid, message: &[u8]) -> String {
    let about = &invalid.about;
    let node = about.name.rsplit('}').next().unwrap_or_default();
    let line = line_of(message, invalid);
    let (code, text) = worded(invalid);
    let of = match &about.element {
        Some(element) => format!("Element '{element}', attribute '{}': ", about.name),
        None => format!("Element '{}': ", about.name),
    };
    format!("Error Node: {node}, Error code: {code}, Line: {line}, Message: {of}{text}")
}

/// A message that is no XML.
pub(super) fn malformed(error: &xml::Error, message: &[u8]) -> String {
    let line = error.at.line;
    let text = String::from_utf8_lossy(message);
    let begins = text.trim_start_matches('\u{feff}').trim_start();
    if begins.is_empty() {
        return format!("Error code: 4, Line: {line}, Message: Document is empty");
    }
    if !begins.starts_with('<') {
        return format!("Error code: 4, Line: {line}, Message: Start tag expected, '<' not found");
    }
    format!("Invalid XML input. Line: {line}, Message: {}", error.kind)
}

fn worded(invalid: &Invalid) -> (u16, String) {
    let about = &invalid.about;
    let own = || format!("{}.", invalid.message);
    match invalid.code {
        "cvc-elt.1" => {
            (1845, "No matching global declaration available for the validation root.".to_owned())
        }
        "cvc-complex-type.2.4.c" => (
            1845,
            "No matching global element declaration available, but demanded by the strict wildcard."
                .to_owned(),
        ),
        "cvc-complex-type.2.4.a" | "cvc-complex-type.2.4.d" => {
            (1871, format!("This element is not expected.{}", expected(invalid)))
        }
        "cvc-complex-type.2.4.b" => {
            (1871, format!("Missing child element(s).{}", expected(invalid)))
        }
        "cvc-complex-type.2.1" => {
            (1841, "Character content is not allowed, because the content type is empty.".to_owned())
        }
        "cvc-complex-type.2.2" => (1842, own()),
        "cvc-complex-type.2.3" => (
            1843,
            "Character content other than whitespace is not allowed because the content type is \
             'element-only'."
                .to_owned(),
        ),
        "cvc-complex-type.3.2.1" | "cvc-complex-type.3.2.2" => match &about.value {
            Some(name) => (1866, format!("The attribute '{name}' is not allowed.")),
            None => (1866, own()),
        },
        "cvc-complex-type.4" => {
            let name = about.expected.first().map(String::as_str).unwrap_or_default();
            (1868, format!("The attribute '{name}' is required but missing."))
        }
        code if code.starts_with("cvc-datatype-valid.1.2") => (datatype_code(code), value(invalid)),
        code => (other_code(code), own()),
    }
}

fn datatype_code(code: &str) -> u16 {
    match code {
        "cvc-datatype-valid.1.2.2" => 1825,
        "cvc-datatype-valid.1.2.3" => 1826,
        _ => 1824,
    }
}

/// Rules whose sentence is ours.
fn other_code(code: &str) -> u16 {
    const CODES: &[(&str, u16)] = &[
        ("cvc-type.3.1.1", 1827),
        ("cvc-type.3.1.2", 1828),
        ("cvc-length-valid", 1830),
        ("cvc-minLength-valid", 1831),
        ("cvc-maxLength-valid", 1832),
        ("cvc-minInclusive-valid", 1833),
        ("cvc-maxInclusive-valid", 1834),
        ("cvc-minExclusive-valid", 1835),
        ("cvc-maxExclusive-valid", 1836),
        ("cvc-totalDigits-valid", 1837),
        ("cvc-fractionDigits-valid", 1838),
        ("cvc-pattern-valid", 1839),
        ("cvc-enumeration-valid", 1840),
        ("cvc-elt.2", 1846),
        ("cvc-elt.3.1", 1847),
        ("cvc-elt.3.2.1", 1848),
        ("cvc-elt.3.2.2", 1849),
        ("cvc-elt.4.1", 1850),
        ("cvc-elt.4.2", 1851),
        ("cvc-elt.4.3", 1852),
        ("cvc-elt.5.2.2.1", 1857),
        ("cvc-elt.5.2.2.2.1", 1858),
        ("cvc-elt.5.2.2.2.2", 1859),
        ("cvc-attribute.4", 1864),
        ("cvc-complex-type.5.1", 1869),
        ("cvc-complex-type.5.2", 1870),
        ("cvc-type.1", 1875),
        ("cvc-type.2", 1876),
        ("cvc-assess-attr", 1878),
    ];
    let known = CODES.iter().find(|(known, _)| *known == code);
    // 1877: identity constraints, which is what is left.
    known.map_or(1877, |(_, number)| *number)
}

fn value(invalid: &Invalid) -> String {
    let about = &invalid.about;
    let (Some(value), Some(name)) = (&about.value, &about.type_name) else {
        return format!("{}.", invalid.message);
    };
    let kind = match invalid.code {
        "cvc-datatype-valid.1.2.2" => "list type",
        "cvc-datatype-valid.1.2.3" => "union type",
        _ => "atomic type",
    };
    match name {
        TypeName::BuiltIn(name) => {
            format!("'{value}' is not a valid value of the {kind} 'xs:{name}'.")
        }
        TypeName::Global(name) => format!("'{value}' is not a valid value of the {kind} '{name}'."),
        TypeName::Local => format!("'{value}' is not a valid value of the local {kind}."),
    }
}

fn expected(invalid: &Invalid) -> String {
    let about = &invalid.about;
    let mut names: Vec<&str> =
        about.expected.iter().take(EXPECTED_MAX).map(String::as_str).collect();
    if about.others && names.len() < EXPECTED_MAX {
        names.push("##any");
    }
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" Expected is ( {one} )."),
        many => format!(" Expected is one of ( {} ).", many.join(", ")),
    }
}

/// The line of the element a complaint is about. Complaints found at its end or in its text say where that is, so the
/// message is read a second time; it was refused, so nobody waits for the answer of an upstream.
fn line_of(message: &[u8], invalid: &Invalid) -> u32 {
    let mut lines = Lines { wanted: invalid.at.offset, open: Vec::new(), found: None };
    let options = xml::Options::default();
    match xml::parse(message, &options, &mut lines) {
        Ok(()) | Err(Stopped) => lines.found.unwrap_or(invalid.at.line),
    }
}

/// Looks for the element around an offset.
struct Lines {
    wanted: u64,
    open: Vec<u32>,
    found: Option<u32>,
}

/// Enough was read.
struct Stopped;

impl From<xml::Error> for Stopped {
    fn from(_: xml::Error) -> Stopped {
        Stopped
    }
}

impl Lines {
    fn settle(&mut self, here: Here<'_>) -> Result<(), Stopped> {
        match here.offset() >= self.wanted {
            true => {
                self.found = self.open.last().copied();
                Err(Stopped)
            }
            false => Ok(()),
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
