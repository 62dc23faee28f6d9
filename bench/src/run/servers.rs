//! The processes of a row: backends and the gateway, each on its cores and on a free port of the loopback interface.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backends::token::{Algorithm, Claims, Minter};

use super::cores::CoreLists;
use super::senders::Senders;
use crate::peers::{self, PeerKind};
use crate::process::{Process, check_stopped};
use crate::scenarios::{Row, RowLoad, Scenario};

/// What all rows share: a folder with the files of the scenarios, keys and a certificate.
pub(super) struct Ground {
    folder: tempfile::TempDir,
    minter: Minter,
    token: String,
    /// Tokens of further subjects. There are as many as a row has needed so far.
    tokens: RefCell<Arc<[String]>>,
    pub(super) cores: CoreLists,
    /// The address on which gateways listen, so that the generator reaches them.
    pub(super) host: IpAddr,
    /// If set, replaces the backends that are started.
    pub(super) backend: Option<SocketAddr>,
}

/// The gateway to start.
#[derive(Clone, Copy)]
pub(super) enum Starting<'a> {
    /// A program of ours.
    Ours(&'a Path),
    Peer(PeerKind),
}

/// A running gateway or peer.
pub(super) enum Gateway {
    Ours { process: Process, admin: SocketAddr },
    Peer(Box<peers::Peer>),
}

/// The backends of one row, and their addresses by name. Dropping it stops them.
pub(super) struct Backends {
    processes: Vec<Process>,
    addresses: BTreeMap<String, SocketAddr>,
}

/// The processes of one row. Dropping it stops them.
pub(super) struct Servers {
    pub(super) gateway: Gateway,
    pub(super) address: SocketAddr,
    pub(super) backends: Vec<Process>,
    /// When the gateway was started, in seconds since 1970.
    pub(super) started: u64,
    /// Workers of our gateway.
    pub(super) workers: Option<u32>,
}

pub(super) const READY_MAX: Duration = Duration::from_secs(60);
/// Validity of tokens, longer than any run.
const TOKEN_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Number of API keys, which is that of the values of `${number:5}`.
const KEYS: u32 = 100_000;

