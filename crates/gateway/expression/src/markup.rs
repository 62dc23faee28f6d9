//! Text and nodes as XML markup.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use xml::{Document, Form, Kind, NodeId, Options};

use crate::{Budget, FailureKind};

/// Maximum number of prefixes that are searched for in the markup of an element.
const AROUND_MAX: usize = 8;

/// Maximum number of namespace declarations in scope that an element may have without an extra charge.
const DECLARED_FEW: usize = 32;

/// Parses a message for an expression that uses only its first levels ([`Expression::levels`](crate::Expression::levels)) and whose nodes
/// are written as markup. Deeper content has no nodes, unless elements cannot be copied as written.
pub fn parse_levels(bytes: &[u8], levels: usize) -> Result<Document, xml::Error> {
    let options = Options::default();
    if has_references(bytes) {
        Document::parse(bytes, &options)
    } else {
        // The namespace of `xml` is always in scope, and uses up one of the prefixes.
        Document::parse_levels(bytes, &options, levels, AROUND_MAX - 1)
    }
}

/// Returns true if there may be numeric references. Elements are then serialised anew instead of being copied.
fn has_references(bytes: &[u8]) -> bool {
    memchr::memchr(b'&', bytes).is_some() && memchr::memmem::find(bytes, b"&#").is_some()
}

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

/// Appends text to an attribute value, for either kind of quotes.
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

/// Appends text to a CDATA section. Each `>` ends the section and begins a new one, so that `]]>` cannot arise, not even together with the
/// text around the placeholder. Carriage returns, which a parser would normalise, are written between sections.
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
    // A `]` at the end could form `]]>` with `]>` after the placeholder. An empty text could join `]]` before the placeholder and `>` after
    // it.
    if text.is_empty() || text.ends_with(']') { push(out, "]]><![CDATA[", budget) } else { Ok(()) }
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

/// Appends text as it is. An element is written in dozens of pieces, and a call for each would cost more than the piece.
#[inline(always)]
pub(crate) fn push(out: &mut String, text: &str, budget: &mut Budget) -> Result<(), FailureKind> {
    budget.output(text.len())?;
    out.push_str(text);
    Ok(())
}

/// `Char` of XML 1.0.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// A range of nodes whose markup is known to mean the same in any context, so that it can be copied verbatim.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    from: u32,
    to: u32,
    /// Number of elements examined individually.
    looks: u32,
}

/// After this number of elements, and after twice as many, and so on, all following siblings are checked at once.
const LOOKS: u32 = 16;

impl Plain {
    /// Records that an element is plain. When a check is due, also examines the siblings after it, and extends the range over them if they
    /// are plain.
    fn note(&mut self, document: &Document, node: NodeId) {
        self.looks += 1;
        let is_due = self.looks >= LOOKS && self.looks.is_power_of_two();
        let parent =
            document.parent(node).filter(|parent| is_due && rest_is_plain(document, *parent, node));
        self.from = node.0;
        self.to = document.end(parent.unwrap_or(node)).0;
    }
}

/// Returns whether the markup of all siblings after a plain element is plain as well.
fn rest_is_plain(document: &Document, parent: NodeId, node: NodeId) -> bool {
    let (Some(around), Some(own)) = (document.markup(parent), document.markup(node)) else {
        return false;
    };
    // Both are slices of the source.
    let from = own.as_ptr().addr().wrapping_sub(around.as_ptr().addr()).saturating_add(own.len());
    // The end tag of the parent may have a prefix.
    // Harmless: without an end tag nothing is copied.
    let end = memchr::memmem::rfind(around.as_bytes(), b"</").unwrap_or_default();
    around.get(from..end).is_some_and(|rest| MarkupProperties::at(rest).is_plain())
}

/// The properties of a piece of markup that make its meaning or form depend on its context.
#[derive(Debug, Clone, Copy)]
struct MarkupProperties {
    has_references: bool,
    has_prefixes: bool,
    has_declarations: bool,
}

/// The searcher for `xmlns`, shared because it is expensive to construct.
static DECLARED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"xmlns"));

