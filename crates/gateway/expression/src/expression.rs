//! An expression: detects the language of a text, resolves its names to slots, and evaluates it.

use std::sync::Arc;

use kit::TextPosition;

use crate::jsonpath::Query;
use crate::path::{BODY_LEVEL, Path};
use crate::query::{apply_query, query_input};
use crate::rule::Rule;
use crate::{Budget, Error, ErrorKind, Failure, FailureKind, NameKind, Names, Scope, Slot, Value};

/// Maximum length of an expression; no hand-written one is longer.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 16 << 10;

/// The language of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Depends on the text: it is an expression if [`is_expression`] says so, otherwise a literal.
    Marked,
    /// XPath 1.0, written `{ xpath: TEXT }`.
    XPath,
    /// A JSONPath query over the body, written `{ json: TEXT }`.
    Json,
    /// CEL, written `{ cel: TEXT }`.
    Cel,
    /// A literal, written `{ text: LITERAL }`.
    Text,
}

/// A compiled expression. Immutable, so that threads can share it.
#[derive(Debug, Clone)]
pub struct Expression {
    program: Program,
    /// See [`Expression::levels`].
    levels: Option<usize>,
    required: bool,
    at: TextPosition,
}

#[derive(Debug, Clone)]
enum Program {
    Literal(Arc<str>),
    Slot(Slot),
    Query {
        slot: Slot,
        query: Query,
    },
    Path(Arc<Path>),
    /// `$name[1]` is an index in JSON and a predicate in XPath. The value decides at run time.
    Either {
        slot: Slot,
        query: Query,
        path: Arc<Path>,
    },
    Rule(Arc<Rule>),
}

/// The name at the beginning of a text, resolved.
struct LeadingName {
    slot: Slot,
    /// Number of bytes of the text that the name takes.
    end: usize,
}

impl Expression {
    /// Compiles a text.
    pub fn compile(text: &str, language: Language, names: &dyn Names) -> Result<Expression, Error> {
        if text.len() > EXPRESSION_BYTES_MAX && language != Language::Text {
            let max = EXPRESSION_BYTES_MAX as u64;
            return Err(ErrorKind::Limit { name: "bytes of an expression", max }.at(text, 0));
        }
        let literal = || Program::Literal(text.into());
        let program = match language {
            Language::Text => literal(),
            Language::Marked if !is_expression(text) => literal(),
            Language::Marked => marked(text.trim_end(), names)?,
            Language::XPath => Program::Path(Path::compile(text, names)?.into()),
            Language::Json => {
                Program::Query { slot: names.body(), query: Query::compile(text.trim())? }
            }
            Language::Cel => Program::Rule(Rule::compile(text, names)?.into()),
        };
        let levels = program.levels(names);
        Ok(Expression { program, levels, required: false, at: TextPosition::of(text, 0) })
    }

    /// Makes the expression fail with [`FailureKind::Missing`] if it finds nothing.
    pub fn required(self) -> Expression {
        Expression { required: true, ..self }
    }

    /// Sets the position of the expression within a longer text.
    pub(crate) fn placed(self, at: TextPosition) -> Expression {
        Expression { at, ..self }
    }

    /// Returns the text if the expression is a literal.
    pub fn literal(&self) -> Option<&str> {
        match &self.program {
            Program::Literal(text) => Some(text),
            Program::Slot(_)
            | Program::Query { .. }
            | Program::Path(_)
            | Program::Either { .. }
            | Program::Rule(_) => None,
        }
    }

    /// Returns the number of element levels of the message that the expression uses; for the Body of a SOAP message, the levels around it
    /// are included. Returns `None` if it may use deeper levels, or anything other than nodes of the message.
    pub fn levels(&self) -> Option<usize> {
        self.levels
    }

    /// Returns the slot if the expression is exactly the value of one slot.
    pub fn slot(&self) -> Option<Slot> {
        match &self.program {
            Program::Slot(slot) => Some(*slot),
            Program::Literal(_)
            | Program::Query { .. }
            | Program::Path(_)
            | Program::Either { .. }
            | Program::Rule(_) => None,
        }
    }

