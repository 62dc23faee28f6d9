//! `tidegate-bench`: load tests of the reference documents, with other gateways in the same run.
//!
//! It installs nothing and builds nothing.

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use backends::fast::Answers;
use bench::folder;
use bench::generator;
use bench::growth::GrowthArguments;
use bench::load_file::LoadFile;
use bench::peers;
use bench::report::{CompareArguments, ReportArguments};
use bench::run::{self, RunOptions};
use bench::scenarios::{self, Overrides};
use clap::{Parser, Subcommand};

/// Load tests of Tidegate and other gateways
#[derive(Parser)]
#[command(
    name = "tidegate-bench",
    version,
    after_help = "\
Examples:
  tidegate-bench list --document 004
  tidegate-bench run plain intercepted -t                 how long it would take
  tidegate-bench run 002 --quick --out results            seconds for each row
  tidegate-bench run 004 -u 100 -b 500 -d 60 -w 30 --peers nginx,synapse
  tidegate-bench run 002 --quick --out results --resume   after an interruption
  tidegate-bench run costs-policies --rounds 5 --before OLD --strict
  tidegate-bench run 002 --load-servers 10.0.0.2,10.0.0.3 each runs `tidegate-bench agent`
  tidegate-bench report results --html report.html --png graphs
  tidegate-bench compare before after --html compared.html
  tidegate-bench agent --listen 127.0.0.1:7000"
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Name the scenarios
    List {
        /// Only those of a document: 000, 001, 002, 003 or 004; or `costs`
        #[arg(long, value_parser = ["000", "001", "002", "003", "004", "costs"])]
        document: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Print the JSON Schema of scenario files instead, for editors
        #[arg(long, conflicts_with_all = ["document", "json"])]
        schema: bool,
    },
    /// Run scenarios and write a folder of results; exit code 1 if a row ended early
    Run(Box<RunOptions>),
    /// Print the system's table, and write tables and graphs of a folder of results
    Report(ReportArguments),
    /// Print how much folders of results differ from the first, in % with a confidence interval
    Compare(CompareArguments),
    /// Send shares of loads for a run on another machine, until it is killed
    Agent {
        /// The address to listen on
        #[arg(long, value_name = "HOST:PORT")]
        listen: SocketAddr,
        /// Permit an address that other machines can reach. Anyone who can connect to it can send load to any target
        #[arg(long)]
        public: bool,
    },
    /// A scenario's load as a file for other load tools
    #[command(subcommand)]
    Load(LoadFile),
    /// Whether columns of samples grow; exit code 1 if one grows by more than it may in an hour
    Slope(GrowthArguments),
    /// Split JMeter's log of samples into warm-up and measurement, and print the statistics of both as JSON
    Jtl {
        /// `results.jtl`
        file: PathBuf,
        /// Seconds from the first sample
        #[arg(short = 'w', long, default_value_t = 0)]
        warm_up: u64,
    },
    /// Serve as Envoy's `ext_proc` until it is killed; `run` starts it
    #[command(hide = true)]
    ExtProc,
    /// Serve as a backend until it is killed; `run` starts these
    #[command(hide = true)]
    Backend {
        kind: String,
        #[arg(long, default_value = "0ms", value_parser = backends::amount::parse_duration)]
        delay: Duration,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::List { schema: true, .. } => print(&format!("{:#}", scenarios::schema())),
        Verb::List { document, json, .. } => list(document.as_deref(), json),
        Verb::Run(options) => run::run(&options),
        Verb::Report(report) => report.run().and_then(|printed| print(printed.trim_end())),
        Verb::Compare(compare) => compare.run().and_then(|printed| print(printed.trim_end())),
        Verb::Jtl { file, warm_up } => jtl(&file, Duration::from_secs(warm_up)),
        Verb::Agent { listen, public } => agent(listen, public),
        Verb::Load(file) => file.run().map_err(anyhow::Error::msg).and_then(|text| print(&text)),
        Verb::Slope(growth) => slope(&growth),
        Verb::ExtProc => ext_proc(),
        Verb::Backend { kind, delay } => serve(&kind, delay),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Harmless: if standard error is closed, the error cannot be reported.
            drop(writeln!(io::stderr(), "tidegate-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    writeln!(io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn slope(growth: &GrowthArguments) -> anyhow::Result<ExitCode> {
    let (told, is_steady) = growth.run().map_err(anyhow::Error::msg)?;
    print(told.trim_end())?;
    Ok(if is_steady { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(document: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let all = scenarios::all().map_err(|report| anyhow::anyhow!("{report:#}"))?;
    let chosen = all.into_iter().filter(|one| document.is_none_or(|of| one.document() == of));
    let chosen: Vec<_> = chosen.map(std::sync::Arc::new).collect();
    if json {
        let members = chosen.iter().map(|one| {
            serde_json::json!({
                "name": one.name,
                "document": one.document(),
                "rows": one.rows(&Overrides::default()).len(),
                "file": one.file,
                "description": one.own.description,
            })
        });
        return print(&format!("{:#}", serde_json::Value::Array(members.collect())));
    }
    let width = chosen.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut output = io::stdout().lock();
    for one in &chosen {
        let (name, rows) = (&one.name, one.rows(&Overrides::default()).len());
        writeln!(output, "{name:width$} {} {rows:>2} {}", one.document(), one.own.description)?;
    }
    let mut files = std::collections::BTreeSet::new();
    for one in &chosen {
        if files.insert(one.file.clone()) {
            for (name, why) in one.shared.missing.iter() {
                writeln!(output, "{:width$} {}  - {why}", name.value, one.document())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn jtl(file: &Path, warm_up: Duration) -> anyhow::Result<ExitCode> {
    let told = || file.display().to_string();
    let log = BufReader::new(File::open(file).with_context(told)?);
    let read = folder::jtl::read(log, warm_up).with_context(told)?;
    if read.unreadable > 0 {
        writeln!(io::stderr(), "tidegate-bench: {} lines are not samples", read.unreadable)?;
    }
    let both = serde_json::json!({
        "warmup": serde_json::to_value(&read.warm_up)?,
        "measurement": serde_json::to_value(&read.measurement)?,
    });
    print(&format!("{both:#}"))
}

fn agent(listen: SocketAddr, is_public: bool) -> anyhow::Result<ExitCode> {
    let say = |line: &str| {
        // The agent serves even if its standard output is closed.
        drop(writeln!(io::stdout(), "{line}"));
    };
    generator::serve_agent(
        listen,
        is_public,
        |address| say(&format!("listening on {address}")),
        say,
    )
    .map_err(anyhow::Error::msg)?;
    Ok(ExitCode::SUCCESS)
}

fn ext_proc() -> anyhow::Result<ExitCode> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    peers::ext_proc::serve(address, |address| {
        // If standard output is closed, nobody reads the address.
        drop(writeln!(io::stdout(), "{address}"));
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The calculator's answer to 5 + 7.
const SUM: &str = r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"><soap:Body><AddResponse xmlns="http://tempuri.org/"><AddResult>12</AddResult></AddResponse></soap:Body></soap:Envelope>"#;

/// Serves a backend with the least work: fixed sums, calls, or a demo backend that answers at once. A demo backend with a delay, or one of
/// streams, is the demo's own.
fn serve(kind: &str, delay: Duration) -> anyhow::Result<ExitCode> {
    let ready = |address: SocketAddr| {
        let mut output = io::stdout();
        // If standard output is closed, nobody reads the address.
        drop(writeln!(output, "{address}").and_then(|()| output.flush()));
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    if kind == "sum" {
        backends::fast::serve(any, &Answers::Xml(SUM.into()), ready)?;
        return Ok(ExitCode::SUCCESS);
    }
    if kind == "calls" {
        bench::call_backend::serve(any, ready)?;
        return Ok(ExitCode::SUCCESS);
    }
    let kind = kind.parse().map_err(anyhow::Error::msg)?;
    if let Some(answers) = Answers::of(kind)?.filter(|_| delay.is_zero()) {
        backends::fast::serve(any, &answers, ready)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = backends::Options { delay, ..backends::Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(backends::serve(kind, options, ready, std::future::pending()))?;
    Ok(ExitCode::SUCCESS)
}
