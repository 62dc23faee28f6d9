//! CEL over the values of a message: `body`, `headers`, `path`, `query`, `status`, `vars.NAME` and whatever else has a name.
//!
//! The library counts no steps. The most that an expression can cost is computed before it runs, from how its loops are nested
//! and from the size of its values; an expression that could cost more than is left does not run.

mod analysis;
mod values;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, Env, Program};

use crate::{Budget, Error, ErrorKind, FailureKind, Member, NameKind, Names, Scope, Slot, Value};
use analysis::CostFactors;
use values::GivenValues;

/// No expression that a person wrote is longer. The library's parser needs room by the square of it.
const RULE_BYTES_MAX: usize = 4096;

/// Groups inside one another.
const GROUPS_MAX: usize = 8;

/// A compiled expression of CEL.
pub(crate) struct Rule {
    program: Program,
    env: Arc<Env>,
    /// Names of values, and of groups.
    roots: Vec<(Box<str>, NameKind)>,
    /// Names behind `vars.`.
    variables: Vec<(Box<str>, NameKind)>,
    seen: CostFactors,
}

impl Rule {
    pub(crate) fn compile(text: &str, names: &dyn Names) -> Result<Rule, Error> {
        if text.len() > RULE_BYTES_MAX {
            let max = RULE_BYTES_MAX as u64;
            return Err(ErrorKind::Limit { name: "bytes of a CEL expression", max }.at(text, 0));
        }
        let env = Arc::new(Env::stdlib());
        let program = env.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let (line, column) = first.map_or((1, 0), |error| error.pos);
            let what = first.map_or("it cannot be read", |error| &error.msg);
            ErrorKind::syntax(what).at(text, offset(text, line, column))
        })?;
        let looked = analysis::at(&program, &env).map_err(|(kind, id)| {
            let place = program.source_info().offset_for(id).map_or(0, |(from, _)| from);
            // The library counts characters.
            let offset = text.char_indices().nth(place as usize).map_or(0, |(at, _)| at);
            kind.at(text, offset)
        })?;
        let find = |path: &str, shown: String| match names.find(&[path]) {
            Some(known) => Ok((path.into(), known)),
            None => {
                let at = text.find(&shown).unwrap_or_default();
                Err(ErrorKind::UnknownName(shown.into()).at(text, at))
            }
        };
        let roots = looked.roots.iter().map(|name| find(name, name.clone()));
        let roots = roots.collect::<Result<_, _>>()?;
        let variables = looked.variables.iter().map(|name| find(name, format!("vars.{name}")));
        let variables = variables.collect::<Result<_, _>>()?;
        Ok(Rule { env, roots, variables, seen: looked.seen, program })
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
        let mut given = GivenValues::new(budget);
        let mut context = Context::with_env(self.env.clone());
        for (name, known) in &self.roots {
            let value = known_value(*known, scope, &mut given, 0)?;
            context.add_variable_from_value(&**name, value);
        }
        if !self.variables.is_empty() {
            let mut all = HashMap::new();
            for (name, known) in &self.variables {
                let value = known_value(*known, scope, &mut given, 0)?;
                all.insert(key(name), value);
            }
            let all = cel::Value::Map(Map { map: Arc::new(all) });
            context.add_variable_from_value("vars", all);
        }
        let steps = self.seen.steps(given.values, given.longest);
        budget.charge(steps)?;
        let value = self.program.execute(&context);
        let value = value.map_err(|error| FailureKind::Computation(error.to_string().into()))?;
        values::taken(&value, budget)
    }
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

fn known_value(
    known: NameKind,
    scope: &dyn Scope,
    given: &mut GivenValues<'_>,
    depth: usize,
) -> Result<cel::Value, FailureKind> {
    let group = match known {
        NameKind::Value(slot) => return given.value(&scope.value(slot)?),
        NameKind::Group(slot) => slot,
    };
    if depth >= GROUPS_MAX {
        return Err(FailureKind::Limit { name: "groups", max: GROUPS_MAX as u64 });
    }
    let mut all = HashMap::new();
    for (name, member) in scope.members(group)? {
        let value = match member {
            Member::Value(value) => given.value(&value)?,
            Member::Group(slot) => known_value(NameKind::Group(slot), scope, given, depth + 1)?,
        };
        all.insert(key(&name), value);
    }
    Ok(cel::Value::Map(Map { map: Arc::new(all) }))
}

/// The byte at a line, from 1, and a column, from 0 or 1 as the library has it.
fn offset(text: &str, line: isize, column: isize) -> usize {
    let lines = usize::try_from(line - 1).unwrap_or_default();
    let before: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
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
