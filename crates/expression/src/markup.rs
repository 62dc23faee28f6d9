//! Text and nodes as XML markup.

use std::collections::BTreeSet;

use xml::{Document, Form, Kind, NodeId};

use crate::{Budget, FailureKind};

/// Appends text as content of an element.
pub(crate) fn push_text(
    out: &mut String,
    text: &str,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    escape(out, text, "XML text", budget, |c| match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '\r' => Some("&#xD;"),
        _ => None,
    })
}

/// Appends text to an attribute's value, in whichever quotes it stands.
pub(crate) fn push_attribute(
    out: &mut String,
    text: &str,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    escape(out, text, "an XML attribute", budget, |c| match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        '\t' => Some("&#x9;"),
        '\n' => Some("&#xA;"),
        '\r' => Some("&#xD;"),
        _ => None,
    })
}

/// Appends text to a CDATA section. Each `>` ends the section and begins another, so that no `]]>` can come about, not even
/// of what stands before the text and behind it; carriage returns, which a reader would lose, stand between sections.
pub(crate) fn push_cdata(
    out: &mut String,
    text: &str,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    escape(out, text, "a CDATA section", budget, |c| match c {
        '>' => Some("]]>&gt;<![CDATA["),
        '\r' => Some("]]>&#xD;<![CDATA["),
        _ => None,
    })?;
    // A `]` at the end and `]>` behind the placeholder would be an end, and so would `]]` before it, `>` behind it and
    // nothing between them.
    match text.is_empty() || text.ends_with(']') {
        true => push(out, "]]><![CDATA[", budget),
        false => Ok(()),
    }
}

fn escape(
    out: &mut String,
    text: &str,
    place: &'static str,
    budget: &mut Budget,
    replace: impl Fn(char) -> Option<&'static str>,
) -> Result<(), FailureKind> {
    budget.output(text.len())?;
    out.reserve(text.len());
    for character in text.chars() {
        if !is_char(character) {
            return Err(FailureKind::Forbidden { character, place });
        }
        match replace(character) {
            Some(reference) => push(out, reference, budget)?,
            None => out.push(character),
        }
    }
    Ok(())
}

fn push(out: &mut String, text: &str, budget: &mut Budget) -> Result<(), FailureKind> {
    budget.output(text.len())?;
    out.push_str(text);
    Ok(())
}

/// `Char` of XML 1.0.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Appends a node: elements, comments and instructions as markup, of a document its content, all else as text.
///
/// An element takes along the namespaces that names in it use, or texts and values that begin as such a name would. One
/// without a namespace takes the default one back, where there is one at its new place.
pub(crate) fn push_node(
    document: &Document,
    node: NodeId,
    default_namespace: bool,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    match document.kind(node) {
        Kind::Document => {
            for child in document.children(node) {
                push_node(document, child, default_namespace, out, budget)?;
            }
            Ok(())
        }
        Kind::Text | Kind::Attribute => push_text(out, document.value(node), budget),
        Kind::Comment | Kind::Instruction => {
            let from = out.len();
            document.write(node, &Form::Plain, out);
            budget.output(out.len() - from)
        }
        Kind::Element => push_element(document, node, default_namespace, out, budget),
    }
}

fn push_element(
    document: &Document,
    node: NodeId,
    default_namespace: bool,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    budget.charge(u64::from(document.end(node).0.saturating_sub(node.0)))?;
    let kept: Vec<&str> = used(document, node).into_iter().collect();
    let from = out.len();
    document.write(node, &Form::Moved { kept: &kept }, out);
    budget.output(out.len() - from)?;
    let name = document.name(node);
    let undeclared = document.lookup_prefix(node, "").is_none();
    if default_namespace
        && undeclared
        && document.declared(node).all(|(prefix, _)| !prefix.is_empty())
    {
        let colon = usize::from(!name.prefix.is_empty());
        let behind = from + 1 + name.prefix.len() + colon + name.local.len();
        push_in(out, behind, " xmlns=\"\"", budget)?;
    }
    Ok(())
}

fn push_in(
    out: &mut String,
    at: usize,
    text: &str,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    budget.output(text.len())?;
    if out.is_char_boundary(at) {
        out.insert_str(at, text);
    }
    Ok(())
}

/// Prefixes that names of a subtree use, and words of its texts and values that look like such names.
fn used(document: &Document, node: NodeId) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    for id in (node.0..document.end(node).0).map(NodeId) {
        match document.kind(id) {
            Kind::Element => drop(used.insert(document.name(id).prefix)),
            Kind::Attribute => {
                let name = document.name(id);
                used.insert(name.prefix);
                // A type named without a prefix is in the default namespace.
                if name.local == "type"
                    && !name.prefix.is_empty()
                    && !document.value(id).contains(':')
                {
                    used.insert("");
                }
                used.extend(prefixes(document.value(id)));
            }
            Kind::Text => used.extend(prefixes(document.value(id))),
            Kind::Document | Kind::Comment | Kind::Instruction => {}
        }
    }
    used
}

/// The prefixes of the words: the part before the colon.
fn prefixes(text: &str) -> impl Iterator<Item = &str> {
    let words = text.contains(':').then(|| text.split_ascii_whitespace());
    words.into_iter().flatten().filter_map(|word| word.split_once(':').map(|(prefix, _)| prefix))
}
