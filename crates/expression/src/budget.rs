//! The cost limits of expressions and templates. One budget serves all of a message's evaluations.

use kit::turns::Steps;

use crate::FailureKind;

/// The bounds of a [`Budget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Nodes and values looked at, functions called, and every eight bytes of text compared or made.
    pub steps_max: u64,
    /// Nodes that one expression finds.
    pub results_max: u32,
    /// Bytes that are written, all together.
    pub output_bytes_max: u64,
    /// Objects and arrays inside one another, as far as a walk goes down.
    pub depth_max: u32,
}

/// The rest of [`Limits`].
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    steps: Steps,
    output: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // About a second of work, a thousand times the need of services' messages. Others of the worker run meanwhile.
            steps_max: 200_000_000,
            // A message of 16 MiB has no more values.
            results_max: 10_000_000,
            // The output bound of a flow's step.
            output_bytes_max: 16 << 20,
            // The depth limit of the parsers of messages.
            depth_max: 512,
        }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(Limits::default())
    }
}

/// Bytes of output between two looks at the memory of the process.
const ROOM_BYTES: u64 = 64 << 10;

impl Budget {
    /// A whole budget.
    pub fn new(limits: Limits) -> Budget {
        let (steps, output) = (Steps::new(limits.steps_max), limits.output_bytes_max);
        Budget { steps, output, limits }
    }

    /// The limits it started with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Steps that are left.
    pub fn steps_left(&self) -> u64 {
        self.steps.left()
    }

    /// Takes steps off. Now and then the computation pauses here, so that others run.
    #[inline]
    pub fn charge(&mut self, steps: u64) -> Result<(), FailureKind> {
        if self.steps.spend(steps) { Ok(()) } else { Err(self.steps_over()) }
    }

    pub(crate) fn steps_over(&self) -> FailureKind {
        FailureKind::Limit { name: "steps_max", max: self.limits.steps_max }
    }

    /// Accounts for a text that is looked through.
    #[inline]
    pub fn text(&mut self, bytes: usize) -> Result<(), FailureKind> {
        self.charge(1 + bytes as u64 / 8)
    }

    /// Accounts for bytes that are written, before they are.
    pub fn output(&mut self, bytes: usize) -> Result<(), FailureKind> {
        match self.output.checked_sub(bytes as u64) {
            // Now and then it asks for the memory of what comes until it asks again.
            Some(left)
                if left / ROOM_BYTES != self.output / ROOM_BYTES
                    && !kit::memory::has_room(bytes) =>
            {
                Err(FailureKind::Limit { name: "memory", max: 0 })
            }
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

    /// Checks how many nodes an expression has found.
    #[inline]
    pub fn results(&self, len: usize) -> Result<(), FailureKind> {
        let max = self.limits.results_max;
        if len as u64 > u64::from(max) {
            Err(FailureKind::Limit { name: "results_max", max: max.into() })
        } else {
            Ok(())
        }
    }

    /// Checks how deep a walk is.
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
    fn what_is_used_up_is_named() {
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
