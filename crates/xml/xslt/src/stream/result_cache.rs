//! Cache of a stylesheet's results, which is kept between runs.
//!
//! For known prefixes of documents, it keeps the state of the run at their end. A document with the same prefix continues from there. For
//! known documents, it keeps the result. A document with the same markup gets that result, with its own texts inserted.

use xml::{Recall, TemplateCache};

use super::events::Stream;
use super::memory::Memory;
use super::passage::{Passage, Value};
use crate::inputs::Run;
use crate::limits::Budgets;
use crate::out::{Composer, Style};

/// State of a run at the end of a document's prefix.
#[derive(Debug)]
pub(crate) struct PrefixState {
    out: Composer,
    memory: Memory,
    skipped: u32,
    passage: Passage,
    value: Value,
    steps: u64,
    elements: u32,
}

/// The whole result of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    bytes: Box<[u8]>,
    /// Size of the result as counted by the budgets.
    size: u64,
}

/// Range of the result to which a text was copied, or `None` if the text does not appear in the result.
#[derive(Debug)]
pub(crate) struct CopiedRange(Option<(usize, usize)>);

/// Maximum length of a result that is kept.
const WRITTEN_BYTES_MAX: usize = 8 << 10;

/// Cache shared by runs with the same options.
#[derive(Debug)]
pub(crate) struct ResultCache {
    pub(crate) template_cache: TemplateCache<PrefixState, RunResult, CopiedRange>,
    budgets: Budgets,
    as_xml: bool,
    strips: bool,
    style: Style,
}

impl ResultCache {
    /// Returns the spare cache if its options are those of this run. Otherwise creates a new one.
    pub(crate) fn of(spare: Option<Box<ResultCache>>, run: &Run<'_>) -> Box<ResultCache> {
        let alike = |known: &ResultCache| {
            (known.as_xml, known.strips, known.style)
                == (run.as_xml, run.strip_empty_namespaces, run.style)
                && known.budgets == run.budgets
        };
        spare.filter(|known| alike(known)).unwrap_or_else(|| {
            let (template_cache, budgets) = (TemplateCache::default(), run.budgets.clone());
            let (as_xml, strips) = (run.as_xml, run.strip_empty_namespaces);
            Box::new(ResultCache { template_cache, budgets, as_xml, strips, style: run.style })
        })
    }
}

impl Recall for Stream<'_> {
    type Memory = PrefixState;
    type DocumentState = RunResult;
    type Gap = CopiedRange;

    fn remember(&self) -> Option<PrefixState> {
        if self.failed.is_some() {
            return None;
        }
        let mut memory = Memory::default();
        memory.copy_from(&self.memory);
        let Stream { skipped, passage, value, steps, elements, .. } = *self;
        Some(PrefixState {
            out: self.out.copy()?,
            memory,
            skipped,
            passage,
            value,
            steps,
            elements,
        })
    }

    fn resume(&mut self, stopped: &PrefixState) {
        self.out.copy_from(&stopped.out);
        self.memory.copy_from(&stopped.memory);
        self.skipped = stopped.skipped;
        self.passage = stopped.passage;
        self.value = stopped.value;
        self.steps = stopped.steps;
        self.elements = stopped.elements;
    }
    fn gap(&self, text: &str) -> Option<CopiedRange> {
        match self.passage {
            _ if self.skipped > 0 => Some(CopiedRange(None)),
            Passage::Ignored => Some(CopiedRange(None)),
            Passage::Written { .. } => Some(CopiedRange(Some(self.out.last_written(text)?))),
            Passage::None | Passage::Blank | Passage::Kept(_) => None,
        }
    }

    fn whole(&mut self) -> Option<RunResult> {
        self.complete();
        if self.failed.is_some() {
            return None;
        }
        let bytes = self.out.written().filter(|bytes| bytes.len() <= WRITTEN_BYTES_MAX)?;
        Some(RunResult { bytes: bytes.into(), size: self.out.bytes() })
    }

    fn fill<'t, T>(&mut self, whole: &RunResult, texts: T) -> bool
    where
        T: Iterator<Item = (&'t CopiedRange, &'t str)> + Clone,
    {
        // Harmless: the other texts do not appear in the result.
        let copied = texts.filter_map(|(CopiedRange(place), text)| Some(((*place)?, text)));
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
