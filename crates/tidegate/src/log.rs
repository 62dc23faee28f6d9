//! The program's own log, and what it says to whoever started it.

use std::io::{IsTerminal, Write, stderr};

use tracing_subscriber::EnvFilter;

/// Starts the log on standard error: warnings and what an operator wants to know, unless `TIDEGATE_LOG` says otherwise.
pub(crate) fn start() {
    let level = EnvFilter::builder()
        .with_env_var("TIDEGATE_LOG")
        .with_default_directive(tracing::Level::INFO.into());
    let started = tracing_subscriber::fmt()
        .with_env_filter(level.from_env_lossy())
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .try_init();
    debug_assert!(started.is_ok());
}

/// Says a line on standard error.
pub(crate) fn say_error(line: &str) {
    // Nobody is left to tell if this fails.
    let _unheard = writeln!(stderr(), "{line}");
}

/// Says a line on standard output.
pub(crate) fn say(line: &str) {
    let _unheard = writeln!(std::io::stdout(), "{line}");
}
