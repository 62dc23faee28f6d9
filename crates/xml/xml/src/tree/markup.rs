//! The markup of an element as written in the source.

use crate::byte_search;
use crate::tree::positions::Positions;
use crate::tree::{Document, Kind, NodeId};

impl Document {
    /// Returns the markup of an element byte by byte as in the source, from its start tag to its end tag. Prefixes in it may be declared
    /// outside the element.
    ///
    /// Returns `None` for other nodes, for a tree that was built or has lost nodes, for a source that is not UTF-8, and for a source with a
    /// document type, because entities there may change the meaning of markup.
    pub fn markup(&self, element: NodeId) -> Option<&str> {
        let Positions::Source(source) = &self.positions else { return None };
        let node = self.node(element).filter(|node| node.kind == Kind::Element)?;
        let (from, last_tag) = (node.offset as usize, node.value_start as usize);
        let text = self.text.get(..source.len).filter(|_| source.copies)?;
        let tag = text.as_bytes().get(last_tag..)?;
        let end = last_tag + end_tag_len(tag).or_else(|| tag_len(tag))?;
        text.get(from..end)
    }

    /// Returns whether [`Document::markup`] copies from the source.
    pub(crate) fn has_copies(&self) -> bool {
        matches!(&self.positions, Positions::Source(source) if source.copies)
    }

    /// Allows [`Document::markup`] to copy from the source, unless a document type precedes the root element.
    pub(crate) fn allow_copies(&mut self) {
        let root =
            self.root_element().and_then(|root| self.node(root)).map_or(0, |root| root.offset);
        if let Positions::Source(source) = &mut self.positions {
            let prolog = self.text.as_bytes().get(..root as usize);
            source.copies =
                prolog.is_some_and(|prolog| memchr::memmem::find(prolog, b"<!DOCTYPE").is_none());
        }
    }
}

/// Returns the length of the short end tag at the beginning of the text.
#[inline]
fn end_tag_len(text: &[u8]) -> Option<usize> {
    let len = byte_search::first(text, 0, |byte| byte == b'>')?? + 1;
    text.starts_with(b"</").then_some(len)
}

/// Returns the length of the tag at the beginning of the text. A `>` inside a quoted value does not end it.
fn tag_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let found = memchr::memchr3(b'>', b'"', b'\'', rest)?;
        let byte = *rest.get(found)?;
        if byte == b'>' {
            return Some(at + found + 1);
        }
        at += found + 1;
        at += memchr::memchr(byte, text.get(at..)?)? + 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Doctype, Document, Kind, NodeId, Options};

    fn parse(source: &str) -> Document {
        let options = Options { doctype: Doctype::Internal, ..Options::default() };
        Document::parse(source.as_bytes(), &options).unwrap()
    }

    fn markups(document: &Document) -> Vec<Option<&str>> {
        let all = (0..document.len()).map(NodeId);
        all.filter(|id| document.kind(*id) == Kind::Element).map(|id| document.markup(id)).collect()
    }

    #[test]
    fn each_element_has_the_bytes_of_the_source() {
        let source = "\u{feff}<?xml version='1.0'?>\r\n<!-- <!DOC --><a  x = '>\"' >\r\n<b y=\">'/>\"/><p:c xmlns:p='urn:p'\t>\
                      <![CDATA[<c>]]>&amp;é</p:c \n><c></c>t</a ><!-- c -->";
        assert_eq!(
            markups(&parse(source)),
            [
                source.get(source.find("<a").unwrap()..source.find("<!-- c").unwrap()),
                Some("<b y=\">'/>\"/>"),
                Some("<p:c xmlns:p='urn:p'\t><![CDATA[<c>]]>&amp;é</p:c \n>"),
                Some("<c></c>"),
            ]
        );
        assert_eq!(parse(source).markup(Document::ROOT), None);
    }

    #[test]
    fn markup_is_not_copied_where_its_meaning_may_differ() {
        assert_eq!(markups(&parse("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>")), [None]);
        let utf16: Vec<u8> = "\u{feff}<a/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(markups(&Document::parse(&utf16, &Options::default()).unwrap()), [None]);
        let document = parse("<a> <b/></a>");
        assert_eq!(markups(&document.without(&[NodeId(2)])), [None, None]);
    }
}
