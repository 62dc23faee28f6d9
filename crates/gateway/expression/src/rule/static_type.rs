//! Determines the type of an expression's value before it runs. A condition that can never be boolean is a mistake.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::dotted_name::path_of;
use crate::Names;

/// Returns the type of the value in words, or `None` if it may be boolean.
pub(super) fn static_type(whole: &IdedExpr, names: &dyn Names) -> Option<&'static str> {
    match &whole.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => None,
        Expr::Literal(LiteralValue::String(_)) => Some("a text"),
        Expr::Literal(_) => Some("a constant"),
        Expr::List(_) => Some("a list"),
        Expr::Map(_) | Expr::Struct(_) => Some("a map"),
        Expr::Select(select) if select.test => None,
        Expr::Ident(_) | Expr::Select(_) => named(whole, names),
        Expr::Call(call) => call_gives(whole, call, names),
        // The macros `map` and `filter` expand to this.
        Expr::Comprehension(all) if matches!(all.accu_init.expr, Expr::List(_)) => Some("a list"),
        Expr::Comprehension(_) | Expr::Unspecified => None,
    }
}

fn named(part: &IdedExpr, names: &dyn Names) -> Option<&'static str> {
    names.kind(&path_of(part)?).ok()?
}

fn call_gives(whole: &IdedExpr, call: &CallExpr, names: &dyn Names) -> Option<&'static str> {
    match (call.func_name.as_str(), &*call.args) {
        ("size" | "int" | "uint" | "double", _) => Some("a number"),
        ("string", _) => Some("a text"),
        (operators::ADD, [first, _]) => static_type(first, names).or(Some("a sum")),
        (
            operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE,
            _,
        ) => Some("a number"),
        (operators::CONDITIONAL, [_, one, other]) => {
            static_type(one, names).filter(|_| static_type(other, names).is_some())
        }
        (operators::INDEX, _) => named(whole, names),
        _ => None,
    }
}
