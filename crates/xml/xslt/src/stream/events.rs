//! The streaming run: handles each event of the parser.

use xml::{Here, QName, Scope, Sink, Start, TagSlot, XML_NAMESPACE};
use xpath::{NodeKind, StreamNode};

use super::around::Above;
use super::frame::Frame;
use super::memory::Memory;
use super::passage::{Passage, Value};
use super::{COPY_END, Content, DONE, Leaf, StreamProgram, Then};
use crate::error::{At, Error};
use crate::limits::Budgets;
use crate::out::Composer;
use crate::program::Program;
use crate::run::spaces;

/// A running transformation, fed by a parser.
pub(crate) struct Stream<'s> {
    pub(super) program: &'s Program,
    pub(super) streamed: &'s StreamProgram,
    pub(super) budgets: &'s Budgets,
    pub(super) out: Composer,
    pub(super) memory: Box<Memory>,
    /// Depth within an element that is skipped.
    pub(super) skipped: u32,
    /// State of the current text node.
    pub(super) passage: Passage,
    pub(super) value: Value,
    pub(super) steps: u64,
    /// Number of elements that were not skipped, which numbers them from 1. The document has the number 0.
    pub(super) elements: u32,
    /// The error if the transformation has failed. The document is still read to its end, because it may be malformed.
    pub(super) failed: Option<Error>,
    /// Whether the result is complete.
    pub(super) over: bool,
}

/// The position in a descent of the innermost open node's children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Top {
    descent: u32,
    step: u32,
    whole: bool,
    pub(super) then: Then,
}

/// A node on which acts run.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) told: StreamNode<'a>,
    /// Namespaces in scope, for an element at its start.
    pub(super) scope: Option<Scope<'a>>,
    /// The slot of its start tag, by which earlier equal tags are recognised.
    slot: TagSlot,
}

impl<'a> Node<'a> {
    pub(super) fn new(kind: NodeKind, name: QName<'a>, value: Option<&'a str>) -> Node<'a> {
        Node::told(StreamNode { kind, name, value, attributes: None })
    }

    pub(super) fn told(told: StreamNode<'a>) -> Node<'a> {
        Node { told, scope: None, slot: TagSlot::Nowhere }
    }
}

