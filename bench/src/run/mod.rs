//! Runs rows: starts backends and gateways, sends the loads, samples all processes, and writes the folder of results.
//!
//! A row is finished when its `row.json` exists. However the program ends, its child processes end with it, and `--resume` continues with
//! the rows that are not finished.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

mod cores;
mod machine;
mod meter;
mod options;
mod own_latency;
mod row;
mod sampler;
mod senders;
mod servers;
mod watchers;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use aws_lc_rs::digest;

pub use cores::CoreLists;
pub use options::RunOptions;
pub use work::can_do;

use crate::folder::{self, Folder, Metadata, RowKey, SystemFact, TotalDuration};
use crate::generator::Streams;
use crate::peers::PeerKind;
use crate::process::{beside_us, check_stopped, pause, watch_signals};
use crate::progress::Progress;
use crate::report::{Costs, Results};
use crate::scenarios::{Row, Scenario};
use row::{RowEnd, RowRun};
use senders::Senders;
use servers::{Ground, Starting};

/// The exit code of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// The exit code of clap.
const WRONG_USAGE: u8 = 2;

/// Runs `tidegate-bench run`.
///
/// # Errors
///
/// If it cannot start or continue.
pub fn run(options: &RunOptions) -> Result<ExitCode> {
    let rows = match options.rows() {
        Ok(rows) => rows,
        Err(error) => {
            say(&format!("{error:#}"));
            return Ok(ExitCode::from(WRONG_USAGE));
        }
    };
    write!(io::stdout(), "{}", estimate(options, &rows))?;
    if options.estimate {
        return Ok(ExitCode::SUCCESS);
    }
    let others = options.beside.iter().map(|(folder, _)| folder);
    let folders: Vec<Folder> =
        std::iter::once(&options.out).chain(others).map(Folder::new).collect();
    for folder in &folders {
        if let Some(refusal) = refusal(options, folder)? {
            say(&refusal);
            return Ok(ExitCode::from(WRONG_USAGE));
        }
    }
    watch_signals()?;
    let ran = run_rows(options, &folders, &rows);
    match ran.and_then(|good| Ok(good & told_costs(options, &rows)?)) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(_) if check_stopped().is_err() => {
            say("interrupted; the same command with --resume goes on");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
    }
}

/// Prints the costs of rows, if they were requested. Returns false if a target is missed with `--strict`.
fn told_costs(options: &RunOptions, rows: &[Row]) -> Result<bool> {
    let mut scenarios: Vec<&Scenario> = Vec::new();
    for row in rows {
        if !scenarios.iter().any(|known| known.name == row.scenario.name) {
            scenarios.push(&row.scenario);
        }
    }
    if options.before.is_none() && !options.strict && !scenarios.iter().any(|one| one.is_cost()) {
        return Ok(true);
    }
    let costs = Costs::of(&Results::read(&options.out)?, &scenarios);
    write!(io::stdout(), "\n{}", costs.markdown())?;
    Ok(!options.strict || costs.are_met())
}

/// Returns the table of the estimated time of each scenario.
fn estimate(options: &RunOptions, rows: &[Row]) -> String {
    let mut lines =
        vec![["Scenario".to_owned(), "Combination(s)".to_owned(), "Estimated Time".to_owned()]];
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.scenario.name.as_str()) {
            names.push(&row.scenario.name);
        }
    }
    let each = options.rounds as usize * options.heaps.len() * options.gateways();
    let time =
        |of: &dyn Fn(&&Row) -> bool| rows.iter().filter(of).map(|row| options.time_of(row)).sum();
    for name in names {
        let of = |row: &&Row| row.scenario.name == name;
        let count = rows.iter().filter(of).count() * each;
        lines.push([name.to_owned(), count.to_string(), told(time(&of))]);
    }
    lines.push(["Total".to_owned(), (rows.len() * each).to_string(), told(time(&|_| true))]);
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(String::len).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let line =
        |[name, count, time]: &[String; 3]| format!("{name:first$} | {count:>second$} | {time}\n");
    lines.iter().map(line).collect()
}

