//! Text of the source, which comes in pieces: one node is all that stands between two others.

use xml::QName;
use xpath::NodeKind;

use super::events::{Node, Stream};
use super::{Leaf, Then};
use crate::compile::is_blank;
use crate::error::Error;

/// The text at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    None,
    /// Nothing is done with it.
    Ignored,
    /// It is written as it comes.
    Written {
        raw: bool,
    },
    /// White space so far, which goes if nothing else comes: it is kept.
    Blank,
    /// It is kept for its template, which has these acts.
    Kept(u32),
}

impl Passage {
    /// What a template does with a text.
    pub(super) fn of(leaf: Option<Leaf>) -> Passage {
        match leaf {
            Some(Leaf::Copy) => Passage::Written { raw: false },
            Some(Leaf::Acts(from)) => Passage::Kept(from),
            Some(Leaf::Nothing) | None => Passage::Ignored,
        }
    }
}

/// A value that is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Value {
    /// Its node was found.
    found: bool,
    /// Some of its text was written.
    begun: bool,
}

impl Value {
    /// Whether this is the first of the nodes.
    pub(super) fn take(&mut self) -> bool {
        !std::mem::replace(&mut self.found, true)
    }
}

impl Stream<'_> {
    /// A piece of text.
    #[inline]
    pub(super) fn characters(&mut self, piece: &str) -> Result<(), Error> {
        // The usual way of all text.
        if let (Passage::None, Some(frame)) = (self.passage, self.memory.frames.last())
            && let (Some(passage @ Passage::Written { raw }), false) = (frame.texts, frame.strips)
        {
            self.charge()?;
            self.passage = passage;
            self.out.text(piece, raw);
            return self.check();
        }
        self.odd_characters(piece)
    }

    /// A piece of text that is kept, or goes, or belongs to what was written before.
    #[inline(never)]
    fn odd_characters(&mut self, piece: &str) -> Result<(), Error> {
        match self.passage {
            Passage::None => match self.memory.frames.last() {
                Some(frame) if frame.strips && is_blank(piece) => {
                    self.memory.text.clear();
                    self.memory.text.push_str(piece);
                    self.passage = Passage::Blank;
                }
                _ => self.begin_text(piece)?,
            },
            Passage::Ignored => {}
            Passage::Written { raw } => self.out.more_text(piece, raw),
            Passage::Blank if is_blank(piece) => self.memory.text.push_str(piece),
            Passage::Blank => {
                let mut text = std::mem::take(&mut self.memory.text);
                text.push_str(piece);
                self.begin_text(&text)?;
                if !matches!(self.passage, Passage::Kept(_)) {
                    self.memory.text = text;
                }
            }
            Passage::Kept(_) => self.memory.text.push_str(piece),
        }
        self.check()
    }

    /// The first of a text that does not go.
    fn begin_text(&mut self, piece: &str) -> Result<(), Error> {
        self.charge()?;
        if let Some(passage) = self.memory.frames.last().and_then(|frame| frame.texts) {
            self.passage = passage;
            self.write_first(piece);
            return Ok(());
        }
        self.passage = Passage::Ignored;
        let Some(top) = self.top() else { return Ok(()) };
        let told = Node::new(NodeKind::Text, QName::NONE, None).told;
        if !self.is_last(top) || !self.accepts(top, &told) {
            return Ok(());
        }
        self.passage = match top.then {
            Then::Apply(mode) => {
                let mode = self.program.modes.get(mode as usize);
                let rules = mode.map(|mode| &*mode.text).unwrap_or_default();
                match self.rule(rules, &told, 0) {
                    Some(template) => Passage::of(self.streamed.body(template).leaf),
                    None => Passage::Written { raw: false },
                }
            }
            Then::Copy => Passage::Written { raw: false },
            Then::Value { raw } => match self.value.take() {
                true => Passage::Written { raw },
                false => Passage::Ignored,
            },
            Then::Texts { raw } if self.value.begun => {
                self.out.more_text(piece, raw);
                self.passage = Passage::Written { raw };
                return Ok(());
            }
            Then::Texts { raw } => {
                self.value.begun = true;
                Passage::Written { raw }
            }
        };
        self.write_first(piece);
        Ok(())
    }

    /// The first piece of a text, as it was decided.
    #[inline]
    fn write_first(&mut self, piece: &str) {
        match self.passage {
            Passage::Written { raw } => self.out.text(piece, raw),
            Passage::Kept(_) => {
                self.memory.text.clear();
                self.memory.text.push_str(piece);
            }
            Passage::None | Passage::Ignored | Passage::Blank => {}
        }
    }

    /// Another node begins, or the one around ends.
    #[inline]
    pub(super) fn end_text(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.passage, Passage::None) {
            Passage::Kept(from) => self.kept_text(from),
            Passage::None | Passage::Ignored | Passage::Written { .. } | Passage::Blank => Ok(()),
        }
    }

    fn kept_text(&mut self, from: u32) -> Result<(), Error> {
        let text = std::mem::take(&mut self.memory.text);
        let node = Node::new(NodeKind::Text, QName::NONE, Some(&text));
        let done = self.perform(from, &node);
        self.memory.text = text;
        done.map(drop)
    }
}