impl<'s> Stream<'s> {
    pub(crate) fn begin(
        program: &'s Program,
        streamed: &'s StreamProgram,
        budgets: &'s Budgets,
        out: Composer,
    ) -> Stream<'s> {
        let mut stream = Stream {
            program,
            streamed,
            budgets,
            out,
            memory: Memory::take(),
            skipped: 0,
            passage: Passage::None,
            value: Value::default(),
            steps: budgets.steps_max,
            elements: 0,
            failed: None,
            over: false,
        };
        let done = stream.document();
        stream.note(done);
        stream
    }

    /// Returns the result, after the document has been read.
    pub(crate) fn finish(mut self) -> Result<Composer, Error> {
        self.complete();
        self.memory.give();
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    /// Handles the end of the document.
    pub(super) fn complete(&mut self) {
        if self.failed.is_some() || std::mem::replace(&mut self.over, true) {
            return;
        }
        let done = self.end_text().and_then(|()| match self.skipped {
            0 => self.close(NodeKind::Root, QName::NONE),
            _ => Ok(()),
        });
        self.note(done);
    }

    #[inline]
    fn note(&mut self, done: Result<(), Error>) {
        if let Err(error) = done {
            self.failed = Some(error);
        }
    }

    /// Handles the start of the document.
    fn document(&mut self) -> Result<(), Error> {
        let node = Node::new(NodeKind::Root, QName::NONE, None);
        let rules = self.program.modes.first().map_or(&[][..], |mode| &*mode.root);
        match self.rule(rules, &node.told, 0) {
            None => self.open(0, 0, DONE, &node),
            Some(template) => self.enter(self.streamed.body(template).root.unwrap_or(DONE), &node),
        }
    }

    fn element(&mut self, start: &Start<'_>) -> Result<(), Error> {
        self.end_text()?;
        self.charge()?;
        let Some(top) = self.top() else { return Ok(()) };
        let node = Node {
            told: StreamNode {
                kind: NodeKind::Element,
                name: start.name,
                value: None,
                attributes: Some(start.attributes),
            },
            scope: Some(start.scope),
            slot: start.slot(),
        };
        if !self.accepts(top, &node.told) {
            self.skipped = 1;
            return Ok(());
        }
        self.elements += 1;
        if self.streamed.around {
            self.memory.lineage.push(start.name);
        }
        if !self.is_last(top) {
            return self.open(top.descent, top.step + 1, DONE, &node);
        }
        match top.then {
            Then::Apply(mode) => self.apply(mode, &node),
            Then::Copy => self.copy(&node),
            Then::Value { raw } => {
                if self.value.take() {
                    self.open(self.streamed.whole(Then::Texts { raw }), 0, DONE, &node)
                } else {
                    self.skip()
                }
            }
            Then::Texts { .. } => self.open(top.descent, 0, DONE, &node),
        }
    }

    /// Applies templates to an element.
    fn apply(&mut self, mode: u32, node: &Node<'_>) -> Result<(), Error> {
        let Some(rules) = self.program.modes.get(mode as usize) else { return self.skip() };
        let name = node.told.name;
        let place = if rules.elements.named.is_empty() {
            None
        } else {
            self.memory
                .met
                .place(node.slot, mode, || rules.elements.find(name.local, name.namespace.uri))
        };
        let content = match self.streamed.sure(mode, place) {
            Some(sure) => Some(sure),
            None => match self.rule(rules.elements.rules(place), &node.told, 1) {
                Some(template) => self.streamed.body(template).element,
                None => return self.open(mode, 0, DONE, node),
            },
        };
        match content {
            Some(Content::Pass { attributes, descent }) => self.pass(attributes, descent, node),
            Some(Content::Rename { start, attributes, descent }) => {
                self.rename(start, attributes, descent, node)
            }
            Some(Content::Acts(from)) => self.enter(from, node),
            None => self.skip(),
        }
    }

    /// Copies an element and descends into it.
    fn pass(
        &mut self,
        attributes: Option<u32>,
        descent: u32,
        node: &Node<'_>,
    ) -> Result<(), Error> {
        let all = node.told.attributes.filter(|all| attributes.is_some() && !all.is_empty());
        self.copy_start(node, all.is_none() && !self.streamed.lends, false);
        self.check()?;
        if let (Some(mode), Some(all)) = (attributes, all) {
            self.apply_attributes(None, mode, all)?;
        }
        self.open(descent, 0, COPY_END, node)
    }

    /// Writes a literal element in place of an element, and descends into it.
    fn rename(
        &mut self,
        start: u32,
        attributes: Option<u32>,
        descent: u32,
        node: &Node<'_>,
    ) -> Result<(), Error> {
        let all = node.told.attributes.filter(|all| attributes.is_some() && !all.is_empty());
        let alone = all.is_none() && !self.streamed.lends;
        self.start_renamed(start, alone).map_err(|error| self.placed(error, start))?;
        if let (Some(mode), Some(all)) = (attributes, all) {
            let applied = self.apply_attributes(None, mode, all);
            applied.map_err(|error| self.placed(error, start + 1))?;
        }
        self.value = Value::default();
        self.open(descent, 0, COPY_END, node)
    }

    /// Begins the acts for a node with content.
    fn enter(&mut self, from: u32, node: &Node<'_>) -> Result<(), Error> {
        match self.perform(from, node)? {
            Some(paused) => {
                self.value = Value::default();
                self.open(paused.descent, 0, paused.rest, node)
            }
            None => self.skip(),
        }
    }

    /// Skips the content of the node that has just begun.
    fn skip(&mut self) -> Result<(), Error> {
        self.skipped = 1;
        if self.streamed.around {
            self.memory.lineage.pop();
        }
        Ok(())
    }

    /// Begins to process the content of a node.
    pub(super) fn open(
        &mut self,
        descent: u32,
        step: u32,
        rest: u32,
        node: &Node<'_>,
    ) -> Result<(), Error> {
        let Some(known) = self.streamed.descents.get(descent as usize) else { return Ok(()) };
        let max = self.budgets.depth_max;
        if self.memory.frames.len() >= max as usize {
            return Err(self.too_deep());
        }
        let mut frame = Frame {
            descent,
            step,
            then: known.then,
            whole: known.whole,
            rest,
            element: self.elements,
            declared_from: node.scope.map_or(0, |scope| scope.outer_len()),
            covered: None,
            texts: known.texts,
            strips: false,
            preserves: false,
        };
        if self.streamed.strips && node.told.kind == NodeKind::Element {
            frame.preserves = self.preserves(&node.told);
            frame.strips = !frame.preserves && spaces::strips(node.told.name, self.program);
        }
        self.memory.frames.push(frame);
        Ok(())
    }

    #[cold]
    fn too_deep(&self) -> Error {
        Error::limit("depth_max", self.budgets.depth_max.into(), At::default())
    }

    /// Returns whether white space is preserved, by the nearest `xml:space`.
    fn preserves(&self, told: &StreamNode<'_>) -> bool {
        let own = told.attributes.and_then(|attributes| attributes.get(XML_NAMESPACE, "space"));
        match own.and_then(|space| spaces::preserves(space.value)) {
            Some(preserves) => preserves,
            None => self.memory.frames.last().is_some_and(|frame| frame.preserves),
        }
    }

    /// Handles the end of the innermost open node.
    fn close(&mut self, kind: NodeKind, name: QName<'_>) -> Result<(), Error> {
        let Some(frame) = self.memory.frames.pop() else { return Ok(()) };
        match frame.rest {
            DONE => {}
            COPY_END => self.out.end(),
            rest => self.perform(rest, &Node::new(kind, name, None)).map(drop)?,
        }
        if self.streamed.around {
            self.memory.lineage.pop();
        }
        Ok(())
    }

    /// Handles a comment or an instruction.
    fn leaf(&mut self, node: &Node<'_>) -> Result<(), Error> {
        self.end_text()?;
        self.charge()?;
        let Some(top) = self.top() else { return Ok(()) };
        if !self.is_last(top) || !self.accepts(top, &node.told) {
            return Ok(());
        }
        match top.then {
            Then::Apply(mode) => {
                let mode = self.program.modes.get(mode as usize);
                let rules = mode.map(|mode| {
                    if node.told.kind == NodeKind::Comment {
                        &*mode.comment
                    } else {
                        &*mode.instruction
                    }
                });
                if let Some(template) = self.rule(rules.unwrap_or(&[]), &node.told, 0) {
                    self.apply_leaf(template, node)?;
                }
            }
            Then::Copy => self.copy_leaf(&node.told),
            Then::Value { raw } => {
                if self.value.take() {
                    self.out.text(node.told.value.unwrap_or(""), raw);
                }
            }
            Then::Texts { .. } => {}
        }
        self.check()
    }

    /// Applies a template to a node without content.
    pub(super) fn apply_leaf(&mut self, template: u32, node: &Node<'_>) -> Result<(), Error> {
        match self.streamed.body(template).leaf {
            Some(Leaf::Copy) => self.copy_leaf(&node.told),
            Some(Leaf::Acts(from)) => self.perform(from, node).map(drop)?,
            Some(Leaf::Nothing) | None => {}
        }
        Ok(())
    }

    /// Returns the position in the descent of the node whose content is being read.
    #[inline]
    pub(super) fn top(&self) -> Option<Top> {
        let Frame { descent, step, whole, then, .. } = *self.memory.frames.last()?;
        Some(Top { descent, step, whole, then })
    }

    /// Returns whether the current step of the descent accepts a child.
    #[inline]
    pub(super) fn accepts(&self, top: Top, told: &StreamNode<'_>) -> bool {
        let descent = || self.streamed.descents.get(top.descent as usize);
        top.whole || descent().is_some_and(|descent| descent.accepts(top.step, told))
    }

    /// Returns whether the current step is the descent's last one.
    #[inline]
    pub(super) fn is_last(&self, top: Top) -> bool {
        let descent = || self.streamed.descents.get(top.descent as usize);
        top.whole || descent().is_some_and(|descent| descent.is_last(top.step))
    }

    /// Returns the template of the first rule that matches a node. The innermost `below` open elements are not ancestors of the node.
    pub(super) fn rule(&self, rules: &[u32], told: &StreamNode<'_>, below: usize) -> Option<u32> {
        let above = Above { lineage: &self.memory.lineage, below };
        // Harmless: each number belongs to a rule.
        let mut rules = rules.iter().filter_map(|rule| self.program.rules.get(*rule as usize));
        rules
            .find(|rule| rule.certain || rule.alternative.fits(told, &above))
            .map(|rule| rule.template)
    }

    #[inline]
    pub(super) fn charge(&mut self) -> Result<(), Error> {
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(self.spent()),
        }
    }

    #[cold]
    fn spent(&self) -> Error {
        Error::limit("steps_max", self.budgets.steps_max, At::default())
    }

    /// Checks the written result against the budgets.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        let budgets = self.budgets;
        let (nodes, bytes) = (budgets.nodes_max, budgets.output_bytes_max);
        if self.out.is_over(nodes, bytes) {
            Err(self.out.over(nodes, bytes, budgets))
        } else {
            Ok(())
        }
    }
}

