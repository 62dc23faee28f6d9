//! The machine's own stack: calls, loops, and nodes to which templates are applied.

use xpath::{Focus, Node, Value};

use super::{DocumentsHandle, Machine, Reach, dynamic};
use crate::error::{At, Error};
use crate::out::Composer;
use crate::program::{CodeBlock, Pc};

/// A stack frame: the state to restore when it ends.
#[derive(Debug)]
pub(super) enum Frame {
    /// A running entry, with the state of its caller.
    Call {
        pc: Pc,
        base: u32,
        params: (u32, u32),
        rule: Option<u32>,
        /// Number of documents at the time of the call. Fragments created since then can be dropped.
        documents: u32,
    },
    /// An `xsl:for-each`.
    Loop { nodes: Span, body: Pc, end: Pc, focus: Focus, rule: Option<u32> },
    /// Nodes to which templates are applied.
    Apply {
        nodes: Span,
        pc: Pc,
        focus: Focus,
        mode: u32,
        params: (u32, u32),
        /// Whether the nodes are in an element that is being copied and ends after them.
        copied: bool,
    },
}

/// The nodes of a loop, as a range of the stack of all nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: usize,
    next: usize,
    end: usize,
}

impl Span {
    /// Returns the next node.
    #[inline]
    fn next(&mut self, nodes: &[Node]) -> Option<Focus> {
        let node = nodes.get(self.next..self.end)?.first().copied()?;
        self.next += 1;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (position, size) = (number(self.next - self.start), number(self.end - self.start));
        Some(Focus { node, position, size, current: node })
    }
}

impl Machine<'_> {
    fn push(&mut self, frame: Frame) -> Result<(), Error> {
        let max = self.given.budgets.depth_max;
        if self.memory.frames.len() >= max as usize {
            return Err(Error::limit("depth_max", max.into(), At::default()));
        }
        self.memory.frames.push(frame);
        Ok(())
    }

    /// Calls an entry, which returns to the current address. `documents` is the number of documents to keep when it returns, or `None` to
    /// keep all.
    pub(super) fn enter(
        &mut self,
        entry: CodeBlock,
        params: (u32, u32),
        documents: Option<u32>,
    ) -> Result<(), Error> {
        let base = u32::try_from(self.memory.locals.len()).unwrap_or(u32::MAX);
        self.push(Frame::Call {
            pc: self.now.pc,
            base: self.now.base,
            params: self.now.params,
            rule: self.now.rule,
            documents: documents.unwrap_or(u32::MAX),
        })?;
        if entry.slots > 0 {
            let len = self.memory.locals.len() + entry.slots as usize;
            self.memory.locals.resize(len, Value::Boolean(false));
        }
        self.now.base = base;
        self.now.params = params;
        self.now.pc = entry.pc;
        Ok(())
    }

    /// Ends the running entry.
    pub(super) fn leave(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        // The result of a function may be inside loops.
        while let Some(frame) = self.memory.frames.pop() {
            match frame {
                Frame::Call { pc, base, params, rule, documents } => {
                    // Harmless: the variables of a template end with it.
                    self.memory.locals.truncate(self.now.base as usize);
                    self.now.pc = pc;
                    self.now.base = base;
                    self.now.params = params;
                    self.now.rule = rule;
                    self.cut(documents, reach);
                    return Ok(());
                }
                Frame::Loop { nodes, .. } | Frame::Apply { nodes, .. } => {
                    // Harmless: the nodes of a loop end with it.
                    self.memory.nodes.truncate(nodes.start);
                }
            }
        }
        Err(dynamic("nothing to return from"))
    }

    /// Drops documents that only variables out of scope could refer to.
    fn cut(&mut self, documents: u32, reach: &mut Reach<'_>) {
        let keep = documents.max(self.pinned);
        if let DocumentsHandle::Own(documents) = &mut reach.documents
            && documents.len() > keep
        {
            // Harmless: these documents cannot be reached any more.
            documents.truncate(keep);
            self.keys.retain(|(_, doc), _| doc.0 < keep);
        }
    }

    /// Returns the range of the nodes pushed from `start` on.
    fn span(&self, start: usize) -> Span {
        Span { start, next: start, end: self.memory.nodes.len() }
    }

    /// Begins a loop over the nodes pushed from `start` on.
    pub(super) fn push_loop(&mut self, start: usize, body: Pc, end: Pc) -> Result<(), Error> {
        let (nodes, focus, rule) = (self.span(start), self.now.focus, self.now.rule);
        self.now.rule = None;
        self.push(Frame::Loop { nodes, body, end, focus, rule })
    }

    /// Continues with the next node of a loop, or after the loop.
    pub(super) fn next_turn(&mut self) -> Result<(), Error> {
        let memory = &mut self.memory;
        let Some(Frame::Loop { nodes, body, end, focus, rule }) = memory.frames.last_mut() else {
            return Err(dynamic("no loop to go on with"));
        };
        if let Some(next) = nodes.next(&memory.nodes) {
            self.now.focus = next;
            self.now.pc = *body;
            return Ok(());
        }
        self.now.pc = *end;
        self.now.focus = *focus;
        self.now.rule = *rule;
        // Harmless: the nodes of a loop end with it.
        memory.nodes.truncate(nodes.start);
        memory.frames.pop();
        Ok(())
    }

    /// Begins to apply templates to the nodes pushed from `start` on. All of them get the parameters from `params` on the stack. The nodes
    /// may be in an element that is being copied.
    #[inline]
    pub(super) fn push_apply(
        &mut self,
        start: usize,
        mode: u32,
        pc: Pc,
        params: u32,
        copied: bool,
    ) -> Result<(), Error> {
        self.push(Frame::Apply {
            nodes: self.span(start),
            pc,
            focus: self.now.focus,
            mode: self.now.mode,
            params: (params, self.params_end()),
            copied,
        })?;
        self.now.mode = mode;
        Ok(())
    }

    /// Returns the next node to which templates are applied, or `None` at the end.
    #[inline]
    pub(super) fn next_node(&mut self) -> Option<PendingNode> {
        let memory = &mut self.memory;
        let Some(Frame::Apply { nodes, params, .. }) = memory.frames.last_mut() else {
            return None;
        };
        let params = *params;
        nodes.next(&memory.nodes).map(|focus| PendingNode { focus, params })
    }

    /// Restores the state after templates have been applied to all nodes.
    #[inline]
    pub(super) fn leave_nodes(&mut self) -> Result<(), Error> {
        let memory = &mut self.memory;
        let Some(Frame::Apply { nodes, pc, focus, mode, params, copied }) = memory.frames.last()
        else {
            return Err(dynamic("no nodes to go on with"));
        };
        self.now.pc = *pc;
        self.now.focus = *focus;
        self.now.mode = *mode;
        // Harmless: the nodes of a loop end with it.
        memory.nodes.truncate(nodes.start);
        // Harmless: parameters of a template end with it.
        memory.params.truncate(params.0 as usize);
        let copied = *copied;
        memory.frames.pop();
        if copied { self.top().map(Composer::end) } else { Ok(()) }
    }
}

/// A node to be processed, with its focus and the parameters for its template.
pub(super) struct PendingNode {
    pub(super) focus: Focus,
    pub(super) params: (u32, u32),
}
