//! The output method `html` (XSLT 1.0, 16.2): kinds of elements, and the form of their tags.

use super::serializer::{Open, Serializer};
use super::tag::Tag;
use super::{Encoding, escape};

/// How the content of an element is treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Nature {
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
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "br", "button", "cite", "code", "dfn",
    "em", "font", "i", "iframe", "img", "input", "kbd", "label", "map", "object", "q", "s", "samp",
    "select", "small", "span", "strike", "strong", "sub", "sup", "textarea", "tt", "u", "var",
];

/// Elements in which white space is significant.
const PRESERVED: &[&str] = &["pre", "textarea", "script", "style"];

const URI_ATTRIBUTES: &[&str] = &[
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

const BOOLEAN_ATTRIBUTES: &[&str] = &[
    "checked", "compact", "declare", "defer", "disabled", "ismap", "multiple", "nohref",
    "noresize", "noshade", "nowrap", "readonly", "selected",
];

fn listed(list: &[&str], name: &str) -> bool {
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

impl Serializer {
    pub(super) fn start_html<'a>(
        &mut self,
        tag: &Tag,
        declared: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let pieces = &tag.pieces;
        let local = pieces.local(tag.name);
        self.close_tag();
        if local.eq_ignore_ascii_case("meta") && says_content_type(tag) && !self.open.is_empty() {
            self.open.push(Open { html: Nature::Dropped, ..Open::default() });
            return;
        }
        self.doctype("", local);
        self.break_line(listed(INLINE, local));
        let nature = if listed(VOID, local) {
            Nature::Void
        } else if listed(RAW, local) {
            Nature::Raw
        } else {
            Nature::Ordinary
        };
        // If white space is significant, nothing is indented, so the element counts as mixed.
        let mixed = listed(PRESERVED, local);
        self.out.push(b'<');
        let name = self.name("", local);
        self.open.push(Open { html: nature, mixed, name, ..Open::default() });
        self.declarations(declared);
        for piece in &tag.attributes {
            let (name, value) = (pieces.local(*piece), pieces.value(*piece));
            self.out.push(b' ');
            self.name(pieces.prefix(*piece), name);
            if listed(BOOLEAN_ATTRIBUTES, name) && name.eq_ignore_ascii_case(value) {
                continue;
            }
            self.out.extend_from_slice(b"=\"");
            escape::html_attribute(value, listed(URI_ATTRIBUTES, name), self.last, &mut self.out);
            self.out.push(b'"');
        }
        self.out.push(b'>');
        if local.eq_ignore_ascii_case("head") {
            self.meta();
        }
    }

    pub(super) fn end_html(&mut self, open: Open) {
        match open.html {
            Nature::Void | Nature::Dropped => return,
            Nature::Foreign | Nature::Ordinary | Nature::Raw => {}
        }
        if self.indent && open.children && !open.mixed {
            self.line(self.open.len());
        }
        self.end_tag(open);
    }

    fn meta(&mut self) {
        self.break_line(false);
        let settings = self.settings.clone();
        let media_type = settings.media_type.as_deref().unwrap_or("text/html");
        let encoding = settings.encoding.unwrap_or(Encoding::Utf8).name();
        self.out.extend_from_slice(b"<meta http-equiv=\"Content-Type\" content=\"");
        escape::html_attribute(media_type, false, self.last, &mut self.out);
        self.out.extend_from_slice(b"; charset=");
        self.out.extend_from_slice(encoding.as_bytes());
        self.out.extend_from_slice(b"\">");
    }
}

/// Returns whether a `meta` element sets the content type, which the serializer writes itself.
fn says_content_type(tag: &Tag) -> bool {
    let is = |name: &str, value: &str| {
        name.eq_ignore_ascii_case("http-equiv") && value.eq_ignore_ascii_case("content-type")
    };
    tag.attributes.iter().any(|p| is(tag.pieces.local(*p), tag.pieces.value(*p)))
}
