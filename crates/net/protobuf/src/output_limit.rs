//! The limit on the size of an output, and on the memory that it may take.

use kit::turns;

use crate::error::Error;

/// The number of written bytes after which the memory limit is checked again.
const CHECKED_BYTES: usize = 64 << 10;

/// The limit on one output.
pub(crate) struct OutputLimit {
    bytes_max: usize,
    /// The length of the output at which the limits are checked next.
    check_at: usize,
}

impl OutputLimit {
    pub(crate) fn new(bytes_max: usize) -> OutputLimit {
        OutputLimit { bytes_max, check_at: CHECKED_BYTES.min(bytes_max) }
    }

    /// Counts a value, and checks the limits from time to time. `written` is the length of the output.
    #[inline]
    pub(crate) fn spend(&mut self, written: usize) -> Result<(), Error> {
        turns::count_part();
        if written < self.check_at { Ok(()) } else { self.check(written) }
    }

    fn check(&mut self, written: usize) -> Result<(), Error> {
        if written > self.bytes_max {
            return Err(Error::TooLarge);
        }
        if !kit::memory::has_room(written) {
            return Err(Error::NoRoom);
        }
        let more = CHECKED_BYTES.max(written / 2);
        self.check_at = written.saturating_add(more).min(self.bytes_max.saturating_add(1));
        Ok(())
    }
}