fn told(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds} s"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Returns the reason why the run must not begin, or `None` if it may.
fn refusal(options: &RunOptions, folder: &Folder) -> Result<Option<String>> {
    let name = folder.path.display();
    if folder.is_empty()? {
        return Ok(options.resume.then(|| format!("{name} is empty: there is nothing to resume")));
    }
    if !options.resume {
        return Ok(Some(format!(
            "{name} is not empty; name another folder by --out, or go on with --resume"
        )));
    }
    let Some(metadata) = folder.metadata()? else {
        return Ok(Some(format!(
            "{name} has no test-metadata.json, so it is not a folder of results"
        )));
    };
    let (before, now) = (parameters(&metadata.command_line), parameters(&command_line()));
    let same = before == now;
    Ok((!same).then(|| format!("{name} was run with other parameters: {}", before.join(" "))))
}

fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the arguments that determine the rows: all except the program and `--resume`.
fn parameters(command_line: &[String]) -> Vec<String> {
    command_line.iter().skip(1).filter(|word| *word != "--resume").cloned().collect()
}

/// A Tidegate program, and the folder of its results.
struct Ours<'a> {
    program: PathBuf,
    /// Its name in the folder.
    name: &'static str,
    folder: &'a Folder,
}

/// Runs the rows that are not finished. Returns true if no row failed.
fn run_rows(options: &RunOptions, folders: &[Folder], rows: &[Row]) -> Result<bool> {
    let begin = Instant::now();
    let machine = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = rows.iter().map(|row| row.scenario.shared.workers.get()).max().unwrap_or(1);
    let workers = usize::try_from(workers).unwrap_or(1);
    let cores = options.cpus.clone().unwrap_or_else(|| CoreLists::choose(machine, workers));
    pin(&cores)?;
    let logs = tempfile::tempdir()?;
    let senders = Senders::start(options, &cores, logs.path())?;
    let ground = Ground::new(cores, senders.gateway_host()?, options.backend_address()?)?;
    let ours = ours(options, folders, rows, &ground)?;
    let mut progress = Progress::new(rows.iter().map(|row| options.time_of(row)).sum());
    let (mut good, mut ran) = (true, 0);
    for round in 1..=options.rounds {
        let mut rows: VecDeque<Row> = rows.iter().cloned().collect();
        while let Some(row) = rows.pop_front() {
            let before = progress.spent();
            for turn in turns(options, &row, &ours, round) {
                let folder = turn.ours.folder;
                if !is_done(folder, &turn.key)? {
                    if ran > 0 {
                        pause(options.pause(&row))?;
                    }
                    ran += 1;
                    good &= turn.run(&ground, &senders, &mut progress)?;
                }
                if turn.key.gateway == folder::OURS
                    && let Some(smaller) = smaller(&row, folder.row(&turn.key).row()?.as_ref())
                    && !rows.iter().any(|other| is_same(other, &smaller))
                {
                    rows.push_front(smaller);
                }
            }
            progress.set(before + options.time_of(&row) / options.rounds);
        }
    }
    progress.finish();
    for folder in folders {
        let rows = folder.rows()?.len() as u64;
        let earlier = folder.duration()?.map_or(0, |earlier| earlier.total_duration);
        let written = folder.write_duration(&TotalDuration {
            test_scenarios: rows,
            total_duration: earlier + begin.elapsed().as_secs(),
        });
        match written {
            Err(error) if row::is_disk_full(&error) => {
                say(&format!("{error:#}"));
                good = false;
            }
            written => written?,
        }
    }
    Ok(good)
}

/// Returns our programs that take turns, each with its folder. Writes the parameters to the folders.
fn ours<'a>(
    options: &RunOptions,
    folders: &'a [Folder],
    rows: &[Row],
    ground: &Ground,
) -> Result<Vec<Ours<'a>>> {
    let first = options.tidegate.clone().unwrap_or_else(|| beside_us("tidegate"));
    let others = options.beside.iter().map(|(_, program)| program.clone());
    let mut ours = Vec::new();
    for (program, folder) in std::iter::once(first).chain(others).zip(folders) {
        ours.push(Ours { program, name: folder::OURS, folder });
        // The earlier build shares the folder of the first program.
        let before = options.before.clone().filter(|_| ours.len() == 1);
        ours.extend(before.map(|program| Ours { program, name: folder::BEFORE, folder }));
    }
    for Ours { program, .. } in &ours {
        if !program.is_file() {
            bail!("{} does not exist; name the program by --tidegate", program.display());
        }
    }
    for one in ours.iter().filter(|one| one.name == folder::OURS) {
        one.folder.write_metadata(&metadata(options, rows, ground, &one.program)?)?;
    }
    Ok(ours)
}

