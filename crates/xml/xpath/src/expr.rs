//! An expression, compiled once and evaluated for any number of nodes.

use crate::eval::Val;
use crate::syntax::{Op, Start, compile_expr};
use crate::{Error, Evaluation, Node, Statics, Value};

/// A compiled expression. Immutable and shareable between threads.
#[derive(Debug, Clone)]
pub struct Expr {
    op: Op,
}

impl Expr {
    /// Compiles an expression.
    pub fn compile(text: &str, statics: &dyn Statics) -> Result<Expr, Error> {
        Ok(Expr { op: compile_expr(text, statics)? })
    }

    /// Returns the text of a literal string, or `None` for any other expression.
    pub fn literal(&self) -> Option<&str> {
        self.op.literal()
    }

    /// Returns whether the value may depend on the context node. Returns false only if the value certainly depends on variables alone.
    pub fn looks_at_focus(&self) -> bool {
        self.op.looks_at_focus()
    }

    pub(crate) fn op(&self) -> &Op {
        &self.op
    }

    /// Evaluates to the natural type of the expression.
    pub fn value(&self, evaluation: &mut Evaluation<'_>) -> Result<Value, Error> {
        evaluation.nested(|evaluation| evaluation.value(&self.op).map(Val::into_value))
    }

    /// Evaluates and converts as `boolean()` does; stops at the first node found.
    pub fn boolean(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, Error> {
        evaluation.nested(|evaluation| evaluation.boolean(&self.op))
    }

    /// Evaluates and converts as `number()` does.
    pub fn number(&self, evaluation: &mut Evaluation<'_>) -> Result<f64, Error> {
        evaluation.nested(|evaluation| evaluation.number(&self.op))
    }

    /// Evaluates, converts as `string()` does, and appends the text. Stops at the first node found.
    pub fn write(&self, evaluation: &mut Evaluation<'_>, out: &mut String) -> Result<(), Error> {
        evaluation.nested(|evaluation| {
            let text = evaluation.text(&self.op)?;
            out.push_str(text.as_str());
            Ok(())
        })
    }

    /// Evaluates and converts as `string()` does.
    pub fn text(&self, evaluation: &mut Evaluation<'_>) -> Result<String, Error> {
        evaluation.nested(|evaluation| Ok(evaluation.text(&self.op)?.into_string()))
    }

    /// Evaluates to distinct nodes in document order. Fails with kind `Type` if the expression has another type.
    pub fn nodes(&self, evaluation: &mut Evaluation<'_>) -> Result<Vec<Node>, Error> {
        evaluation.nested(|evaluation| evaluation.nodes(&self.op))
    }

    /// Returns the variable that a path starts at, if it starts at nothing else.
    pub fn start_variable(&self) -> Option<u32> {
        let Op::Path(path) = &self.op else { return None };
        match &path.start {
            Start::Op(Op::Variable { number, .. }, predicates) if predicates.is_empty() => {
                Some(*number)
            }
            Start::Root | Start::Focus | Start::Op(..) => None,
        }
    }

    /// Evaluates a path, with this node in place of the variable that it starts at.
    pub fn nodes_from(
        &self,
        start: Node,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<Vec<Node>, Error> {
        let Op::Path(path) = &self.op else { return self.nodes(evaluation) };
        evaluation.nested(|evaluation| evaluation.path_nodes_from(path, start))
    }

    /// Evaluates to the first of [`Expr::nodes`], and stops there.
    pub fn first(&self, evaluation: &mut Evaluation<'_>) -> Result<Option<Node>, Error> {
        evaluation.nested(|evaluation| evaluation.first(&self.op))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_variables_alone_does_not_look_at_the_context() {
        for (text, looks) in [
            ("1 + 2 > 3 and true()", false),
            ("concat('a', string-length('b'), not(false()))", false),
            ("'a' = 'b' or -1 < 2", false),
            ("a", true),
            ("/", true),
            (".", true),
            ("concat('a', b)", true),
            ("string()", true),
            ("position() = 1", true),
            ("normalize-space()", true),
            ("normalize-space('a ')", false),
            ("lang('de')", true),
            ("id('a')", true),
            ("count(//a) + 1", true),
        ] {
            let expr = Expr::compile(text, &crate::Plain::default()).unwrap();
            assert_eq!(expr.looks_at_focus(), looks, "{text}");
        }
    }
}