impl Ground {
    /// Creates the folder and writes its files.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(super) fn new(
        cores: CoreLists,
        host: IpAddr,
        backend: Option<SocketAddr>,
    ) -> io::Result<Ground> {
        let folder = tempfile::Builder::new().prefix("tidegate-bench-").tempdir()?;
        // If this program runs as root, workers of nginx run as another user.
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        crate::scenarios::write_files(folder.path())?;
        let minter = Minter::new(Algorithm::Rs256)?;
        fs::write(folder.path().join("jwks.json"), minter.jwks().to_string())?;
        let token = minter.mint(&claims("bench"))?;
        let made = backends::Certificate::self_signed(&["localhost", "127.0.0.1"])?;
        fs::write(folder.path().join("certificate.pem"), made.certificate_pem)?;
        fs::write(folder.path().join("key.pem"), made.key_pem)?;
        let tokens = RefCell::new(Arc::default());
        Ok(Ground { folder, minter, token, tokens, cores, host, backend })
    }

    /// Creates tokens until there are `count`. Tens of thousands take seconds, so each is created once per run.
    ///
    /// # Errors
    ///
    /// If one cannot be signed.
    pub(super) fn make_tokens(&self, count: usize) -> io::Result<()> {
        let mut tokens = self.tokens.borrow_mut();
        if tokens.len() >= count {
            return Ok(());
        }
        let mut all = tokens.to_vec();
        for number in all.len()..count {
            check_stopped()?;
            // All tokens, and therefore all messages, have the same length.
            all.push(self.minter.mint(&claims(&format!("user-{number:06}")))?);
        }
        *tokens = all.into();
        Ok(())
    }

    /// Writes the keys of 100,000 users, in the format that `api_key` reads.
    fn keys(&self) -> io::Result<PathBuf> {
        let file = self.file("keys.yaml");
        if !file.exists() {
            let key = |number| format!("user-{number:05}: key-of-user-{number:05}\n");
            fs::write(&file, (0..KEYS).map(key).collect::<String>())?;
        }
        Ok(file)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn jwks(&self) -> PathBuf {
        self.file("jwks.json")
    }

    /// Returns the values of this run that a load needs.
    #[must_use]
    pub(super) fn row_load(&self, address: SocketAddr, senders: &Senders) -> RowLoad {
        RowLoad {
            address,
            threads: senders.threads(),
            token: self.token.clone(),
            tokens: Arc::clone(&self.tokens.borrow()),
            callback: senders.callback_host(),
        }
    }

    /// Starts our gateway or a peer before these backends. Returns `None` if the peer cannot do the work.
    ///
    /// # Errors
    ///
    /// If it does not start. The error has the end of its log.
    pub(super) fn start(
        &self,
        row: &Row,
        starting: Starting<'_>,
        heap: &str,
        senders: &Senders,
        Backends { processes, addresses }: Backends,
    ) -> io::Result<Option<Servers>> {
        let configuration = self.configuration(&row.scenario, heap)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let workers = matches!(starting, Starting::Ours(_)).then(|| self.workers(row));
        let started = match starting {
            Starting::Ours(program) => {
                let (process, address, admin) =
                    self.start_ours(program, row, &addresses, &configuration, senders)?;
                Some((Gateway::Ours { process, admin }, address))
            }
            Starting::Peer(kind) => {
                let work = super::work::work(&row.scenario, &addresses, self)?;
                let tls = row.scenario.is_tls().then(|| peers::Tls {
                    certificate: self.file("certificate.pem"),
                    key: self.file("key.pem"),
                });
                let ground = peers::Ground {
                    folder: self.folder.path().to_owned(),
                    host: self.host,
                    cpus: Some(self.cores.gateway.clone()),
                    workers: self.cores.gateway_count(),
                    tls,
                    heap: Some(heap.to_owned()),
                    http2: row.scenario.own.calls.is_some(),
                };
                let started =
                    if work.routes.is_empty() { None } else { peers::start(kind, &work, &ground)? };
                started
                    .map(|peer| (peer.address, peer))
                    .map(|(address, peer)| (Gateway::Peer(Box::new(peer)), address))
            }
        };
        Ok(started.map(|(gateway, address)| Servers {
            gateway,
            address,
            backends: processes,
            started: now,
            workers,
        }))
    }

    /// Returns the document's number of workers, or else the number of the gateway's cores.
    fn workers(&self, row: &Row) -> u32 {
        let cores = u32::try_from(self.cores.gateway_count()).unwrap_or(u32::MAX);
        row.scenario.shared.workers.get().min(cores).max(1)
    }

    /// Returns the path of a file in the folder of the scenarios.
    pub(super) fn scenario_file(&self, scenario: &Scenario, name: &str) -> PathBuf {
        let folder = scenario.file.parent().unwrap_or(Path::new(""));
        self.place(folder).join(name)
    }

    /// Returns the location of a path in a scenario: among the program's own files, or relative to the user's file.
    fn place(&self, path: &Path) -> PathBuf {
        let ours = self.folder.path().join(path);
        if path.is_relative() && ours.exists() { ours } else { path.to_owned() }
    }

    pub(super) fn configuration(&self, scenario: &Scenario, heap: &str) -> io::Result<String> {
        let file = self.place(&scenario.gateway());
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let text = fs::read_to_string(&file).map_err(told)?;
        let unit = if heap.ends_with(['G', 'g']) { "GiB" } else { "MiB" };
        let amount = heap.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let text = expanded(&text);
        // No requests arrive while the gateway stops, so it need not wait. Builds that are older than the key `shutdown` have only `drain`.
        let ends = ["shutdown:", "drain:"];
        let is_said = text.lines().any(|line| ends.iter().any(|key| line.starts_with(key)));
        let end = if is_said { "" } else { "drain: { delay: 0s }\n" };
        Ok(format!("{text}\nlimits: {{ memory: {amount}{unit} }}\n{end}"))
    }

    /// Starts the backends of a row.
    ///
    /// # Errors
    ///
    /// If one of them does not start. The error has the end of its log.
    pub(super) fn start_backends(&self, row: &Row) -> io::Result<Backends> {
        let (mut processes, mut addresses) = (Vec::new(), BTreeMap::new());
        for (name, backend) in row.scenario.shared.backends.iter() {
            if let Some(address) = self.backend.filter(|_| !backend.helper) {
                addresses.insert(name.value.clone(), address);
                continue;
            }
            let delay = if backend.helper { Duration::ZERO } else { row.delay };
            let mut command = supervised(&self.cores.backend, &std::env::current_exe()?);
            command.args(["backend", backend.kind.word()]);
            command.arg("--delay").arg(format!("{}ms", delay.as_millis()));
            if !backend.region.is_empty() {
                command.env("X_SOAP_REGION", &backend.region);
            }
            let log = self.file(&format!("backend-{}.log", name.value));
            let mut process = Process::start(command, &log)?;
            let find = |text: &str| text.lines().next()?.trim().parse().ok();
            let address = process.wait_for(&log, READY_MAX, find)?;
            processes.push(process);
            addresses.insert(name.value.clone(), address);
        }
        Ok(Backends { processes, addresses })
    }

    fn start_ours(
        &self,
        program: &Path,
        row: &Row,
        addresses: &BTreeMap<String, SocketAddr>,
        configuration: &str,
        senders: &Senders,
    ) -> io::Result<(Process, SocketAddr, SocketAddr)> {
        let place = self.place(&row.scenario.gateway());
        // Written next to the original, because it contains relative paths.
        let file = place.with_file_name(".serving.yaml");
        fs::write(&file, configuration)?;
        let store = tempfile::tempdir_in(self.folder.path())?.keep();
        let mut command = supervised(&self.cores.gateway, program);
        command.arg("run").arg(&file);
        command.env("LISTEN", SocketAddr::new(self.host, 0).to_string());
        command.env("ADMIN", "127.0.0.1:0");
        command.env("WORKERS", self.workers(row).to_string());
        command.env("CERTIFICATE", self.file("certificate.pem")).env("KEY", self.file("key.pem"));
        command.env("CALLBACKS", network(senders.callback_host()));
        command.env("JWKS", self.file("jwks.json")).env("STORE", store);
        if configuration.contains("${KEYS}") {
            command.env("KEYS", self.keys()?);
        }
        // An hour in the document. A short run compiles equally often, relative to its duration.
        command.env("TTL", format!("{}s", (row.duration.as_secs() / 24).clamp(5, 3600)));
        for (name, address) in addresses {
            command.env(name.to_uppercase(), address.to_string());
        }
        let log = self.file("gateway.log");
        let mut process = Process::start(command, &log)?;
        let find = |text: &str| {
            Some((named(text, "listening listener=")?, named(text, "admin API address=")?))
        };
        let (address, admin) = process.wait_for(&log, READY_MAX, find)?;
        Ok((process, address, admin))
    }
}

