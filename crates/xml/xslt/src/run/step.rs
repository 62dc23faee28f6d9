//! Execution of one instruction.

use std::sync::Arc;

use xml::{Builder, Document};
use xpath::{Node, NodeKind, Value};

use super::{Machine, NEXT_NODE, Reach, dynamic};
use crate::error::{At, Error, ErrorKind};
use crate::out::Target;
use crate::program::{Apply, Dest, ForEach, Op, Pc, Select, SortKey};

impl<'s> Machine<'s> {
    pub(super) fn step(&mut self, op: &'s Op, reach: &mut Reach<'_>) -> Result<(), Error> {
        if let Err(kind) = reach.budget.charge(1) {
            return Err(self.fault_kind(kind));
        }
        match op {
            Op::NextNode => self.apply_next(reach),
            Op::Return => self.leave(reach),
            Op::Jump(target) => {
                self.now.pc = *target;
                Ok(())
            }
            Op::Unless(test, target) => {
                if !self.boolean(test, reach)? {
                    self.now.pc = *target;
                }
                Ok(())
            }
            Op::ForEach(for_each) => self.for_each(for_each, reach),
            Op::Next => self.next_turn(),
            Op::Apply(apply) => self.apply(apply, reach),
            Op::ApplyImports => self.apply_imports(reach),
            Op::Call { template, params } => self.call(*template, *params, reach),
            Op::UseSet(set) => match self.given.program.sets.get(*set as usize).copied() {
                Some(entry) => self.enter(entry, (0, 0), None),
                None => Ok(()),
            },
            Op::Param { slot, name, otherwise } => self.param(*slot, *name, *otherwise),
            Op::GlobalParam { number, otherwise } => self.global_param(*number, *otherwise),
            Op::Set(dest, expr) => {
                let value = self.value(expr, reach)?;
                self.store(*dest, value)
            }
            Op::SetEmpty(dest) => self.store(*dest, Value::text("")),
            Op::BeginTree => {
                self.begin(Target::Tree(Box::new(Builder::new())));
                Ok(())
            }
            Op::EndTree(dest) => self.end_tree(*dest, reach),
            Op::Number(numbering) => {
                self.number(numbering, reach)?;
                self.check_spent()
            }
            Op::Fail(what) => Err(dynamic(what.clone())),
            Op::Text(_)
            | Op::RawText(_)
            | Op::Value(_)
            | Op::RawValue(_)
            | Op::Start(_)
            | Op::StartMade(_)
            | Op::End
            | Op::Attribute(_)
            | Op::BeginText
            | Op::EndAttribute(_)
            | Op::EndComment
            | Op::EndNamespace(_)
            | Op::EndInstruction(_)
            | Op::EndMessage { .. }
            | Op::Copy(_)
            | Op::EndCopy
            | Op::CopyOf(_) => {
                self.write_op(op, reach)?;
                self.check_spent()
            }
        }
    }

    /// Executes instructions that write.
    fn write_op(&mut self, op: &'s Op, reach: &mut Reach<'_>) -> Result<(), Error> {
        match op {
            Op::Text(text) => self.top()?.text(text, false),
            Op::RawText(text) => self.top()?.text(text, true),
            Op::Value(expr) => return self.write_value(expr, false, reach),
            Op::RawValue(expr) => return self.write_value(expr, true, reach),
            Op::Start(literal) => {
                let lean = self.given.lean;
                let out = self.top()?;
                let name = &literal.name;
                out.start(&name.prefix, &name.local, &name.uri);
                for (prefix, uri) in literal.namespaces(lean) {
                    out.namespace(prefix, uri);
                }
            }
            Op::StartMade(made) => return self.start_made(made, reach),
            Op::End => self.top()?.end(),
            Op::Attribute(attribute) => {
                let (name, value) = &**attribute;
                let mut text = std::mem::take(&mut self.memory.text);
                text.clear();
                self.write_avt(value, reach, &mut text)?;
                self.top()?.attribute(&name.prefix, &name.local, &name.uri, &text);
                self.memory.text = text;
            }
            Op::BeginText => self.begin(Target::Text(String::new())),
            Op::EndAttribute(made) => return self.end_attribute(made, reach),
            Op::EndComment => {
                let text = self.kept_text()?;
                self.top()?.comment(&text);
            }
            Op::EndNamespace(name) => {
                let uri = self.kept_text()?;
                let prefix = self.avt(name, reach)?;
                self.top()?.own_namespace(prefix.trim(), uri.trim());
            }
            Op::EndInstruction(name) => return self.end_instruction(name, reach),
            Op::EndMessage { terminate } => return self.message(*terminate),
            Op::Copy(behind) => return self.copy(*behind, reach),
            Op::EndCopy => {
                let node = self.now.focus.node;
                if reach.documents.get().kind(node) == NodeKind::Element {
                    self.top()?.end();
                }
            }
            Op::CopyOf(expr) => {
                let value = self.value(expr, reach)?;
                self.copy_of(&value, reach)?;
            }
            Op::NextNode
            | Op::Return
            | Op::Jump(_)
            | Op::Unless(..)
            | Op::ForEach(_)
            | Op::Next
            | Op::Apply(_)
            | Op::ApplyImports
            | Op::Call { .. }
            | Op::UseSet(_)
            | Op::Param { .. }
            | Op::GlobalParam { .. }
            | Op::Set(..)
            | Op::SetEmpty(_)
            | Op::BeginTree
            | Op::EndTree(_)
            | Op::Number(_)
            | Op::Fail(_) => {}
        }
        Ok(())
    }

