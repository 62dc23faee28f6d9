//! Counters in memory, and the changes that have to be written.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, millis};

use crate::CounterValue;

/// All counters of a store.
#[derive(Debug, Default)]
pub(crate) struct CounterMap {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each counter, its sum and the end of its window, in milliseconds since the Unix epoch.
    counters: HashMap<String, (u64, u64)>,
    dirty: HashSet<String>,
    /// The number of counters at which those with ended windows are removed.
    cleanup_at: usize,
}

/// The new sum and end of the window of each changed counter, or `None` if the counter is removed.
pub(crate) type CounterWrites = Vec<(String, Option<(u64, u64)>)>;

/// The minimum of [`State::cleanup_at`].
const CLEANUP_MIN: usize = 1024;

impl CounterMap {
    pub(crate) fn new(kept: Vec<(String, u64, u64)>) -> CounterMap {
        let counters = kept.into_iter().map(|(name, total, until)| (name, (total, until)));
        let state =
            State { counters: counters.collect(), dirty: HashSet::new(), cleanup_at: CLEANUP_MIN };
        CounterMap { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, name: &str, by: u64, limit: u64, window: Duration) -> CounterValue {
        let now = millis(clock::wall());
        let mut state = self.state();
        // If a window ends later than a new one would, it was started before the clock was set back, or was longer then.
        let last = now.saturating_add(millis(window));
        let is_open = |until: u64| until > now && until <= last;
        let open = state.counters.get(name).copied().filter(|(_, until)| is_open(*until));
        let (total, until) = open.unwrap_or((0, last));
        let sum = total.saturating_add(by);
        let granted = sum <= limit;
        let remaining = Duration::from_millis(until.saturating_sub(now));
        if granted && by > 0 {
            if state.dirty.insert(name.to_owned()) && state.counters.len() >= state.cleanup_at {
                state.forget(now);
            }
            state.counters.insert(name.to_owned(), (sum, until));
            return CounterValue { total: sum, granted, remaining };
        }
        CounterValue { total, granted, remaining }
    }

    /// Returns true if there are unwritten changes.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.state().dirty.is_empty()
    }

    /// Takes the changes since the last call.
    pub(crate) fn dirty(&self) -> CounterWrites {
        let mut state = self.state();
        let dirty = std::mem::take(&mut state.dirty);
        let kept = |name: String| {
            let row = state.counters.get(&name).copied();
            (name, row)
        };
        dirty.into_iter().map(kept).collect()
    }

    /// Marks changes as unwritten again.
    pub(crate) fn mark(&self, kept: &CounterWrites) {
        self.state().dirty.extend(kept.iter().map(|(name, _)| name.clone()));
    }
}

impl State {
    /// Removes counters whose windows have ended.
    fn forget(&mut self, now: u64) {
        let ended = self.counters.iter().filter(|(_, (_, until))| *until <= now);
        let ended: Vec<String> = ended.map(|(name, _)| name.clone()).collect();
        for name in ended {
            self.counters.remove(&name);
            self.dirty.insert(name);
        }
        self.cleanup_at = (self.counters.len() * 2).max(CLEANUP_MIN);
    }
}
