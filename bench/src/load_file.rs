//! A scenario's load as a file, for other load tools, and our own generator run from the same file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::generator::{self, Control, Load, Part, Work};
use crate::scenarios::{self, Overrides, RowLoad};

/// The subcommands of `tidegate-bench load`.
#[derive(Subcommand)]
pub enum LoadFile {
    /// Print the load of a scenario of requests as JSON
    Write(Write),
    /// Run our generator from such a file, and print its figures as JSON
    Run {
        /// From `load write`
        file: PathBuf,
    },
}

/// The load to write.
#[derive(Args)]
pub struct Write {
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

impl LoadFile {
    /// Runs the command, and returns the text to print.
    ///
    /// # Errors
    ///
    /// If the scenario or the file does not exist, or the load cannot run.
    pub fn run(&self) -> Result<String, String> {
        match self {
            LoadFile::Write(arguments) => write(arguments),
            LoadFile::Run { file } => run(file),
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
    if scenario.tokens() > 0 {
        return Err(format!("{name} needs many tokens, which only a run makes"));
    }
    let run = RowLoad {
        address,
        threads: 1,
        token: arguments.token.clone(),
        tokens: Arc::default(),
        callback: address.ip(),
    };
    let mut load = row.load(&run)?;
    let Work::Requests(requests) = &mut load.work else {
        return Err(format!("{name} opens streams; a file has requests"));
    };
    let mut templates = requests.groups.iter().flat_map(|group| &group.requests);
    let is_spaces = |part: &Part| matches!(part, Part::Spaces(_));
    if templates.any(|template| template.body.parts.iter().any(is_spaces)) {
        return Err(format!("{name} varies white space, which other load tools do not"));
    }
    // All users begin at once, because other tools have different ramps, and the warm-up does not count.
    for group in &mut requests.groups {
        group.think = Duration::from_millis(arguments.think);
        for stage in &mut group.stages {
            stage.over = Duration::ZERO;
        }
    }
    serde_json::to_string_pretty(&load).map_err(|error| error.to_string())
}

fn run(file: &Path) -> Result<String, String> {
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
