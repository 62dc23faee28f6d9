//! Templates: texts with `{{ expression }}` in them, out of which no value can break.
//!
//! A template is compiled with the grammar of its output, by which its own text is read. Each placeholder is then known by
//! its place, and its value is written as that place demands; a placeholder where nothing can be put in
//! safely does not compile. A value can therefore change a text and never its structure.
//!
//! | made of | place                       | a value there                                                      |
//! |---------|-----------------------------|--------------------------------------------------------------------|
//! | XML     | content of an element       | nodes as markup, all else as text                                  |
//! | XML     | an attribute's value        | text; none in declarations of namespaces                           |
//! | XML     | a CDATA section             | text; what would end the section ends and begins it anew           |
//! | XML     | names, tags, comments, instructions | refused                                                    |
//! | JSON    | inside a string             | text, escaped                                                      |
//! | JSON    | where a value may stand     | a value of JSON                                                    |
//! | line    | anywhere                    | text; control characters fail                                      |
//! | path    | a segment                   | percent-encoded; a segment that is empty, `.` or `..` fails        |
//! | path, query | behind `?`              | percent-encoded                                                    |
//! | text    | anywhere                    | as it is                                                           |
//! | key     | anywhere                    | several nodes, or elements within one, as markup; else its text    |

mod json_places;
mod pieces;
mod uri;
mod xml_places;

use std::sync::Arc;

use kit::TextPosition;

use crate::{
    Budget, Error, ErrorKind, Expression, Failure, FailureKind, Names, Scope, Slot, Value, markup,
};
use pieces::Piece;

/// The grammar of a template's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Content of an element, or a document.
    Xml,
    /// A value of JSON.
    Json,
    /// Plain text.
    Text,
    /// A text by which messages are told apart: other elements are another text, whatever text is in them.
    Key,
    /// The value of a header line.
    Line,
    /// A path, perhaps with a query behind `?`.
    Path,
    /// A query without its `?`.
    Query,
}

/// A compiled template. Immutable, to be shared between threads.
#[derive(Debug, Clone)]
pub struct Template {
    kind: Kind,
    parts: Arc<[Part]>,
}

#[derive(Debug)]
enum Part {
    Literal(Box<str>),
    Value { expression: Expression, site: Site },
}

/// The place of a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    /// The flag: a default namespace is in force there.
    XmlContent {
        default_namespace: bool,
    },
    XmlAttribute,
    XmlCdata,
    JsonString,
    JsonValue,
    Line,
    Segment,
    QueryPart,
    Text,
    Key,
}

