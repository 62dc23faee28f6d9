//! Compiles `services: { wsdl }` to the documents that clients get. Each request fills in the addresses and locations in them.

use std::collections::HashMap;
use std::ops::Range;

use config::{DefinitionAt, FilePath, Map, Report, Spanned};
use plan::{Part, PublishedDescription, PublishedDocument};
use wsdl::{BINDING_11, BINDING_12, WSDL11, WSDL20};
use xml::{Doctype, Document, Form, Here, Options, QName, Sink, Start};

use crate::policies::soap::documents::XSD;
use crate::policies::soap::load::{self, Documents, ReferenceRules, parsed};

/// The namespace of WSDL 1.1's binding to HTTP without SOAP.
const HTTP: &str = "http://schemas.xmlsoap.org/wsdl/http/";

/// Reads a description with everything that it imports. A reference to a missing document is kept as written, with a warning.
pub(crate) fn compile(
    file: &Spanned<FilePath>,
    imports: &Map<Spanned<FilePath>>,
    report: &mut Report,
) -> Option<PublishedDescription> {
    let first =
        Spanned { value: DefinitionAt::File(file.value.clone()), at: file.at, intact: file.intact };
    let rules = ReferenceRules { namespaces: false, descriptions: true };
    let documents = load::load(&first, imports, rules, report)?;
    let mut order = Order::default();
    let mut texts = Vec::new();
    let mut next = 0;
    order.add(&documents.location, Kind::Description);
    while let Some((location, _)) = order.all.get(next).cloned() {
        next += 1;
        let text = text_of(&documents, &location, file, report)?;
        let found = places(&text);
        for place in &found {
            if let UrlReferenceKind::Document(written, kind) = &place.found {
                let meant = xsd::join(&location, written);
                if documents.all.contains_key(&meant) {
                    order.add(&meant, *kind);
                }
            }
        }
        texts.push((location, text, found));
    }
    let mut published = PublishedDescription { descriptions: Vec::new(), schemas: Vec::new() };
    for (location, text, found) in texts {
        let document = cut(&location, &text, &found, &order);
        match order.kinds.get(&location) {
            Some((Kind::Schema, _)) => published.schemas.push(document),
            Some((Kind::Description, _)) | None => published.descriptions.push(document),
        }
    }
    Some(published)
}

/// Returns a document in UTF-8, converted from its encoding.
fn text_of(
    documents: &Documents,
    location: &str,
    file: &Spanned<FilePath>,
    report: &mut Report,
) -> Option<String> {
    let bytes = documents.all.get(location).map_or(&[][..], Vec::as_slice);
    let document = match parsed(bytes) {
        Ok(document) => document,
        Err(error) => {
            let what = format!("{location}:{error}");
            report.error(file.at, what, "name a WSDL that clients can read");
            return None;
        }
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !declares_another(text) => Some(text.to_owned()),
        Ok(_) | Err(_) => Some(document.to_text(Document::ROOT, &Form::Plain)),
    }
}

/// Returns true if the XML declaration names an encoding other than UTF-8.
fn declares_another(text: &str) -> bool {
    let declaration = text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let declaration = declaration.map_or("", |(declaration, _)| declaration).to_ascii_lowercase();
    declaration.contains("encoding") && !declaration.contains("utf-8")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Description,
    Schema,
}

/// The documents in the order of their first references. Each has a number among the documents of its kind.
#[derive(Default)]
struct Order {
    all: Vec<(String, Kind)>,
    kinds: HashMap<String, (Kind, usize)>,
}

impl Order {
    fn add(&mut self, location: &str, kind: Kind) {
        if !self.kinds.contains_key(location) {
            let number = self.all.iter().filter(|(_, known)| *known == kind).count();
            self.all.push((location.to_owned(), kind));
            self.kinds.insert(location.to_owned(), (kind, number));
        }
    }
}

/// A value in a document that depends on the URL where the document is published.
struct UrlReference {
    range: Range<usize>,
    found: UrlReferenceKind,
}

enum UrlReferenceKind {
    Address,
    /// A location as written, and the kind of the document there.
    Document(String, Kind),
}