/// One run of a row, by one of our programs or by a peer.
struct Turn<'a> {
    ours: &'a Ours<'a>,
    row: &'a Row,
    key: RowKey,
    peer: Option<PeerKind>,
    jtl: bool,
}

/// Returns the runs of a row in one round: for each heap size, our gateways and the peers in turn.
fn turns<'a>(
    options: &RunOptions,
    row: &'a Row,
    ours: &'a [Ours<'a>],
    round: u32,
) -> Vec<Turn<'a>> {
    let mut turns = Vec::new();
    for heap in &options.heaps {
        // Results of peers go to the folder of the first program.
        let peers = ours.iter().take(1).cycle().zip(options.peers.iter().copied().map(Some));
        for (ours, peer) in ours.iter().map(|one| (one, None)).chain(peers) {
            let delay = i64::try_from(row.delay.as_millis()).unwrap_or(i64::MAX);
            let mut key = RowKey::ours(&row.folder, heap, row.users, row.size, delay);
            key.round = round;
            key.gateway = peer.map_or(ours.name, PeerKind::name).to_owned();
            turns.push(Turn { ours, row, key, peer, jtl: options.jtl });
        }
    }
    turns
}

impl Turn<'_> {
    /// Runs the turn. Returns true if the row did not fail.
    fn run(&self, ground: &Ground, senders: &Senders, progress: &mut Progress) -> Result<bool> {
        let Ours { program, folder, .. } = self.ours;
        let name = folder.path.join(self.key.path()).display().to_string();
        progress.begin(&name);
        let starting = self.peer.map_or(Starting::Ours(program), Starting::Peer);
        let (key, jtl) = (self.key.clone(), self.jtl);
        let run = RowRun { row: self.row, key, starting, cores: &ground.cores, jtl, senders };
        let (told, good) = match run.run(ground, folder, &mut || progress.tick())? {
            RowEnd::Done(marks) => {
                let names: Vec<&str> = marks.iter().map(|mark| mark.name()).collect();
                (names.join(", "), !marks.iter().any(|mark| mark.is_failure()))
            }
            RowEnd::Cannot => ("cannot do this".to_owned(), true),
        };
        progress.end(&name, &told);
        Ok(good)
    }
}

/// Returns the row with smaller messages that runs next if messages were lost although no connection failed, as in document 003.
fn smaller(row: &Row, ran: Option<&folder::Row>) -> Option<Row> {
    let socket = row.scenario.own.websocket.as_ref()?;
    let Some(Streams::Websocket(counts)) = ran?.streams else { return None };
    let is_lossy = counts.failed == 0 && counts.error_rate.is_some_and(|rate| rate > 0.0);
    let sizes = socket.reduce.iter().map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    let size = sizes.filter(|_| is_lossy).find(|size| *size < row.size)?;
    Some(Row { size, ..row.clone() })
}

fn is_same(one: &Row, other: &Row) -> bool {
    one.folder == other.folder
        && (one.users, one.size, one.delay) == (other.users, other.size, other.delay)
}

/// Returns true if the row need not run again: it is finished, and nothing ended it early.
fn is_done(folder: &Folder, key: &RowKey) -> Result<bool> {
    let row = folder.row(key).row()?;
    Ok(row.is_some_and(|row| !row.ended_early()))
}

/// Pins this program, which sends the load, to its cores.
fn pin(cores: &CoreLists) -> Result<()> {
    let us = std::process::id().to_string();
    let mut command = Command::new("taskset");
    command.args(["--all-tasks", "--cpu-list", "--pid", &cores.load, &us]);
    let output = command.output().context("taskset")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    anyhow::ensure!(output.status.success(), "taskset: {said}");
    Ok(())
}

