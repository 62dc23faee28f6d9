//! The checks of an expression before it runs: the names it uses, unknown functions, and how its loops are nested.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, LiteralValue, operators};
use cel::{Context, Env, IdedExpr, Program};

use crate::ErrorKind;

/// Parts inside one another: whoever evaluates them recurses.
const NESTING_MAX: usize = 100;

/// The names that an expression uses, and its cost.
#[derive(Debug, Default)]
pub(super) struct UsedNames {
    pub(super) roots: BTreeSet<String>,
    /// The NAMEs of `vars.NAME`.
    pub(super) variables: BTreeSet<String>,
    pub(super) seen: CostFactors,
}

/// The factors of its cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CostFactors {
    /// Parts of the expression.
    parts: u64,
    /// Loops inside one another; to look for something in a list is one too.
    loops: u32,
    /// It makes or looks through texts.
    texts: bool,
}

impl CostFactors {
    /// Steps at the most, over so many values of which the longest text has so many bytes.
    pub(super) fn steps(&self, values: u64, longest: u64) -> u64 {
        let rounds = (values + 1).saturating_pow(self.loops);
        let each = if self.texts { 1 + longest / 16 } else { 1 };
        self.parts.saturating_mul(rounds).saturating_mul(each)
    }
}

/// A part that is still to be looked at.
struct PendingPart<'e> {
    part: &'e IdedExpr,
    /// Names that loops around it bind.
    bound: Vec<&'e str>,
    depth: usize,
    loops: u32,
}

impl<'e> PendingPart<'e> {
    fn inside(&self, part: &'e IdedExpr) -> PendingPart<'e> {
        PendingPart { part, bound: self.bound.clone(), depth: self.depth + 1, loops: self.loops }
    }
}

/// Checks a whole expression. An error has the number of its part.
pub(super) fn at(program: &Program, env: &Arc<Env>) -> Result<UsedNames, (ErrorKind, u64)> {
    let mut looked = UsedNames::default();
    let part = program.expression();
    let mut waiting = vec![PendingPart { part, bound: Vec::new(), depth: 0, loops: 0 }];
    while let Some(next) = waiting.pop() {
        let wrong = |kind| Err((kind, next.part.id));
        if next.depth > NESTING_MAX {
            return wrong(ErrorKind::Limit { name: "nesting", max: NESTING_MAX as u64 });
        }
        looked.seen.parts += 1;
        looked.seen.loops = looked.seen.loops.max(next.loops);
        match &next.part.expr {
            Expr::Ident(name) if name == "vars" && !next.bound.contains(&"vars") => {
                return wrong(ErrorKind::Group("vars".into()));
            }
            Expr::Ident(name) if is_free(name, &next.bound) => {
                looked.roots.insert(name.clone());
            }
            Expr::Select(select) => {
                let is_vars = matches!(&select.operand.expr, Expr::Ident(name) if name == "vars");
                match is_vars && !next.bound.contains(&"vars") {
                    true => drop(looked.variables.insert(select.field.clone())),
                    false => waiting.push(next.inside(&select.operand)),
                }
            }
            Expr::Call(call) => {
                if let Some(kind) = unknown(&call.func_name, env) {
                    return wrong(kind);
                }
                looked.seen.texts |= is_on_texts(&call.func_name);
                let searches = u32::from(call.func_name == operators::IN);
                looked.seen.loops = looked.seen.loops.max(next.loops + searches);
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                waiting.extend(parts.map(|part| next.inside(part)));
            }
            Expr::Comprehension(all) => {
                waiting.extend([&all.iter_range, &all.accu_init].map(|part| next.inside(part)));
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    let mut inside = next.inside(part);
                    inside.loops += 1;
                    inside.bound.extend([all.iter_var.as_str(), &all.accu_var]);
                    inside.bound.extend(all.iter_var2.as_deref());
                    waiting.push(inside);
                }
            }
            Expr::List(list) => waiting.extend(list.elements.iter().map(|part| next.inside(part))),
            Expr::Map(map) => {
                waiting.extend(
                    map.entries.iter().flat_map(|e| entry(&e.expr)).map(|p| next.inside(p)),
                );
            }
            Expr::Struct(made) => {
                waiting.extend(
                    made.entries.iter().flat_map(|e| entry(&e.expr)).map(|p| next.inside(p)),
                );
            }
            Expr::Literal(LiteralValue::String(_)) => looked.seen.parts += 1,
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
    Ok(looked)
}

/// A macro's own names begin with `@`, as no other name may.
fn is_free(name: &str, bound: &[&str]) -> bool {
    !bound.contains(&name) && !name.starts_with('@')
}

fn entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn unknown(name: &str, env: &Arc<Env>) -> Option<ErrorKind> {
    // Operators and parts of macros begin otherwise.
    let is_named = name.starts_with(|first: char| first.is_ascii_alphabetic());
    // Only a function that is not declared yet may be added.
    let mut names = Context::with_env(env.clone());
    let is_unknown = is_named && names.add_function(name, |value: i64| value).is_ok();
    is_unknown.then(|| ErrorKind::Function(format!("there is no function `{name}`").into()))
}

/// True if a call takes time by the length of a text.
fn is_on_texts(name: &str) -> bool {
    let is_cheap = matches!(
        name,
        operators::CONDITIONAL
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::INDEX
            | operators::IN
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE
            | "size"
            | "int"
            | "uint"
            | "double"
    );
    // Names with `@` are parts of macros.
    !is_cheap && !name.starts_with('@')
}
