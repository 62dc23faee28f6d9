//! What `xsl:output` asks for.

use std::sync::Arc;

/// How a result becomes bytes (XSLT 1.0, 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Xml,
    Html,
    Text,
}

/// How a result of the method `xml` is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// As the stylesheet says (XSLT 1.0, 16.1).
    #[default]
    Plain,
    /// As Canonical XML 1.0 with comments, behind the declaration the stylesheet asks for: the bytes of gateways that write
    /// libxslt's results so. It knows neither CDATA sections, document types nor text without escapes, and adds no lines. Of
    /// the namespaces that XSLT 1.0 has copied (7.1.1, 7.5) those go that no name needs and libxslt does not copy: what is
    /// declared around an element that `xsl:copy` copies, and around a literal element within an instruction.
    Canonical,
}

/// Encodings a result is written in. Characters an encoding lacks are written as references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Big-endian, with a byte order mark.
    Utf16,
    Latin1,
    Ascii,
}

/// The `xsl:output` declarations of a stylesheet, merged: what is absent was not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) method: Option<Method>,
    pub(crate) version: Option<Box<str>>,
    pub(crate) encoding: Option<Encoding>,
    /// As it is written in the stylesheet, be it known here or not.
    pub(crate) encoding_name: Option<Box<str>>,
    pub(crate) omit_declaration: Option<bool>,
    pub(crate) standalone: Option<bool>,
    pub(crate) doctype_public: Option<Box<str>>,
    pub(crate) doctype_system: Option<Box<str>>,
    /// Namespace and local part.
    pub(crate) cdata_sections: Vec<(Box<str>, Box<str>)>,
    pub(crate) indent: Option<bool>,
    pub(crate) media_type: Option<Box<str>>,
    pub(crate) style: Style,
}

/// The same for one run: shared, since a stylesheet is.
pub(crate) type Settings = Arc<Declared>;

impl Declared {
    /// What is asked for where results are written in canonical form; other methods have none.
    pub(crate) fn canonical(&self) -> Declared {
        match self.method {
            Some(Method::Html | Method::Text) => self.clone(),
            Some(Method::Xml) | None => Declared {
                method: Some(Method::Xml),
                doctype_public: None,
                doctype_system: None,
                cdata_sections: Vec::new(),
                style: Style::Canonical,
                ..self.clone()
            },
        }
    }

    /// The last character that is written as itself. What another encoding has is not known; ASCII nearly all have.
    pub(crate) fn last(&self) -> char {
        match (self.style, self.encoding, &self.encoding_name) {
            (Style::Canonical, None, Some(_)) => Encoding::Ascii.last(),
            (_, encoding, _) => encoding.unwrap_or(Encoding::Utf8).last(),
        }
    }
}

impl Encoding {
    /// By the name an `encoding` attribute has.
    pub(crate) fn named(name: &str) -> Option<Encoding> {
        let named = |names: &[&str]| names.iter().any(|n| n.eq_ignore_ascii_case(name));
        match () {
            () if named(&["utf-8", "utf8"]) => Some(Encoding::Utf8),
            () if named(&["utf-16", "utf-16be"]) => Some(Encoding::Utf16),
            () if named(&["iso-8859-1", "latin1", "l1"]) => Some(Encoding::Latin1),
            () if named(&["us-ascii", "ascii"]) => Some(Encoding::Ascii),
            () => None,
        }
    }

    /// As it stands in an XML declaration and in a media type's `charset`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16 => "UTF-16",
            Encoding::Latin1 => "ISO-8859-1",
            Encoding::Ascii => "US-ASCII",
        }
    }

    /// The last character it has.
    pub(crate) fn last(self) -> char {
        match self {
            Encoding::Utf8 | Encoding::Utf16 => char::MAX,
            Encoding::Latin1 => '\u{ff}',
            Encoding::Ascii => '\u{7f}',
        }
    }
}

impl Method {
    /// What a reply with such a body says where the stylesheet names nothing (XSLT 1.0, 16.1 to 16.3).
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Method::Xml => "text/xml",
            Method::Html => "text/html",
            Method::Text => "text/plain",
        }
    }
}
