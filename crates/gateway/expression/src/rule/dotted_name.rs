//! Dotted names in a parsed expression, in either spelling: `a.b` or `a['b']`.

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};

/// Returns the parts of a dotted name such as `request.headers` or `request['headers']`, or `None` for anything else.
pub(super) fn path_of(part: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut at = part;
    loop {
        if let Expr::Ident(name) = &at.expr {
            names.push(name.as_str());
            names.reverse();
            return Some(names);
        }
        let (of, member) = member_of(at)?;
        names.push(member);
        at = of;
    }
}

/// If the part selects a member whose name is written in the expression, returns the operand and that name.
pub(super) fn member_of(part: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    match &part.expr {
        Expr::Select(select) => Some((&*select.operand, select.field.as_str())),
        Expr::Call(call) => match (call.func_name.as_str(), &*call.args) {
            (operators::INDEX, [of, member]) => Some((of, text(member)?)),
            _ => None,
        },
        Expr::Comprehension(_)
        | Expr::Ident(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_)
        | Expr::Unspecified => None,
    }
}

/// Returns the text if the part is a text literal.
pub(super) fn text(part: &IdedExpr) -> Option<&str> {
    match &part.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::Ident(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Select(_)
        | Expr::Struct(_)
        | Expr::Unspecified => None,
    }
}
