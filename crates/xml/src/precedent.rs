//! What earlier documents of one kind were like, so that the next is not read as if it were the first.
//!
//! Owns what a sink has to tell of itself for that. A document whose markup is known is not read at all, one with a known
//! beginning from there on; the outcome is the same.

use crate::beginning::Beginnings;
use crate::skeleton::{Learning, Skeletons};
use crate::{Options, Parser, Sink};

/// A sink that can go on from what another document left.
pub trait Recall: Sink {
    /// What a sink is behind a beginning.
    type Memory;
    /// What it is behind a whole document.
    type Whole;
    /// What it makes of a text.
    type Gap;

    /// What it is now; none if it depends on more than the document.
    fn remember(&self) -> Option<Self::Memory>;

    /// Becomes what it was. Nothing was told to it before.
    fn resume(&mut self, memory: &Self::Memory);

    /// What it has made of the text just told, all there is in an element; none if another one might have led elsewhere. Such
    /// texts have no references and something besides white space.
    fn gap(&self, text: &str) -> Option<Self::Gap>;

    /// What it is behind the document's end; none if it depends on more than the document, or is not to be repeated.
    fn whole(&mut self) -> Option<Self::Whole>;

    /// Becomes that, for a document with other texts in the gaps, told in their order. False if one of them does not do; then
    /// it stays as it is. Nothing was told to it before.
    fn fill<'t, T>(&mut self, whole: &Self::Whole, texts: T) -> bool
    where
        T: Iterator<Item = (&'t Self::Gap, &'t str)> + Clone,
        Self::Gap: 't;
}

/// What is known of documents that one kind of sink reads, and a parser for them, which knows their names.
#[derive(Debug)]
pub struct Precedents<M, W, G> {
    parser: Option<Box<Parser>>,
    beginnings: Beginnings<M>,
    skeletons: Skeletons<W, G>,
}

impl<M, W, G> Default for Precedents<M, W, G> {
    fn default() -> Precedents<M, W, G> {
        Precedents {
            parser: None,
            beginnings: Beginnings::default(),
            skeletons: Skeletons::default(),
        }
    }
}

impl<M, W, G> Precedents<M, W, G> {
    /// Reads a whole document, as [`crate::parse`] does.
    pub fn parse<S: Recall<Memory = M, Whole = W, Gap = G>>(
        &mut self,
        bytes: &[u8],
        options: &Options,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut parser = match self.parser.take() {
            Some(parser) if parser.has(options) => parser,
            // What was read by other rules says nothing of what is read by these.
            _ => {
                *self = Precedents::default();
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