impl Servers {
    /// Returns the ids of the gateway's processes.
    #[must_use]
    pub(super) fn gateway_pids(&self) -> Vec<u32> {
        match &self.gateway {
            Gateway::Ours { process, .. } => process.tree(),
            Gateway::Peer(peer) => peer.process.tree(),
        }
    }

    /// Returns the ids of the backends' processes.
    #[must_use]
    pub(super) fn backend_pids(&self) -> Vec<u32> {
        self.backends.iter().flat_map(Process::tree).collect()
    }

    /// Returns true if the gateway has ended by itself.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub(super) fn has_gateway_ended(&mut self) -> io::Result<bool> {
        match &mut self.gateway {
            Gateway::Ours { process, .. } => process.has_ended(),
            Gateway::Peer(peer) => peer.has_ended(),
        }
    }

    /// Returns true if a backend has ended by itself.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub(super) fn has_backend_ended(&mut self) -> io::Result<bool> {
        for backend in &mut self.backends {
            if backend.has_ended()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the log of garbage collections of a JVM.
    #[must_use]
    pub(super) fn gc_log(&self) -> Option<String> {
        let Gateway::Peer(peer) = &self.gateway else { return None };
        // Harmless: a JVM that wrote no log has columns without values.
        fs::read_to_string(peer.gc_log.as_ref()?).ok()
    }

    /// Returns our gateway's metrics, or `None` for a peer.
    #[must_use]
    pub(super) fn metrics(&self) -> Option<String> {
        // Without metrics, the report shows no own latency of the gateway.
        super::watchers::ask(self.admin()?, "/metrics").ok()
    }

    /// Returns the address of the admin API, if the gateway has one.
    pub(super) fn admin(&self) -> Option<SocketAddr> {
        match &self.gateway {
            Gateway::Ours { admin, .. } => Some(*admin),
            Gateway::Peer(_) => None,
        }
    }
}