    fn write_value(
        &mut self,
        expr: &xpath::Expr,
        raw: bool,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let mut text = std::mem::take(&mut self.memory.text);
        text.clear();
        let done = self.write(expr, reach, &mut text);
        if done.is_ok() {
            self.top()?.text(&text, raw);
        }
        self.memory.text = text;
        done
    }

    fn for_each(&mut self, for_each: &'s ForEach, reach: &mut Reach<'_>) -> Result<(), Error> {
        let nodes = self.nodes(&for_each.select, reach)?;
        let start = self.sorted(nodes, &for_each.sorts, reach)?;
        let body = self.now.pc;
        self.push_loop(start, body, for_each.end)?;
        self.next_turn()
    }

    fn apply(&mut self, apply: &'s Apply, reach: &mut Reach<'_>) -> Result<(), Error> {
        let start = match &apply.select {
            Select::Content { attributes } => {
                let start = self.content(self.now.focus.node, *attributes, reach);
                if apply.sorts.is_empty() {
                    start
                } else {
                    let nodes = self.memory.nodes.split_off(start);
                    self.sorted(nodes, &apply.sorts, reach)?
                }
            }
            Select::Expr(select) => {
                let nodes = self.nodes(select, reach)?;
                self.sorted(nodes, &apply.sorts, reach)?
            }
        };
        let params = self.params_end().saturating_sub(apply.params);
        self.push_apply(start, apply.mode, self.now.pc, params, false)?;
        self.now.pc = NEXT_NODE;
        Ok(())
    }

    /// Pushes nodes sorted by the keys; returns the index of the first.
    fn sorted(
        &mut self,
        mut nodes: Vec<Node>,
        keys: &[SortKey],
        reach: &mut Reach<'_>,
    ) -> Result<usize, Error> {
        self.sort(&mut nodes, keys, reach)?;
        let start = self.memory.nodes.len();
        self.memory.nodes.append(&mut nodes);
        Ok(start)
    }

    /// Pushes the attributes (if asked for) and children of a node; returns the index of the first.
    #[inline]
    pub(super) fn content(&mut self, node: Node, attributes: bool, reach: &mut Reach<'_>) -> usize {
        let nodes = &mut self.memory.nodes;
        let start = nodes.len();
        if !node.is_namespace() {
            let document = reach.documents.get().of(node);
            if attributes {
                nodes.extend(document.attributes(node.id).map(|id| node.with(id)));
            }
            nodes.extend(document.children(node.id).map(|id| node.with(id)));
        }
        start
    }

    fn call(&mut self, template: u32, params: u32, reach: &mut Reach<'_>) -> Result<(), Error> {
        let Some(called) = self.given.program.templates.get(template as usize) else {
            return Ok(());
        };
        let end = self.params_end();
        let documents = reach.documents.get().len();
        self.enter(called.entry, (end.saturating_sub(params), end), Some(documents))
    }

    fn param(&mut self, slot: u32, name: u32, otherwise: Pc) -> Result<(), Error> {
        let (start, end) = self.now.params;
        let given = self.memory.params.get(start as usize..end as usize).unwrap_or_default();
        if let Some((_, value)) = given.iter().find(|(number, _)| *number == name) {
            let value = value.clone();
            self.now.pc = otherwise;
            return self.store(Dest::Local(slot), value);
        }
        Ok(())
    }

    /// If the caller has set a global parameter, uses its value and skips the default. Otherwise continues with the default.
    fn global_param(&mut self, number: u32, otherwise: Pc) -> Result<(), Error> {
        if let Some(super::State::Done(value)) = self.memory.globals.get(number as usize) {
            self.result = value.clone();
            self.now.pc = otherwise;
        }
        Ok(())
    }

    pub(super) fn store(&mut self, dest: Dest, value: Value) -> Result<(), Error> {
        match dest {
            Dest::Local(slot) => {
                let at = (self.now.base + slot) as usize;
                match self.memory.locals.get_mut(at) {
                    Some(place) => *place = value,
                    None => return Err(dynamic("a variable without a place")),
                }
            }
            Dest::Param(name) => self.memory.params.push((name, value)),
            Dest::Result => self.result = value,
        }
        Ok(())
    }

    fn end_tree(&mut self, dest: Dest, reach: &mut Reach<'_>) -> Result<(), Error> {
        let composer = self.out.pop().ok_or_else(|| dynamic("no fragment is being made"))?;
        self.spent.0 += composer.nodes();
        self.spent.1 += composer.bytes();
        let full = composer.is_over(u64::MAX, u64::MAX);
        self.allow();
        if full {
            return Err(composer.over(u64::MAX, u64::MAX, self.given.budgets));
        }
        self.check_spent()?;
        let tree = Arc::new(composer.into_tree());
        let added = reach.documents.get().add(tree);
        let doc = added.map_err(|kind| self.fault_kind(kind))?;
        self.store(dest, Value::Tree(Node::new(doc, Document::ROOT)))
    }

    /// Returns the text collected since the last [`Op::BeginText`].
    pub(super) fn kept_text(&mut self) -> Result<String, Error> {
        let composer = self.end().ok_or_else(|| dynamic("no text is being kept"))?;
        Ok(composer.into_text())
    }

    fn message(&mut self, terminate: bool) -> Result<(), Error> {
        let text = self.kept_text()?;
        if terminate {
            return Err(Error::new(ErrorKind::Terminated(text.into()), At::default()));
        }
        if self.messages.len() < self.given.budgets.messages_max as usize {
            self.messages.push(text);
        }
        Ok(())
    }
}
