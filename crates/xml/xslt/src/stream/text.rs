//! Text of the source. It arrives in pieces: all text between two other nodes is one text node.

use xml::QName;
use xpath::NodeKind;

use super::Then;
use super::events::{Node, Stream};
use super::passage::Passage;
use crate::error::Error;
use crate::run::spaces::is_blank;

impl Stream<'_> {
    /// Handles a piece of text.
    #[inline]
    pub(super) fn characters(&mut self, piece: &str) -> Result<(), Error> {
        // Fast path of most text.
        if let (Passage::None, Some(frame)) = (self.passage, self.memory.frames.last())
            && let (Some(passage @ Passage::Written { raw }), false) = (frame.texts, frame.strips)
        {
            self.charge()?;
            self.passage = passage;
            self.out.text(piece, raw);
            return self.check();
        }
        self.other_characters(piece)
    }

    /// Handles a piece of text that is collected, may be dropped, or continues a text node.
    #[inline(never)]
    fn other_characters(&mut self, piece: &str) -> Result<(), Error> {
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

    /// Begins a text node that is not dropped.
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
                let rules = mode.map_or(&[][..], |mode| &*mode.text);
                match self.rule(rules, &told, 0) {
                    Some(template) => Passage::of(self.streamed.body(template).leaf),
                    None => Passage::Written { raw: false },
                }
            }
            Then::Copy => Passage::Written { raw: false },
            Then::Value { raw } => {
                if self.value.take() {
                    Passage::Written { raw }
                } else {
                    Passage::Ignored
                }
            }
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

    /// Writes or collects the first piece of a text.
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

    /// Ends the text node, because another node begins or the parent ends.
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
