//! `bench-peers`: Tidegate beside nginx, HAProxy and Envoy, with the same loads, and the CPU time of each.
//!
//! Owns the comparison from start to table. A case enters in `rounds`, is applied to each peer by `load` and leaves through
//! `report`. It never tunes a peer beyond `configs`, and never averages away a run with errors.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

mod cases;
mod configs;
mod h2spec;
mod idle;
mod load;
mod peers;
mod report;
mod rounds;

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use bench::peers::Kind;
use clap::Parser;

use crate::cases::{CASES, Case};
use crate::peers::Ground;
use crate::rounds::Effort;

/// Compares gateways: CPU per request, throughput, latency, memory
#[derive(Parser)]
#[command(
    after_help = "Example: bench-peers --quick --only h1-1k-c100,tls-350b --peers tidegate,nginx"
)]
struct Arguments {
    /// Two short rounds: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Cases to run, by name or the start of it; all when absent
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Peers to run, beside the bare backend; those installed when absent
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Rounds in each case
    #[arg(long)]
    rounds: Option<usize>,
    /// Whole seconds of each measured run
    #[arg(long)]
    seconds: Option<u64>,
    /// The Tidegate to measure; the one built beside this program when absent
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Another build of Tidegate to measure in turn with it, such as that of the commit before; no case may be 3 % dearer
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Instead of loads: h2spec on each peer, and what only Tidegate fails
    #[arg(long)]
    h2spec: bool,
    /// Names the cases and ends
    #[arg(long)]
    list: bool,
    /// Ends with exit code 1 when a target is not met
    #[arg(long)]
    strict: bool,
}

/// Progress messages.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::say_line(format_args!($($words)*)) };
}

fn say_line(line: std::fmt::Arguments<'_>) {
    // Nobody misses progress messages that cannot be written.
    writeln!(io::stderr(), "{line}").unwrap_or_default();
}

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            say!("bench-peers: {error}");
            ExitCode::from(if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 })
        }
    }
}

fn compare(arguments: &Arguments) -> io::Result<ExitCode> {
    let cases = chosen_cases(&arguments.only)?;
    if arguments.list {
        for case in CASES {
            writeln!(io::stdout(), "{:<13} {}", case.name, case.title)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    bench::process::watch_signals()?;
    let folder = tempfile::tempdir()?;
    let mut ground =
        Ground::prepare(folder.path(), arguments.tidegate.clone(), arguments.before.clone())?;
    let kinds = chosen_peers(&ground, &arguments.peers)?;
    if arguments.h2spec {
        let as_good = h2spec::compare(&ground, &kinds)?;
        return Ok(if as_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let effort = effort(arguments);
    introduce(&ground, &kinds, cases.len(), effort);
    let mut outcomes = Vec::new();
    for case in cases {
        outcomes.push(rounds::measure(&mut ground, case, &kinds, effort)?);
    }
    let when = now()?;
    writeln!(io::stdout(), "\n{}", report::markdown(&when, effort, &outcomes))?;
    let (table, figures) = report::save(&results_folder(), &when, effort, &outcomes)?;
    say!("written: {} and {}", table.display(), figures.display());
    let failed = arguments.strict && !report::all_met(&outcomes);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen_cases(only: &[String]) -> io::Result<Vec<&'static Case>> {
    for name in only {
        if !CASES.iter().any(|case| case.name.starts_with(name.as_str())) {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            let complaint = format!("no case is called `{name}`; there are {}", names.join(", "));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, complaint));
        }
    }
    let chosen = |case: &&Case| {
        only.is_empty() || only.iter().any(|name| case.name.starts_with(name.as_str()))
    };
    Ok(CASES.iter().filter(chosen).collect())
}

/// A requested peer has to be installed; others may be missing.
fn chosen_peers(ground: &Ground, asked: &[Kind]) -> io::Result<Vec<Kind>> {
    let mut kinds = vec![Kind::Floor];
    for kind in Kind::ALL {
        let wanted = asked.is_empty() || asked.contains(&kind) || kind == Kind::Before;
        match ground.programs.find(kind) {
            _ if !wanted || kinds.contains(&kind) => {}
            Some(_) => kinds.push(kind),
            None if kind == Kind::Before => {}
            None if asked.is_empty() => say!("{} is not installed, left out", kind.name()),
            None => {
                let complaint = format!("{} is not installed; bench/setup.sh does it", kind.name());
                return Err(io::Error::new(io::ErrorKind::NotFound, complaint));
            }
        }
    }
    Ok(kinds)
}

fn effort(arguments: &Arguments) -> Effort {
    let (rounds, seconds) = if arguments.quick { (2, 1) } else { (15, 1) };
    Effort {
        rounds: arguments.rounds.unwrap_or(rounds).max(1),
        time: Duration::from_secs(arguments.seconds.unwrap_or(seconds).max(1)),
    }
}

fn introduce(ground: &Ground, kinds: &[Kind], cases: usize, effort: Effort) {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let cores = ground.cores;
    say!("{cases} cases, {} rounds of {:?} each: {}", effort.rounds, effort.time, names.join(", "));
    say!("gateway on core {}, load on {}, backend on {}", cores.gateway, cores.load, cores.backend);
    if cores.gateway == cores.load {
        say!("this machine has one core: the figures compare, but nothing is saturated");
    }
}

/// The time in ISO 8601, from the program that knows the calendar.
fn now() -> io::Result<String> {
    let said = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output()?.stdout;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// `target/bench`, below the folder that this program was built in.
fn results_folder() -> PathBuf {
    let ours = env::current_exe().unwrap_or_default();
    let target = ours.parent().and_then(|profile| profile.parent());
    target.map_or_else(|| PathBuf::from("target"), PathBuf::from).join("bench")
}
