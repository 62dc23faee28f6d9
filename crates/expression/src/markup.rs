//! Text and nodes as XML markup.

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
    let markup = document.markup(node);
    let kept = taken_along(document, node, markup);
    let from = out.len();
    let name = document.name(node);
    let behind_name =
        1 + name.prefix.len() + usize::from(!name.prefix.is_empty()) + name.local.len();
    match markup.and_then(|markup| markup.split_at_checked(behind_name)) {
        Some((name, rest)) => {
            budget.output(name.len() + rest.len())?;
            out.push_str(name);
            for prefix in kept.iter().filter(|prefix| **prefix != "xml") {
                push_declaration(document, node, prefix, out, budget)?;
            }
            out.push_str(rest);
        }
        None => {
            document.write(node, &Form::Moved { kept: &kept }, out);
            budget.output(out.len() - from)?;
        }
    }
    let undeclared = document.lookup_prefix(node, "").is_none();
    if default_namespace
        && undeclared
        && document.declared(node).all(|(prefix, _)| !prefix.is_empty())
    {
        push_in(out, from + behind_name, " xmlns=\"\"", budget)?;
    }
    Ok(())
}

/// Declares a prefix as it is around an element, which does not declare it itself.
fn push_declaration(
    document: &Document,
    node: NodeId,
    prefix: &str,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    let Some(uri) = document.lookup_prefix(node, prefix) else { return Ok(()) };
    if document.declared(node).any(|(own, _)| own == prefix) {
        return Ok(());
    }
    push(out, if prefix.is_empty() { " xmlns" } else { " xmlns:" }, budget)?;
    push(out, prefix, budget)?;
    push(out, "=\"", budget)?;
    push_attribute(out, uri, budget)?;
    push(out, "\"", budget)
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

/// The prefixes around an element that something in it uses: names, or words of its texts and values that look like names.
fn taken_along<'d>(document: &'d Document, node: NodeId, markup: Option<&str>) -> Vec<&'d str> {
    // Without a colon only the default namespace is used.
    if markup.is_some_and(|markup| !markup.contains(':')) {
        return vec![""];
    }
    let around = document.namespaces(node).into_iter().map(|(prefix, _)| prefix);
    let mut unseen: Vec<&str> = around.collect();
    let mut used = Vec::with_capacity(unseen.len());
    let mut see = |prefix: &str| {
        if let Some(at) = unseen.iter().position(|known| *known == prefix) {
            used.push(unseen.swap_remove(at));
        }
        unseen.is_empty()
    };
    for id in (node.0..document.end(node).0).map(NodeId) {
        let all_seen = match document.kind(id) {
            Kind::Element => see(document.name(id).prefix),
            Kind::Attribute => {
                let (name, value) = (document.name(id), document.value(id));
                // Where a type is named without a prefix, it is in the default namespace.
                let type_name = name.local == "type" && !name.prefix.is_empty();
                let plain = type_name && !value.contains(':') && see("");
                let own = !name.prefix.is_empty() && see(name.prefix);
                plain || own || prefixes(value).any(&mut see)
            }
            Kind::Text => prefixes(document.value(id)).any(&mut see),
            Kind::Document | Kind::Comment | Kind::Instruction => false,
        };
        if all_seen {
            break;
        }
    }
    used
}

/// The prefixes of the words: the part before the colon.
fn prefixes(text: &str) -> impl Iterator<Item = &str> {
    let words = text.contains(':').then(|| text.split_ascii_whitespace());
    words.into_iter().flatten().filter_map(|word| word.split_once(':').map(|(prefix, _)| prefix))
}
