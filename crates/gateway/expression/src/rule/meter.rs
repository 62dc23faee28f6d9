//! The cost of an expression, charged while it runs.
//!
//! Calls that cannot be written in CEL are inserted into a compiled expression: `@each` in each round of a loop, `@weigh` around what is
//! compared or searched, `@copy` around what is copied, and `@matches` or `@matches_found` in place of `matches`. They spend the budget of
//! the evaluation, which may pause in each of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapEntryExpr, MapExpr,
    SelectExpr, StructExpr, StructFieldExpr, operators,
};
use cel::common::ast::{IdedEntryExpr, IdedExpr};
use cel::common::types::{CelBool, CelBytes, CelList, CelMap, CelString, DYN_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError};
use regex::Regex;

use crate::{Budget, FailureKind};

/// Steps for a part of an expression, which takes a tenth of a microsecond. A step is a few nanoseconds.
pub(super) const PART_STEPS: u64 = 20;

/// Steps for a round of a loop, which binds its variables and looks up its parts by name.
const ROUND_STEPS: u64 = 100;

/// Steps for a value of a list or map that is compared or searched.
const LOOK_STEPS: u64 = 4;

/// Steps for a value of a list or map that is copied, including the memory that it occupies until it is dropped.
const COPY_STEPS: u64 = 128;

/// Steps for compiling a pattern. Within [`FOUND_COMPILED_MAX`] this takes at most a millisecond.
const COMPILE_STEPS: u64 = 200_000;

/// Maximum size of a compiled pattern that comes from a message.
const FOUND_COMPILED_MAX: usize = 256 << 10;

/// Maximum length of a pattern from a message, and of a text that is matched by one. Such a pattern may examine each byte a few thousand
/// times.
const FOUND_TEXT_BYTES_MAX: usize = 16 << 10;

/// Maximum number of patterns of rules that a thread keeps compiled, more than a configuration has on its busy routes.
const PATTERNS_MAX: usize = 256;

const EACH: &str = "@each";
const WEIGH: &str = "@weigh";
const COPY: &str = "@copy";
const MATCHES: &str = "@matches";
const MATCHES_FOUND: &str = "@matches_found";

thread_local! {
    /// The meter of the evaluation that is running. While an evaluation pauses, it holds its meter itself.
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
    /// The compiled patterns that are literals in rules.
    static PATTERNS: RefCell<HashMap<Box<str>, Regex>> = RefCell::default();
    /// The most recent pattern that came from a message, and its compiled form, or `None` if it is invalid. Kept because the next one is
    /// often the same.
    static FOUND: RefCell<Option<(Box<str>, Option<Regex>)>> = const { RefCell::new(None) };
}

/// The budget of an evaluation, and the failure that ended it.
struct Meter {
    budget: Budget,
    over: Option<FailureKind>,
}

/// Declares the calls. Returns false if one of the names exists already.
pub(super) fn declare(env: &mut Env) -> bool {
    let texts = || vec![STRING_TYPE, STRING_TYPE];
    env.add_overload(EACH, EACH, vec![DYN_TYPE], each).is_ok()
        && env.add_overload(WEIGH, WEIGH, vec![DYN_TYPE], weigh).is_ok()
        && env.add_overload(COPY, COPY, vec![DYN_TYPE], copy).is_ok()
        && env.add_overload(MATCHES, MATCHES, texts(), matches).is_ok()
        && env.add_overload(MATCHES_FOUND, MATCHES_FOUND, texts(), matches_found).is_ok()
}

/// Runs an expression on a budget. If a limit is exceeded, the error names it, even if the expression itself recovered from the failure.
pub(super) fn metering<T>(budget: &mut Budget, run: impl FnOnce() -> T) -> Result<T, FailureKind> {
    METER.set(Some(Meter { budget: budget.clone(), over: None }));
    let value = run();
    let Some(meter) = METER.take() else { return Err(budget.steps_over()) };
    *budget = meter.budget;
    match meter.over {
        Some(over) => Err(over),
        None => Ok(value),
    }
}

