//! The progress bar of a run, with the remaining time. Without a terminal, it prints a line for each row.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a run by its estimated time.
pub struct Progress {
    bar: ProgressBar,
    total: Duration,
    spent: Duration,
    row: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Creates the progress of a run with this estimated time.
    #[must_use]
    pub fn new(total: Duration) -> Progress {
        let is_terminal = io::stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total.as_secs().max(1)), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
        // Harmless: the template is a constant, and without it the bar has the default style.
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Progress { bar, total, spent: Duration::ZERO, row: None, is_terminal }
    }

    /// Returns the estimated time of what has been completed.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Begins a row.
    pub fn begin(&mut self, name: &str) {
        self.row = Some(Instant::now());
        self.bar.set_prefix(name.to_owned());
        self.tick();
    }

    /// Updates the bar.
    pub fn tick(&mut self) {
        let now = self.spent + self.row.map_or(Duration::ZERO, |begin| begin.elapsed());
        let left = self.total.saturating_sub(now).as_secs();
        self.bar.set_position(now.as_secs().min(self.total.as_secs()));
        let (hours, minutes, seconds) = (left / 3600, left / 60 % 60, left % 60);
        self.bar
            .set_message(format!("{hours}:{minutes:02}:{seconds:02} left  {}", self.bar.prefix()));
    }

    /// Ends a row.
    pub fn end(&mut self, name: &str, what: &str) {
        if let Some(begin) = self.row.take() {
            self.spent += begin.elapsed();
        }
        let what = if what.is_empty() { "done" } else { what };
        let line = format!("{name}: {what}");
        if self.is_terminal {
            self.bar.println(line)
        } else {
            // Harmless: if standard error is closed, nobody reads the line.
            drop(writeln!(io::stderr(), "{line}"))
        }
    }

    /// Sets the estimated time of what has been completed.
    pub fn set(&mut self, spent: Duration) {
        self.spent = spent;
        self.tick();
    }

    /// Completes the run.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
