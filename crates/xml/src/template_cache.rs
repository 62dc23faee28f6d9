//! Reuse of earlier documents of one kind, so that the next is not parsed from scratch.
//!
//! Owns the trait by which a sink saves and restores its state for this. A document whose markup is known is not parsed at all;
//! one with a known prefix is parsed from the end of the prefix. The outcome is the same.

use crate::prefix_cache::PrefixCache;
use crate::template::{Learning, Templates};
use crate::{Options, Parser, Sink};

/// A sink that can resume from a state that another document left.
pub trait Recall: Sink {
    /// State of the sink behind a prefix.
    type Memory;
    /// State of the sink behind a whole document.
    type Whole;
    /// State that the sink derives from one text.
    type Gap;

    /// Returns the sink's state; None if it depends on more than the document.
    fn remember(&self) -> Option<Self::Memory>;

    /// Restores the state. The sink has received no event before.
    fn resume(&mut self, memory: &Self::Memory);

    /// Returns the state derived from the last text event, the whole content of its element. None if another text might have
    /// led to a different state of the sink. Such texts have no references and are not only white space.
    fn gap(&self, text: &str) -> Option<Self::Gap>;

    /// Returns the state behind the document's end; None if it depends on more than the document, or must not be repeated.
    fn whole(&mut self) -> Option<Self::Whole>;

    /// Restores the state of a whole document with other texts in its gaps, given in order. Returns false and changes nothing if
    /// one of the texts does not fit. The sink has received no event before.
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
    /// Reads a whole document, as [`crate::parse`] does.
    pub fn parse<S: Recall<Memory = M, Whole = W, Gap = G>>(
        &mut self,
        bytes: &[u8],
        options: &Options,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut parser = match self.parser.take() {
            Some(parser) if parser.has(options) => parser,
            // Documents parsed with other options are of no use here.
            _ => {
                *self = TemplateCache::default();
                Box::new(Parser::new(options.clone()))
            }
        };
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