pub(super) fn charge(steps: u64) -> Result<(), ExecutionError> {
    let over = || ExecutionError::function_error("cel", "over a limit");
    // Taken out, because the evaluation may pause here and another one may begin.
    let mut meter = METER.take().ok_or_else(over)?;
    let charged = match &meter.over {
        Some(known) => Err(known.clone()),
        None => meter.budget.charge(steps),
    };
    meter.over = charged.as_ref().err().cloned();
    METER.set(Some(meter));
    charged.map_err(|_| over())
}

/// Ends the evaluation because a limit is exceeded.
fn refuse(name: &'static str, max: usize) -> ExecutionError {
    if let Some(mut meter) = METER.take() {
        meter.over.get_or_insert(FailureKind::Limit { name, max: max as u64 });
        METER.set(Some(meter));
    }
    ExecutionError::function_error("cel", "over a limit")
}

/// Charges for a value and everything inside it.
fn charge_value(value: &dyn Val, each: u64, bytes: u64) -> Result<(), ExecutionError> {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        if let Some(text) = value.downcast_ref::<CelString<'_>>() {
            charge(1 + text.inner().len() as u64 / bytes)?;
        } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
            charge(1 + each * list.inner().len() as u64)?;
            waiting.extend(list.inner().iter().map(|item| &**item));
        } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
            charge(1 + 2 * each * map.inner().len() as u64)?;
            waiting.extend(map.inner().values().map(|item| &**item));
        } else if let Some(binary) = value.downcast_ref::<CelBytes<'_>>() {
            charge(1 + binary.inner().len() as u64 / bytes)?;
        }
    }
    Ok(())
}

fn one<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    arguments.pop().ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))
}

fn weigh<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = one(arguments)?;
    charge_value(&*value, LOOK_STEPS, 16)?;
    Ok(value)
}

fn copy<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = one(arguments)?;
    charge_value(&*value, COPY_STEPS, 1)?;
    Ok(value)
}

/// Charges for a round of a loop, whose variable is a copy of the item.
fn each<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = one(arguments)?;
    charge(ROUND_STEPS)?;
    charge_value(&*value, COPY_STEPS / 2, 16)?;
    Ok(CowVal::owned(CelBool::from(true)))
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let (text, pattern) = texts(&arguments)?;
    let known = PATTERNS.with_borrow(|patterns| patterns.get(pattern).cloned());
    let regex = match known {
        Some(regex) => regex,
        None => {
            let regex = Regex::new(pattern).map_err(|_| invalid_pattern())?;
            PATTERNS.with_borrow_mut(|patterns| {
                if patterns.len() >= PATTERNS_MAX {
                    patterns.clear();
                }
                patterns.insert(pattern.into(), regex.clone());
            });
            regex
        }
    };
    charge(1 + text.len() as u64)?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text))))
}

fn matches_found<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let (text, pattern) = texts(&arguments)?;
    if text.len().max(pattern.len()) > FOUND_TEXT_BYTES_MAX {
        return Err(refuse("bytes for a pattern of the message", FOUND_TEXT_BYTES_MAX));
    }
    let known = FOUND.with_borrow(|found| {
        found.as_ref().filter(|(of, _)| **of == *pattern).map(|(_, regex)| regex.clone())
    });
    let regex = match known {
        Some(regex) => regex,
        None => {
            charge(COMPILE_STEPS)?;
            let mut builder = regex::RegexBuilder::new(pattern);
            let built = builder.size_limit(FOUND_COMPILED_MAX).dfa_size_limit(FOUND_COMPILED_MAX);
            let regex = match built.build() {
                Ok(regex) => Some(regex),
                Err(regex::Error::CompiledTooBig(max)) => {
                    return Err(refuse("bytes of a compiled pattern of the message", max));
                }
                Err(_) => None,
            };
            FOUND.set(Some((pattern.into(), regex.clone())));
            regex
        }
    };
    charge(1 + 16 * text.len() as u64)?;
    let regex = regex.ok_or_else(invalid_pattern)?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text))))
}