impl MarkupProperties {
    fn at(markup: &str) -> MarkupProperties {
        let bytes = markup.as_bytes();
        // Fast path: most markup has none of the three.
        match memchr::memchr3(b'&', b':', b'=', bytes) {
            None => MarkupProperties {
                has_references: false,
                has_prefixes: false,
                has_declarations: false,
            },
            // Searching for one byte is cheaper than searching for several at once.
            Some(_) => MarkupProperties {
                has_references: has_references(bytes),
                has_prefixes: memchr::memchr(b':', bytes).is_some(),
                has_declarations: memchr::memchr(b'=', bytes).is_some()
                    && DECLARED.find(bytes).is_some(),
            },
        }
    }

    fn is_plain(self) -> bool {
        !self.has_references && !self.has_prefixes && !self.has_declarations
    }
}

/// Appends a node: an element, comment or instruction as markup, a document as its content, anything else as text.
///
/// An element is written with the declarations of the namespaces that its names use, and of those that texts and values appear to use in
/// prefixed names. An element without a namespace undeclares the default namespace if the new place has one. `plain` holds what is known
/// from earlier nodes of the document.
pub(crate) fn push_node(
    document: &Document,
    node: NodeId,
    default_namespace: bool,
    plain: &mut Plain,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    match document.kind(node) {
        Kind::Document => {
            for child in document.children(node) {
                push_node(document, child, default_namespace, plain, out, budget)?;
            }
            Ok(())
        }
        Kind::Text | Kind::Attribute => push_text(out, document.value(node), budget),
        Kind::Comment | Kind::Instruction => {
            let from = out.len();
            document.write(node, &Form::Plain, out);
            budget.output(out.len() - from)
        }
        Kind::Element => {
            budget.charge(u64::from(document.end(node).0.saturating_sub(node.0)))?;
            let is_plain = plain.from <= node.0 && node.0 < plain.to && !default_namespace;
            match document.markup(node).filter(|_| is_plain) {
                Some(markup) => push(out, markup, budget),
                None => push_element(document, node, default_namespace, plain, out, budget),
            }
        }
    }
}

fn push_element(
    document: &Document,
    node: NodeId,
    default_namespace: bool,
    plain: &mut Plain,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    let from = out.len();
    // A document may have thousands of declarations, and each element examines all of them.
    let declared = document.declarations_above(node);
    let looked_at = if declared > DECLARED_FEW { declared as u64 } else { 0 };
    budget.charge(looked_at.saturating_mul(64))?;
    let name = document.name(node);
    let name_end = 1 + name.prefix.len() + usize::from(!name.prefix.is_empty()) + name.local.len();
    let markup = document.markup(node).map(|markup| (markup, MarkupProperties::at(markup)));
    let markup = markup.filter(|(_, look)| !look.has_references);
    let around = markup.map(|(_, look)| around(document, node, look.has_prefixes));
    // Harmless: a node without markup is serialised anew below, with the namespaces it needs.
    let around = around.unwrap_or_default();
    let markup = markup.filter(|_| around.len() <= AROUND_MAX);
    let parts = markup.and_then(|(markup, look)| {
        let (start, rest) = markup.split_at_checked(name_end)?;
        Some((markup, start, rest, look))
    });
    match parts {
        Some((markup, start, rest, look)) => {
            budget.output(start.len() + rest.len())?;
            out.reserve(start.len() + rest.len());
            out.push_str(start);
            let found = prefixes_in(&around, markup);
            for (at, (prefix, uri)) in around.iter().enumerate() {
                let is_used = match *prefix {
                    "xml" => false,
                    "" => uses_default(document, node),
                    _ => found & 1 << at != 0,
                };
                if is_used && document.declared(node).all(|(own, _)| own != *prefix) {
                    push_declaration(prefix, uri, out, budget)?;
                }
            }
            out.push_str(rest);
            if around.is_empty() && look.is_plain() {
                plain.note(document, node);
            }
        }
        None => {
            let kept = used(document, node);
            budget.charge(looked_at.saturating_mul(kept.len() as u64))?;
            document.write(node, &Form::Moved { kept: &kept }, out);
            budget.output(out.len() - from)?;
        }
    }
    if default_namespace
        && document.declared(node).all(|(prefix, _)| !prefix.is_empty())
        && document.lookup_prefix(node, "").is_none()
    {
        push_in(out, from + name_end, " xmlns=\"\"", budget)?;
    }
    Ok(())
}

