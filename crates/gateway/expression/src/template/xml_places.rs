//! Finds the places of placeholders in an XML template: in content, in attribute values, in CDATA sections.

use xml::{Doctype, Here, QName, Sink, Start};

use crate::template::Site;
use crate::template::pieces::Piece;
use crate::{Error, ErrorKind};

/// The stand-in for content when a template is checked: a processing instruction that does not occur otherwise.
const CONTENT: &str = "tidegate-content";

/// The end tag of the element that is put around a template.
const CLOSE: &str = "</r>";

/// The state of the scanner of a template's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Content,
    /// Between `<` and `>`, outside attribute values.
    Tag,
    /// In an attribute value with these quotes. `declares`: whether the attribute is a namespace declaration.
    Value {
        quote: char,
        declares: bool,
    },
    Cdata,
    Comment,
    Instruction,
}

/// The template with a stand-in for each placeholder.
struct FilledTemplate {
    text: String,
    /// The offsets at which pieces begin, in the filled text and in the template.
    starts: Vec<(usize, usize)>,
}

/// Returns the place of each placeholder, and the literals, changed where a value before them could complete `]]>`. The template must be
/// well-formed whatever the values are.
pub(super) fn sites(
    text: &str,
    pieces: &[Piece<'_>],
) -> Result<(Vec<Site>, Option<Vec<String>>), Error> {
    let (declaration, root) = ("<?xml", "<r>");
    let mut state = State::Content;
    let (mut sites, mut literals) = (Vec::new(), Vec::new());
    let mut filled = FilledTemplate { text: String::with_capacity(text.len()), starts: Vec::new() };
    let mut open = false;
    for piece in pieces {
        match piece {
            Piece::Literal { text: literal, at } => {
                let safe = without_end(literal, state == State::Content && !sites.is_empty());
                state = state_after(literal, state).map_err(|(place, what)| {
                    ErrorKind::Malformed(what.into()).at(text, at + place)
                })?;
                let front = if *at == 0 && literal.starts_with(declaration) {
                    literal.find("?>").map_or(0, |end| end + 2)
                } else {
                    0
                };
                let (front, rest) = literal.split_at_checked(front).unwrap_or(("", literal));
                if !front.is_empty() {
                    filled.push(front, *at);
                }
                if !open {
                    filled.text.push_str(root);
                    open = true;
                }
                // The literal may have become longer, so that error positions after the change are a few bytes off.
                if front.is_empty() {
                    filled.push(&safe, *at)
                } else {
                    filled.push(rest, at + front.len())
                }
                literals.push(safe);
            }
            Piece::Placeholder { from, .. } => {
                if !open {
                    filled.text.push_str(root);
                    open = true;
                }
                let (site, sample) = site(state)
                    .map_err(|what| ErrorKind::Misplaced(what.into()).at(text, *from))?;
                filled.push(&sample, *from);
                sites.push(site);
            }
        }
    }
    filled.text.push_str(if open { CLOSE } else { "<r/>" });
    try_out(text, &filled, &mut sites)?;
    Ok((sites, Some(literals)))
}

impl FilledTemplate {
    fn push(&mut self, text: &str, at: usize) {
        self.starts.push((self.text.len(), at));
        self.text.push_str(text);
    }
}

/// Escapes the end of `]]>` in a literal if the value before it could supply the beginning.
fn without_end(literal: &str, is_after_value: bool) -> String {
    let rest = literal.trim_start_matches(']');
    match rest.strip_prefix('>').filter(|_| is_after_value && literal.len() - rest.len() < 2) {
        Some(remainder) => {
            let brackets = literal.get(..literal.len() - rest.len()).unwrap_or_default();
            format!("{brackets}&gt;{remainder}")
        }
        None => literal.to_owned(),
    }
}

fn site(state: State) -> Result<(Site, String), &'static str> {
    match state {
        State::Content => {
            Ok((Site::XmlContent { default_namespace: false }, format!("<?{CONTENT}?>")))
        }
        State::Value { declares: false, .. } => Ok((Site::XmlAttribute, "x".to_owned())),
        State::Cdata => Ok((Site::XmlCdata, "x".to_owned())),
        State::Value { declares: true, .. } => {
            Err("a namespace cannot be inserted: write it in the template")
        }
        State::Tag => Err(
            "within a tag, values can only be inserted between the quotes of an attribute's value",
        ),
        State::Comment => Err("nothing can be inserted into a comment"),
        State::Instruction => Err("nothing can be inserted into a processing instruction"),
    }
}

