//! `bench-hub`: what a hub costs: deliveries to callbacks, publishing, also with a store in PostgreSQL, replay, and a start with many
//! subscriptions.
//!
//! Owns the measurement from start to table. Each case has a gateway of its own, with one worker on the first core; everything
//! else, subscribers, publishers and readers, is in this process. CPU is that of all threads of the gateway, the store's too.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

mod deliver;
mod gateway;
mod postgres;
mod publish;
mod replay;
mod start;
mod subscribers;
mod wire;

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Measures what a hub costs
#[derive(Parser)]
struct Arguments {
    /// Cases to run: deliver, publish, postgres, replay, start; all when absent
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The Tidegate to measure; the one built beside this program when absent
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Subscribers of `deliver`
    #[arg(long, default_value_t = 10_000)]
    subscribers: usize,
    /// Servers that the callbacks of `deliver` are at
    #[arg(long, default_value_t = 16)]
    origins: usize,
    /// Events of `deliver`, one after the other
    #[arg(long, default_value_t = 10)]
    events: usize,
    /// Bytes of an event of `deliver`
    #[arg(long, default_value_t = 8192)]
    bytes: usize,
    /// Publishers of `publish`
    #[arg(long, default_value_t = 64)]
    publishers: usize,
    /// Seconds of `publish`
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Events of `replay`
    #[arg(long, default_value_t = 1_000_000)]
    replayed: usize,
    /// Subscriptions of `start`
    #[arg(long, default_value_t = 100_000)]
    subscriptions: usize,
    /// Topics of `start`
    #[arg(long, default_value_t = 10_000)]
    topics: usize,
    /// Where the stores are: a folder on the disk to measure
    #[arg(long, value_name = "FOLDER", default_value = "target")]
    folder: PathBuf,
    /// Ends with exit code 1 when a target is not met
    #[arg(long)]
    strict: bool,
}

/// A line of the table.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) target: &'static str,
    /// None where there is no target.
    pub(crate) is_met: Option<bool>,
}

/// Runs a case and gives its lines.
type Case = fn(&Arguments) -> io::Result<Vec<Row>>;

const CASES: [(&str, Case); 5] = [
    ("deliver", deliver::measure),
    ("publish", publish::measure),
    ("postgres", postgres::measure),
    ("replay", replay::measure),
    ("start", start::measure),
];

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody misses what cannot be said.
            drop(writeln!(io::stderr(), "bench-hub: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// False if a target was missed that has to be met.
fn measure(arguments: &Arguments) -> io::Result<bool> {
    if let Some(name) = arguments.only.iter().find(|name| CASES.iter().all(|c| c.0 != **name)) {
        let names = CASES.map(|case| case.0).join(", ");
        return Err(io::Error::other(format!("no case is called `{name}`; there are {names}")));
    }
    let mut output = io::stdout();
    writeln!(output, "| case | figure | target | |\n| --- | --- | --- | --- |")?;
    let mut all_met = true;
    for (name, case) in CASES {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == name) {
            continue;
        }
        for Row { what, figure, target, is_met } in case(arguments)? {
            let verdict = is_met.map_or("", |is_met| if is_met { "met" } else { "missed" });
            writeln!(output, "| {what} | {figure} | {target} | {verdict} |")?;
            all_met &= is_met.unwrap_or(true);
        }
    }
    Ok(all_met || !arguments.strict)
}

impl Arguments {
    fn program(&self) -> PathBuf {
        let beside = || env::current_exe().unwrap_or_default().with_file_name("tidegate");
        self.tidegate.clone().unwrap_or_else(beside)
    }
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, figure: String) -> Row {
        Row { what: what.into(), figure, target: "", is_met: None }
    }

    pub(crate) fn with_target(self, target: &'static str, is_met: bool) -> Row {
        Row { target, is_met: Some(is_met), ..self }
    }
}

/// The value below which this part of all sorted values is.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation, reason = "it is at most the number of values")]
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}