impl Sink for Stream<'_> {
    type Error = xml::Error;

    #[inline]
    fn start(&mut self, start: &Start<'_>, _here: Here<'_>) -> Result<(), xml::Error> {
        self.memory.met.note(start.slot());
        match (self.failed.is_some(), self.skipped) {
            (true, _) => {}
            (false, 0) => {
                let done = self.element(start);
                self.note(done);
            }
            (false, _) => self.skipped += 1,
        }
        Ok(())
    }

    #[inline]
    fn text(&mut self, text: &str, _cdata: bool, _here: Here<'_>) -> Result<(), xml::Error> {
        if self.failed.is_none() && self.skipped == 0 {
            let done = self.characters(text);
            self.note(done);
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, name: QName<'_>, _here: Here<'_>) -> Result<(), xml::Error> {
        match (self.failed.is_some(), self.skipped) {
            (true, _) => {}
            (false, 0) => {
                let done = self.end_text().and_then(|()| self.close(NodeKind::Element, name));
                self.note(done);
            }
            (false, _) => self.skipped -= 1,
        }
        Ok(())
    }

    fn comment(&mut self, text: &str, _here: Here<'_>) -> Result<(), xml::Error> {
        if self.failed.is_none() && self.skipped == 0 {
            let done = self.leaf(&Node::new(NodeKind::Comment, QName::NONE, Some(text)));
            self.note(done);
        }
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, _here: Here<'_>) -> Result<(), xml::Error> {
        if self.failed.is_none() && self.skipped == 0 {
            let name = QName { local: target, ..QName::NONE };
            let done = self.leaf(&Node::new(NodeKind::Instruction, name, Some(data)));
            self.note(done);
        }
        Ok(())
    }
}
