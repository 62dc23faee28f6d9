//! Templates: texts with `{{ expression }}` placeholders, whose values cannot break out of their place.
//!
//! A template is compiled with the grammar of its output, which is applied to its own text. This determines the place of each placeholder,
//! and its value is written as that place requires. A placeholder where no value can be inserted safely does not compile. A value can
//! therefore change texts, but never the structure.
//!
//! | made of | place                       | how a value is written                                             |
//! |---------|-----------------------------|--------------------------------------------------------------------|
//! | XML     | content of an element       | nodes as markup, all else as text                                  |
//! | XML     | an attribute's value        | text; not allowed in namespace declarations                        |
//! | XML     | a CDATA section             | text; the section is ended and reopened where necessary            |
//! | XML     | names, tags, comments, instructions | refused                                                    |
//! | JSON    | inside a string             | text, escaped                                                      |
//! | JSON    | where a value may stand     | a value of JSON                                                    |
//! | line    | anywhere                    | text; fails if it has control characters                           |
//! | path    | a segment                   | percent-encoded; fails if a segment is empty, `.` or `..`          |
//! | path, query | after `?`               | percent-encoded                                                    |
//! | text    | anywhere                    | unchanged                                                          |
//! | key     | anywhere                    | as markup if there are several nodes or nested elements; else text |

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
    /// The content of an element, or a document.
    Xml,
    /// A JSON value.
    Json,
    /// Plain text.
    Text,
    /// A text that identifies a message. Different elements give different texts, even if their string-values are equal.
    Key,
    /// The value of a header line.
    Line,
    /// A path, optionally with a query after `?`.
    Path,
    /// A query without its `?`.
    Query,
}

/// A compiled template. Immutable, so that threads can share it.
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
    /// `default_namespace`: whether a default namespace is in scope there.
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
    /// Compiles a template.
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
        // Harmless: literals that were not changed are used as written.
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

    /// Returns the text of a template without placeholders, or `None`.
    pub fn literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the expressions of the placeholders, each with whether nodes are written as markup.
    pub fn values(&self) -> impl Iterator<Item = (&Expression, bool)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Value { expression, site } => {
                Some((expression, matches!(site, Site::XmlContent { .. })))
            }
        })
    }

    /// Returns the slots of all values and groups that the template may request from its scope.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> =
            self.values().flat_map(|(expression, _)| expression.slots()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Evaluates the placeholders and returns the resulting text.
    pub fn fill(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<String, Failure> {
        let mut out = String::new();
        // The offsets at which values begin in a path, for the check of its segments.
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

/// Returns true if the text of the nodes does not identify them: there are several, or one contains elements.
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
    /// Writes a value as the place requires.
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
            Site::Line => match text.chars().find(|c| is_forbidden_in_line(*c)) {
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

/// Returns true if a header value must not contain the character: control characters except tabs (RFC 9110, 5.5).
fn is_forbidden_in_line(c: char) -> bool {
    (u32::from(c) < 0x20 && c != '\t') || c == '\u{7f}'
}

fn everywhere(pieces: &[Piece<'_>], site: Site) -> Vec<Site> {
    pieces.iter().filter(|piece| piece.is_placeholder()).map(|_| site).collect()
}

fn line_sites(text: &str, pieces: &[Piece<'_>]) -> Result<Vec<Site>, Error> {
    for piece in pieces {
        let Piece::Literal { text: literal, at } = piece else { continue };
        if let Some((place, c)) = literal.char_indices().find(|(_, c)| is_forbidden_in_line(*c)) {
            let what =
                format!("the character U+{:04X} is not allowed in a header line", u32::from(c));
            return Err(ErrorKind::Malformed(what.into()).at(text, at + place));
        }
    }
    Ok(everywhere(pieces, Site::Line))
}
