//! Budgets of evaluation. One budget may serve many evaluations, such as all those of one transformation.

use kit::turns::Steps;

use crate::{Error, ErrorKind};

/// Limits on the cost of evaluations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Steps over all evaluations together: a node visited, a function called and eight bytes of text produced count one each.
    pub steps_max: u64,
    /// Size of one node-set.
    pub nodes_max: u32,
    /// Bytes of one string that a function produces.
    pub text_bytes_max: u32,
    /// Nesting depth of evaluations, which functions of the caller may start.
    pub depth_max: u32,
}

/// The unused part of [`Limits`].
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
    /// An unused budget.
    pub fn new(limits: Limits) -> Budget {
        Budget { steps: Steps::new(limits.steps_max), depth: 0, limits }
    }

    /// The limits it started with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Steps used so far.
    pub fn used(&self) -> u64 {
        self.limits.steps_max.saturating_sub(self.steps.left())
    }

    /// Deducts steps; an error if too few are left. Now and then the computation pauses here, so that others run.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<(), ErrorKind> {
        if self.steps.spend(steps) {
            Ok(())
        } else {
            Err(ErrorKind::Limit { name: "steps_max", max: self.limits.steps_max })
        }
    }

    /// Checks and charges a string of this many bytes, before or after it is produced.
    pub fn text(&mut self, bytes: usize) -> Result<(), ErrorKind> {
        let max = u64::from(self.limits.text_bytes_max);
        let bytes = bytes as u64;
        if bytes > max {
            Err(ErrorKind::Limit { name: "text_bytes_max", max })
        } else {
            self.charge(1 + bytes / 8)
        }
    }

    /// Checks a node-set's size.
    #[inline]
    pub fn nodes(&self, len: usize) -> Result<(), ErrorKind> {
        let max = u64::from(self.limits.nodes_max);
        if len as u64 > max { Err(ErrorKind::Limit { name: "nodes_max", max }) } else { Ok(()) }
    }

    /// Enters a nested evaluation; [`Budget::leave`] leaves it.
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
