//! White space stripping of source documents by `xsl:strip-space` (XSLT 1.0, 3.4).

use std::sync::Arc;

use xml::{Document, Kind, NodeId, XML_NAMESPACE};

use crate::program::Program;

/// Returns the document without the white space to strip; the same document if there is none.
pub(crate) fn stripped(document: &Arc<Document>, program: &Program) -> Arc<Document> {
    if !program.spaces.iter().any(|rule| rule.strip) {
        return document.clone();
    }
    let mut decided: Vec<Option<bool>> = vec![None; document.names_len()];
    let mut goes = |id: NodeId| {
        if document.kind(id) != Kind::Text || !is_blank(document.value(id)) {
            return false;
        }
        let Some(parent) = document.parent(id) else { return false };
        if document.kind(parent) != Kind::Element {
            return false;
        }
        let name = document.name_id(parent);
        let strips = match decided.get_mut(name.0 as usize) {
            Some(place) => *place.get_or_insert_with(|| strips(document.name_of(name), program)),
            None => strips(document.name_of(name), program),
        };
        strips && !preserved(document, parent)
    };
    let dropped: Vec<NodeId> = (0..document.len()).map(NodeId).filter(|id| goes(*id)).collect();
    if dropped.is_empty() { document.clone() } else { Arc::new(document.without(&dropped)) }
}

/// Returns whether white space in elements of a name is stripped.
pub(crate) fn strips(name: xml::QName<'_>, program: &Program) -> bool {
    let rule = program.spaces.iter().find(|rule| rule.test.accepts(name));
    rule.is_some_and(|rule| rule.strip)
}

fn preserved(document: &Document, element: NodeId) -> bool {
    let ancestry = std::iter::successors(Some(element), |id| document.parent(*id));
    // Harmless: elements without `xml:space` inherit it.
    let mut spaces = ancestry.filter_map(|id| document.attribute(id, XML_NAMESPACE, "space"));
    spaces.find_map(preserves) == Some(true)
}

/// Returns the meaning of an `xml:space` attribute; other values are ignored (XSLT 1.0, 3.4).
pub(crate) fn preserves(space: &str) -> Option<bool> {
    match space {
        "preserve" => Some(true),
        "default" => Some(false),
        _ => None,
    }
}

/// Returns whether a text is only white space of XML.
pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}
