//! An expression: the language of a text, its names as slots, and its value.

use std::sync::Arc;

use kit::TextPosition;

use crate::jsonpath::Query;
use crate::path::{BODY_LEVEL, Path};
use crate::rule::Rule;
use crate::tape::JsonText;
use crate::value::JsonNodes;
use crate::{Budget, Error, ErrorKind, Failure, FailureKind, NameKind, Names, Scope, Slot, Value};

/// No expression that a person wrote is longer.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 16 << 10;

/// The language that a text is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// By the text: one that [`is_expression`] is an expression, any other a literal.
    Marked,
    /// XPath 1.0, `{ xpath: TEXT }`.
    XPath,
    /// A whole JSONPath query over the body, `{ json: TEXT }`.
    Json,
    /// CEL, `{ cel: TEXT }`.
    Cel,
    /// The text itself, `{ text: LITERAL }`.
    Text,
}

/// A compiled expression. Immutable, to be shared between threads.
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
    /// `$name[1]` is an index of JSON and a predicate of XPath: the value decides.
    Either {
        slot: Slot,
        query: Query,
        path: Arc<Path>,
    },
    Rule(Arc<Rule>),
}

/// A name at the beginning of a text, resolved.
struct LeadingName {
    slot: Slot,
    /// Bytes of the text that it takes.
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

    /// The same with [`FailureKind::Missing`] in place of nothing.
    pub fn required(self) -> Expression {
        Expression { required: true, ..self }
    }

    /// The same as a part of a longer text.
    pub(crate) fn placed(self, at: TextPosition) -> Expression {
        Expression { at, ..self }
    }

    /// The text of a literal; none of any other expression.
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

    /// The number of levels of elements of the message that it looks at, of the Body of SOAP at those around it as well. None
    /// unless it is known to look at no deeper ones, and at nothing but nodes of the message.
    pub fn levels(&self) -> Option<usize> {
        self.levels
    }

    /// The slot whose value is its own, if it does nothing else with it.
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

    /// The kind of its value in words, where that can be seen and is not true or false. Only CEL is looked into.
    pub fn gives(&self) -> Option<&'static str> {
        match &self.program {
            Program::Rule(rule) => rule.gives(),
            Program::Literal(_)
            | Program::Slot(_)
            | Program::Query { .. }
            | Program::Path(_)
            | Program::Either { .. } => None,
        }
    }

    /// The values and groups that it may ask its scope for.
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

    /// Its value.
    pub fn value(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, Failure> {
        let value = self.program.value(scope, budget);
        let value = value.and_then(|value| {
            if self.required && value.is_missing() { Err(FailureKind::Missing) } else { Ok(value) }
        });
        value.map_err(|kind| kind.at(self.at))
    }

    /// Its value as text. A plain path is followed while an unread document is read.
    pub fn text(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<String, Failure> {
        if let Program::Path(path) = &self.program
            && let Some(found) = path.text_unread(scope, budget)
        {
            let found = found.and_then(|found| match (found, self.required) {
                (None, true) => Err(FailureKind::Missing),
                // Harmless: what is not found is nothing, unless it is required.
                (found, _) => Ok(found.unwrap_or_default()),
            });
            return found.map_err(|kind| kind.at(self.at));
        }
        let value = self.value(scope, budget)?;
        let text = value.text().and_then(|text| {
            budget.text(text.len())?;
            Ok(text.into_owned())
        });
        text.map_err(|kind| kind.at(self.at))
    }

    /// Its value as a truth.
    pub fn boolean(&self, scope: &dyn Scope, budget: &mut Budget) -> Result<bool, Failure> {
        if let Program::Path(path) = &self.program
            && let Some(found) = path.text_unread(scope, budget)
        {
            return found.map(|found| found.is_some()).map_err(|kind| kind.at(self.at));
        }
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
            Program::Query { slot, query } => below(query, followed(*slot, scope)?, budget),
            Program::Path(path) => path.value(scope, budget),
            Program::Either { slot, query, path } => {
                let value = followed(*slot, scope)?;
                if matches!(value, Value::Nodes(_)) {
                    path.value(scope, budget)
                } else {
                    below(query, value, budget)
                }
            }
            Program::Rule(rule) => rule.value(scope, budget),
        }
    }
}

