//! The arguments of `run`, and the rows that they select.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use regex::Regex;

use super::cores::CoreLists;
use crate::peers::PeerKind;
use crate::scenarios::{self, Overrides, Row, Scenario};

/// What `run` runs, and how.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Scenarios, documents (000 to 004, costs), names of their files (costs-flows) or scenario files; all documents when absent
    pub what: Vec<String>,
    /// Seconds for each row: -d 5 -w 1 -p 0
    #[arg(long)]
    pub quick: bool,
    /// The folder of results
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub out: PathBuf,
    /// Go on with an interrupted run: rows that are finished stay
    #[arg(long)]
    pub resume: bool,
    /// Other gateways to measure, in turn with ours
    #[arg(long, value_delimiter = ',')]
    pub peers: Vec<PeerKind>,
    /// How often each row runs; gateways take turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// The Tidegate to start; the one beside this program when absent
    #[arg(long, value_name = "PATH")]
    pub tidegate: Option<PathBuf>,
    /// Another build of Tidegate, which takes turns with the first as the gateway `before`
    #[arg(long, value_name = "PROGRAM")]
    pub before: Option<PathBuf>,
    /// Exit code 1 if a row costs over 3 % more than with `--before`, misses a target or has an error
    #[arg(long)]
    pub strict: bool,
    /// Another Tidegate that takes turns with the first, and the folder of its results, for `compare`
    #[arg(long, value_name = "DIR=PATH", value_parser = beside)]
    pub beside: Vec<(PathBuf, PathBuf)>,
    /// A backend that runs already, as http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub backend: Option<String>,
    /// Cores as GATEWAY/LOAD/BACKEND, such as 0/1/1
    #[arg(long, value_name = "SPEC")]
    pub cpus: Option<CoreLists>,
    /// Write results.jtl, a line for each sample
    #[arg(long)]
    pub jtl: bool,
    /// The memory of the gateway, such as 2G
    #[arg(short = 'm', long = "heap", value_parser = heap, default_value = "2G")]
    pub heaps: Vec<String>,
    /// Users or connections, instead of the documents'
    #[arg(short = 'u', long = "users", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub users: Vec<u32>,
    /// Sizes of messages in bytes, instead of the documents'
    #[arg(short = 'b', long = "size", value_parser = bytes)]
    pub sizes: Vec<u32>,
    /// Delays of the backend in milliseconds, instead of the documents'
    #[arg(short = 's', long = "delay", value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub delays: Vec<u64>,
    /// Seconds of a row with its warm-up
    #[arg(short = 'd', long = "duration", value_parser = clap::value_parser!(u64).range(1..=2_678_400))]
    pub duration: Option<u64>,
    /// Seconds of the warm-up
    #[arg(short = 'w', long = "warm-up")]
    pub warm_up: Option<u64>,
    /// Seconds between rows (60; 0 between those of `costs`)
    #[arg(short = 'p', long = "pause")]
    pub pause: Option<u64>,
    /// Only scenarios whose name has this regular expression in it
    #[arg(short = 'i', long = "include", value_name = "REGEX")]
    pub include: Vec<Regex>,
    /// No scenarios whose name has this in it; goes before -i
    #[arg(short = 'e', long = "exclude", value_name = "REGEX")]
    pub exclude: Vec<Regex>,
    /// Agents (`tidegate-bench agent`) that share the users; port 7000 if none is named
    #[arg(long, value_delimiter = ',', value_name = "HOST")]
    pub load_servers: Vec<String>,
    /// The number of load servers: the first N of --load-servers, or N generators on this machine
    #[arg(short = 'n', long = "servers", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub servers: Option<u32>,
    /// The part of the rows that this machine runs, as 1/2; `report --with` reads the parts together
    #[arg(long, value_name = "K/N", value_parser = stack)]
    pub stack: Option<(usize, usize)>,
    /// Print how long it takes, and nothing else
    #[arg(short = 't', long = "estimate")]
    pub estimate: bool,
}

/// Estimated time to start and stop the processes of a row.
const START: Duration = Duration::from_secs(1);
const START_JAVA: Duration = Duration::from_secs(8);
const START_PEER_JAVA: Duration = Duration::from_secs(3);
/// Estimated additional time of a row of event streams, whose gateway is sampled before and after the load.
const SETTLE: Duration = Duration::from_secs(8);

impl RunOptions {
    /// Returns the pause before a row.
    #[must_use]
    pub fn pause(&self, row: &Row) -> Duration {
        let is_short = self.quick || row.scenario.is_cost();
        Duration::from_secs(self.pause.unwrap_or(if is_short { 0 } else { 60 }))
    }

    /// Returns how many gateways take turns.
    #[must_use]
    pub fn gateways(&self) -> usize {
        1 + usize::from(self.before.is_some()) + self.beside.len() + self.peers.len()
    }

    /// Returns the number of generators among which the users are divided.
    #[must_use]
    pub fn server_count(&self) -> u32 {
        let named = u32::try_from(self.load_servers.len()).unwrap_or(u32::MAX);
        self.servers.unwrap_or(named.max(1))
    }

