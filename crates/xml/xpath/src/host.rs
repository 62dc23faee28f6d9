//! The inputs of an evaluation: documents, a context node, the caller's variables and functions, and a budget.

use std::rc::Rc;

use crate::{Budget, DocId, DocumentSet, ErrorKind, Node, Value};

/// The node for which an expression is evaluated, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Focus {
    /// The context node, `.`.
    pub node: Node,
    /// The value of `position()`, from 1.
    pub position: u32,
    /// The value of `last()`.
    pub size: u32,
    /// The value of `current()`, which stays the same in predicates.
    pub current: Node,
}

/// The state of an evaluation, as passed to the caller's functions.
#[derive(Debug)]
pub struct Call<'a> {
    /// The documents; the function may add new ones.
    pub documents: &'a DocumentSet,
    /// The node for which the function is called.
    pub focus: Focus,
    /// The remaining budget.
    pub budget: &'a mut Budget,
}

/// The caller's variables, functions and keys. Their numbers come from [`crate::Statics`].
pub trait Host {
    /// Returns a variable's value.
    fn variable(&mut self, number: u32, call: &mut Call<'_>) -> Result<Value, ErrorKind>;

    /// Calls a function. It may take the arguments out of the vector.
    fn call(
        &mut self,
        number: u32,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, ErrorKind>;

    /// Returns the nodes of a document that have a value for a key, in document order. Only patterns use this method; expressions call the
    /// function `key()`.
    fn key(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
        call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, ErrorKind>;
}

/// A host without variables, functions and keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

/// All inputs of one evaluation.
pub struct Evaluation<'a> {
    /// The documents.
    pub documents: &'a DocumentSet,
    /// The node for which the expression is evaluated.
    pub focus: Focus,
    /// Variables and functions.
    pub host: &'a mut dyn Host,
    /// The remaining budget.
    pub budget: &'a mut Budget,
}

impl Focus {
    /// Returns the focus of a single node, at position 1 of 1.
    pub fn of(node: Node) -> Focus {
        Focus { node, position: 1, size: 1, current: node }
    }
}

impl<'a> Evaluation<'a> {
    /// Returns the evaluation for a single node.
    pub fn of(
        documents: &'a DocumentSet,
        node: Node,
        host: &'a mut dyn Host,
        budget: &'a mut Budget,
    ) -> Evaluation<'a> {
        Evaluation { documents, focus: Focus::of(node), host, budget }
    }
}

impl std::fmt::Debug for Evaluation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluation")
            .field("focus", &self.focus)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Host for NoHost {
    fn variable(&mut self, number: u32, _call: &mut Call<'_>) -> Result<Value, ErrorKind> {
        Err(ErrorKind::UnknownVariable(number.to_string().into()))
    }

    fn call(
        &mut self,
        number: u32,
        _arguments: &mut Vec<Value>,
        _call: &mut Call<'_>,
    ) -> Result<Value, ErrorKind> {
        Err(ErrorKind::UnknownFunction(number.to_string().into()))
    }

    fn key(
        &mut self,
        number: u32,
        _value: &str,
        _doc: DocId,
        _call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, ErrorKind> {
        Err(ErrorKind::UnknownFunction(format!("key {number}").into()))
    }
}