fn claims(subject: &str) -> Claims {
    Claims {
        issuer: Some("https://bench.test".to_owned()),
        subject: Some(subject.to_owned()),
        expires_in: Some(TOKEN_LIFE),
        ..Claims::default()
    }
}

/// Returns a command that runs on these cores and ends with this program, however that ends.
pub(super) fn supervised(cores: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", cores]).arg(program);
    command.stdin(Stdio::null());
    command
}

/// Returns the network of the callbacks: the host alone, or all of loopback, where each subscriber has a separate address.
fn network(host: IpAddr) -> String {
    match host {
        IpAddr::V4(host) if host.is_loopback() => "127.0.0.0/8".to_owned(),
        IpAddr::V4(host) => format!("{host}/32"),
        IpAddr::V6(host) => format!("{host}/128"),
    }
}

/// Returns the address after `before` in a log: `listening listener="public" address=127.0.0.1:1`.
fn named(text: &str, before: &str) -> Option<SocketAddr> {
    let line = text.lines().find(|line| line.contains(before))?;
    let (_, rest) = line.split_once("address=")?;
    rest.split_whitespace().next()?.trim_matches('"').parse().ok()
}

/// Repeats the lines between `# each NUMBER from A to B` and `# end` for each number.
fn expanded(text: &str) -> String {
    let (mut out, mut each) = (String::new(), None::<(u32, u32, String)>);
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("# each NUMBER from ") {
            let bounds = rest.split_once(" to ");
            let read = bounds.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            each = read.map(|(from, to)| (from, to, String::new()));
        } else if let (Some((from, to, lines)), "# end") = (&each, trimmed) {
            for number in *from..=*to {
                out.push_str(&lines.replace("NUMBER", &number.to_string()));
            }
            each = None;
        } else {
            let to = each.as_mut().map_or(&mut out, |(.., lines)| lines);
            to.push_str(line);
            to.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_repeated_with_their_number() {
        let text = "a\n# each NUMBER from 1 to 3\nb NUMBER\n# end\nc\n";
        assert_eq!(expanded(text), "a\nb 1\nb 2\nb 3\nc\n");
        assert_eq!(expanded("a\n"), "a\n");
    }

    #[test]
    fn addresses_are_read_from_the_log() {
        let text = "INFO listening listener=\"public\" address=127.0.0.1:4711\nINFO admin API address=127.0.0.1:12\n";
        assert_eq!(named(text, "listening listener=").unwrap().port(), 4711);
        assert_eq!(named(text, "admin API address=").unwrap().port(), 12);
        assert_eq!(named("", "x"), None);
    }
}
