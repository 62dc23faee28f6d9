//! The machine's own stack: calls, loops, and nodes that templates are applied to.

use xpath::{Focus, Node, Value};

use super::{Held, Machine, Reach, dynamic};
use crate::error::{At, Error};
use crate::program::{Entry, Pc};

/// What goes on when something ends.
#[derive(Debug)]
pub(super) enum Frame {
    /// An entry that runs. What it was called from:
    Call {
        pc: Pc,
        base: u32,
        params: (u32, u32),
        rule: Option<u32>,
        /// Documents there were: fragments made since can go.
        documents: u32,
    },
    /// An `xsl:for-each`.
    Loop { nodes: Vec<Node>, next: u32, body: Pc, end: Pc, focus: Focus, rule: Option<u32> },
    /// Nodes that templates are applied to.
    Apply { nodes: Vec<Node>, next: u32, pc: Pc, focus: Focus, mode: u32, params: (u32, u32) },
}

impl Machine<'_> {
    fn push(&mut self, frame: Frame) -> Result<(), Error> {
        let max = self.given.budgets.depth_max;
        if self.frames.len() >= max as usize {
            return Err(Error::limit("depth_max", max.into(), At::default()));
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Calls an entry; it returns to where the machine is.
    pub(super) fn enter(
        &mut self,
        entry: Entry,
        params: (u32, u32),
        documents: Option<u32>,
    ) -> Result<(), Error> {
        let base = u32::try_from(self.locals.len()).unwrap_or(u32::MAX);
        self.push(Frame::Call {
            pc: self.now.pc,
            base: self.now.base,
            params: self.now.params,
            rule: self.now.rule,
            documents: documents.unwrap_or(u32::MAX),
        })?;
        if entry.slots > 0 {
            let len = self.locals.len() + entry.slots as usize;
            self.locals.resize(len, Value::Boolean(false));
        }
        self.now.base = base;
        self.now.params = params;
        self.now.pc = entry.pc;
        Ok(())
    }

    /// Ends the running entry.
    pub(super) fn leave(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        // A function's result may stand inside loops.
        while let Some(frame) = self.frames.pop() {
            match frame {
                Frame::Call { pc, base, params, rule, documents } => {
                    self.locals.truncate(self.now.base as usize);
                    self.now.pc = pc;
                    self.now.base = base;
                    self.now.params = params;
                    self.now.rule = rule;
                    self.cut(documents, reach);
                    return Ok(());
                }
                Frame::Loop { nodes, .. } | Frame::Apply { nodes, .. } => self.give_back(nodes),
            }
        }
        Err(dynamic("nothing to return from"))
    }

    /// Drops documents that only variables which have ended could name.
    fn cut(&mut self, documents: u32, reach: &mut Reach<'_>) {
        let keep = documents.max(self.pinned);
        if let Held::Own(world) = &mut reach.world
            && world.len() > keep
        {
            world.truncate(keep);
            self.keys.retain(|(_, doc), _| doc.0 < keep);
        }
    }

    pub(super) fn push_loop(&mut self, nodes: Vec<Node>, body: Pc, end: Pc) -> Result<(), Error> {
        let (focus, rule) = (self.now.focus, self.now.rule);
        self.now.rule = None;
        self.push(Frame::Loop { nodes, next: 0, body, end, focus, rule })
    }

    /// Goes on with a loop's next node, or behind the loop.
    pub(super) fn next_turn(&mut self) -> Result<(), Error> {
        let Some(Frame::Loop { nodes, next, body, end, focus, rule }) = self.frames.last_mut()
        else {
            return Err(dynamic("no loop to go on with"));
        };
        if let Some(node) = nodes.get(*next as usize).copied() {
            *next += 1;
            self.now.focus = turn(node, *next, nodes.len());
            self.now.pc = *body;
            return Ok(());
        }
        self.now.pc = *end;
        self.now.focus = *focus;
        self.now.rule = *rule;
        if let Some(Frame::Loop { nodes, .. }) = self.frames.pop() {
            self.give_back(nodes);
        }
        Ok(())
    }

    /// Begins to apply templates; the parameters from `params` on the stack are for all of them.
    pub(super) fn push_apply(
        &mut self,
        nodes: Vec<Node>,
        mode: u32,
        pc: Pc,
        params: u32,
    ) -> Result<(), Error> {
        let frame = Frame::Apply {
            nodes,
            next: 0,
            pc,
            focus: self.now.focus,
            mode: self.now.mode,
            params: (params, self.params_end()),
        };
        self.push(frame)?;
        self.now.mode = mode;
        Ok(())
    }

    /// The next node templates are applied to becomes the focus; gives the parameters for it. None: they are through,
    /// and the machine is where it was.
    pub(super) fn next_node(&mut self) -> Result<Option<(u32, u32)>, Error> {
        let Some(Frame::Apply { nodes, next, pc, focus, mode, params }) = self.frames.last_mut()
        else {
            return Err(dynamic("no nodes to go on with"));
        };
        if let Some(node) = nodes.get(*next as usize).copied() {
            *next += 1;
            self.now.focus = turn(node, *next, nodes.len());
            return Ok(Some(*params));
        }
        self.now.pc = *pc;
        self.now.focus = *focus;
        self.now.mode = *mode;
        let start = params.0;
        if let Some(Frame::Apply { nodes, .. }) = self.frames.pop() {
            self.give_back(nodes);
        }
        self.params.truncate(start as usize);
        Ok(None)
    }
}

fn turn(node: Node, position: u32, len: usize) -> Focus {
    Focus { node, position, size: u32::try_from(len).unwrap_or(u32::MAX), current: node }
}