fn texts<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<(&'a str, &'a str), ExecutionError> {
    let text = |at: usize| Some(arguments.get(at)?.downcast_ref::<CelString<'_>>()?.inner());
    let wrong = || ExecutionError::invalid_argument_count(2, arguments.len());
    Ok((text(0).ok_or_else(wrong)?, text(1).ok_or_else(wrong)?))
}

/// The pattern is not quoted, since it may come from a message. A pattern that is written in an expression was checked when the expression was compiled.
fn invalid_pattern() -> ExecutionError {
    ExecutionError::function_error("matches", "the pattern is not a regular expression")
}

/// Inserts the calls of the meter into an expression. Recursion is bounded by the limit on nesting.
pub(super) fn metered(part: &IdedExpr) -> IdedExpr {
    let expr = match &part.expr {
        Expr::Call(call) => Expr::Call(metered_call(call)),
        Expr::Comprehension(all) => Expr::Comprehension(metered_loop(all).into()),
        Expr::List(list) => Expr::List(ListExpr {
            elements: list.elements.iter().map(copied).collect(),
            optional_indices: list.optional_indices.clone(),
        }),
        Expr::Map(map) => {
            Expr::Map(MapExpr { entries: map.entries.iter().map(metered_entry).collect() })
        }
        Expr::Struct(made) => Expr::Struct(StructExpr {
            type_name: made.type_name.clone(),
            entries: made.entries.iter().map(metered_entry).collect(),
        }),
        Expr::Select(select) => Expr::Select(SelectExpr {
            operand: metered(&select.operand).into(),
            field: select.field.clone(),
            test: select.test,
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => part.expr.clone(),
    };
    IdedExpr { id: part.id, expr }
}

fn metered_entry(entry: &IdedEntryExpr) -> IdedEntryExpr {
    let expr = match &entry.expr {
        EntryExpr::StructField(field) => EntryExpr::StructField(StructFieldExpr {
            field: field.field.clone(),
            value: copied(&field.value),
            optional: field.optional,
        }),
        EntryExpr::MapEntry(entry) => EntryExpr::MapEntry(MapEntryExpr {
            key: copied(&entry.key),
            value: copied(&entry.value),
            optional: entry.optional,
        }),
    };
    IdedEntryExpr { id: entry.id, expr }
}

fn metered_call(call: &CallExpr) -> CallExpr {
    let name = call.func_name.as_str();
    if name == "matches" {
        let all: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let is_literal = |part: &&IdedExpr| is_text(&part.expr);
        let own = if all.last().is_some_and(is_literal) { MATCHES } else { MATCHES_FOUND };
        let args = all.into_iter().map(metered).collect();
        return CallExpr { func_name: own.to_owned(), target: None, args };
    }
    let by: fn(&IdedExpr) -> IdedExpr = match name {
        operators::ADD => copied,
        operators::CONDITIONAL
        | operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::NEGATE
        | "size"
        | "type"
        | "dyn" => metered,
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {
            let mut args = call.args.iter();
            let of = args.next().map(metered);
            return CallExpr {
                func_name: call.func_name.clone(),
                target: call.target.as_deref().map(|target| metered(target).into()),
                args: of.into_iter().chain(args.map(weighed)).collect(),
            };
        }
        _ => weighed,
    };
    CallExpr {
        func_name: call.func_name.clone(),
        target: call.target.as_deref().map(|target| by(target).into()),
        args: call.args.iter().map(by).collect(),
    }
}

/// Inserts a charge into each round of a loop. The library recognises the loops of `all`, `exists`, `map` and `filter` by the form of their
/// steps, which is preserved.
fn metered_loop(all: &ComprehensionExpr) -> ComprehensionExpr {
    let each = || {
        let item = IdedExpr { id: 0, expr: Expr::Ident(all.iter_var.clone()) };
        call(EACH, None, item)
    };
    let counted = |part: IdedExpr| {
        let otherwise = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
        let id = part.id;
        let args = vec![each(), part, otherwise];
        let func_name = operators::CONDITIONAL.to_owned();
        IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target: None, args }) }
    };
    let step = &all.loop_step;
    let known = if let Expr::Call(call) = &step.expr {
        (call.func_name.as_str(), &*call.args)
    } else {
        ("", &[][..])
    };
    let loop_step = match known {
        (name @ (operators::LOGICAL_AND | operators::LOGICAL_OR), [so_far, test]) => {
            calls(step.id, name, vec![metered(so_far), counted(metered(test))])
        }
        (name @ operators::CONDITIONAL, [test, then, otherwise]) => {
            let then = appended(then, &metered).unwrap_or_else(|| metered(then));
            calls(step.id, name, vec![counted(metered(test)), then, metered(otherwise)])
        }
        (operators::ADD, _) => appended(step, &|item: &IdedExpr| counted(metered(item)))
            .unwrap_or_else(|| counted(metered(step))),
        _ => counted(metered(step)),
    };
    ComprehensionExpr {
        iter_range: metered(&all.iter_range),
        iter_var: all.iter_var.clone(),
        iter_var2: all.iter_var2.clone(),
        accu_var: all.accu_var.clone(),
        accu_init: metered(&all.accu_init),
        loop_cond: metered(&all.loop_cond),
        loop_step,
        result: metered(&all.result),
    }
}

