//! CEL over the values of a message or a request: `body`, `headers`, `status`, `vars.NAME`, `claims` and all other names.
//!
//! Owns all use of CEL in the program: the checks before an expression runs ([`analysis`]), its values ([`values`]), its numbers
//! ([`numbers`]) and its cost ([`meter`]). The library counts no steps, so the compiled expression is rewritten to call the meter in each
//! round of a loop, and for each text or list before it is compared, searched or copied.

mod analysis;
mod dotted_name;
mod environment;
mod failures;
mod meter;
mod numbers;
mod operators;
mod static_type;
mod values;
mod wide;

use std::fmt;

use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::{Context, IdedExpr};

use crate::{Budget, Error, ErrorKind, FailureKind, NameKind, Names, Scope, Slot, Value};
use values::{GivenValues, HeldValue};

/// Maximum length of an expression; no hand-written one is longer. The memory that the library's parser needs grows with its square.
const RULE_BYTES_MAX: usize = 4096;

/// A compiled CEL expression.
pub(crate) struct Rule {
    /// The expression after the calls of the meter were inserted and operators were replaced by calls.
    metered: IdedExpr,
    /// Number of parts of the expression as written.
    parts: u64,
    /// Names of values and groups that the expression uses.
    roots: Vec<(Box<str>, NameKind)>,
    /// The names that the expression uses after `vars.`.
    variables: Vec<(Box<str>, NameKind)>,
    static_type: Option<&'static str>,
    /// Whether the expression only names a value and computes nothing.
    is_path: bool,
}

impl Rule {
    pub(crate) fn compile(text: &str, names: &dyn Names) -> Result<Rule, Error> {
        if text.len() > RULE_BYTES_MAX {
            let max = RULE_BYTES_MAX as u64;
            return Err(ErrorKind::Limit { name: "bytes of a CEL expression", max }.at(text, 0));
        }
        let program = environment::env().compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let (line, column) = first.map_or((1, 0), |error| error.pos);
            let what = first.map_or("it cannot be read", |error| &error.msg);
            ErrorKind::syntax(what).at(text, offset(text, line, column))
        })?;
        let used = analysis::of(program.expression(), names).map_err(|(kind, id)| {
            let place = program.source_info().offset_for(id).map_or(0, |(from, _)| from);
            // The library counts characters, not bytes.
            let offset = text.char_indices().nth(place as usize).map_or(0, |(at, _)| at);
            kind.at(text, offset)
        })?;
        let find = |path: &str, shown: String| match names.find(&[path]) {
            Some(known) => Ok((path.into(), known)),
            None => {
                // Harmless: the position is only shown in the error.
                let at = text.find(&shown).unwrap_or_default();
                Err(ErrorKind::UnknownName(shown.into()).at(text, at))
            }
        };
        let roots = used.roots.iter().map(|name| find(name, name.clone()));
        let roots = roots.collect::<Result<_, _>>()?;
        let variables = used.variables.iter().map(|name| find(name, format!("vars.{name}")));
        let variables = variables.collect::<Result<_, _>>()?;
        let static_type = static_type::static_type(program.expression(), names);
        let is_path = analysis::is_path(program.expression());
        let metered = operators::with_mixed_numbers(meter::metered(program.expression()), names);
        Ok(Rule { metered, parts: used.parts, roots, variables, static_type, is_path })
    }

    /// Returns the type of the value in words if it is known statically and not boolean.
    pub(crate) fn static_type(&self) -> Option<&'static str> {
        self.static_type
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
        let all = self.roots.iter().chain(&self.variables);
        all.map(|(_, NameKind::Value(slot) | NameKind::Group(slot))| *slot).collect()
    }

    pub(crate) fn value(
        &self,
        scope: &dyn Scope,
        budget: &mut Budget,
    ) -> Result<Value, FailureKind> {
        let mut held = Vec::with_capacity(self.roots.len() + 1);
        for (name, known) in &self.roots {
            held.push((&**name, HeldValue::of(*known, scope, 0)?));
        }
        if !self.variables.is_empty() {
            let of = |(name, known): &(Box<str>, NameKind)| {
                Ok((name.clone(), HeldValue::of(*known, scope, 0)?))
            };
            let all = self.variables.iter().map(of).collect::<Result<_, FailureKind>>()?;
            held.push(("vars", HeldValue::Map(all)));
        }
        let mut given = GivenValues::new(budget);
        let mut roots = RootValues(Vec::with_capacity(held.len()));
        for (name, held) in &held {
            roots.0.push((name, given.value(held)?));
        }
        let value = self.run(&roots, budget);
        values::take_apart(roots.0.into_iter().map(|(_, value)| value).collect());
        value
    }

    fn run(&self, roots: &RootValues<'_>, budget: &mut Budget) -> Result<Value, FailureKind> {
        budget.charge(self.parts.saturating_mul(meter::PART_STEPS))?;
        let mut context = Context::with_env(environment::env().clone());
        context.set_variable_resolver(roots);
        let run = || cel::Value::resolve_val(&self.metered, &context);
        match meter::metering(budget, run)? {
            Ok(value) => values::taken(&*value, budget),
            // As in the other languages, a path may find nothing.
            Err(error) if self.is_path && failures::is_absence(&error) => Ok(Value::Nothing),
            Err(error) => {
                Err(FailureKind::Computation(failures::reason(&error, &self.metered).into()))
            }
        }
    }
}

/// The values of the names that an expression uses.
struct RootValues<'m>(Vec<(&'m str, Box<dyn Val + 'm>)>);

impl VariableResolver for RootValues<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (_, value) = self.0.iter().find(|(name, _)| *name == variable)?;
        Some(CowVal::Borrowed(&**value))
    }
}

/// Returns the byte offset of a position in the library's form: a line counted from 1, and a column counted from 0 or 1.
fn offset(text: &str, line: isize, column: isize) -> usize {
    // Harmless: the position is only shown in the error.
    let lines = usize::try_from(line - 1).unwrap_or_default();
    // Harmless: this only counts the lines before the position.
    let before: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    // Harmless: the position is only shown in the error.
    let column = usize::try_from(column - 1).unwrap_or_default();
    before + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("roots", &self.roots)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}