/// Splits a document at its places.
fn cut(location: &str, text: &str, places: &[UrlReference], order: &Order) -> PublishedDocument {
    let mut document = PublishedDocument::new();
    let mut from = 0;
    for place in places {
        let part = match &place.found {
            UrlReferenceKind::Address => Part::Address,
            UrlReferenceKind::Document(written, _) => {
                match order.kinds.get(&xsd::join(location, written)) {
                    Some((Kind::Description, number)) => Part::Description(*number),
                    Some((Kind::Schema, number)) => Part::Schema(*number),
                    // The document is at a URL, or missing.
                    None => continue,
                }
            }
        };
        let before = text.get(from..place.range.start).unwrap_or_default();
        document.push(Part::Text(before.into()));
        document.push(part);
        from = place.range.end;
    }
    document.push(Part::Text(text.get(from..).unwrap_or_default().into()));
    document
}

/// Returns the places in a document, in document order.
fn places(text: &str) -> Vec<UrlReference> {
    let mut finder = Finder { text, places: Vec::new() };
    let options = Options { doctype: Doctype::Internal, ..Options::default() };
    // Harmless: the same text was parsed before without an error.
    let _ = xml::parse(text.as_bytes(), &options, &mut finder);
    finder.places
}

struct Finder<'t> {
    text: &'t str,
    places: Vec<UrlReference>,
}

impl Finder<'_> {
    fn add(
        &mut self,
        start: &Start<'_>,
        key: &str,
        at: usize,
        found: impl Fn(String) -> UrlReferenceKind,
    ) {
        let Some(value) = start.attributes.get("", key) else { return };
        if let Some(range) = value_range(self.text, at, key) {
            let found = found(value.value.trim().to_owned());
            self.places.push(UrlReference { range, found });
        }
    }
}

impl Sink for Finder<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        let at = usize::try_from(here.offset()).unwrap_or(usize::MAX);
        let (key, kind) = match (start.name.namespace.uri, start.name.local) {
            (WSDL11 | WSDL20, "import" | "include") => ("location", Some(Kind::Description)),
            (XSD, "import" | "include" | "redefine") => ("schemaLocation", Some(Kind::Schema)),
            (BINDING_11 | BINDING_12 | HTTP, "address") => ("location", None),
            (WSDL20, "endpoint") => ("address", None),
            _ => return Ok(()),
        };
        match kind {
            Some(kind) => self.add(start, key, at, |text| UrlReferenceKind::Document(text, kind)),
            None if is_http(start, key) => self.add(start, key, at, |_| UrlReferenceKind::Address),
            None => {}
        }
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }
}

/// Returns true if an address is an HTTP URL, or a placeholder without a scheme.
fn is_http(start: &Start<'_>, key: &str) -> bool {
    let Some(address) = start.attributes.get("", key) else { return false };
    let scheme = address.value.trim().split_once(':').map(|(scheme, _)| scheme);
    scheme.is_none_or(|scheme| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// Returns the byte range of an attribute's value, without its quotes, in the tag that begins at offset `at`.
fn value_range(text: &str, at: usize, key: &str) -> Option<Range<usize>> {
    let tag = text.get(at..)?.strip_prefix('<')?;
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let name = tag.find(|c: char| is_blank(c) || matches!(c, '/' | '>'))?;
    let mut from = at + 1 + name;
    loop {
        let rest = text.get(from..)?;
        let begin = from + rest.find(|c: char| !is_blank(c))?;
        let rest = text.get(begin..)?;
        if rest.starts_with(['/', '>']) {
            return None;
        }
        let equals = rest.find('=')?;
        let after = rest.get(equals + 1..)?;
        let quote_at = after.find(['"', '\''])?;
        let quote = after.get(quote_at..)?.chars().next()?;
        let value = begin + equals + 1 + quote_at + 1;
        let length = text.get(value..)?.find(quote)?;
        if rest.get(..equals)?.trim_end() == key {
            return Some(value..value + length);
        }
        from = value + length + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_their_tags() {
        for (text, value) in [
            ("<a location=\"x\"/>", Some("x")),
            ("<p:a\n schemaLocation='y' location = 'a\"b' >", Some("a\"b")),
            ("<a b='location=\"z\"' location=\"w\"/>", Some("w")),
            ("<a x:location='v' location='w'/>", Some("w")),
            ("<a/>", None),
            ("<a b=''>location='x'", None),
        ] {
            let range = value_range(text, 0, "location");
            assert_eq!(range.and_then(|range| text.get(range)), value, "{text}");
        }
    }
}
