//! `bench-load list`, `run SCENARIO...`, `merge FILE...`, `summary FILE...`: load tests with users, ramps and a warm-up that is
//! cut off, from one generator or several, and their tables.
//!
//! Starts the parts of a scenario, the backend in this process and Tidegate beside it, or loads the given URL.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use backends::amount::parse_duration;
use backends::{Backend, Options, spawn_thread};
use bench::load;
use bench::results::Results;
use bench::samples;
use bench::scenario::Scenario;
use bench::table;
use clap::{Parser, Subcommand};

/// Runs load tests
#[derive(Parser)]
#[command(after_help = "\
Examples:
  bench-load run plain-echo --scale 0.2
  bench-load run plain-echo --url http://gateway:8080 --part 1/2 --results here     on one machine, and
  bench-load run plain-echo --url http://gateway:8080 --part 2/2 --results here     on another, at the same time
  bench-load merge here/plain-echo-1of2.json here/plain-echo-2of2.json --into plain-echo.json
  bench-load summary plain-echo.json other.json
  bench-load summary results.jtl --warm-up 300s --users 100                         JMeter's log")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Names the scenarios
    List,
    /// Runs scenarios one after the other; exit code 1 on errors or figures that cannot be believed
    Run {
        /// By name; `list` lists them
        #[arg(required = true)]
        scenarios: Vec<String>,
        /// The URL to load instead of a gateway started for it, as http://127.0.0.1:8080
        #[arg(long)]
        url: Option<String>,
        /// The Tidegate to start; the one built beside this program when absent
        #[arg(long, value_name = "FILE")]
        tidegate: Option<PathBuf>,
        /// Stretches every duration, as 0.2 for a quick look
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// A reply that takes longer is an error
        #[arg(long, value_parser = parse_duration, default_value = "20s")]
        wait_max: Duration,
        /// A share of the users, as 1/2 for the first of two generators
        #[arg(long, value_parser = part, default_value = "1/1")]
        part: (u32, u32),
        /// A folder for a file of each scenario's results
        #[arg(long, value_name = "FOLDER")]
        results: Option<PathBuf>,
    },
    /// Puts together what several generators measured at the same time
    Merge {
        /// Written by run --results
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        into: PathBuf,
    },
    /// Prints results as the table of load-test documents; exit code 1 on errors or figures that cannot be believed
    Summary {
        /// Written by run --results or merge, or JMeter's log of samples (.jtl, .csv)
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Of JMeter's log: what is cut off from its start
        #[arg(long, value_parser = parse_duration, default_value = "300s")]
        warm_up: Duration,
        /// Of JMeter's log: how many users there were
        #[arg(long, default_value_t = 100.0)]
        users: f64,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::List => list(),
        Verb::Run { scenarios, url, tidegate, scale, wait_max, part, results } => {
            let how = How { url, tidegate, scale, wait_max, part, results };
            scenarios.iter().try_fold(true, |good, name| Ok(run(name, &how)? && good))
        }
        Verb::Merge { files, into } => merge(&files, &into),
        Verb::Summary { files, warm_up, users } => summary(&files, warm_up, users),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If this fails too, there is nobody left to tell.
            writeln!(io::stderr(), "bench-load: {error}").unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

fn list() -> io::Result<bool> {
    for scenario in Scenario::all() {
        writeln!(
            io::stdout(),
            "{:<16} {:>5.0?}  {}",
            scenario.name,
            scenario.length(),
            scenario.title
        )?;
    }
    Ok(true)
}

/// The options of a run.
struct How {
    url: Option<String>,
    tidegate: Option<PathBuf>,
    scale: f64,
    wait_max: Duration,
    part: (u32, u32),
    results: Option<PathBuf>,
}

fn part(text: &str) -> Result<(u32, u32), String> {
    let (part, all) = text.split_once('/').ok_or("write it as 1/2")?;
    let number = |text: &str| text.parse().map_err(|_| "write it as 1/2".to_owned());
    Ok((number(part)?, number(all)?))
}

fn run(name: &str, how: &How) -> io::Result<bool> {
    let (part, all) = how.part;
    let mut scenario = Scenario::find(name)
        .ok_or_else(|| io::Error::other(format!("no scenario is called `{name}`; see list")))?
        .scaled(how.scale)
        .part(part, all)
        .map_err(io::Error::other)?;
    scenario.wait_max = how.wait_max;
    writeln!(io::stderr(), "{name}: {:?}, {}", scenario.length(), scenario.title)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let results = match &how.url {
        Some(url) => runtime.block_on(load::run(&scenario, url))?,
        None => {
            let started = Started::new(&scenario, how.tidegate.as_deref())?;
            runtime.block_on(load::run(&scenario, &started.url))?
        }
    };
    if let Some(folder) = &how.results {
        let share = if all == 1 { String::new() } else { format!("-{part}of{all}") };
        fs::create_dir_all(folder)?;
        write_results(&folder.join(format!("{name}{share}.json")), &results)?;
    }
    let report = results.report();
    write!(io::stdout(), "{report}")?;
    Ok(report.errors == 0 && report.is_believable())
}

fn merge(files: &[PathBuf], into: &Path) -> io::Result<bool> {
    let parts: Vec<Results> =
        files.iter().map(|file| read_results(file)).collect::<Result<_, _>>()?;
    let merged = Results::merge(&parts).map_err(io::Error::other)?;
    write_results(into, &merged)?;
    write!(io::stdout(), "{}", merged.report())?;
    Ok(true)
}

fn summary(files: &[PathBuf], warm_up: Duration, users: f64) -> io::Result<bool> {
    let mut results = Vec::new();
    for file in files {
        let log = file.extension().is_some_and(|end| end == "jtl" || end == "csv");
        if !log {
            results.push(read_results(file)?);
            continue;
        }
        let read = samples::read(io::BufReader::new(open(file)?), warm_up, users)?;
        if read.unreadable > 0 {
            writeln!(io::stderr(), "{}: {} lines are no samples", file.display(), read.unreadable)?;
        }
        results.extend(read.results);
    }
    let doubts = table::doubts(&results);
    write!(io::stdout(), "{}", table::rows(&results))?;
    write!(io::stderr(), "{doubts}")?;
    Ok(doubts.is_empty() && results.iter().all(|one| one.report().errors == 0))
}

fn open(file: &Path) -> io::Result<fs::File> {
    fs::File::open(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

fn read_results(file: &Path) -> io::Result<Results> {
    let wrong = |why: String| io::Error::other(format!("{}: {why}", file.display()));
    let text = io::read_to_string(open(file)?)?;
    let value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Results::from_json(&value).map_err(wrong)
}

fn write_results(file: &Path, results: &Results) -> io::Result<()> {
    fs::write(file, format!("{}\n", results.to_json()))
}

/// A gateway with its backend; dropping it stops both.
struct Started {
    url: String,
    gateway: Child,
    _backend: Backend,
    _folder: tempfile::TempDir,
}

impl Started {
    fn new(scenario: &Scenario, tidegate: Option<&Path>) -> io::Result<Self> {
        let program = match tidegate {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()?.with_file_name("tidegate"),
        };
        let backend = spawn_thread(scenario.backend, Options::default())?;
        let (listen, admin) = (free_address()?, free_address()?);
        let configuration = scenario
            .gateway
            .replace("LISTEN", &listen.to_string())
            .replace("ADMIN", &admin.to_string())
            .replace("BACKEND", &backend.address().to_string());
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tidegate.yaml");
        fs::write(&file, configuration)?;
        let mut command = Command::new(&program);
        command.arg("run").arg(file).stdin(Stdio::null()).stdout(Stdio::null());
        let gateway = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        let url = format!("http://{listen}");
        let mut started = Self { url, gateway, _backend: backend, _folder: folder };
        started.wait_until_ready(listen)?;
        Ok(started)
    }

    /// At most ten seconds, a hundred times the usual time.
    fn wait_until_ready(&mut self, listen: SocketAddr) -> io::Result<()> {
        for _ in 0..1000 {
            if let Some(status) = self.gateway.try_wait()? {
                return Err(io::Error::other(format!("the gateway ended at start: {status}")));
            }
            if TcpStream::connect(listen).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.gateway.kill());
        drop(self.gateway.wait());
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
