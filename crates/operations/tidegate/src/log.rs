//! The program's own log, and its messages on standard output and standard error.

mod fields;
mod pending;

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::debug_fn;

/// The variable that sets the level.
const LEVEL: &str = "TIDEGATE_LOG";
/// The variable that sets the format.
const FORMAT: &str = "TIDEGATE_LOG_FORMAT";

/// True if each record is a line with a JSON object. It is set once, before the first record.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Starts the log on standard error, with the level `info` unless `TIDEGATE_LOG` sets another one. Fails if that variable or
/// `TIDEGATE_LOG_FORMAT` is invalid.
pub(crate) fn start() -> Result<(), String> {
    // Harmless: an absent variable is an empty one.
    let written = std::env::var_os(LEVEL).unwrap_or_default();
    let level = filter(&written.to_string_lossy())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(|| pending::Records)
        .with_target(false);
    // Harmless: an absent variable is an empty one.
    let format = std::env::var_os(FORMAT).unwrap_or_default();
    let started = match format.to_str() {
        Some("json") => {
            IS_JSON.store(true, Relaxed);
            let builder =
                builder.json().flatten_event(true).with_ansi(false).with_filter_reloading();
            let handle = builder.reload_handle();
            keep(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
            builder.try_init()
        }
        Some("" | "text") => {
            let fields = debug_fn(fields::write).delimited(" ");
            let builder = builder
                .fmt_fields(fields)
                .with_ansi(stderr().is_terminal())
                .with_filter_reloading();
            let handle = builder.reload_handle();
            keep(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
            builder.try_init()
        }
        Some(_) | None => {
            let format = format.to_string_lossy();
            return Err(format!("{FORMAT} is `{format}`: write text or json"));
        }
    };
    debug_assert!(started.is_ok());
    Ok(())
}

/// Replaces the filter of the log.
type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static RELOAD: OnceLock<Reload> = OnceLock::new();

fn keep(reload: impl Fn(EnvFilter) -> Result<(), String> + Send + Sync + 'static) {
    // Harmless: the log is started once.
    let _ = RELOAD.set(Box::new(reload));
}

/// Sets the level. `None` restores the initial one.
pub(crate) fn set_level(level: Option<&str>) -> Result<(), String> {
    // Harmless: an absent variable is an empty one.
    let written = std::env::var_os(LEVEL).unwrap_or_default();
    let filter = filter(level.unwrap_or(&written.to_string_lossy()))?;
    let reload = RELOAD.get().ok_or("the log has not started")?;
    reload(filter)
}

/// Starts the thread that writes the log from now on, so that a slow reader of standard error does not block workers.
pub(crate) fn serve() -> anyhow::Result<()> {
    pending::start().context("cannot start the thread of the log")
}

/// Waits for a while until the log is written.
pub(crate) fn finish() {
    pending::finish();
}

/// Parses a level, or levels by part of the program. A single word that is not a level is refused: it would be taken for a part,
/// and all other records would be dropped.
fn filter(written: &str) -> Result<EnvFilter, String> {
    let wrong = || format!("{LEVEL} is `{written}`: write error, warn, info, debug, trace or off");
    let mut words = written.split(',').map(str::trim).filter(|word| !word.is_empty());
    if !words.all(|word| word.contains('=') || word.parse::<LevelFilter>().is_ok()) {
        return Err(wrong());
    }
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    filter.parse(written).map_err(|_| wrong())
}

/// Writes a line to standard error. If the log is JSON, the line is a record.
pub(crate) fn say_error(line: &str) {
    if IS_JSON.load(Relaxed) {
        return tracing::error!("{line}");
    }
    // Harmless: there is no other place to report this failure.
    let _ = writeln!(stderr(), "{line}");
}

/// Writes a line to standard output, if it is open.
pub(crate) fn say(line: &str) {
    // Harmless: the program continues if standard output is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Makes a line from the network safe for a terminal: control characters are replaced.
pub(crate) fn printable(line: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && c != '\t';
    if line.contains(is_command) {
        let escaped =
            |c: char| if is_command(c) { c.escape_debug().to_string() } else { c.to_string() };
        line.chars().map(escaped).collect()
    } else {
        line.into()
    }
}

/// Writes the result of a command to standard output. If that fails, the command has failed, unless the reader has
/// closed the pipe, as `head` does.
pub(crate) fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written"),
    }
}
