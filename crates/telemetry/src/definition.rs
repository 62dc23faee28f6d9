//! Metrics of one XML definition: how often it was compiled, and whether what it names can be fetched.

use crate::count::Shared;

/// Written by whoever compiles it, and by whoever fetches for it.
#[derive(Debug, Default)]
pub struct DefinitionMetrics {
    compiled: Results,
    fetched: Results,
}

#[derive(Debug, Default)]
struct Results {
    good: Shared,
    bad: Shared,
}

/// A reading of [`DefinitionMetrics`]: successes and failures.
#[derive(Debug, Default)]
pub(crate) struct DefinitionSum {
    pub(crate) name: Box<str>,
    pub(crate) compiled: [u64; 2],
    pub(crate) fetched: [u64; 2],
}

impl Results {
    fn count(&self, good: bool) {
        match good {
            true => self.good.add(1),
            false => self.bad.add(1),
        }
    }

    fn read(&self) -> [u64; 2] {
        [self.good.get(), self.bad.get()]
    }
}

impl DefinitionMetrics {
    /// It was compiled, or could not be.
    pub fn compiled(&self, good: bool) {
        self.compiled.count(good);
    }

    /// A document that it names was fetched, or could not be.
    pub fn fetched(&self, good: bool) {
        self.fetched.count(good);
    }

    pub(crate) fn sum(&self, name: Box<str>) -> Option<DefinitionSum> {
        let (compiled, fetched) = (self.compiled.read(), self.fetched.read());
        (compiled != [0, 0] || fetched != [0, 0]).then_some(DefinitionSum {
            name,
            compiled,
            fetched,
        })
    }
}