fn metadata(
    options: &RunOptions,
    rows: &[Row],
    ground: &Ground,
    program: &Path,
) -> Result<Metadata> {
    let unique = |values: BTreeSet<u64>| values.into_iter().collect::<Vec<u64>>();
    let mut scenarios: Vec<folder::Scenario> = Vec::new();
    let mut metadata = Metadata::default();
    let ours = [(folder::OURS, None)];
    let before = options.before.iter().map(|_| (folder::BEFORE, Some("before")));
    let peers = options.peers.iter().map(|peer| (peer.name(), Some(peer.title())));
    let gateways: Vec<_> = ours.into_iter().chain(before).chain(peers).collect();
    for row in rows {
        for (gateway, gateway_title) in &gateways {
            let mut key = RowKey::ours(&row.folder, "2G", row.users, row.size, 0);
            (*gateway).clone_into(&mut key.gateway);
            let name = key.folder_name();
            if scenarios.iter().any(|known| known.name == name) {
                continue;
            }
            let title = &row.scenario.own.title;
            let title = gateway_title.map_or(title.clone(), |of| format!("{title} ({of})"));
            scenarios.push(folder::Scenario {
                name,
                display_name: title,
                description: row.scenario.own.description.clone(),
                jmx: format!("{}.jmx", row.scenario.name),
                use_backend: true,
            });
        }
        let text = ground.configuration(&row.scenario, "2G")?;
        metadata.configuration_hashes.insert(row.scenario.name.clone(), sha256(text.as_bytes()));
    }
    metadata.versions.insert("Tidegate".to_owned(), version(program)?);
    metadata.versions.extend(build(program)?);
    if let Some(before) = &options.before {
        metadata.versions.insert(folder::BEFORE.to_owned(), version(before)?);
    }
    for peer in &options.peers {
        let version = peer.version().unwrap_or_else(|| "not installed".to_owned());
        metadata.versions.insert(peer.name().to_owned(), version);
    }
    let longest = rows.iter().max_by_key(|row| row.duration);
    metadata.test_duration = longest.map_or(0, |row| row.duration.as_secs());
    metadata.warmup_time = longest.map_or(0, |row| row.warm_up.as_secs());
    metadata.jmeter_servers = u64::from(options.server_count());
    metadata.jmeter_client_heap_size = "N/A".to_owned();
    metadata.jmeter_server_heap_size = "N/A".to_owned();
    metadata.netty_service_heap_size = "N/A".to_owned();
    metadata.test_scenarios = scenarios;
    metadata.heap_sizes = options.heaps.clone();
    metadata.concurrent_users = unique(rows.iter().map(|row| row.users.into()).collect());
    metadata.message_sizes = unique(rows.iter().map(|row| row.size.into()).collect());
    let delay = |row: &Row| u64::try_from(row.delay.as_millis()).unwrap_or(u64::MAX);
    metadata.backend_sleep_times = unique(rows.iter().map(delay).collect());
    metadata.application_name = "Tidegate".to_owned();
    metadata.command_line = command_line();
    metadata.pause = rows.first().map_or(0, |row| options.pause(row).as_secs());
    metadata.quick = options.quick;
    metadata.cpus = ground.cores.to_string();
    metadata.system_info = system_info();
    Ok(metadata)
}

fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| program.display().to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns what identifies our program: its size and hash, and how it was built if `TIDEGATE_BUILD` tells that.
fn build(program: &Path) -> Result<BTreeMap<String, String>> {
    let bytes = std::fs::read(program).with_context(|| program.display().to_string())?;
    let facts = format!("{} bytes, SHA-256 {}", bytes.len(), sha256(&bytes));
    let mut build = BTreeMap::from([(folder::PROGRAM.to_owned(), facts)]);
    let told = std::env::var("TIDEGATE_BUILD").ok().filter(|told| !told.trim().is_empty());
    build.extend(told.map(|told| (folder::BUILD.to_owned(), told.trim().to_owned())));
    Ok(build)
}

