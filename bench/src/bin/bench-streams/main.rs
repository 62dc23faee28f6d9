//! `bench-streams`: live streams through Tidegate, beside nginx, HAProxy and Envoy, at the same rates, and the CPU time of each.
//!
//! Owns the comparison from start to table. A scenario has a rig, which is its clients and its backend at once, and so knows of
//! everything that was sent whether it came. The rig is first put to itself at twice the rate: a rig that cannot hold that would be
//! what is measured.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

mod apart;
mod calls;
mod configs;
mod highest;
mod peers;
mod ramp;
mod report;
mod rig;
mod rounds;
mod rows;
mod scenario;
mod seconds;
mod send_loop;
mod sse;
mod websocket;

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench::peers::{self as gateways, Kind, Programs};
use bench::process::{self, Cores};
use clap::Parser;

use crate::peers::Ground;
use crate::rounds::Effort;
use crate::scenario::{SCENARIOS, Scenario};

/// Compares gateways by what a message of a stream costs
#[derive(Parser)]
#[command(after_help = "Example: bench-streams --only sse --peers tidegate,nginx --rounds 3")]
struct Arguments {
    /// Scenarios to run, by name; all when absent
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Peers to run; those installed when absent
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Rounds in each scenario
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Whole seconds of each measured run
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// The rate: that of each scenario, or the highest that Tidegate holds without loss, which is searched for each gateway
    #[arg(long, value_enum, default_value_t = Rate::Scenario)]
    rate: Rate,
    /// Instead of rounds: the error at rising rates, with CPU and memory each second
    #[arg(long)]
    ramp: bool,
    /// The Tidegate to measure; the one built beside this program when absent
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Another build of Tidegate to measure in turn with it, such as that of the commit before
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Ends with exit code 1 when a target is not met
    #[arg(long)]
    strict: bool,
    /// Is the rig of a scenario, for another of this program
    #[arg(long, hide = true, value_name = "SCENARIO")]
    rig: Option<String>,
    /// Is the loop of `send()` on this port, for this backend
    #[arg(long = "loop", hide = true, value_delimiter = ',')]
    send_loop: Vec<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rate {
    Scenario,
    Max,
}

/// The name for `--only` of what has no peers: the reference's rows.
const ROWS: &str = "rows";

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
            say!("bench-streams: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> io::Result<ExitCode> {
    if let Some(name) = &arguments.rig {
        apart::serve(name)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [port, backend] = *arguments.send_loop {
        send_loop::serve(port, backend)?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = chosen(&arguments.only)?;
    process::watch_signals()?;
    let cores = Cores::choose();
    let folder = tempfile::tempdir()?;
    let programs = Programs {
        tidegate: arguments.tidegate.clone(),
        before: arguments.before.clone(),
        floor: env::current_exe()?,
    };
    let (folder, user) = (folder.path().to_owned(), gateways::user()?);
    let ground = Ground { folder, programs, cores, user };
    let seconds = arguments.seconds.max(1);
    let at_highest = arguments.rate == Rate::Max;
    let (rounds, time) = (arguments.rounds.max(1), Duration::from_secs(seconds));
    let effort = Effort { rounds, time, at_highest };
    let mut all_met = true;
    for scenario in scenarios.into_iter().filter(|s| !arguments.ramp || s.rate.is_finite()) {
        say!("\n{}: {}", scenario.name, scenario.title);
        let mut open = rounds::open(&ground, scenario, &arguments.peers)?;
        if arguments.ramp {
            let steps = ramp::measure(scenario, &mut open, seconds)?;
            writeln!(io::stdout(), "\n{}", ramp::markdown(scenario, &ground, &steps))?;
            continue;
        }
        let outcome = rounds::measure(&ground, scenario, &mut open, effort)?;
        writeln!(io::stdout(), "\n{}", report::markdown(scenario, &outcome))?;
        all_met &= report::is_met(scenario, &outcome);
    }
    let has_rows = !arguments.ramp;
    if has_rows && arguments.only.is_empty() || arguments.only.iter().any(|name| name == ROWS) {
        let rows = rows::measure(&ground, seconds)?;
        writeln!(io::stdout(), "\n{}", rows::markdown(&rows))?;
        all_met &= rows.iter().all(rows::Row::is_met);
    }
    let failed = arguments.strict && !all_met;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(only: &[String]) -> io::Result<Vec<&'static Scenario>> {
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).chain([ROWS]).collect();
    if let Some(name) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let complaint = format!("no scenario is called `{name}`; there are {}", names.join(", "));
        return Err(io::Error::other(complaint));
    }
    let is_chosen = |s: &&Scenario| only.is_empty() || only.iter().any(|name| name == s.name);
    Ok(SCENARIOS.iter().filter(is_chosen).collect())
}