/// Rewrites `so_far + [item]`: changes and copies the items, and leaves the list so far. Returns `None` for any other step.
fn appended(step: &IdedExpr, change: &dyn Fn(&IdedExpr) -> IdedExpr) -> Option<IdedExpr> {
    let Expr::Call(add) = &step.expr else { return None };
    let (operators::ADD, [so_far, items]) = (add.func_name.as_str(), &*add.args) else {
        return None;
    };
    let Expr::List(list) = &items.expr else { return None };
    let elements = list.elements.iter().map(|item| call(COPY, Some(item.id), change(item)));
    let elements = elements.collect();
    let list = ListExpr { elements, optional_indices: list.optional_indices.clone() };
    let items = IdedExpr { id: items.id, expr: Expr::List(list) };
    Some(calls(step.id, operators::ADD, vec![so_far.clone(), items]))
}

fn calls(id: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let func_name = name.to_owned();
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target: None, args }) }
}

fn call(name: &str, id: Option<u64>, of: IdedExpr) -> IdedExpr {
    calls(id.unwrap_or(of.id), name, vec![of])
}

fn weighed(part: &IdedExpr) -> IdedExpr {
    if is_small(&part.expr) { metered(part) } else { call(WEIGH, None, metered(part)) }
}

fn copied(part: &IdedExpr) -> IdedExpr {
    if is_small(&part.expr) { metered(part) } else { call(COPY, None, metered(part)) }
}

/// Returns true for a call that wraps a value and returns it.
pub(super) fn is_around(name: &str) -> bool {
    matches!(name, WEIGH | COPY)
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(LiteralValue::String(_)))
}

/// Returns true for literals, and for operations whose results are numbers or booleans.
fn is_small(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) => true,
        Expr::Call(call) => matches!(
            call.func_name.as_str(),
            operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
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
                | "contains"
                | "startsWith"
                | "endsWith"
                | "matches"
        ),
        Expr::Select(select) => select.test,
        Expr::Comprehension(_)
        | Expr::Ident(_)
        | Expr::List(_)
        | Expr::Map(_)
        | Expr::Struct(_)
        | Expr::Unspecified => false,
    }
}
