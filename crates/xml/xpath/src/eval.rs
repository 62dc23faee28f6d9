//! Evaluation of an expression to a required type. A boolean depends only on whether a node-set has a node, and a string only on its first
//! node, so the rest of the node-set is not computed.

mod compare;
mod functions;
mod path;
mod set;
mod strings;
mod val;
mod walk;
mod xpath2;

use std::ops::ControlFlow;
use std::rc::Rc;

pub(crate) use val::{Str, Val};

use crate::syntax::{Arithmetic, Op};
use crate::value::{boolean_text, number_boolean, sort};
use crate::{Call, DocId, Error, ErrorKind, Evaluation, Node, text_number};

impl<'a> Evaluation<'a> {
    /// Runs one evaluation, which may be nested in another.
    pub(crate) fn nested<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.budget.enter()?;
        let result = run(self);
        self.budget.leave();
        result
    }

    #[inline]
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Error> {
        self.budget.charge(steps).map_err(|kind| kind.at(0))
    }

    /// Evaluates to the natural type of the expression.
    pub(crate) fn value<'v>(&mut self, op: &'v Op) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        Ok(match op {
            Op::Number(_) | Op::Arithmetic(..) | Op::Negate(_) => Val::Number(self.number(op)?),
            Op::Text(text) => Val::Text(Str::Borrowed(text)),
            Op::Pattern(regex) => Val::Text(Str::Borrowed(regex.source())),
            Op::Boolean(_) | Op::Any(_) | Op::All(_) | Op::Compare(..) => {
                Val::Boolean(self.boolean(op)?)
            }
            Op::Variable { number, offset } => self.variable(*number, *offset)?,
            Op::Union(..) | Op::Path(_) | Op::Current => Val::Nodes(self.nodes(op)?),
            Op::Core { function, arguments, offset } => self.core(*function, arguments, *offset)?,
            Op::Host { number, arguments, offset } => self.host(*number, arguments, *offset)?,
            Op::Unknown { name, offset } => {
                return Err(ErrorKind::UnknownFunction(name.clone()).at(*offset));
            }
            Op::If(parts) => {
                let [test, then, other] = &**parts;
                if self.boolean(test)? { self.value(then)? } else { self.value(other)? }
            }
        })
    }

    /// Evaluates and converts as `boolean()` does.
    pub(crate) fn boolean(&mut self, op: &Op) -> Result<bool, Error> {
        match op {
            Op::Boolean(value) => Ok(*value),
            Op::Number(value) => Ok(number_boolean(*value)),
            Op::Text(text) => Ok(!text.is_empty()),
            Op::Pattern(regex) => Ok(!regex.source().is_empty()),
            Op::Any(all) => {
                for op in all {
                    if self.boolean(op)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Op::All(all) => {
                for op in all {
                    if !self.boolean(op)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Op::Compare(comparison, sides) => {
                let [left, right] = &**sides;
                self.compare(*comparison, left, right)
            }
            Op::Arithmetic(..) | Op::Negate(_) => Ok(number_boolean(self.number(op)?)),
            Op::Path(_) | Op::Union(..) | Op::Current => Ok(self.first(op)?.is_some()),
            Op::Variable { .. }
            | Op::Core { .. }
            | Op::Host { .. }
            | Op::Unknown { .. }
            | Op::If(_) => Ok(self.value(op)?.to_boolean()),
        }
    }

    /// Evaluates and converts as `number()` does.
    pub(crate) fn number(&mut self, op: &Op) -> Result<f64, Error> {
        match op {
            Op::Number(value) => Ok(*value),
            Op::Arithmetic(first, rest) => {
                let mut result = self.number(first)?;
                for (arithmetic, op) in rest {
                    let right = self.number(op)?;
                    result = calculate(*arithmetic, result, right);
                }
                Ok(result)
            }
            Op::Negate(op) => Ok(-self.number(op)?),
            Op::Text(text) => Ok(text_number(text)),
            Op::Pattern(regex) => Ok(text_number(regex.source())),
            Op::Path(_) | Op::Union(..) | Op::Current => Ok(text_number(self.text(op)?.as_str())),
            Op::Boolean(_) | Op::Any(_) | Op::All(_) | Op::Compare(..) => {
                Ok(f64::from(u8::from(self.boolean(op)?)))
            }
            Op::Variable { .. }
            | Op::Core { .. }
            | Op::Host { .. }
            | Op::Unknown { .. }
            | Op::If(_) => {
                let value = self.value(op)?;
                Ok(value.to_number(self.documents))
            }
        }
    }

    /// Evaluates and converts as `string()` does.
    pub(crate) fn text<'v>(&mut self, op: &'v Op) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        match op {
            Op::Text(text) => Ok(Str::Borrowed(text)),
            Op::Pattern(regex) => Ok(Str::Borrowed(regex.source())),
            Op::Path(_) | Op::Union(..) | Op::Current => match self.first(op)? {
                Some(node) => self.string_value(node),
                None => Ok(Str::Borrowed("")),
            },
            Op::Number(_) | Op::Arithmetic(..) | Op::Negate(_) => {
                let number = self.number(op)?;
                Ok(Str::from(self.documents.number_text(number)))
            }
            Op::Boolean(_) | Op::Any(_) | Op::All(_) | Op::Compare(..) => {
                Ok(Str::Borrowed(boolean_text(self.boolean(op)?)))
            }
            Op::Variable { .. }
            | Op::Core { .. }
            | Op::Host { .. }
            | Op::Unknown { .. }
            | Op::If(_) => match self.value(op)? {
                Val::Text(text) => Ok(text),
                Val::Number(value) => Ok(Str::from(self.documents.number_text(value))),
                Val::Boolean(value) => Ok(Str::Borrowed(boolean_text(value))),
                value @ (Val::Nodes(_) | Val::Shared(_) | Val::Tree(_)) => match value.first() {
                    Some(node) => self.string_value(node),
                    None => Ok(Str::Borrowed("")),
                },
            },
        }
    }

    /// Returns the string-value of a node. Charges for its length, and for the nodes that it is concatenated from.
    pub(crate) fn string_value<'v>(&mut self, node: Node) -> Result<Str<'v>, Error>
    where
        'a: 'v,
    {
        self.charge(self.documents.nodes_below(node))?;
        let text = self.documents.string_value(node);
        self.charge(1 + text.len() as u64 / 8)?;
        Ok(Str::from(text))
    }

    /// Evaluates to nodes in document order. Any other type is an error.
    pub(crate) fn nodes(&mut self, op: &Op) -> Result<Vec<Node>, Error> {
        match op {
            Op::Path(path) => self.path_nodes(path),
            Op::Current => Ok(vec![self.focus.current]),
            Op::Union(all, _) => {
                let mut union = Vec::new();
                for op in all {
                    if union.is_empty() {
                        union = self.nodes(op)?
                    } else {
                        union.extend(self.nodes(op)?)
                    }
                    self.budget.nodes(union.len()).map_err(|kind| kind.at(0))?;
                }
                sort(&mut union);
                Ok(union)
            }
            Op::Variable { .. }
            | Op::Core { .. }
            | Op::Host { .. }
            | Op::Unknown { .. }
            | Op::If(_) => match self.value(op)? {
                Val::Nodes(nodes) => Ok(nodes),
                Val::Shared(nodes) => Ok(nodes.to_vec()),
                Val::Tree(root) => Ok(vec![root]),
                Val::Boolean(_) | Val::Number(_) | Val::Text(_) => Err(not_nodes(op)),
            },
            Op::Number(_)
            | Op::Text(_)
            | Op::Boolean(_)
            | Op::Pattern(_)
            | Op::Arithmetic(..)
            | Op::Negate(_) => Err(not_nodes(op)),
            Op::Any(_) | Op::All(_) | Op::Compare(..) => Err(not_nodes(op)),
        }
    }

    /// Returns the first node in document order.
    pub(crate) fn first(&mut self, op: &Op) -> Result<Option<Node>, Error> {
        match op {
            Op::Path(path) => {
                let mut first = None;
                self.path_each(path, &mut |_, node| {
                    first = Some(node);
                    Ok(ControlFlow::Break(()))
                })?;
                Ok(first)
            }
            Op::Union(all, _) => {
                let mut first = None;
                for op in all {
                    let found = self.first(op)?;
                    first = first.into_iter().chain(found).min();
                }
                Ok(first)
            }
            Op::Current => Ok(Some(self.focus.current)),
            Op::Variable { .. }
            | Op::Core { .. }
            | Op::Host { .. }
            | Op::Unknown { .. }
            | Op::If(_) => match self.value(op)? {
                value @ (Val::Nodes(_) | Val::Shared(_) | Val::Tree(_)) => Ok(value.first()),
                Val::Boolean(_) | Val::Number(_) | Val::Text(_) => Err(not_nodes(op)),
            },
            Op::Number(_)
            | Op::Text(_)
            | Op::Boolean(_)
            | Op::Pattern(_)
            | Op::Arithmetic(..)
            | Op::Negate(_) => Err(not_nodes(op)),
            Op::Any(_) | Op::All(_) | Op::Compare(..) => Err(not_nodes(op)),
        }
    }

    fn variable<'v>(&mut self, number: u32, offset: u32) -> Result<Val<'v>, Error> {
        let mut call = Call { documents: self.documents, focus: self.focus, budget: self.budget };
        let value = self.host.variable(number, &mut call);
        value.map(Val::from).map_err(|kind| kind.at(offset))
    }

    fn host<'v>(&mut self, number: u32, arguments: &'v [Op], offset: u32) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        self.charge(1)?;
        let mut values = Vec::with_capacity(arguments.len());
        for op in arguments {
            values.push(self.value(op)?.into_value());
        }
        let mut call = Call { documents: self.documents, focus: self.focus, budget: self.budget };
        let value = self.host.call(number, &mut values, &mut call);
        value.map(Val::from).map_err(|kind| kind.at(offset))
    }

    /// Returns the nodes that a key has for a value.
    pub(crate) fn key(
        &mut self,
        number: u32,
        value: &str,
        doc: DocId,
    ) -> Result<Rc<[Node]>, Error> {
        let mut call = Call { documents: self.documents, focus: self.focus, budget: self.budget };
        self.host.key(number, value, doc, &mut call).map_err(|kind| kind.at(0))
    }
}

fn calculate(arithmetic: Arithmetic, left: f64, right: f64) -> f64 {
    match arithmetic {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        // The sign is that of the dividend, as XPath defines.
        Arithmetic::Modulo => left % right,
    }
}

fn not_nodes(op: &Op) -> Error {
    ErrorKind::Type("expected a node-set".into()).at(offset(op))
}

/// Returns the offset of an expression in its text, if the expression stores one.
fn offset(op: &Op) -> u32 {
    match op {
        Op::Variable { offset, .. } | Op::Core { offset, .. } | Op::Host { offset, .. } => *offset,
        Op::Unknown { offset, .. } | Op::Union(_, offset) => *offset,
        Op::Path(path) => path.offset,
        Op::Number(_)
        | Op::Text(_)
        | Op::Boolean(_)
        | Op::Any(_)
        | Op::All(_)
        | Op::Compare(..) => 0,
        Op::Arithmetic(..) | Op::Negate(_) | Op::If(_) | Op::Current | Op::Pattern(_) => 0,
    }
}
