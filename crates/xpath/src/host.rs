//! What an evaluation runs with: documents, a node to start from, the caller's variables and functions, a budget.

use std::rc::Rc;

use crate::{Budget, DocId, ErrorKind, Node, Value, World};

/// The node an expression is evaluated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Focus {
    /// What `.` is.
    pub node: Node,
    /// What `position()` is, from 1.
    pub position: u32,
    /// What `last()` is.
    pub size: u32,
    /// What `current()` is: stays the same in predicates.
    pub current: Node,
}

/// Where a call stands.
#[derive(Debug)]
pub struct Call<'a> {
    /// The documents; new ones may be added.
    pub world: &'a World,
    /// The node the call is evaluated for.
    pub focus: Focus,
    /// What is left to spend.
    pub budget: &'a mut Budget,
}

/// The caller's variables, functions and keys. Numbers are those that [`crate::Statics`] gave.
pub trait Host {
    /// A variable's value.
    fn variable(&mut self, number: u32, call: &mut Call<'_>) -> Result<Value, ErrorKind>;

    /// Calls a function. The arguments may be taken.
    fn call(
        &mut self,
        number: u32,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, ErrorKind>;

    /// The nodes of a document that a key has for a value, in document order. Patterns ask; expressions call the
    /// function `key()`.
    fn key(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
        call: &mut Call<'_>,
    ) -> Result<Rc<[Node]>, ErrorKind>;
}

/// No variables, no functions, no keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

/// All that an evaluation runs with.
pub struct Evaluation<'a> {
    /// The documents.
    pub world: &'a World,
    /// The node the expression is evaluated for.
    pub focus: Focus,
    /// Variables and functions.
    pub host: &'a mut dyn Host,
    /// What is left to spend.
    pub budget: &'a mut Budget,
}

impl Focus {
    /// One node for itself.
    pub fn of(node: Node) -> Focus {
        Focus { node, position: 1, size: 1, current: node }
    }
}

impl<'a> Evaluation<'a> {
    /// An evaluation for one node.
    pub fn of(
        world: &'a World,
        node: Node,
        host: &'a mut dyn Host,
        budget: &'a mut Budget,
    ) -> Evaluation<'a> {
        Evaluation { world, focus: Focus::of(node), host, budget }
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
