//! What a stylesheet makes of documents and their beginnings, kept from one run to the next.
//!
//! Owns the runs that stopped there, with what each had written: a document that begins the same goes on from one of them, and
//! one that has the same markup gets what was written with its own texts in it.

use xml::{Precedents, Recall};

use super::events::Stream;
use super::memory::Memory;
use super::text::{Passage, Value};
use crate::limits::Budgets;
use crate::out::{Composer, Style};
use crate::stylesheet::Run;

/// A run at the end of a beginning.
#[derive(Debug)]
pub(crate) struct Stopped {
    out: Composer,
    memory: Memory,
    skipped: u32,
    passage: Passage,
    value: Value,
    steps: u64,
    elements: u32,
}

/// All that a run has written.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: Box<[u8]>,
    /// As budgets count it.
    size: u64,
}

/// Where a text was written: from there to there, or nowhere.
#[derive(Debug)]
pub(crate) struct Copied(Option<(usize, usize)>);

/// A longer result is not kept.
const WRITTEN_BYTES_MAX: usize = 8 << 10;

/// What runs of the same kind know.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) precedents: Precedents<Stopped, Written, Copied>,
    budgets: Budgets,
    as_xml: bool,
    style: Style,
}

impl Known {
    /// What runs like this one know, of what is at hand.
    pub(crate) fn of(spare: Option<Box<Known>>, run: &Run<'_>) -> Box<Known> {
        let alike = |known: &Known| {
            (known.as_xml, known.style) == (run.as_xml, run.style) && known.budgets == run.budgets
        };
        spare.filter(|known| alike(known)).unwrap_or_else(|| {
            let (precedents, budgets) = (Precedents::default(), run.budgets.clone());
            Box::new(Known { precedents, budgets, as_xml: run.as_xml, style: run.style })
        })
    }
}

impl Recall for Stream<'_> {
    type Memory = Stopped;
    type Whole = Written;
    type Gap = Copied;

    fn remember(&self) -> Option<Stopped> {
        if self.failed.is_some() {
            return None;
        }
        let mut memory = Memory::default();
        memory.copy_from(&self.memory);
        let Stream { skipped, passage, value, steps, elements, .. } = *self;
        Some(Stopped { out: self.out.copy()?, memory, skipped, passage, value, steps, elements })
    }

    fn resume(&mut self, stopped: &Stopped) {
        self.out.copy_from(&stopped.out);
        self.memory.copy_from(&stopped.memory);
        self.skipped = stopped.skipped;
        self.passage = stopped.passage;
        self.value = stopped.value;
        self.steps = stopped.steps;
        self.elements = stopped.elements;
    }
    fn gap(&self, text: &str) -> Option<Copied> {
        match self.passage {
            _ if self.skipped > 0 => Some(Copied(None)),
            Passage::Ignored => Some(Copied(None)),
            Passage::Written { .. } => Some(Copied(Some(self.out.last_written(text)?))),
            Passage::None | Passage::Blank | Passage::Kept(_) => None,
        }
    }

    fn whole(&mut self) -> Option<Written> {
        self.complete();
        if self.failed.is_some() {
            return None;
        }
        let bytes = self.out.written().filter(|bytes| bytes.len() <= WRITTEN_BYTES_MAX)?;
        Some(Written { bytes: bytes.into(), size: self.out.bytes() })
    }

    fn fill<'t, T>(&mut self, whole: &Written, texts: T) -> bool
    where
        T: Iterator<Item = (&'t Copied, &'t str)> + Clone,
    {
        let copied = texts.filter_map(|(Copied(place), text)| Some(((*place)?, text)));
        let (mut size, mut before) = (whole.size, 0);
        for ((from, to), text) in copied.clone() {
            size += text.len() as u64;
            before += (to - from) as u64;
        }
        if size.saturating_sub(before) > self.budgets.output_bytes_max {
            return false;
        }
        self.over = true;
        self.out.fill(&whole.bytes, copied);
        true
    }
}
