//! One run of a load generator against one gateway, and its results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cases::{Case, Load};
use crate::peers::{Ground, Peer};
use bench::process::{Process, pinned};

/// The time besides its own duration: connecting, draining, writing the log.
const LOAD_EXTRA_MAX: Duration = Duration::from_secs(30);
/// A warm-up is discarded; it fills pools and trains the branch predictor.
const WARM_UP: Duration = Duration::from_millis(700);

/// The measurements of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) requests: u64,
    /// Requests that were refused, broken, timed out or answered with another status than 2xx.
    pub(crate) errors: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// CPU time of the gateway.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    pub(crate) rss_bytes: u64,
}

/// The generator's own figures.
#[derive(Debug, PartialEq)]
struct Count {
    requests: u64,
    errors: u64,
    p50: Duration,
    p99: Duration,
}

impl Run {
    pub(crate) fn cpu_us_per_request(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }

    /// The used part of the gateway's core.
    pub(crate) fn busy(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }

    /// A run with errors has measured something else than the others.
    pub(crate) fn is_good(&self) -> bool {
        self.errors == 0 && self.requests > 0
    }
}

/// Warms up, then measures.
pub(crate) fn run(ground: &Ground, peer: &Peer, case: &Case, time: Duration) -> io::Result<Run> {
    generate(ground, peer, case, WARM_UP)?;
    let (cpu_before, started) = (peer.process.cpu(), Instant::now());
    let count = generate(ground, peer, case, time)?;
    let wall = started.elapsed();
    let cpu = peer.process.cpu().saturating_sub(cpu_before);
    let Count { requests, errors, p50, p99 } = count;
    Ok(Run { requests, errors, p50, p99, cpu, wall, rss_bytes: peer.process.rss_bytes() })
}

fn generate(ground: &Ground, peer: &Peer, case: &Case, time: Duration) -> io::Result<Count> {
    let folder = &ground.folder;
    let (output, latencies) = (folder.join("load.log"), folder.join("latencies.log"));
    let command = match case.load {
        Load::Saturate => wrk(ground, peer, case, time)?,
        Load::Fixed { .. } | Load::Http2 { .. } => {
            // The generator appends to it.
            fs::write(&latencies, "")?;
            h2load(ground, peer, case, time, &latencies)?
        }
        Load::Idle => return Err(io::Error::other("idle connections are not a load")),
    };
    let finished = Process::start(command, &output)?.wait(time + LOAD_EXTRA_MAX);
    let said = fs::read_to_string(&output)?;
    let count = finished.and_then(|()| match case.load {
        Load::Saturate => read_wrk(&said),
        Load::Fixed { .. } | Load::Http2 { .. } | Load::Idle => {
            read_h2load(&said, &fs::read_to_string(&latencies)?)
        }
    });
    count.map_err(|error| io::Error::new(error.kind(), format!("load: {error}\n{said}")))
}

