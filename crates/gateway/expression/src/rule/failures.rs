//! Error texts for failed expressions, in words for the author of the expression. They contain no value of a message.

use cel::common::ast::Expr;
use cel::{ExecutionError, IdedExpr};

use super::dotted_name::{member_of, path_of};

/// Returns true if the failure means that something was not found.
pub(super) fn is_absence(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_))
}

/// Returns the reason for a failure.
pub(super) fn reason(error: &ExecutionError, whole: &IdedExpr) -> String {
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other failures are treated alike")]
    match error {
        ExecutionError::NoSuchKey(member) => absent(member, whole),
        ExecutionError::IndexOutOfBounds(_) => "the list has no item with this index".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "the result does not fit into 64 bits".to_owned(),
        ExecutionError::FunctionError { function, message } => format!("`{function}`: {message}"),
        // The texts of these name types, functions and names of the expression.
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::MissingArgumentOrTarget
        | ExecutionError::UndeclaredReference(_) => error.to_string(),
        ExecutionError::UnsupportedBinaryOperator(..) | ExecutionError::ValuesNotComparable(..) => {
            "an operator cannot be applied to these two types".to_owned()
        }
        ExecutionError::UnsupportedKeyType(_)
        | ExecutionError::UnsupportedIndex(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. } => {
            "a value is of a type that cannot be used there".to_owned()
        }
        ExecutionError::DuplicateKey(_) => {
            "a map would have two members of the same name".to_owned()
        }
        // The library's text may show values.
        _ => "it cannot be computed".to_owned(),
    }
}

/// Names a missing member, with its full path if that is unambiguous. A name that is not written in the expression may come from a message,
/// so it is not shown.
fn absent(member: &str, whole: &IdedExpr) -> String {
    let mut paths = Vec::new();
    let mut is_written = false;
    let mut waiting = vec![whole];
    while let Some(part) = waiting.pop() {
        is_written |= member_of(part).is_some_and(|(_, written)| written == member);
        if let Some(path) = path_of(part)
            && path.len() > 1
            && path.last().is_some_and(|last| *last == member)
        {
            paths.push(path.join("."));
        }
        waiting.extend(parts(&part.expr));
    }
    paths.sort_unstable();
    paths.dedup();
    match paths.as_slice() {
        [path] => format!("`{path}` is absent; test it with `has({path})`"),
        [] if !is_written => "a map has no member of the computed name".to_owned(),
        _ => format!("the member `{member}` is absent; test it with `has(...)`"),
    }
}

fn parts(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            map.entries.iter().flat_map(|e| super::analysis::entry(&e.expr)).collect()
        }
        Expr::Struct(made) => {
            made.entries.iter().flat_map(|e| super::analysis::entry(&e.expr)).collect()
        }
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}
