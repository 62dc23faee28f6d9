//! Metrics of one XML definition: its compilations, and the fetches of documents it names.

use crate::count::SharedCounter;

/// The counts of one definition. Its compiler and its fetcher write them.
#[derive(Debug, Default)]
pub struct DefinitionMetrics {
    compiled: Results,
    fetched: Results,
}

#[derive(Debug, Default)]
struct Results {
    good: SharedCounter,
    bad: SharedCounter,
}

/// The values of [`DefinitionMetrics`] at a scrape: successes and failures.
#[derive(Debug, Default)]
pub(crate) struct DefinitionSum {
    pub(crate) name: Box<str>,
    pub(crate) compiled: [u64; 2],
    pub(crate) fetched: [u64; 2],
}

impl Results {
    fn count(&self, good: bool) {
        if good { self.good.add(1) } else { self.bad.add(1) }
    }

    fn read(&self) -> [u64; 2] {
        [self.good.get(), self.bad.get()]
    }
}

impl DefinitionMetrics {
    /// Counts a compilation, successful or not.
    pub fn compiled(&self, good: bool) {
        self.compiled.count(good);
    }

    /// Counts a fetch of a document that it names, successful or not.
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