/// Returns the state after a text, or an error with its offset.
fn state_after(text: &str, mut state: State) -> Result<State, (usize, &'static str)> {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let end = match state {
            State::Content => "<",
            State::Tag => {
                let Some(found) = rest.find(['>', '"', '\'']) else { return Ok(state) };
                let sign = rest.get(found..).and_then(|rest| rest.chars().next());
                let before = text.get(..at + found).unwrap_or_default();
                state = match sign {
                    Some(quote @ ('"' | '\'')) => {
                        State::Value { quote, declares: is_declaration(before) }
                    }
                    _ => State::Content,
                };
                at += found + 1;
                continue;
            }
            State::Value { quote: '"', .. } => "\"",
            State::Value { .. } => "'",
            State::Cdata => "]]>",
            State::Comment => "-->",
            State::Instruction => "?>",
        };
        let Some(found) = rest.find(end) else { return Ok(state) };
        at += found;
        let rest = text.get(at..).unwrap_or_default();
        let (next, len) = match state {
            State::Content if rest.starts_with("<![CDATA[") => (State::Cdata, 9),
            State::Content if rest.starts_with("<!--") => (State::Comment, 4),
            State::Content if rest.starts_with("<?") => (State::Instruction, 2),
            State::Content if rest.starts_with("<!") => {
                return Err((at, "a template cannot have a document type"));
            }
            State::Content => (State::Tag, 1),
            State::Value { .. } => (State::Tag, 1),
            State::Cdata | State::Comment => (State::Content, 3),
            State::Instruction => (State::Content, 2),
            State::Tag => (State::Tag, 1),
        };
        state = next;
        at += len;
    }
}

/// Returns true if the value that begins after this text is that of `xmlns` or `xmlns:prefix`.
fn is_declaration(before: &str) -> bool {
    // Harmless: a value without a name is not a declaration.
    let name = before.trim_end().strip_suffix('=').map(str::trim_end).unwrap_or_default();
    let from = name.rfind([' ', '\t', '\r', '\n']).map_or(0, |at| at + 1);
    let name = name.get(from..).unwrap_or_default();
    name == "xmlns" || name.starts_with("xmlns:")
}

/// Parses the filled template, and records where default namespaces are in scope.
fn try_out(text: &str, filled: &FilledTemplate, sites: &mut [Site]) -> Result<(), Error> {
    let options = xml::Options { doctype: Doctype::Refuse, ..xml::Options::default() };
    let mut reading = XmlReader { defaults: Vec::new(), found: Vec::new() };
    if let Err(error) = xml::parse(filled.text.as_bytes(), &options, &mut reading) {
        // Harmless: the position is only shown in the error.
        let place = usize::try_from(error.at.offset).unwrap_or_default();
        let start = filled.starts.iter().rev().find(|(start, _)| *start <= place);
        // Harmless: the position is only shown in the error.
        let (start, at) = start.copied().unwrap_or_default();
        let kind = error.kind.to_string();
        // The end tag around everything was not written by the author.
        let kind = if place + CLOSE.len() >= filled.text.len() {
            kind.replacen(&format!("`{CLOSE}`"), "the end", 1)
        } else {
            kind
        };
        let what = format!("the template is not well-formed: {kind}");
        return Err(ErrorKind::Malformed(what.into()).at(text, at + (place - start.min(place))));
    }
    let content = sites.iter_mut().filter(|site| matches!(site, Site::XmlContent { .. }));
    // Harmless: there is one entry for each placeholder in content.
    for (site, default_namespace) in content.zip(reading.found) {
        *site = Site::XmlContent { default_namespace };
    }
    Ok(())
}

struct XmlReader {
    /// For each open element, whether a default namespace is in scope.
    defaults: Vec<bool>,
    /// For each placeholder in content, whether a default namespace is in scope.
    found: Vec<bool>,
}

impl Sink for XmlReader {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        let default = start.scope.lookup("").is_some_and(|namespace| !namespace.uri.is_empty());
        self.defaults.push(default);
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.defaults.pop();
        Ok(())
    }

    fn instruction(&mut self, target: &str, _: &str, _: Here<'_>) -> Result<(), xml::Error> {
        if target == CONTENT {
            // Harmless: outside any element no default namespace is declared.
            self.found.push(self.defaults.last().copied().unwrap_or_default());
        }
        Ok(())
    }
}