impl Template {
    /// Compiles a text.
    pub fn compile(text: &str, kind: Kind, names: &dyn Names) -> Result<Template, Error> {
        let pieces = pieces::of(text)?;
        let (sites, literals) = match kind {
            Kind::Xml => xml_places::sites(text, &pieces)?,
            Kind::Json => (json_places::sites(text, &pieces)?, None),
            Kind::Path | Kind::Query => (uri::sites(text, &pieces, kind)?, None),
            Kind::Line => (line_sites(text, &pieces)?, None),
            Kind::Text => (everywhere(&pieces, Site::Text), None),
            Kind::Key => (everywhere(&pieces, Site::Key), None),
        };
        // Harmless: without changed literals they stand as written.
        let (mut sites, mut literals) = (sites.into_iter(), literals.into_iter().flatten());
        let mut parts = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Literal { text, .. } => {
                    let text = literals.next().unwrap_or_else(|| (*text).to_owned());
                    parts.push(Part::Literal(text.into()));
                }
                Piece::Placeholder { text: inner, at, .. } => {
                    let moved = |error: Error| error.kind.at(text, at + error.at.offset);
                    let expression = pieces::compile(inner, names).map_err(moved)?;
                    let expression = expression.placed(TextPosition::of(text, *at));
                    let site = sites.next().unwrap_or(Site::Text);
                    parts.push(Part::Value { expression, site });
                }
            }
        }
        Ok(Template { kind, parts: parts.into() })
    }

    /// The text of a template without placeholders.
    pub fn literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The expressions of its placeholders; true where nodes are written as their markup.
    pub fn values(&self) -> impl Iterator<Item = (&Expression, bool)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Value { expression, site } => {
                Some((expression, matches!(site, Site::XmlContent { .. })))
            }
        })
    }

    /// The values and groups that it may ask its scope for.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> =
            self.values().flat_map(|(expression, _)| expression.slots()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Fills it.
    pub fn fill(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<String, Failure> {
        let mut out = String::new();
        // The starts of values in a path, for the check of its segments.
        let mut marks = Vec::new();
        let mut last = TextPosition::of("", 0);
        for part in &*self.parts {
            match part {
                Part::Literal(text) => {
                    budget.output(text.len()).map_err(|kind| kind.at(last))?;
                    out.push_str(text);
                }
                Part::Value { expression, site } => {
                    last = expression.place();
                    marks.push((out.len(), last));
                    site.put(expression, scope, &mut out, budget)?;
                }
            }
        }
        match self.kind {
            Kind::Path => uri::check(&out, &marks)?,
            Kind::Xml | Kind::Json | Kind::Text | Kind::Key | Kind::Line | Kind::Query => {}
        }
        Ok(out)
    }
}

/// True for nodes whose text does not tell them from others: several, or one with elements in it.
fn has_markup(value: &Value) -> bool {
    let Value::Nodes(nodes) = value else { return false };
    let mut nodes = nodes.iter();
    let (first, more) = (nodes.next(), nodes.next());
    more.is_some()
        || first.is_some_and(|(document, node)| {
            document.children(node).any(|child| document.kind(child) == xml::Kind::Element)
        })
}

impl Site {
    /// Writes a value as the place demands.
    fn put(
        self,
        expression: &Expression,
        scope: &dyn Scope,
        out: &mut String,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        let at = expression.place();
        let written = match self {
            Site::XmlContent { default_namespace } => {
                expression.value(scope, budget)?.write_xml(default_namespace, out, budget)
            }
            Site::JsonValue => expression.value(scope, budget)?.write_json(out, budget),
            Site::Key => {
                let value = expression.value(scope, budget)?;
                if has_markup(&value) {
                    value.write_xml(false, out, budget)
                } else {
                    value.text().and_then(|text| self.put_text(&text, out, budget))
                }
            }
            Site::XmlAttribute
            | Site::XmlCdata
            | Site::JsonString
            | Site::Line
            | Site::Segment
            | Site::QueryPart
            | Site::Text => {
                let text = expression.text(scope, budget)?;
                self.put_text(&text, out, budget)
            }
        };
        written.map_err(|kind| kind.at(at))
    }

    fn put_text(
        self,
        text: &str,
        out: &mut String,
        budget: &mut Budget,
    ) -> Result<(), FailureKind> {
        match self {
            Site::XmlAttribute => markup::push_attribute(out, text, budget),
            Site::XmlCdata => markup::push_cdata(out, text, budget),
            Site::XmlContent { .. } => markup::push_text(out, text, budget),
            Site::JsonString | Site::JsonValue => {
                let from = out.len();
                json::push_escaped(out, text);
                budget.output(out.len() - from)
            }
            Site::Line => match text.chars().find(|c| is_no_line_char(*c)) {
                Some(character) => {
                    Err(FailureKind::Forbidden { character, place: "a header line" })
                }
                None => put(text, out, budget),
            },
            Site::Segment | Site::QueryPart => uri::push(text, out, budget),
            Site::Text | Site::Key => put(text, out, budget),
        }
    }
}

fn put(text: &str, out: &mut String, budget: &mut Budget) -> Result<(), FailureKind> {
    budget.output(text.len())?;
    out.push_str(text);
    Ok(())
}

/// A header's value holds no control characters but tabs (RFC 9110, 5.5).
fn is_no_line_char(c: char) -> bool {
    (u32::from(c) < 0x20 && c != '\t') || c == '\u{7f}'
}

fn everywhere(pieces: &[Piece<'_>], site: Site) -> Vec<Site> {
    pieces.iter().filter(|piece| piece.is_placeholder()).map(|_| site).collect()
}

fn line_sites(text: &str, pieces: &[Piece<'_>]) -> Result<Vec<Site>, Error> {
    for piece in pieces {
        let Piece::Literal { text: literal, at } = piece else { continue };
        if let Some((place, c)) = literal.char_indices().find(|(_, c)| is_no_line_char(*c)) {
            let what =
                format!("the character U+{:04X} cannot stand in a header line", u32::from(c));
            return Err(ErrorKind::Malformed(what.into()).at(text, at + place));
        }
    }
    Ok(everywhere(pieces, Site::Line))
}
