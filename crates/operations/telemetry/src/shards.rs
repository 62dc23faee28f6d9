//! The shards of a metric, one per worker, each created when the worker first needs it: 5,000 routes on 64 workers are
//! 320,000 possible shards, of which usually a few hundred are used.

use std::sync::OnceLock;

/// The shards of one metric. A worker writes only its own.
#[derive(Debug)]
pub(crate) struct Shards<T> {
    /// Those of the first workers. They lie here because each pointer on the way to a shard may cost a cache miss.
    first: [OnceLock<Box<T>>; FIRST],
    others: Box<[OnceLock<Box<T>>]>,
    /// For [`BACKGROUND`](crate::BACKGROUND), and for an index without a worker. The latter is a mistake of the caller, but
    /// must not fail an exchange.
    stray: OnceLock<Box<T>>,
}

/// The number of workers whose shards need no list.
const FIRST: usize = 4;

impl<T: Default> Shards<T> {
    pub(crate) fn new(workers: usize) -> Self {
        Shards {
            first: Default::default(),
            others: (FIRST..workers).map(|_| OnceLock::new()).collect(),
            stray: OnceLock::new(),
        }
    }

    /// The shard of a worker.
    pub(crate) fn of(&self, worker: usize) -> &T {
        debug_assert!(
            worker < FIRST + self.others.len() || worker == crate::BACKGROUND,
            "there is no worker {worker}"
        );
        self.place(worker).unwrap_or(&self.stray).get_or_init(Box::default)
    }

    /// The shard of a worker, if it was ever used.
    pub(crate) fn seen(&self, worker: usize) -> Option<&T> {
        self.place(worker)?.get().map(|shard| &**shard)
    }

    fn place(&self, worker: usize) -> Option<&OnceLock<Box<T>>> {
        self.first.get(worker).or_else(|| self.others.get(worker.checked_sub(FIRST)?))
    }

    /// The shards that were ever used.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        let shards = self.first.iter().chain(&self.others).chain(std::iter::once(&self.stray));
        // Harmless: an unused shard has no counts.
        shards.filter_map(|shard| shard.get().map(|shard| &**shard))
    }
}
