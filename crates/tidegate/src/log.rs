//! The program's own log, and what it says to whoever started it.

use std::io::{IsTerminal, Write, stderr};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The variable that sets the level.
const LEVEL: &str = "TIDEGATE_LOG";

/// Starts the log on standard error: warnings and what an operator wants to know, unless `TIDEGATE_LOG` says otherwise. The
/// error is what is wrong with that.
pub(crate) fn start() -> Result<(), String> {
    let written = std::env::var_os(LEVEL).unwrap_or_default();
    let level = filter(&written.to_string_lossy())?;
    let started = tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .try_init();
    debug_assert!(started.is_ok());
    Ok(())
}

/// A level, or levels by the part of the program. A word alone that is no level would be the name of a part, and nothing else
/// would be heard.
fn filter(written: &str) -> Result<EnvFilter, String> {
    let wrong = || format!("{LEVEL} is `{written}`: write error, warn, info, debug, trace or off");
    let mut words = written.split(',').map(str::trim).filter(|word| !word.is_empty());
    if !words.all(|word| word.contains('=') || word.parse::<LevelFilter>().is_ok()) {
        return Err(wrong());
    }
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    filter.parse(written).map_err(|_| wrong())
}

/// Says a line on standard error.
pub(crate) fn say_error(line: &str) {
    // Nobody is left to tell if this fails.
    let _unheard = writeln!(stderr(), "{line}");
}

/// Says a line on standard output, as far as somebody listens.
pub(crate) fn say(line: &str) {
    let _unheard = writeln!(std::io::stdout(), "{line}");
}

/// Writes what a command was asked for on standard output: if that cannot be written, the command has failed.
pub(crate) fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output cannot be written")
}