/// Prints the figures on one line: wrk's own report is rounded.
const WRK_DONE: &str = r#"
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("counted %d %d %d %d\n", summary.requests,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"#;

fn wrk(ground: &Ground, peer: &Peer, case: &Case, time: Duration) -> io::Result<Command> {
    let script = ground.folder.join("load.lua");
    let request = if case.body_bytes == 0 {
        String::new()
    } else {
        let size = case.body_bytes;
        format!("wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", {size})\n")
    };
    fs::write(&script, format!("{request}{WRK_DONE}"))?;
    let mut command = pinned(ground.cores.load, "wrk");
    command.args(["--threads", "1", "--timeout", "10s"]);
    command.arg("--connections").arg(case.connections.to_string());
    // wrk accepts whole seconds only.
    command.arg("--duration").arg(format!("{}s", time.as_secs_f64().ceil()));
    command.arg("--script").arg(script).arg(peer.url(case.door));
    Ok(command)
}

fn h2load(
    ground: &Ground,
    peer: &Peer,
    case: &Case,
    time: Duration,
    latencies: &Path,
) -> io::Result<Command> {
    let body: PathBuf = ground.folder.join("body");
    fs::write(&body, "x".repeat(case.body_bytes))?;
    let mut command = pinned(ground.cores.load, "h2load");
    command.arg("--clients").arg(case.connections.to_string());
    command.arg("--duration").arg(format!("{}ms", time.as_millis()));
    command.arg("--log-file").arg(latencies).arg("--data").arg(body);
    match case.load {
        Load::Fixed { requests_per_second } => {
            let each = requests_per_second / case.connections.max(1);
            command.args(["--h1", "--rps"]).arg(each.to_string());
        }
        Load::Http2 { streams } => {
            command.arg("--max-concurrent-streams").arg(streams.to_string());
        }
        Load::Saturate | Load::Idle => {}
    }
    command.arg(peer.url(case.door));
    Ok(command)
}

fn read_wrk(said: &str) -> io::Result<Count> {
    let line = said.lines().find_map(|line| line.strip_prefix("counted "));
    let numbers: Vec<u64> = line.unwrap_or_default().split(' ').flat_map(str::parse).collect();
    let &[requests, errors, p50, p99] = numbers.as_slice() else {
        return Err(io::Error::other("wrk did not count"));
    };
    let (p50, p99) = (Duration::from_micros(p50), Duration::from_micros(p99));
    Ok(Count { requests, errors, p50, p99 })
}

/// The counts are on the line `status codes: 60111 2xx, 0 3xx, ...` and the one above it; the latencies are the third column of
/// the log.
fn read_h2load(said: &str, log: &str) -> io::Result<Count> {
    let missing = || io::Error::other("h2load did not count");
    let numbered = |start: &str, word: &str| -> Option<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(start))?;
        let part = line.split(", ").find_map(|part| part.trim().strip_suffix(word))?;
        part.trim().parse().ok()
    };
    let good = numbered("status codes:", "2xx").ok_or_else(missing)?;
    let done = numbered("requests:", "done").ok_or_else(missing)?;
    let lost = ["failed", "errored", "timeout"].map(|word| numbered("requests:", word));
    let lost: u64 = lost.into_iter().flatten().sum();
    let mut latencies: Vec<u64> =
        log.lines().filter_map(|line| line.split('\t').nth(2)?.parse().ok()).collect();
    latencies.sort_unstable();
    let at = |part: usize| {
        let place = (latencies.len() * part / 100).min(latencies.len().saturating_sub(1));
        Duration::from_micros(latencies.get(place).copied().unwrap_or(0))
    };
    let errors = lost.max(done.saturating_sub(good));
    Ok(Count { requests: good, errors, p50: at(50), p99: at(99) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const H2LOAD: &str = "\
finished in 4.00s, 20037.00 req/s, 21.12MB/s
requests: 60111 total, 60011 started, 60111 done, 60100 succeeded, 11 failed, 2 errored, 0 timeout
status codes: 60100 2xx, 0 3xx, 11 4xx, 0 5xx
";

    #[test]
    fn generators_are_understood() {
        let micros = Duration::from_micros;
        let wrk = read_wrk("Running 3s test\ncounted 190916 2 638 8789\n").unwrap();
        let expected = Count { requests: 190_916, errors: 2, p50: micros(638), p99: micros(8789) };
        assert_eq!(wrk, expected);
        let log: String = (1..=200).map(|us| format!("1795255654232379\t200\t{us}\n")).collect();
        let h2load = read_h2load(H2LOAD, &log).unwrap();
        let expected = Count { requests: 60_100, errors: 13, p50: micros(101), p99: micros(199) };
        assert_eq!(h2load, expected);
    }

    #[test]
    fn a_generator_that_counted_nothing_is_an_error() {
        assert!(read_wrk("unable to connect to 127.0.0.1").is_err());
        assert!(read_h2load("", "").is_err());
    }
}
