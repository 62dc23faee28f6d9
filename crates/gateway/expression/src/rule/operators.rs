//! Replaces operators by calls of [`numbers`] if an operand may be a number. Also adds the functions `default` and `sameText`, which CEL
//! does not have.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapEntryExpr, MapExpr,
    SelectExpr, StructExpr, StructFieldExpr, operators,
};
use cel::common::ast::{IdedEntryExpr, IdedExpr};
use cel::common::functions::Function;
use cel::common::types::{CelBool, DYN_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError};

use super::dotted_name::path_of;
use super::meter;
use super::numbers;
use crate::Names;
use crate::names::WHOLE_NUMBER;

/// Operators, the names of the calls that replace them, and their implementations.
const CALLS: [(&str, &str, Function); 12] = [
    (operators::ADD, "@add", numbers::add),
    (operators::SUBSTRACT, "@subtract", numbers::subtract),
    (operators::MULTIPLY, "@multiply", numbers::multiply),
    (operators::DIVIDE, "@divide", numbers::divide),
    (operators::MODULO, "@modulo", numbers::modulo),
    (operators::EQUALS, "@equals", numbers::equals),
    (operators::NOT_EQUALS, "@differs", numbers::differs),
    (operators::LESS, "@less", numbers::less),
    (operators::LESS_EQUALS, "@less_equals", numbers::less_equals),
    (operators::GREATER, "@greater", numbers::greater),
    (operators::GREATER_EQUALS, "@greater_equals", numbers::greater_equals),
    (operators::IN, "@contained", numbers::contained),
];

/// `default(EXPRESSION, VALUE)` returns the value if the expression fails.
pub(super) const DEFAULT: &str = "default";

/// `sameText(A, B)` returns true if both arguments are equal as texts.
const SAME_TEXT: &str = "sameText";

/// Integer division, for operands that are known to be integers.
const QUOTIENT: &str = "@quotient";

/// A function that returns false for any value.
const DONE: &str = "@done";

/// Declares the calls. Returns false if one of the names exists already.
pub(super) fn declare(env: &mut Env) -> bool {
    let mut all_new = true;
    let own = CALLS.into_iter().map(|(_, name, does)| (name, does));
    let named: [(&str, Function); 3] =
        [(SAME_TEXT, numbers::same_text), (DEFAULT, unchanged), (QUOTIENT, numbers::quotient)];
    for (name, does) in own.chain(named) {
        all_new &= env.add_overload(name, name, vec![DYN_TYPE, DYN_TYPE], does).is_ok();
    }
    all_new && env.add_overload(DONE, DONE, vec![DYN_TYPE], done).is_ok()
}

fn done<'b, 'v>(_: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(CelBool::from(false)))
}

/// Stands in for `default` wherever the call was not rewritten.
fn unchanged<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let first = arguments.into_iter().next();
    first.ok_or_else(|| ExecutionError::invalid_argument_count(2, 0))
}

/// Rewrites `default(EXPRESSION, VALUE)` for the library, in which only `@not_strictly_false` continues after a failure. The expression is
/// evaluated twice, and charged twice.
fn defaulted(id: u64, expression: IdedExpr, value: IdedExpr) -> IdedExpr {
    let call = |name: &str, args: Vec<IdedExpr>| IdedExpr {
        id,
        expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }),
    };
    let failed = call(operators::NOT_STRICTLY_FALSE, vec![call(DONE, vec![expression.clone()])]);
    call(operators::CONDITIONAL, vec![failed, value, expression])
}

