//! Executes acts. They call the composer in the same way as the machine's instructions.

use xml::{Attributes, Document, NodeId, Scope};
use xpath::{DocId, Node as TreeNode, NodeKind, StreamNode, StreamStep};

use super::events::{Node, Stream};
use super::{Act, COPY_END, Say, StreamedName, Then};
use crate::error::{At, Error};
use crate::program::{Literal, Pc, SourcePosition};
use crate::run::made::{instruction_target, made_name};

/// Acts that continue at the end of a node.
pub(super) struct PendingActs {
    pub(super) descent: u32,
    pub(super) rest: u32,
}

impl<'s> Stream<'s> {
    /// Runs acts for a node: to their end, or up to a descent into its content.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "a few acts change the flow of control, and all others write"
    )]
    pub(super) fn perform(
        &mut self,
        from: u32,
        node: &Node<'_>,
    ) -> Result<Option<PendingActs>, Error> {
        let streamed = self.streamed;
        let mut at = from;
        while let Some(act) = streamed.code.get(at as usize) {
            let place = at;
            at += 1;
            match act {
                Act::Done => return Ok(None),
                Act::Descend(descent) => {
                    return Ok(Some(PendingActs { descent: *descent, rest: at }));
                }
                Act::Jump(target) => at = *target,
                Act::Unless(stream_test, target) => {
                    if !stream_test.holds(&node.told) {
                        at = *target;
                    }
                }
                act => {
                    let done = self.charge().and_then(|()| self.act(act, node));
                    done.and_then(|()| self.check()).map_err(|error| self.placed(error, place))?;
                }
            }
        }
        Ok(None)
    }

    /// Adds the position in the stylesheet to an error.
    #[cold]
    pub(super) fn placed(&self, error: Error, act: u32) -> Error {
        if error.at.line > 0 {
            return error;
        }
        // Harmless: each number belongs to an act.
        let pc: Pc = self.streamed.places.get(act as usize).copied().unwrap_or_default();
        let place: SourcePosition =
            // Harmless: an act without an instruction has no position.
            self.program.places.get(pc as usize).copied().unwrap_or_default();
        let module = self.program.modules.get(place.module as usize);
        // Harmless: each number belongs to a module.
        let file = module.map(|module| module.uri.clone()).unwrap_or_default();
        Error { at: At { file, line: place.line, column: place.column }, ..error }
    }

    fn act(&mut self, act: &'s Act, node: &Node<'_>) -> Result<(), Error> {
        match act {
            Act::Text { text, raw } => self.out.text(text, *raw),
            Act::Say { what, raw } => {
                let text = self.said(what, &node.told);
                self.out.text(&text, *raw);
                self.memory.said = text;
            }
            Act::Start(literal) => self.start_literal(literal),
            Act::StartMade(made) => return self.start_made(made, &node.told),
            Act::End => self.out.end(),
            Act::Attribute(attribute) => {
                let (name, value) = &**attribute;
                let text = self.said(value, &node.told);
                self.out.attribute(&name.prefix, &name.local, &name.uri, &text);
                self.memory.said = text;
            }
            Act::MadeAttribute(attribute) => {
                let (made, value) = &**attribute;
                let text = self.said(value, &node.told);
                let done = self.made_attribute(made, &text, &node.told);
                self.memory.said = text;
                return done;
            }
            Act::Comment(text) => {
                let text = self.said(text, &node.told);
                self.out.comment(&text);
                self.memory.said = text;
            }
            Act::Instruction(parts) => {
                let [target, text] = &**parts;
                let target = self.said(target, &node.told);
                let text = self.said(text, &node.told);
                self.out.instruction(instruction_target(&target)?, &text);
                self.memory.said = text;
            }
            Act::CopyStart => self.copy_start(node, false, false),
            Act::CopyWholeStart => self.copy_start(node, false, true),
            Act::CopyLeaf => self.copy_leaf(&node.told),
            Act::CopyAttributes(asked) => self.copy_attributes(Some(asked), &node.told),
            Act::ApplyAttributes(asked, mode) => {
                if let Some(all) = node.told.attributes {
                    return self.apply_attributes(Some(asked), *mode, all);
                }
            }
            Act::Done | Act::Descend(_) | Act::Unless(..) | Act::Jump(_) => {}
        }
        Ok(())
    }

    /// Computes a text in a reusable buffer, which the caller must return to `memory.said`.
    fn said(&mut self, what: &[Say], told: &StreamNode<'_>) -> String {
        let mut text = std::mem::take(&mut self.memory.said);
        text.clear();
        write_said(what, told, &mut text);
        text
    }

    fn start_literal(&mut self, literal: &Literal) {
        let name = &literal.name;
        self.out.start(&name.prefix, &name.local, &name.uri);
        for (prefix, uri) in literal.namespaces(self.out.is_canonical()) {
            self.out.namespace(prefix, uri);
        }
    }

    /// Starts the literal element of an act. If `alone`, no attributes follow.
    #[inline]
    pub(super) fn start_renamed(&mut self, act: u32, alone: bool) -> Result<(), Error> {
        self.charge()?;
        if let Some(Act::Start(literal)) = self.streamed.code.get(act as usize) {
            let name = &literal.name;
            if alone && literal.namespaces.is_empty() {
                self.out.start_plain(&name.prefix, &name.local, &name.uri, None)
            } else {
                self.start_literal(literal)
            }
        }
        self.check()
    }

    fn start_made(&mut self, made: &'s StreamedName, told: &StreamNode<'_>) -> Result<(), Error> {
        self.with_name(made, true, told, |stream, prefix, local, uri| {
            stream.out.start(prefix, local, uri);
        })
    }

    fn made_attribute(
        &mut self,
        made: &'s StreamedName,
        value: &str,
        told: &StreamNode<'_>,
    ) -> Result<(), Error> {
        self.with_name(made, false, told, |stream, prefix, local, uri| {
            stream.out.attribute(prefix, local, uri, value);
        })
    }

    /// Computes a name, and passes its prefix, local part and namespace to `then`.
    fn with_name(
        &mut self,
        made: &'s StreamedName,
        element: bool,
        told: &StreamNode<'_>,
        then: impl FnOnce(&mut Self, &str, &str, &str),
    ) -> Result<(), Error> {
        let mut text = std::mem::take(&mut self.memory.name);
        text.clear();
        write_said(&made.name, told, &mut text);
        let end = text.len();
        if let Some(namespace) = &made.namespace {
            write_said(namespace, told, &mut text);
        }
        let (name, uri) = text.split_at_checked(end).unwrap_or((&text, ""));
        let uri = made.namespace.is_some().then_some(uri);
        let scope = self.program.scopes.get(made.scope as usize);
        let scope = scope.map_or(&[][..], Vec::as_slice);
        let name = made_name(name, uri, element, scope)?;
        self.out.forget_transcript();
        then(self, name.prefix, name.local, name.uri);
        self.memory.name = text;
        Ok(())
    }

    /// Copies an element with its subtree.
    pub(super) fn copy(&mut self, node: &Node<'_>) -> Result<(), Error> {
        self.copy_start(node, node.told.attributes.is_none_or(|all| all.is_empty()), true);
        self.copy_attributes(None, &node.told);
        self.check()?;
        self.open(self.streamed.whole(Then::Copy), 0, COPY_END, node)
    }

    /// Starts a copy of an element with its namespaces. If `alone`, no attributes follow. If `whole`, the subtree is copied too.
    pub(super) fn copy_start(&mut self, node: &Node<'_>, alone: bool, whole: bool) {
        let Some(scope) = node.scope else { return };
        let origin = |element: u32| TreeNode::new(DocId(0), NodeId(element));
        let name = node.told.name;
        let parent = self.memory.frames.last().map_or(Document::ROOT.0, |frame| frame.element);
        // Inside a copy of its parent, only the declarations of the element itself are new. The outermost element has no other
        // declarations. In canonical form, `xsl:copy` copies only the element's own declarations, as in libxslt.
        let within = if self.out.is_canonical() {
            !whole
        } else {
            self.out.origin() == Some(origin(parent))
        };
        let known = parent == Document::ROOT.0 || within;
        let (prefix, local, uri) = (name.prefix, name.local, name.namespace.uri);
        let around = self.out.declared_len();
        // If all namespaces in scope of the source are already declared in the result, no declaration is written.
        let covered = || self.memory.frames.last().is_some_and(|top| top.covered == Some(around));
        if alone && !scope.declares() && (known || covered()) {
            return self.out.start_plain(prefix, local, uri, Some(origin(self.elements)));
        }
        self.out.start(prefix, local, uri);
        self.out.copied_from(origin(self.elements));
        for (prefix, uri) in scope.declared() {
            if known || !uri.is_empty() {
                self.out.namespace(prefix, uri);
            }
        }
        if !known {
            self.copy_outer(scope, around);
        }
    }

    /// Copies the namespaces declared by enclosing elements, nearest first. `around` is the number of declarations in scope in the result
    /// before the copy.
    fn copy_outer(&mut self, scope: Scope<'_>, around: usize) {
        let covered = self.memory.frames.last().is_some_and(|top| top.covered == Some(around));
        if covered && self.out.declared_len() == around {
            return;
        }
        let mut to = scope.outer_len();
        for frame in self.memory.frames.iter().rev() {
            for (prefix, uri) in scope.counting(frame.declared_from, to) {
                self.out.namespace(prefix, uri);
            }
            to = frame.declared_from;
        }
        // Nothing was declared, so the following elements need no declarations either. This is unknown if the element's own declarations
        // hide outer ones.
        if self.out.declared_len() == around
            && !scope.declares()
            && let Some(top) = self.memory.frames.last_mut()
        {
            top.covered = Some(around);
        }
    }

    pub(super) fn copy_leaf(&mut self, told: &StreamNode<'_>) {
        let value = told.value.unwrap_or("");
        match told.kind {
            NodeKind::Text => self.out.text(value, false),
            NodeKind::Attribute => {
                let name = told.name;
                self.out.attribute(name.prefix, name.local, name.namespace.uri, value);
            }
            NodeKind::Comment => self.out.comment(value),
            NodeKind::Instruction => self.out.instruction(told.name.local, value),
            NodeKind::Root | NodeKind::Element | NodeKind::Namespace => {}
        }
    }

    /// Copies the attributes that any of the steps accepts. Copies all attributes if `asked` is `None`.
    fn copy_attributes(&mut self, asked: Option<&[StreamStep]>, told: &StreamNode<'_>) {
        let attributes = told.attributes.into_iter().flat_map(|attributes| attributes.iter());
        for attribute in attributes {
            let told = StreamNode::attribute(&attribute);
            if asked.is_none_or(|asked| asked.iter().any(|asked| asked.accepts(&told))) {
                self.copy_leaf(&told);
            }
        }
    }

    /// Applies templates to the attributes that any of the steps accepts, or to all attributes if `asked` is `None`.
    pub(super) fn apply_attributes(
        &mut self,
        asked: Option<&[StreamStep]>,
        mode: u32,
        all: Attributes<'_>,
    ) -> Result<(), Error> {
        let Some(mode) = self.program.modes.get(mode as usize) else { return Ok(()) };
        for attribute in all.iter() {
            let told = StreamNode::attribute(&attribute);
            if asked.is_some_and(|asked| !asked.iter().any(|asked| asked.accepts(&told))) {
                continue;
            }
            self.charge()?;
            let name = told.name;
            let rules = if mode.attributes.named.is_empty() {
                &mode.attributes.others
            } else {
                mode.attributes.rules(mode.attributes.find(name.local, name.namespace.uri))
            };
            match self.rule(rules, &told, 0) {
                Some(template) => self.apply_leaf(template, &Node::told(told))?,
                None => self.out.text(attribute.value, false),
            }
            self.check()?;
        }
        Ok(())
    }
}

fn write_said(what: &[Say], told: &StreamNode<'_>, text: &mut String) {
    for say in what {
        match say {
            Say::Text(known) => text.push_str(known),
            Say::Of(stream_string) => stream_string.write(told, text),
        }
    }
}