fn sha256(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the table of the machine, with the classes of the reference.
fn system_info() -> Vec<SystemFact> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (cpus, memory, release) =
        (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
    let after = |text: &str, name: &str, mark: char| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(mark)).map(|(_, value)| value);
        value.map_or("N/A".to_owned(), |value| value.trim().trim_matches('"').to_owned())
    };
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let fact = |class: &str, subclass: &str, description: &str, value: String| SystemFact {
        class: class.to_owned(),
        subclass: subclass.to_owned(),
        description: description.to_owned(),
        value,
    };
    let product = read("/sys/class/dmi/id/product_name");
    let product = if product.trim().is_empty() { "N/A" } else { product.trim() };
    vec![
        fact("System", "Machine", "Product", product.to_owned()),
        fact("System", "Processor", "CPU(s)", cores.to_string()),
        fact("System", "Processor", "Thread(s) per core", threads_per_core(&cpus)),
        fact("System", "Processor", "Core(s) per socket", after(&cpus, "cpu cores", ':')),
        fact("System", "Processor", "Socket(s)", sockets(&cpus)),
        fact("System", "Processor", "Model name", after(&cpus, "model name", ':')),
        fact("System", "Memory", "System memory", after(&memory, "MemTotal", ':')),
        fact("System", "Storage", "Block Device", block_devices()),
        fact("Operating System", "Distribution", "Release", after(&release, "PRETTY_NAME", '=')),
        fact(
            "Operating System",
            "Distribution",
            "Kernel",
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
    ]
}

/// Returns the values of a field of `/proc/cpuinfo` for all processors.
fn column<'c>(cpus: &'c str, name: &str) -> Vec<&'c str> {
    let values = cpus.lines().filter(|line| line.starts_with(name));
    // Harmless: a line without a value has none to count.
    values.filter_map(|line| Some(line.split_once(':')?.1.trim())).collect()
}

fn threads_per_core(cpus: &str) -> String {
    let first = |name: &str| column(cpus, name).first().and_then(|text| text.parse::<u32>().ok());
    let threads = first("siblings").zip(first("cpu cores"));
    let threads = threads.and_then(|(siblings, cores)| siblings.checked_div(cores));
    threads.map_or("N/A".to_owned(), |threads| threads.to_string())
}

fn sockets(cpus: &str) -> String {
    let sockets: BTreeSet<&str> = column(cpus, "physical id").into_iter().collect();
    if sockets.is_empty() { "N/A".to_owned() } else { sockets.len().to_string() }
}

/// Returns the disks with their sizes, without RAM disks and loop devices.
fn block_devices() -> String {
    let mut disks = Vec::new();
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let size = std::fs::read_to_string(entry.path().join("size")).unwrap_or_default();
        let sectors: u64 = size.trim().parse().unwrap_or(0);
        if sectors > 0 && !["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind)) {
            disks.push(format!("{name} {} GiB", sectors >> 21));
        }
    }
    disks.sort();
    if disks.is_empty() { "N/A".to_owned() } else { disks.join("; ") }
}

/// Prints a line to standard error.
pub(crate) fn say(text: &str) {
    // Harmless: if standard error is closed, nobody reads the line.
    drop(writeln!(io::stderr(), "tidegate-bench: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::WebSocketCounts;
    use crate::scenarios::{self, Overrides};

    #[test]
    fn messages_get_smaller_where_they_are_lost_though_no_connection_failed() {
        let all = scenarios::all().unwrap().into_iter().map(std::sync::Arc::new);
        let scenario = all.into_iter().find(|one| one.name == "websocket-10").unwrap();
        let overrides = Overrides { users: vec![400], sizes: vec![500], ..Overrides::default() };
        let mut row = scenario.rows(&overrides).remove(0);
        let ran = |failed, error_rate| folder::Row {
            streams: Some(Streams::Websocket(WebSocketCounts {
                failed,
                error_rate: Some(error_rate),
                ..WebSocketCounts::default()
            })),
            ..folder::Row::default()
        };
        assert!(smaller(&row, Some(&ran(0, 0.0))).is_none());
        assert!(smaller(&row, Some(&ran(1, 0.5))).is_none());
        assert!(smaller(&row, None).is_none());
        let mut sizes = vec![row.size];
        while let Some(next) = smaller(&row, Some(&ran(0, 0.5))) {
            sizes.push(next.size);
            row = next;
        }
        assert_eq!(sizes, [500, 250, 125, 60]);
    }
}