/// Rewrites an expression so that its operators accept numbers of different types. Recursion is bounded by the limit on nesting.
pub(super) fn with_mixed_numbers(part: IdedExpr, names: &dyn Names) -> IdedExpr {
    let all = |parts: Vec<IdedExpr>| {
        parts.into_iter().map(|part| with_mixed_numbers(part, names)).collect()
    };
    let boxed = |part: Box<IdedExpr>| Box::new(with_mixed_numbers(*part, names));
    let entries = |entries: Vec<IdedEntryExpr>| {
        entries.into_iter().map(|entry| mixed_entry(entry, names)).collect()
    };
    let expr = match part.expr {
        Expr::Call(call) if is_default(&call) => {
            let mut args = call.args.into_iter().map(|part| with_mixed_numbers(part, names));
            if let (Some(expression), Some(value)) = (args.next(), args.next()) {
                return defaulted(part.id, expression, value);
            }
            Expr::Unspecified
        }
        Expr::Call(call) => {
            let func_name = match own(&call, names) {
                Some(own) => own.to_owned(),
                None => call.func_name,
            };
            let target = call.target.map(boxed);
            Expr::Call(CallExpr { func_name, target, args: all(call.args) })
        }
        Expr::Comprehension(loops) => {
            let loops = *loops;
            Expr::Comprehension(Box::new(ComprehensionExpr {
                iter_range: with_mixed_numbers(loops.iter_range, names),
                accu_init: with_mixed_numbers(loops.accu_init, names),
                loop_cond: with_mixed_numbers(loops.loop_cond, names),
                loop_step: with_mixed_numbers(loops.loop_step, names),
                result: with_mixed_numbers(loops.result, names),
                ..loops
            }))
        }
        Expr::List(list) => Expr::List(ListExpr { elements: all(list.elements), ..list }),
        Expr::Map(map) => Expr::Map(MapExpr { entries: entries(map.entries) }),
        Expr::Struct(made) => Expr::Struct(StructExpr { entries: entries(made.entries), ..made }),
        Expr::Select(select) => {
            Expr::Select(SelectExpr { operand: boxed(select.operand), ..select })
        }
        other @ (Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified) => other,
    };
    IdedExpr { id: part.id, expr }
}

fn mixed_entry(entry: IdedEntryExpr, names: &dyn Names) -> IdedEntryExpr {
    let expr = match entry.expr {
        EntryExpr::StructField(field) => EntryExpr::StructField(StructFieldExpr {
            value: with_mixed_numbers(field.value, names),
            ..field
        }),
        EntryExpr::MapEntry(entry) => EntryExpr::MapEntry(MapEntryExpr {
            key: with_mixed_numbers(entry.key, names),
            value: with_mixed_numbers(entry.value, names),
            ..entry
        }),
    };
    IdedEntryExpr { id: entry.id, expr }
}

pub(super) fn is_default(call: &CallExpr) -> bool {
    call.func_name == DEFAULT && call.target.is_none() && call.args.len() == 2
}

/// Returns the call that replaces an operator, or `None` if no operand can be a number.
fn own(call: &CallExpr, names: &dyn Names) -> Option<&'static str> {
    let (_, own, _) = CALLS.iter().find(|(operator, ..)| *operator == call.func_name)?;
    let [first, second] = call.args.as_slice() else { return None };
    let is_plain = match call.func_name.as_str() {
        // The library recognises `map` and `filter` by this form.
        operators::ADD => is_list(first) || is_list(second),
        operators::DIVIDE if is_whole(first, names) && is_whole(second, names) => {
            return Some(QUOTIENT);
        }
        operators::EQUALS | operators::NOT_EQUALS => is_other(first) || is_other(second),
        operators::IN => is_other(first),
        _ => false,
    };
    (!is_plain).then_some(*own)
}

fn is_list(part: &IdedExpr) -> bool {
    matches!(part.expr, Expr::List(_))
}

/// Returns true for a literal other than a number.
fn is_other(part: &IdedExpr) -> bool {
    let Expr::Literal(literal) = &part.expr else { return false };
    !matches!(literal, LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_))
}

/// Returns true if the part is known to be an int or a uint.
fn is_whole(part: &IdedExpr, names: &dyn Names) -> bool {
    match &part.expr {
        Expr::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_)) => true,
        Expr::Ident(_) | Expr::Select(_) => path_of(part).is_some_and(
            |path| matches!(names.kind(&path), Ok(Some(kind)) if kind == WHOLE_NUMBER),
        ),
        Expr::Call(call) => {
            let mut all = call.args.iter();
            match call.func_name.as_str() {
                "size" | "int" | "uint" => true,
                operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::NEGATE => all.all(|part| is_whole(part, names)),
                operators::CONDITIONAL => all.skip(1).all(|part| is_whole(part, names)),
                name if meter::is_around(name) => all.all(|part| is_whole(part, names)),
                _ => false,
            }
        }
        Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_)
        | Expr::Unspecified => false,
    }
}