    /// Returns the type of the value in words if it is known statically and not boolean. Only known for CEL.
    pub fn static_type(&self) -> Option<&'static str> {
        match &self.program {
            Program::Rule(rule) => rule.static_type(),
            Program::Literal(_)
            | Program::Slot(_)
            | Program::Query { .. }
            | Program::Path(_)
            | Program::Either { .. } => None,
        }
    }

    /// Returns the slots of all values and groups that the expression may request from its scope.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = match &self.program {
            Program::Literal(_) => Vec::new(),
            Program::Slot(slot) | Program::Query { slot, .. } => vec![*slot],
            Program::Path(path) => path.slots(),
            Program::Either { slot, path, .. } => [vec![*slot], path.slots()].concat(),
            Program::Rule(rule) => rule.slots(),
        };
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Evaluates the expression.
    pub fn value(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, Failure> {
        let value = self.program.value(scope, budget);
        let value = value.and_then(|value| {
            if self.required && value.is_missing() { Err(FailureKind::Missing) } else { Ok(value) }
        });
        value.map_err(|kind| kind.at(self.at))
    }

    /// Evaluates the expression as text.
    pub fn text(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<String, Failure> {
        let value = self.value(scope, budget)?;
        let text = value.text().and_then(|text| {
            budget.text(text.len())?;
            Ok(text.into_owned())
        });
        text.map_err(|kind| kind.at(self.at))
    }

    /// Evaluates the expression as a boolean.
    pub fn boolean(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<bool, Failure> {
        Ok(self.value(scope, budget)?.boolean())
    }

    pub(crate) fn place(&self) -> TextPosition {
        self.at
    }
}

impl Program {
    fn levels(&self, names: &dyn Names) -> Option<usize> {
        match self {
            Program::Slot(slot) => (*slot == names.body()).then_some(BODY_LEVEL),
            Program::Path(path) => path.levels(names.body()),
            Program::Literal(_)
            | Program::Query { .. }
            | Program::Either { .. }
            | Program::Rule(_) => None,
        }
    }

    fn value(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, FailureKind> {
        budget.charge(1)?;
        match self {
            Program::Literal(text) => Ok(Value::Text(text.clone())),
            Program::Slot(slot) => scope.value(*slot),
            Program::Query { slot, query } => {
                apply_query(query, query_input(*slot, scope)?, budget)
            }
            Program::Path(path) => path.value(scope, budget),
            Program::Either { slot, query, path } => {
                let value = query_input(*slot, scope)?;
                if matches!(value, Value::Nodes(_)) {
                    path.value(scope, budget)
                } else {
                    apply_query(query, value, budget)
                }
            }
            Program::Rule(rule) => rule.value(scope, budget),
        }
    }
}

/// Returns true if a text begins with `$`, with `/`, or with the name of an XPath function and `(`.
pub fn is_expression(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    text.starts_with(['$', '/']) || is_call(name, rest)
}

/// Returns true if `name` is a function and `rest` begins with its `(`.
fn is_call(name: &str, rest: &str) -> bool {
    rest.starts_with('(') && (xpath::is_core_function(name) || name == crate::path::TEXTS)
}

/// Returns the part of a literal that suggests it was meant as an expression or a template: `{{`, `//`, or `$` before a name.
pub fn seems_expression(literal: &str) -> Option<&'static str> {
    let is_name = |c: char| c.is_alphabetic() || c == '_';
    let names = || literal.split('$').skip(1).any(|rest| rest.starts_with(is_name));
    if literal.contains("{{") {
        Some("{{")
    } else if names() {
        Some("$")
    } else if literal.contains("//") {
        Some("//")
    } else {
        None
    }
}

/// Compiles a text for which [`is_expression`] is true.
fn marked(text: &str, names: &dyn Names) -> Result<Program, Error> {
    let path = || Path::compile(text, names).map(|path| Program::Path(path.into()));
    if !text.starts_with('$') {
        return path();
    }
    let after = text.get(1..).unwrap_or_default();
    if after.is_empty() || after.starts_with(['.', '[']) {
        return Ok(Program::Query { slot: names.body(), query: Query::compile(text)? });
    }
    let LeadingName { slot, end } = leading(text, names)?;
    let rest = text.get(end..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(Program::Slot(slot));
    }
    if !rest.starts_with(['.', '[']) {
        return path();
    }
    let query = Query::compile_segments(text, end).and_then(|(query, at)| if at == text.len() {
Ok(query)
} else {
Err(ErrorKind::syntax(
            "the path ends here; write a comparison or computation as `{ xpath: TEXT }` or `{ cel: TEXT }`",
        )
        .at(text, at))
});
    match (query, rest.starts_with('.')) {
        (Ok(query), true) => Ok(Program::Query { slot, query }),
        // If the text is also a path over a value that paths cannot use, the path's error is more helpful.
        (Err(error), true) => {
            path().map_err(
                |of_path| if matches!(of_path.kind, ErrorKind::Type(_)) { of_path } else { error },
            )
        }
        (Err(_), false) => path(),
        (Ok(query), false) => Ok(match Path::compile(text, names) {
            Ok(path) => Program::Either { slot, query, path: path.into() },
            Err(_) => Program::Query { slot, query },
        }),
    }
}

/// Resolves the name at the beginning: `$body`, `$headers.X-Id`, `$headers['X.Id']`.
fn leading(text: &str, names: &dyn Names) -> Result<LeadingName, Error> {
    let is_name = |c: char| c == '_' || c == '-' || c.is_alphanumeric();
    let word = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        rest.get(..len).unwrap_or_default()
    };
    let mut parts: Vec<&str> = vec![word(1)];
    let mut end = 1 + word(1).len();
    loop {
        let shown = || text.get(..end).unwrap_or_default().into();
        match names.find(&parts) {
            Some(NameKind::Value(slot)) => return Ok(LeadingName { slot, end }),
            None => return Err(ErrorKind::UnknownName(shown()).at(text, 0)),
            Some(NameKind::Group(_)) => {}
        }
        let rest = text.get(end..).unwrap_or_default();
        let quoted = ["['", "[\""].iter().find_map(|open| {
            let close = if open.ends_with('\'') { "']" } else { "\"]" };
            let (name, _) = rest.strip_prefix(open)?.split_once(close)?;
            Some((name, name.len() + 4))
        });
        let plain = rest.strip_prefix('.').map(|_| (word(end + 1), word(end + 1).len() + 1));
        match quoted.or(plain) {
            Some((name, len)) if !name.is_empty() => {
                parts.push(name);
                end += len;
            }
            _ => return Err(ErrorKind::Group(shown()).at(text, end)),
        }
    }
}
