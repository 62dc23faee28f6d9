//! What HTML says about elements and attributes that matters for writing them (XSLT 1.0, 16.2).

use super::escape;

/// How the content of an element is treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ContentModel {
    /// Not an HTML element: written as XML.
    #[default]
    Foreign,
    Ordinary,
    /// No end tag.
    Void,
    /// Its text is not escaped.
    Raw,
    /// A `meta` element with the content type. It is left out, because the serializer writes its own at the start of `head`.
    Dropped,
}

const VOID: &[&str] = &[
    "area", "base", "basefont", "br", "col", "embed", "frame", "hr", "img", "input", "isindex",
    "link", "meta", "param", "source", "track", "wbr",
];

const RAW: &[&str] = &["script", "style"];

/// Inline elements, around which a line break would be visible as a space.
pub(super) const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "br", "button", "cite", "code", "dfn",
    "em", "font", "i", "iframe", "img", "input", "kbd", "label", "map", "object", "q", "s", "samp",
    "select", "small", "span", "strike", "strong", "sub", "sup", "textarea", "tt", "u", "var",
];

/// Elements in which white space is significant.
pub(super) const PRESERVED: &[&str] = &["pre", "textarea", "script", "style"];

pub(super) const URI_ATTRIBUTES: &[&str] = &[
    "action",
    "archive",
    "background",
    "cite",
    "classid",
    "codebase",
    "data",
    "for",
    "href",
    "longdesc",
    "profile",
    "src",
    "usemap",
];

pub(super) const BOOLEAN_ATTRIBUTES: &[&str] = &[
    "checked", "compact", "declare", "defer", "disabled", "ismap", "multiple", "nohref",
    "noresize", "noshade", "nowrap", "readonly", "selected",
];

impl ContentModel {
    /// Returns the content model of an HTML element.
    pub(super) fn of(local: &str) -> ContentModel {
        if listed(VOID, local) {
            ContentModel::Void
        } else if listed(RAW, local) {
            ContentModel::Raw
        } else {
            ContentModel::Ordinary
        }
    }
}

/// Returns whether a list has a name, in any case.
pub(super) fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// Writes text of an HTML element.
pub(super) fn text(text: &str, last: char, out: &mut Vec<u8>) {
    let mut pieces = text.split('\u{a0}');
    if let Some(first) = pieces.next() {
        escape::HTML_TEXT.write(first, last, out);
    }
    for piece in pieces {
        out.extend_from_slice(b"&nbsp;");
        escape::HTML_TEXT.write(piece, last, out);
    }
}
