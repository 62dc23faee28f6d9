//! How a sink saves and restores its state, so that documents like earlier ones need not be parsed.

use crate::Sink;

/// A sink that can resume from a state saved in another document.
pub trait Recall: Sink {
    /// State of the sink after a prefix.
    type Memory;
    /// State of the sink after a whole document.
    type DocumentState;
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
    fn whole(&mut self) -> Option<Self::DocumentState>;

    /// Restores the state of a whole document with other texts in its gaps, given in order. Returns false and changes nothing if one of the
    /// texts does not fit. The sink must be fresh.
    fn fill<'t, T>(&mut self, whole: &Self::DocumentState, texts: T) -> bool
    where
        T: Iterator<Item = (&'t Self::Gap, &'t str)> + Clone,
        Self::Gap: 't;
}
