//! Reuse of earlier, similar documents, so that the next one is not parsed from scratch.
//!
//! Owns the trait by which a sink saves and restores its state. A document whose markup is known is not parsed at all; one with a known
//! prefix is parsed from the end of the prefix. The result is the same as that of a full parse.

use crate::prefix_cache::PrefixCache;
use crate::template::{Learning, Templates};
use crate::{Options, Parser, Sink};

/// A sink that can resume from a state saved in another document.
pub trait Recall: Sink {
    /// State of the sink after a prefix.
    type Memory;
    /// State of the sink after a whole document.
    type Whole;
    /// What the sink derives from one text.
    type Gap;

    /// Returns the sink's state, or `None` if the state depends on more than the document.
    fn remember(&self) -> Option<Self::Memory>;

    /// Restores the state. The sink must be fresh.
    fn resume(&mut self, memory: &Self::Memory);

    /// Returns what the sink derived from the last text event, which is the whole content of its element. Returns `None` if another text
    /// could have led to a different state. Such texts contain no references and are not only white space.
    fn gap(&self, text: &str) -> Option<Self::Gap>;

    /// Returns the state after the end of the document, or `None` if it depends on more than the document or must not be reused.
    fn whole(&mut self) -> Option<Self::Whole>;

    /// Restores the state of a whole document with other texts in its gaps, given in order. Returns false and changes nothing if one of the
    /// texts does not fit. The sink must be fresh.
    fn fill<'t, T>(&mut self, whole: &Self::Whole, texts: T) -> bool
    where
        T: Iterator<Item = (&'t Self::Gap, &'t str)> + Clone,
        Self::Gap: 't;
}

/// Cache of known documents for one kind of sink, with a parser that has already interned their names.
#[derive(Debug)]
pub struct TemplateCache<M, W, G> {
    parser: Option<Box<Parser>>,
    beginnings: PrefixCache<M>,
    skeletons: Templates<W, G>,
}

impl<M, W, G> Default for TemplateCache<M, W, G> {
    fn default() -> TemplateCache<M, W, G> {
        TemplateCache {
            parser: None,
            beginnings: PrefixCache::default(),
            skeletons: Templates::default(),
        }
    }
}

impl<M, W, G> TemplateCache<M, W, G> {
    /// Parses a whole document, as [`crate::parse`] does.
    pub fn parse<S: Recall<Memory = M, Whole = W, Gap = G>>(
        &mut self,
        bytes: &[u8],
        options: &Options,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut parser = match self.parser.take() {
            Some(parser) if parser.has(options) => parser,
            // What was cached with other options is useless here.
            _ => {
                *self = TemplateCache::default();
                Box::new(Parser::new(options.clone()))
            }
        };
        if !crate::shortcuts() {
            let parsed = parser.parse(bytes, sink);
            self.parser = Some(parser);
            return parsed;
        }
        if self.skeletons.fill(bytes, options, sink) {
            self.parser = Some(parser);
            return Ok(());
        }
        let mut learning = Learning::new(sink, bytes, self.skeletons.wants(bytes));
        let parsed = self.beginnings.read(&mut parser, bytes, &mut learning);
        if parsed.is_ok() {
            self.skeletons.learn(learning);
        }
        parser.shrink();
        self.parser = Some(parser);
        parsed
    }
}
