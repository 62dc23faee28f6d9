//! Reuse of earlier, similar documents, so that the next one is not parsed from scratch.
//!
//! The sink saves and restores its state by [`Recall`]. A document whose markup is known is not parsed at all; one with a known
//! prefix is parsed from the end of the prefix. The result is the same as that of a full parse.

use crate::prefix_cache::PrefixCache;
use crate::recall::Recall;
use crate::template::{Learning, Templates};
use crate::{Options, Parser};

/// Cache of known documents for one kind of sink, with a parser that has already interned their names.
#[derive(Debug)]
pub struct TemplateCache<M, W, G> {
    parser: Option<Box<Parser>>,
    prefixes: PrefixCache<M>,
    templates: Templates<W, G>,
}

impl<M, W, G> Default for TemplateCache<M, W, G> {
    fn default() -> TemplateCache<M, W, G> {
        TemplateCache {
            parser: None,
            prefixes: PrefixCache::default(),
            templates: Templates::default(),
        }
    }
}

impl<M, W, G> TemplateCache<M, W, G> {
    /// Parses a whole document, as [`crate::parse`] does.
    pub fn parse<S: Recall<Memory = M, DocumentState = W, Gap = G>>(
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
        if self.templates.fill(bytes, options, sink) {
            self.parser = Some(parser);
            return Ok(());
        }
        let mut learning = Learning::new(sink, bytes, self.templates.wants(bytes));
        let parsed = self.prefixes.read(&mut parser, bytes, &mut learning);
        if parsed.is_ok() {
            self.templates.learn(learning);
        }
        parser.shrink();
        self.parser = Some(parser);
        parsed
    }
}
