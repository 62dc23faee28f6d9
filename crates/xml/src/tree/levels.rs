//! A tree of the first levels of a document: what is further down has no nodes, and is read all the same.
//!
//! Whoever looks no deeper, and copies elements as they stand ([`Document::markup`]), needs no more. The sink counts what is open
//! below the last level, where the parser makes no events of most; everything above goes to the sink of whole trees.

use crate::parser::parse_known;
use crate::sink::{Passed, ShortEvent};
use crate::tag_cache::TagSlot;
use crate::tree::Document;
use crate::tree::from_bytes::{self, TreeSink};
use crate::tree::positions::plain;
use crate::{Error, Here, Options, QName, Sink, Start};

// A place of the cache of tags has a bit in a mask.
const _: () = assert!(TagSlot::COUNT <= u64::BITS as usize);

struct LevelSink<'s> {
    tree: TreeSink<'s>,
    /// Elements this deep are the last that have nodes; the root element is 1.
    levels: usize,
    declarations_max: usize,
    /// What is inside such a one. None is open above.
    passed: Passed,
    /// Declarations came after that, and there are too many.
    is_over: bool,
    /// Tags met whose element has no prefix, and tags first met where no nodes are made: the tree does not know them.
    bare: u64,
    unknown: u64,
}

/// The tree of that many levels, or the whole one where not every element could be copied from the source, or where elements that
/// have nodes declare more than that many namespaces.
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
    /// An element with a node has begun.
    #[inline]
    fn began(&mut self) {
        if self.tree.builder.depth() >= self.levels {
            self.passed.open = 1;
        }
    }

    /// An element without a node has begun.
    #[inline]
    fn left_out(&mut self, is_bare: bool) {
        self.passed.open += 1;
        self.passed.is_any = true;
        self.passed.is_bare |= is_bare;
    }

    /// An element below the last level has ended, or the one that has the last node. Returns whether it is that.
    #[inline]
    fn ended(&mut self) -> bool {
        self.passed.open -= 1;
        let has_node = self.passed.open == 0;
        if has_node && std::mem::take(&mut self.passed.is_bare) {
            self.tree.builder.hides_bare_name();
        }
        has_node
    }

    /// Notes a tag that has its place now.
    fn met(&mut self, start: &Start<'_>) {
        let TagSlot::New(place) = start.place else { return };
        let bit = 1u64 << (place as u64 & 63);
        self.bare = self.bare & !bit | if start.name.prefix.is_empty() { bit } else { 0 };
        self.unknown = self.unknown & !bit | if self.passed.open > 0 { bit } else { 0 };
    }
}

/// Returns whether a name in a start tag is in the default namespace: its own, or that of a type.
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
                // Nothing is left out yet, and nothing will be.
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