/// A value that a query follows: of a form its fields.
pub(crate) fn followed(slot: Slot, scope: &dyn Scope) -> Result<Value, FailureKind> {
    let value = scope.value(slot)?;
    match &value {
        Value::Text(_) | Value::Bytes(_) => Ok(scope.fields(slot)?.unwrap_or(value)),
        Value::Nothing
        | Value::Null
        | Value::Boolean(_)
        | Value::Number(_)
        | Value::Nodes(_)
        | Value::Json(_) => Ok(value),
    }
}

/// The values that a query finds in a value: nothing, if that is not JSON.
pub(crate) fn below(
    query: &Query,
    value: Value,
    budget: &mut Budget,
) -> Result<Value, FailureKind> {
    let Value::Json(json) = value else { return Ok(Value::Nothing) };
    if json.singular {
        let Some(root) = json.first() else { return Ok(Value::Nothing) };
        return Ok(Value::Json(query.value(&json.text, root, budget)?));
    }
    // The result of a query that may find many is an array for the next query.
    let mut text = String::new();
    Value::Json(json).write_json(&mut text, budget)?;
    let array = made_json(text, budget)?;
    Ok(Value::Json(query.value(&array.text, JsonText::ROOT, budget)?))
}

/// A JSON text that this crate wrote.
pub(crate) fn made_json(text: String, budget: &Budget) -> Result<JsonNodes, FailureKind> {
    let limits = json::Limits {
        depth_max: budget.limits().depth_max as usize + 1,
        entries_max: 2 * budget.limits().results_max as usize,
    };
    let what = |malformed: json::JsonError| FailureKind::Malformed(malformed.what.into());
    Ok(JsonNodes::root(JsonText::read(text, &limits).map_err(what)?))
}

/// True for a text that begins with `$`, with `/`, or with a function of XPath and its `(`.
pub fn is_expression(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    text.starts_with(['$', '/']) || rest.starts_with('(') && xpath::is_core_function(name)
}

/// The part of a literal for which it may have been meant as an expression or a template: `{{`, `//`, or `$` before a name.
pub fn seems_expression(literal: &str) -> Option<&'static str> {
    let is_name = |c: char| c.is_alphabetic() || c == '_';
    let names = || literal.split('$').skip(1).any(|behind| behind.starts_with(is_name));
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

/// A text that [`is_expression`].
fn marked(text: &str, names: &dyn Names) -> Result<Program, Error> {
    let path = || Path::compile(text, names).map(|path| Program::Path(path.into()));
    if !text.starts_with('$') {
        return path();
    }
    let behind = text.get(1..).unwrap_or_default();
    if behind.is_empty() || behind.starts_with(['.', '[']) {
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
            "a path ends here; what compares and computes is written as `{ xpath: TEXT }` or `{ cel: TEXT }`",
        )
        .at(text, at))
});
    match (query, rest.starts_with('.')) {
        (Ok(query), true) => Ok(Program::Query { slot, query }),
        // A path of values that it cannot take says so itself.
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

/// The name at the beginning: `$body`, `$headers.X-Id`, `$headers['X.Id']`.
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

/// The value that a dotted name begins with, and how many of its parts name it.
pub(crate) fn resolve(parts: &[&str], names: &dyn Names) -> Option<(NameKind, usize)> {
    let mut taken = 1;
    loop {
        let known = names.find(parts.get(..taken)?)?;
        match known {
            NameKind::Group(_) if taken < parts.len() => taken += 1,
            NameKind::Group(_) | NameKind::Value(_) => return Some((known, taken)),
        }
    }
}
