//! Budgets of evaluation. One budget may serve many evaluations, such as all those of one transformation.

use kit::turns::Steps;

use crate::{Error, ErrorKind};

/// Limits on the cost of evaluations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Number of steps of all evaluations together. A node visited, a function called and eight bytes of text produced are one step each.
    pub steps_max: u64,
    /// Maximum size of one node-set.
    pub nodes_max: u32,
    /// Maximum size in bytes of one string that a function produces.
    pub text_bytes_max: u32,
    /// Maximum nesting of evaluations. The caller's functions may start nested evaluations.
    pub depth_max: u32,
}

/// What remains of the [`Limits`].
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    steps: Steps,
    depth: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // About a second of work, a thousand times what typical messages need.
            steps_max: 200_000_000,
            nodes_max: 10_000_000,
            text_bytes_max: 64 << 20,
            // Each level takes a few kilobytes of a worker's stack of 2 MiB.
            depth_max: 100,
        }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Limits::default())
    }
}

impl Budget {
    /// Returns a full budget.
    pub fn new(limits: Limits) -> Budget {
        Budget { steps: Steps::new(limits.steps_max), depth: 0, limits }
    }

    /// Returns the limits that the budget started with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of steps used so far.
    pub fn used(&self) -> u64 {
        self.limits.steps_max.saturating_sub(self.steps.left())
    }

    /// Spends steps, and fails if too few are left. From time to time this pauses the computation, so that other tasks run.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<(), ErrorKind> {
        if self.steps.spend(steps) {
            Ok(())
        } else {
            Err(ErrorKind::Limit { name: "steps_max", max: self.limits.steps_max })
        }
    }

    /// Checks and charges a string of this many bytes.
    pub fn text(&mut self, bytes: usize) -> Result<(), ErrorKind> {
        let max = u64::from(self.limits.text_bytes_max);
        let bytes = bytes as u64;
        if bytes > max {
            Err(ErrorKind::Limit { name: "text_bytes_max", max })
        } else {
            self.charge(1 + bytes / 8)
        }
    }

    /// Checks the size of a node-set.
    #[inline]
    pub fn nodes(&self, len: usize) -> Result<(), ErrorKind> {
        let max = u64::from(self.limits.nodes_max);
        if len as u64 > max { Err(ErrorKind::Limit { name: "nodes_max", max }) } else { Ok(()) }
    }

    /// Enters a nested evaluation. [`Budget::leave`] ends it.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        let max = self.limits.depth_max;
        if self.depth >= max {
            return Err(ErrorKind::Limit { name: "depth_max", max: u64::from(max) }.at(0));
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
