//! Output settings from `xsl:output`.

use std::sync::Arc;

/// Output method: how a result is written as bytes (XSLT 1.0, 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Xml,
    Html,
    Text,
}

/// How a result with the method `xml` is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// As the stylesheet specifies (XSLT 1.0, 16.1).
    #[default]
    Plain,
    /// Canonical XML 1.0 with comments, after the declaration that the stylesheet specifies. These are the bytes of gateways that write
    /// libxslt's results in this form. There are no CDATA sections, no document types, no unescaped text, and no indentation. Some
    /// namespaces that XSLT 1.0 copies (7.1.1, 7.5) are dropped, as in libxslt, unless a name needs them: those declared around an element
    /// copied by `xsl:copy`, and those declared around a literal element within an instruction.
    Canonical,
}

/// Output encodings. Characters that an encoding lacks are written as references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Big-endian, with a byte order mark.
    Utf16,
    Latin1,
    Ascii,
    /// Another encoding of the WHATWG standard. Characters beyond ASCII are written as references where these are allowed.
    Other(&'static encoding_rs::Encoding),
}

/// The merged `xsl:output` declarations of a stylesheet. Absent attributes are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutputDeclaration {
    pub(crate) method: Option<Method>,
    pub(crate) version: Option<Box<str>>,
    pub(crate) encoding: Option<Encoding>,
    /// The name as written in the stylesheet, even if it is not supported.
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

/// The settings of one run, shared with the stylesheet.
pub(crate) type OutputSettings = Arc<OutputDeclaration>;

impl OutputDeclaration {
    /// Returns the settings for canonical form. Methods other than XML are not affected.
    pub(crate) fn canonical(&self) -> OutputDeclaration {
        match self.method {
            Some(Method::Html | Method::Text) => self.clone(),
            Some(Method::Xml) | None => OutputDeclaration {
                method: Some(Method::Xml),
                doctype_public: None,
                doctype_system: None,
                cdata_sections: Vec::new(),
                style: Style::Canonical,
                ..self.clone()
            },
        }
    }

    /// Returns the last character that is written unescaped. Canonical form declares even an unsupported encoding, and writes only ASCII
    /// in it, which nearly all encodings include. Plain style replaces an unsupported encoding by UTF-8.
    pub(crate) fn last(&self) -> char {
        match (self.style, self.encoding, &self.encoding_name) {
            (Style::Canonical, None, Some(_)) => Encoding::Ascii.last(),
            (_, encoding, _) => encoding.unwrap_or(Encoding::Utf8).last(),
        }
    }
}

impl Encoding {
    /// Returns an encoding by its name in an `encoding` attribute.
    pub(crate) fn named(name: &str) -> Option<Encoding> {
        let named = |names: &[&str]| names.iter().any(|n| n.eq_ignore_ascii_case(name));
        if named(&["utf-8", "utf8"]) {
            Some(Encoding::Utf8)
        } else if named(&["utf-16", "utf-16be"]) {
            Some(Encoding::Utf16)
        } else if named(&["iso-8859-1", "latin1", "l1"]) {
            Some(Encoding::Latin1)
        } else if named(&["us-ascii", "ascii"]) {
            Some(Encoding::Ascii)
        } else {
            encoding_rs::Encoding::for_label(name.as_bytes())
                // The standard defines no encoder for some encodings.
                .filter(|known| known.output_encoding() == *known)
                .filter(|known| *known != encoding_rs::UTF_8)
                .map(Encoding::Other)
        }
    }

    /// Returns the name for the XML declaration and for a media type's `charset`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16 => "UTF-16",
            Encoding::Latin1 => "ISO-8859-1",
            Encoding::Ascii => "US-ASCII",
            Encoding::Other(known) => known.name(),
        }
    }

    /// Returns the last character of the encoding.
    pub(crate) fn last(self) -> char {
        match self {
            Encoding::Utf8 | Encoding::Utf16 => char::MAX,
            Encoding::Latin1 => '\u{ff}',
            Encoding::Ascii | Encoding::Other(_) => '\u{7f}',
        }
    }
}

impl Method {
    /// Returns the default media type of a result (XSLT 1.0, 16.1 to 16.3).
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Method::Xml => "text/xml",
            Method::Html => "text/html",
            Method::Text => "text/plain",
        }
    }
}
