//! The checks of an expression before it runs: the names that it uses, functions and members that do not exist, invalid patterns, and its
//! nesting depth.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::{Context, IdedExpr};
use regex::Regex;

use super::dotted_name::{path_of, text};
use super::environment;
use super::operators::is_default;
use crate::names::TEXT;
use crate::{ErrorKind, Names};

/// Maximum nesting of an expression. The evaluator recurses.
const NESTING_MAX: usize = 100;

/// The names that an expression uses, and the size of the expression.
#[derive(Debug, Default)]
pub(super) struct UsedNames {
    pub(super) roots: BTreeSet<String>,
    /// The names after `vars.`.
    pub(super) variables: BTreeSet<String>,
    /// Number of parts of the expression.
    pub(super) parts: u64,
}

/// A part that has yet to be checked.
struct PendingPart<'e> {
    part: &'e IdedExpr,
    /// Names bound by enclosing loops.
    bound: Vec<&'e str>,
    depth: usize,
    /// How often the part is evaluated: twice for the first argument of `default`.
    times: u64,
}

impl<'e> PendingPart<'e> {
    fn inside(&self, part: &'e IdedExpr) -> PendingPart<'e> {
        PendingPart { part, bound: self.bound.clone(), depth: self.depth + 1, times: self.times }
    }
}

/// Checks a whole expression. The error contains the id of the part.
pub(super) fn of(whole: &IdedExpr, names: &dyn Names) -> Result<UsedNames, (ErrorKind, u64)> {
    let mut used = UsedNames::default();
    let mut waiting = vec![PendingPart { part: whole, bound: Vec::new(), depth: 0, times: 1 }];
    while let Some(next) = waiting.pop() {
        let wrong = |kind| (kind, next.part.id);
        if next.depth > NESTING_MAX {
            return Err(wrong(ErrorKind::Limit { name: "nesting", max: NESTING_MAX as u64 }));
        }
        used.parts += next.times;
        match &next.part.expr {
            Expr::Ident(name) if name == "vars" && !next.bound.contains(&"vars") => {
                return Err(wrong(ErrorKind::Group("vars".into())));
            }
            Expr::Ident(name) if is_free(name, &next.bound) => {
                used.roots.insert(name.clone());
            }
            Expr::Select(select) => {
                check_member(&select.operand, &select.field, &next.bound, names).map_err(wrong)?;
                let is_vars = matches!(&select.operand.expr, Expr::Ident(name) if name == "vars");
                if is_vars && !next.bound.contains(&"vars") {
                    used.variables.insert(select.field.clone());
                } else {
                    waiting.push(next.inside(&select.operand))
                }
            }
            Expr::Call(call) => {
                check_call(call, &next.bound, names).map_err(wrong)?;
                let twice = is_default(call);
                if twice && next.times > 1 {
                    let what = "`default` cannot be nested in the first part of another `default`";
                    return Err(wrong(ErrorKind::Function(what.into())));
                }
                let parts = call.target.as_deref().into_iter().chain(&call.args).enumerate();
                waiting.extend(parts.map(|(at, part)| {
                    if twice && at == 0 {
                        PendingPart { times: 2, ..next.inside(part) }
                    } else {
                        next.inside(part)
                    }
                }));
            }
            Expr::Comprehension(all) => {
                waiting.extend([&all.iter_range, &all.accu_init].map(|part| next.inside(part)));
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    let mut inside = next.inside(part);
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
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
    Ok(used)
}

/// Returns true if the name is not bound by a loop. Names that macros generate begin with `@`, which no written name can.
fn is_free(name: &str, bound: &[&str]) -> bool {
    !bound.contains(&name) && !name.starts_with('@')
}

pub(super) fn entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn check_call(call: &CallExpr, bound: &[&str], names: &dyn Names) -> Result<(), ErrorKind> {
    match (call.func_name.as_str(), &*call.args) {
        (operators::INDEX, [of, member]) | (operators::IN, [member, of]) => match text(member) {
            Some(member) => check_member(of, member, bound, names),
            None => Ok(()),
        },
        ("matches", args) => match args.last().and_then(text) {
            Some(pattern) if Regex::new(pattern).is_err() => {
                let what = format!("`{pattern}` is not a regular expression");
                Err(ErrorKind::Regex(what.into()))
            }
            Some(_) | None => Ok(()),
        },
        (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
            check_text(one, other, bound, names)?;
            check_text(other, one, bound, names)
        }
        (name, _) => check_function(name),
    }
}

/// Refuses comparing a value that is always a text with a number, which would always be false.
fn check_text(
    text: &IdedExpr,
    number: &IdedExpr,
    bound: &[&str],
    names: &dyn Names,
) -> Result<(), ErrorKind> {
    let Some(number) = number_text(number) else { return Ok(()) };
    let Some(path) = path_of(text) else { return Ok(()) };
    if path.first().is_some_and(|root| bound.contains(root)) {
        return Ok(());
    }
    match names.kind(&path) {
        Ok(Some(kind)) if kind == TEXT => {
            let path = path.join(".");
            let what = format!(
                "`{path}` is a text, which no number equals; write `\"{number}\"`, or `double({path})`"
            );
            Err(ErrorKind::Type(what.into()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn number_text(part: &IdedExpr) -> Option<String> {
    let Expr::Literal(literal) = &part.expr else { return None };
    match literal {
        LiteralValue::Int(number) => Some(number.inner().to_string()),
        LiteralValue::UInt(number) => Some(number.inner().to_string()),
        LiteralValue::Double(number) => Some(number.inner().to_string()),
        LiteralValue::Boolean(_)
        | LiteralValue::Bytes(_)
        | LiteralValue::Null
        | LiteralValue::String(_) => None,
    }
}

fn check_function(name: &str) -> Result<(), ErrorKind> {
    // The names of operators and parts of macros do not begin with a letter.
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Ok(());
    }
    // The function exists if and only if adding one with the same name fails.
    let mut declared = Context::with_env(environment::env().clone());
    match declared.add_function(name, |value: i64| value) {
        Ok(()) => Err(ErrorKind::Function(format!("there is no function `{name}`").into())),
        Err(_) => Ok(()),
    }
}

/// Refuses a member that is written as a literal and that the value does not have, if its members are known.
fn check_member(
    of: &IdedExpr,
    member: &str,
    bound: &[&str],
    names: &dyn Names,
) -> Result<(), ErrorKind> {
    let Some(mut path) = path_of(of) else { return Ok(()) };
    if path.first().is_some_and(|root| bound.contains(root)) {
        return Ok(());
    }
    path.push(member);
    names.kind(&path).map(|_| ()).map_err(|what| ErrorKind::Type(what.into()))
}

/// Returns true if the part is only a name with members and items.
pub(super) fn is_path(part: &IdedExpr) -> bool {
    let mut at = part;
    loop {
        at = match &at.expr {
            Expr::Ident(_) => return true,
            Expr::Select(select) if !select.test => &select.operand,
            Expr::Call(call) => match (call.func_name.as_str(), &*call.args) {
                (operators::INDEX, [of, index]) if matches!(index.expr, Expr::Literal(_)) => of,
                _ => return false,
            },
            Expr::Comprehension(_)
            | Expr::List(_)
            | Expr::Literal(_)
            | Expr::Map(_)
            | Expr::Select(_)
            | Expr::Struct(_)
            | Expr::Unspecified => return false,
        };
    }
}
