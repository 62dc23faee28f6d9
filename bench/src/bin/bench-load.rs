//! `bench-load list`, `bench-load run SCENARIO...`: load tests with users, ramps and a warm-up that is cut off.
//!
//! Starts what a scenario needs, backend in this process and Tidegate as one beside it, or puts the load
//! on the URL given.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use bench::backend::{Backend, Options, spawn_thread};
use bench::load;
use bench::scenario::Scenario;
use clap::{Parser, Subcommand};

/// Runs load tests
#[derive(Parser)]
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
        /// What to load instead of a gateway started for it, as http://127.0.0.1:8080
        #[arg(long)]
        url: Option<String>,
        /// The Tidegate to start; the one built beside this program when absent
        #[arg(long, value_name = "FILE")]
        tidegate: Option<PathBuf>,
        /// Stretches every duration, as 0.2 for a quick look
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::List => list(),
        Verb::Run { scenarios, url, tidegate, scale } => {
            let mut good = Ok(true);
            for name in &scenarios {
                good = good.and_then(|good| {
                    Ok(run(name, url.as_deref(), tidegate.as_deref(), scale)? && good)
                });
            }
            good
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody is left to tell when this fails too.
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

fn run(
    name: &str,
    url: Option<&str>,
    tidegate: Option<&std::path::Path>,
    scale: f64,
) -> io::Result<bool> {
    let scenario = Scenario::find(name)
        .ok_or_else(|| io::Error::other(format!("no scenario is called `{name}`; see list")))?
        .scaled(scale);
    writeln!(io::stderr(), "{name}: {:?}, {}", scenario.length(), scenario.title)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = match url {
        Some(url) => runtime.block_on(load::run(&scenario, url))?,
        None => {
            let started = Started::new(&scenario, tidegate)?;
            runtime.block_on(load::run(&scenario, &started.url))?
        }
    };
    write!(io::stdout(), "{report}")?;
    Ok(report.errors == 0 && report.is_believable())
}

/// A gateway with its backend; dropping it stops both.
struct Started {
    url: String,
    gateway: Child,
    _backend: Backend,
    _folder: tempfile::TempDir,
}

impl Started {
    fn new(scenario: &Scenario, tidegate: Option<&std::path::Path>) -> io::Result<Self> {
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

    /// Ten seconds at most, which is a hundred times what it takes.
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
        // It may have ended already, which is what is wanted.
        drop(self.gateway.kill());
        drop(self.gateway.wait());
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