/// Returns the namespaces around an element that its markup may use. Without a colon in the markup, that is only the default namespace.
fn around(document: &Document, node: NodeId, has_prefixes: bool) -> Vec<(&str, &str)> {
    let parent = document.parent(node).filter(|parent| *parent != Document::ROOT);
    match (parent, has_prefixes) {
        (None, _) => Vec::new(),
        (Some(parent), true) => document.namespaces(parent),
        (Some(parent), false) => {
            document.lookup_prefix(parent, "").map(|uri| ("", uri)).into_iter().collect()
        }
    }
}

fn push_declaration(
    prefix: &str,
    uri: &str,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), FailureKind> {
    push(out, if prefix.is_empty() { " xmlns" } else { " xmlns:" }, budget)?;
    push(out, prefix, budget)?;
    push(out, "=\"", budget)?;
    push_attribute(out, uri, budget)?;
    push(out, "\"", budget)
}

/// Returns a bit for each prefix that occurs in the markup with a colon, in a name or at the start of a word that looks like a prefixed
/// name. The bits of the empty prefix and of `xml`, which need no declaration, are always set. There are at most [`AROUND_MAX`] prefixes.
fn prefixes_in(around: &[(&str, &str)], markup: &str) -> u32 {
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let bits = around.iter().enumerate().map(|(at, (prefix, _))| (1u32 << at, *prefix));
    let all = bits.clone().fold(0, |all, (bit, _)| all | bit);
    let known = bits.clone().filter(|(_, prefix)| matches!(*prefix, "" | "xml"));
    let mut found = known.fold(0, |known, (bit, _)| known | bit);
    let mut colons = memchr::memchr_iter(b':', markup.as_bytes());
    while found != all
        && let Some(colon) = colons.next()
    {
        let before = markup.get(..colon).unwrap_or_default();
        for (bit, prefix) in bits.clone() {
            let rest = before.strip_suffix(prefix).filter(|_| found & bit == 0);
            if rest.is_some_and(|rest| !rest.chars().next_back().is_some_and(in_word)) {
                found |= bit;
            }
        }
    }
    found
}

/// Returns true if a subtree contains an unprefixed element or an unprefixed type name, which are in the default namespace.
fn uses_default(document: &Document, node: NodeId) -> bool {
    (node.0..document.end(node).0).map(NodeId).any(|id| match document.kind(id) {
        Kind::Element => document.name(id).prefix.is_empty() || document.hides_bare_names(id),
        Kind::Attribute => names_plain_type(document, id),
        Kind::Document | Kind::Text | Kind::Comment | Kind::Instruction => false,
    })
}

fn names_plain_type(document: &Document, attribute: NodeId) -> bool {
    let name = document.name(attribute);
    name.local == "type" && !name.prefix.is_empty() && !document.value(attribute).contains(':')
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

/// Returns the markup of a node for a place outside its document. It declares the namespaces that names use, and those of prefixes at the
/// start of words in texts and values, such as `xsi:type="xsd:string"`.
pub fn detached_markup(document: &Document, node: NodeId) -> String {
    document.to_text(node, &Form::Moved { kept: &used(document, node) })
}

/// Returns the prefixes that a subtree uses: in names, and at the start of words in texts and values that look like prefixed names.
fn used(document: &Document, node: NodeId) -> Vec<&str> {
    let mut used = BTreeSet::new();
    for id in (node.0..document.end(node).0).map(NodeId) {
        match document.kind(id) {
            Kind::Element => drop(used.insert(document.name(id).prefix)),
            Kind::Attribute => {
                used.insert(document.name(id).prefix);
                if names_plain_type(document, id) {
                    used.insert("");
                }
                used.extend(prefixes(document.value(id)));
            }
            Kind::Text => used.extend(prefixes(document.value(id))),
            Kind::Document | Kind::Comment | Kind::Instruction => {}
        }
    }
    used.into_iter().collect()
}

/// Returns the prefixes of the words of a text: the parts before a colon.
fn prefixes(text: &str) -> impl Iterator<Item = &str> {
    let words = text.contains(':').then(|| text.split_ascii_whitespace());
    // Harmless: a word without a colon has no prefix.
    words.into_iter().flatten().filter_map(|word| word.split_once(':').map(|(prefix, _)| prefix))
}
