//! The output method `html` (XSLT 1.0, 16.2): the form of its tags.

use super::html_elements::{
    BOOLEAN_ATTRIBUTES, ContentModel, INLINE, PRESERVED, URI_ATTRIBUTES, listed,
};
use super::serializer::{Open, Serializer};
use super::tag::Tag;
use super::{Encoding, escape};

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
            self.open.push(Open { html: ContentModel::Dropped, ..Open::default() });
            return;
        }
        self.doctype("", local);
        self.break_line(listed(INLINE, local));
        // If white space is significant, nothing is indented, so the element counts as mixed.
        let mixed = listed(PRESERVED, local);
        self.out.push(b'<');
        let name = self.name("", local);
        self.open.push(Open { html: ContentModel::of(local), mixed, name, ..Open::default() });
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
            ContentModel::Void | ContentModel::Dropped => return,
            ContentModel::Foreign | ContentModel::Ordinary | ContentModel::Raw => {}
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
