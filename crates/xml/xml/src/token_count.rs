//! Counts the tokens of a document against their limit, and pauses a long parse.

use kit::turns;

use crate::machine::Machine;
use crate::stop::{Scan, over};

impl Machine {
    /// Counts a token.
    #[inline]
    pub(crate) fn token(&mut self, at: usize) -> Scan<()> {
        if self.tokens >= self.look_at {
            self.look_at_tokens(at)?;
        }
        self.tokens += 1;
        Ok(())
    }

    /// Fails if the limit on tokens is reached. Pauses the parser if other tasks are due to run.
    #[cold]
    fn look_at_tokens(&mut self, at: usize) -> Scan<()> {
        let tokens_max = self.options.limits.tokens_max;
        if self.tokens >= tokens_max {
            return Err(over(at, "tokens_max", tokens_max));
        }
        turns::pause_if_due();
        self.look_at = tokens_max.min(self.tokens + u64::from(turns::PARTS));
        Ok(())
    }
}
