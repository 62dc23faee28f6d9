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
    if let Expr::Select(select) = &part.expr {
        return Some((&*select.operand, select.field.as_str()));
    }
    let Expr::Call(call) = &part.expr else { return None };
    let (operators::INDEX, [of, member]) = (call.func_name.as_str(), &*call.args) else {
        return None;
    };
    Some((of, text(member)?))
}

/// Returns the text if the part is a text literal.
pub(super) fn text(part: &IdedExpr) -> Option<&str> {
    let Expr::Literal(LiteralValue::String(text)) = &part.expr else { return None };
    Some(text.inner())
}
