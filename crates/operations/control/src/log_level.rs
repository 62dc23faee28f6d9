//! Temporary levels of the program's log.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::{Control, lock};

/// Sets the log level, in the format of `TIDEGATE_LOG`, or restores the initial one. The error describes what is invalid.
pub type SetLevel = Box<dyn Fn(Option<&str>) -> Result<(), String> + Send + Sync>;

/// The longest time for which a level may be set.
pub const LOG_LEVEL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The level that an operator has set.
#[derive(Default)]
pub(crate) struct LogLevel {
    set: OnceLock<SetLevel>,
    /// Locked during a change, so that the end of an earlier level does not undo a later one.
    current: Mutex<CurrentLevel>,
}

#[derive(Default)]
struct CurrentLevel {
    /// The level, and its end since the Unix epoch.
    level: Option<(String, Duration)>,
    /// Increases with each change, so that the timer of an earlier level does not end a later one.
    number: u64,
}

impl Control {
    /// Sets the function that changes the level of the log.
    pub fn on_log_level(&self, set: SetLevel) {
        // Harmless: a second function is ignored, since there is only one log.
        let _ = self.log_level.set.set(set);
    }

    /// The level that was set, and its end since the Unix epoch. None if the initial level applies.
    pub fn log_level(&self) -> Option<(String, Duration)> {
        lock(&self.log_level.current).level.clone()
    }

    /// Sets the log level for a while, or restores the initial one.
    #[allow(clippy::disallowed_methods, reason = "kit::spawn is for tasks that stay on a worker")]
    pub fn set_log_level(
        self: &Arc<Self>,
        level: Option<&str>,
        time: Duration,
    ) -> Result<(), String> {
        let set =
            self.log_level.set.get().ok_or("the log level of this program cannot be changed")?;
        let number = {
            let mut current = lock(&self.log_level.current);
            set(level)?;
            let end = kit::clock::wall().saturating_add(time);
            current.level = level.map(|level| (level.to_owned(), end));
            current.number += 1;
            current.number
        };
        tracing::info!(level, ?time, "the log level was changed");
        if level.is_some() {
            let control = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                control.end_log_level(number);
            });
        }
        Ok(())
    }

    fn end_log_level(&self, number: u64) {
        let mut current = lock(&self.log_level.current);
        if current.number != number {
            return;
        }
        current.level = None;
        if let Some(set) = self.log_level.set.get()
            && let Err(error) = set(None)
        {
            tracing::error!(error, "the level of the log cannot be restored");
        }
    }
}
