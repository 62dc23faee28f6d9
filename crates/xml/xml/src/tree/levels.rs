//! Builds a tree of the first levels of a document. Deeper content is parsed and checked, but has no nodes.
//!
//! This is enough for callers that look no deeper and copy elements as written ([`Document::markup`]). The sink counts the open elements
//! below the last level, for most of which the parser sends no events. Everything above goes to the sink for whole trees.

use crate::parser::parse_known;
use crate::sink::{Passed, ShortEvent};
use crate::tag_cache::TagSlot;
use crate::tree::Document;
use crate::tree::from_bytes::{self, TreeSink};
use crate::tree::positions::plain;
use crate::{Error, Here, Options, QName, Sink, Start};

// Each slot of the tag cache has a bit in a mask.
const _: () = assert!(TagSlot::COUNT <= u64::BITS as usize);

struct LevelSink<'s> {
    tree: TreeSink<'s>,
    /// Elements of this level are the last with nodes. The root element is level 1.
    levels: usize,
    declarations_max: usize,
    /// The skipped content of an element of the last level. Its `open` is 0 while the parser is above that level.
    passed: Passed,
    /// Whether there are too many declarations, found after content had been skipped.
    is_over: bool,
    /// Bit mask of slots: tags whose element has no prefix.
    bare: u64,
    /// Bit mask of slots: tags first seen in skipped content, whose names the tree does not know.
    unknown: u64,
}

/// Builds a tree of `levels` levels. Builds the whole tree if not every element can be copied from the source, or if elements with nodes
/// have too many declarations.
pub(crate) fn parse(
    bytes: &[u8],
    options: &Options,
    levels: usize,
    declarations_max: usize,
) -> Result<Document, Error> {
    let Some(source) = plain(bytes).filter(|_| levels > 0) else {
        return from_bytes::parse(bytes, options);
    };
    let mut sink = LevelSink {
        tree: TreeSink::new(Some(source)),
        levels,
        declarations_max,
        passed: Passed::default(),
        is_over: false,
        bare: 0,
        unknown: 0,
    };
    parse_known(bytes, Some(source), options, &mut sink)?;
    let has_copies = sink.tree.builder.end_with_source(source);
    if sink.is_over || (sink.passed.is_any && !has_copies) {
        from_bytes::parse(bytes, options)
    } else {
        Ok(sink.tree.builder.into_document())
    }
}

impl LevelSink<'_> {
    /// Handles the start of an element with a node.
    #[inline]
    fn began(&mut self) {
        if self.tree.builder.depth() >= self.levels {
            self.passed.open = 1;
        }
    }

    /// Handles the start of an element without a node.
    #[inline]
    fn left_out(&mut self, is_bare: bool) {
        self.passed.open += 1;
        self.passed.is_any = true;
        self.passed.is_bare |= is_bare;
    }

    /// Handles the end of an element at or below the last level. Returns whether it has a node.
    #[inline]
    fn ended(&mut self) -> bool {
        self.passed.open -= 1;
        let has_node = self.passed.open == 0;
        if has_node && std::mem::take(&mut self.passed.is_bare) {
            self.tree.builder.hides_bare_name();
        }
        has_node
    }

    /// Records facts about a tag that is new in its slot.
    fn met(&mut self, start: &Start<'_>) {
        let TagSlot::New(place) = start.place else { return };
        let bit = 1u64 << (place as u64 & 63);
        self.bare = self.bare & !bit | if start.name.prefix.is_empty() { bit } else { 0 };
        self.unknown = self.unknown & !bit | if self.passed.open > 0 { bit } else { 0 };
    }
}

/// Returns whether a start tag contains a name in the default namespace: the element's name, or a type name.
fn names_bare(start: &Start<'_>) -> bool {
    let is_bare_type = |attribute: &crate::Attribute<'_>| {
        let name = attribute.name;
        name.local == "type" && !name.prefix.is_empty() && !attribute.value.contains(':')
    };
    start.name.prefix.is_empty() || start.attributes.iter().any(|one| is_bare_type(&one))
}

impl Sink for LevelSink<'_> {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        self.met(start);
        if self.passed.open > 0 {
            self.left_out(names_bare(start));
            return Ok(());
        }
        self.tree.start(start, here)?;
        if start.scope.declares() && self.tree.builder.declarations_len() > self.declarations_max {
            if self.passed.is_any {
                self.is_over = true
            } else {
                // Nothing has been skipped yet, so the whole tree is built.
                self.levels = usize::MAX
            }
        }
        self.began();
        Ok(())
    }

    #[inline(always)]
    fn quick(&mut self, event: ShortEvent, offset: u64) -> Option<Result<(), Error>> {
        if self.passed.open == 0 {
            if let ShortEvent::Start(place) = event
                && self.unknown >> (place as u64 & 63) & 1 == 1
            {
                return None;
            }
            let done = self.tree.quick(event, offset);
            if let (ShortEvent::Start(_), Some(Ok(()))) = (event, &done) {
                self.began();
            }
            return done;
        }
        match event {
            ShortEvent::Start(place) => self.left_out(self.bare >> (place as u64 & 63) & 1 == 1),
            ShortEvent::Text(_) => self.passed.is_any = true,
            ShortEvent::End => {
                if self.ended() {
                    return self.tree.quick(event, offset);
                }
            }
        }
        Some(Ok(()))
    }

    #[inline(always)]
    fn passed(&mut self) -> Option<&mut Passed> {
        (self.passed.open > 0).then_some(&mut self.passed)
    }

    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), Error> {
        match self.passed.open {
            0 => self.tree.text(text, cdata, here),
            _ => {
                self.passed.is_any = true;
                Ok(())
            }
        }
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        if self.passed.open == 0 || self.ended() { self.tree.end(name, here) } else { Ok(()) }
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        match self.passed.open {
            0 => self.tree.comment(text, here),
            _ => {
                self.passed.is_any = true;
                Ok(())
            }
        }
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        match self.passed.open {
            0 => self.tree.instruction(target, data, here),
            _ => {
                self.passed.is_any = true;
                Ok(())
            }
        }
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        system: &str,
        public: Option<&str>,
    ) -> Result<(), Error> {
        self.tree.unparsed_entity(name, system, public)
    }
}