    /// Returns what replaces the parameters of the documents.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        let quick = |seconds: u64| self.quick.then_some(seconds);
        Overrides {
            users: self.users.clone(),
            sizes: self.sizes.clone(),
            delays: self.delays.clone(),
            duration: self.duration.or(quick(5)).map(Duration::from_secs),
            warm_up: self.warm_up.or(quick(1)).map(Duration::from_secs),
        }
    }

    /// Returns all rows, in the order in which they run.
    ///
    /// # Errors
    ///
    /// If an argument names something that does not exist, or if parameters contradict each other.
    pub fn rows(&self) -> Result<Vec<Row>> {
        let overrides = self.overrides();
        let servers = self.server_count();
        if !self.load_servers.is_empty() && servers as usize > self.load_servers.len() {
            bail!("-n {servers}: --load-servers names only {}", self.load_servers.len());
        }
        if self.jtl && (servers > 1 || !self.load_servers.is_empty()) {
            bail!("--jtl: load servers send no samples one by one; run it without them");
        }
        let mut rows = Vec::new();
        for scenario in self.scenarios()? {
            let name = &scenario.name;
            let is = |regex: &Regex| regex.is_match(name);
            let included = self.include.is_empty() || self.include.iter().any(is);
            if included && !self.exclude.iter().any(is) {
                rows.extend(Arc::new(scenario).rows(&overrides));
            }
        }
        if let Some((part, of)) = self.stack {
            let mut number = 0..;
            rows.retain(|_| number.next().is_some_and(|number: usize| number % of == part - 1));
        }
        if rows.is_empty() {
            bail!("no scenario is left; `tidegate-bench list` names them");
        }
        for row in &rows {
            let name = &row.folder;
            if row.warm_up >= row.duration {
                bail!("{name}: the warm-up must be less than the duration");
            }
            let is_shared = row.scenario.own.websub.is_none();
            if is_shared && !row.users.is_multiple_of(servers) {
                bail!("{name}: {} users do not divide by {servers} load servers", row.users);
            }
        }
        Ok(rows)
    }

    fn scenarios(&self) -> Result<Vec<Scenario>> {
        let all = scenarios::all().map_err(|report| anyhow::anyhow!("{report:#}"))?;
        if self.what.is_empty() {
            return Ok(all.into_iter().filter(|one| !one.is_cost()).collect());
        }
        let mut chosen: Vec<Scenario> = Vec::new();
        for what in &self.what {
            let is = |one: &&Scenario| {
                one.name == *what
                    || one.document() == what
                    || one.file.file_stem().is_some_and(|stem| stem == what.as_str())
            };
            let of = all.iter().filter(is);
            let mut found: Vec<Scenario> = of.cloned().collect();
            if found.is_empty() && (what.contains(['/', '.']) || Path::new(what).is_file()) {
                let text = std::fs::read_to_string(what).with_context(|| what.clone())?;
                found = scenarios::parse(&text, Path::new(what))
                    .map_err(|report| anyhow::anyhow!("{report:#}"))?;
            }
            if found.is_empty() {
                bail!(
                    "`{what}` is not a scenario, a document or a file; `tidegate-bench list` names them"
                );
            }
            for one in found {
                if !chosen.iter().any(|other| other.name == one.name) {
                    chosen.push(one);
                }
            }
        }
        Ok(chosen)
    }

    /// Returns the estimated time of a row, for all gateways and rounds.
    #[must_use]
    pub fn time_of(&self, row: &Row) -> Duration {
        let settle = if row.scenario.settles() { SETTLE } else { Duration::ZERO };
        let each = row.duration + self.pause(row) + settle;
        let ours = u32::try_from(self.gateways() - self.peers.len()).unwrap_or(u32::MAX);
        let start = if row.scenario.own.java { START_JAVA } else { START };
        let able = self.peers.iter().filter(|peer| super::work::can_do(**peer, &row.scenario));
        let peers: Duration =
            able.map(|peer| each + if peer.is_jvm() { START_PEER_JAVA } else { START }).sum();
        ((each + start) * ours + peers) * self.rounds * u32::try_from(self.heaps.len()).unwrap_or(1)
    }

    /// Returns the address of the backend that is already running, if one is given.
    ///
    /// # Errors
    ///
    /// If `--backend` is not a URL with an address.
    pub fn backend_address(&self) -> Result<Option<SocketAddr>> {
        let Some(url) = &self.backend else { return Ok(None) };
        let rest = url.strip_prefix("http://").context("--backend must begin with http://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        let mut found = authority.to_socket_addrs().with_context(|| format!("--backend {url}"))?;
        Ok(Some(found.next().with_context(|| format!("--backend {url} has no address"))?))
    }
}

/// Parses a part from 1/N to N/N.
fn stack(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    let good = parts.filter(|(part, of): &(usize, usize)| (1..=*of).contains(part));
    good.ok_or_else(|| "write K/N, such as 1/2".to_owned())
}

fn beside(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (folder, program) = text.split_once('=').ok_or("write DIR=PATH")?;
    if folder.is_empty() || program.is_empty() {
        Err("write DIR=PATH".to_owned())
    } else {
        Ok((PathBuf::from(folder), PathBuf::from(program)))
    }
}

fn heap(text: &str) -> Result<String, String> {
    let amount = text.strip_suffix(['G', 'M']).and_then(|amount| amount.parse::<u32>().ok());
    amount
        .filter(|amount| *amount > 0)
        .map(|_| text.to_owned())
        .ok_or_else(|| "write 512M or 2G".to_owned())
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().map_or_else(|| backends::amount::parse_bytes(text), Ok)?;
    u32::try_from(bytes).map_err(|_| "at most 4294967295 bytes".to_owned())
}
