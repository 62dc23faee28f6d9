//! A scenario's load as a file, for other load tools, and our own generator run from the same file.

// A command line program prints its results.
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bench::generator::{self, Control, Load, Work};
use bench::scenarios::{self, Overrides, RowLoad};
use clap::{Args, Parser, Subcommand};

/// A scenario's load as a file for k6 and JMeter
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Print the load of a scenario of requests as JSON
    Write(Write),
    /// Run our generator from such a file, and print its figures as JSON
    Run { file: PathBuf },
}

#[derive(Args)]
struct Write {
    scenario: String,
    /// The gateway
    #[arg(long)]
    address: SocketAddr,
    #[arg(long, default_value_t = 20)]
    users: u32,
    /// The pause of a user between a reply and the next request, in ms
    #[arg(long, default_value_t = 100)]
    think: u64,
    /// Seconds, with the warm-up
    #[arg(long, default_value_t = 15)]
    duration: u64,
    /// Seconds that do not count
    #[arg(long, default_value_t = 5)]
    warm_up: u64,
    #[arg(long, default_value = "")]
    token: String,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().act {
        Act::Write(write) => self::write(&write),
        Act::Run { file } => run(&file),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

fn write(arguments: &Write) -> Result<String, String> {
    let all = scenarios::all().map_err(|report| format!("{report:?}"))?;
    let name = &arguments.scenario;
    let found = all.into_iter().find(|scenario| scenario.name == *name);
    let scenario = Arc::new(found.ok_or_else(|| format!("no scenario {name}"))?);
    let overrides = Overrides {
        users: vec![arguments.users],
        sizes: Vec::new(),
        delays: Vec::new(),
        duration: Some(Duration::from_secs(arguments.duration)),
        warm_up: Some(Duration::from_secs(arguments.warm_up)),
    };
    let row = scenario.rows(&overrides).into_iter().next().ok_or("the scenario has no rows")?;
    let address = arguments.address;
    let run =
        RowLoad { address, threads: 1, token: arguments.token.clone(), callback: address.ip() };
    let mut load = row.load(&run)?;
    let Work::Requests(requests) = &mut load.work else {
        return Err(format!("{name} opens streams; a file has requests"));
    };
    // All at once: the tools have no ramp in common, and the warm-up does not count.
    for group in &mut requests.groups {
        group.think = Duration::from_millis(arguments.think);
        for stage in &mut group.stages {
            stage.over = Duration::ZERO;
        }
    }
    serde_json::to_string_pretty(&load).map_err(|error| error.to_string())
}

fn run(file: &PathBuf) -> Result<String, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let load: Load = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let measured = generator::run(&load, &Control::default(), None)?.measured();
    let seconds = load.duration.saturating_sub(load.warm_up).as_secs_f64();
    let samples = u32::try_from(measured.latencies.len()).map_err(|error| error.to_string())?;
    let figures = serde_json::json!({
        "samples": samples,
        "errors": measured.error_count(),
        "throughput": f64::from(samples) / seconds,
        "mean_ms": measured.latencies.mean().map(|mean| mean.as_secs_f64() * 1000.0),
    });
    Ok(figures.to_string())
}
