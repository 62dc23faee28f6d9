//! What a stylesheet makes of the beginnings of documents, kept from one run to the next.
//!
//! Owns the runs that stopped there, with what each had written: a document that begins the same goes on from one of them.

use xml::{Beginnings, Resume};

use super::events::Stream;
use super::memory::Memory;
use super::text::{Passage, Value};
use crate::limits::Budgets;
use crate::out::Composer;

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

/// What runs of the same kind know.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) beginnings: Beginnings<Stopped>,
    budgets: Budgets,
    as_xml: bool,
}

impl Known {
    /// What runs like this one know, of what is at hand.
    pub(crate) fn of(spare: Option<Known>, budgets: &Budgets, as_xml: bool) -> Known {
        match spare {
            Some(known) if known.as_xml == as_xml && known.budgets == *budgets => known,
            _ => Known { beginnings: Beginnings::default(), budgets: budgets.clone(), as_xml },
        }
    }
}

impl Resume for Stream<'_> {
    type Memory = Stopped;

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
}
