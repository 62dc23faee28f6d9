//! The cost limits of expressions and templates. All evaluations for one message share one budget.

use kit::turns::Steps;

use crate::FailureKind;

/// The bounds of a [`Budget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Number of steps: nodes and values visited, functions called, and every eight bytes of text compared or produced.
    pub steps_max: u64,
    /// Number of nodes that one expression may select.
    pub results_max: u32,
    /// Number of bytes that may be written in total.
    pub output_bytes_max: u64,
    /// Maximum nesting of objects and arrays that a walk follows.
    pub depth_max: u32,
}

/// What remains of the [`Limits`].
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    steps: Steps,
    output: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // About a second of work, a thousand times what typical messages need. Other tasks of the worker run in between.
            steps_max: 200_000_000,
            // A message of 16 MiB has fewer values.
            results_max: 10_000_000,
            // The same as the output limit of a flow step.
            output_bytes_max: 16 << 20,
            // The same as the depth limit of the message parsers.
            depth_max: 512,
        }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Limits::default())
    }
}

/// Number of output bytes between two checks of the process's memory.
const ROOM_BYTES: u64 = 64 << 10;

impl Budget {
    /// Returns a full budget.
    pub fn new(limits: Limits) -> Budget {
        let (steps, output) = (Steps::new(limits.steps_max), limits.output_bytes_max);
        Budget { steps, output, limits }
    }

    /// Returns the limits that the budget started with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of steps left.
    pub fn steps_left(&self) -> u64 {
        self.steps.left()
    }

    /// Spends steps. From time to time this pauses the computation, so that other tasks run.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<(), FailureKind> {
        if self.steps.spend(steps) { Ok(()) } else { Err(self.steps_over()) }
    }

    pub(crate) fn steps_over(&self) -> FailureKind {
        FailureKind::Limit { name: "steps_max", max: self.limits.steps_max }
    }

    /// Spends the steps for scanning a text.
    #[inline]
    pub fn text(&mut self, bytes: usize) -> Result<(), FailureKind> {
        self.charge(1 + bytes as u64 / 8)
    }

    /// Spends output bytes, before they are written.
    #[inline]
    pub fn output(&mut self, bytes: usize) -> Result<(), FailureKind> {
        match self.output.checked_sub(bytes as u64) {
            Some(left) if left / ROOM_BYTES == self.output / ROOM_BYTES => {
                self.output = left;
                self.text(bytes)
            }
            _ => self.output_at_check(bytes),
        }
    }

    /// The slow path of [`Budget::output`]: checks that the process has memory for the bytes, or reports that the budget is exhausted.
    #[cold]
    fn output_at_check(&mut self, bytes: usize) -> Result<(), FailureKind> {
        match self.output.checked_sub(bytes as u64) {
            Some(_) if !kit::memory::has_room(bytes) => Err(FailureKind::MemoryFull),
            Some(left) => {
                self.output = left;
                self.text(bytes)
            }
            None => {
                let max = self.limits.output_bytes_max;
                Err(FailureKind::Limit { name: "output_bytes_max", max })
            }
        }
    }

    /// Checks the number of nodes that an expression has selected.
    #[inline]
    pub fn results(&self, len: usize) -> Result<(), FailureKind> {
        let max = self.limits.results_max;
        if len as u64 > u64::from(max) {
            Err(FailureKind::Limit { name: "results_max", max: max.into() })
        } else {
            Ok(())
        }
    }

    /// Checks the depth of a walk.
    #[inline]
    pub fn depth(&self, levels: usize) -> Result<(), FailureKind> {
        let max = self.limits.depth_max;
        if levels as u64 > u64::from(max) {
            Err(FailureKind::Limit { name: "depth_max", max: max.into() })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_limit_is_named() {
        let limits = Limits { steps_max: 10, results_max: 2, output_bytes_max: 16, depth_max: 3 };
        let mut budget = Budget::new(limits);
        let over = |name, max| Err(FailureKind::Limit { name, max });
        assert_eq!(budget.results(2), Ok(()));
        assert_eq!(budget.results(3), over("results_max", 2));
        assert_eq!(budget.depth(4), over("depth_max", 3));
        assert_eq!(budget.output(9), Ok(()));
        assert_eq!(budget.output(8), over("output_bytes_max", 16));
        assert_eq!(budget.charge(9), over("steps_max", 10));
        assert_eq!(budget.charge(1), over("steps_max", 10));
    }
}
