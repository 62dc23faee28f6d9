//! The gateways that ours is compared with: nginx, HAProxy, Envoy, Apache Synapse and Spring Cloud Gateway.
//!
//! Owns their configurations for the work of a row, their start, the wait until they answer, their versions and their end. It never
//! installs anything: `make peers` does. [`start`] is the only entry point. It returns `None` for a peer that cannot do the work, which
//! tables show as `-`. All peers are configured for load as their own documentation advises: persistent connections, no access log, one
//! worker for each core.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

mod envoy;
pub mod ext_proc;
mod haproxy;
mod keys;
mod nginx;
mod spring;
mod synapse;

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{Process, check_stopped, find, free_port, pause, tail};

/// Another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum PeerKind {
    /// With libxml2 and libxslt for the work of document 001, as a module of ours.
    Nginx,
    /// nginx that compiles the definitions of document 001 for each message, for the claim about compiling once.
    NginxCompiles,
    Haproxy,
    /// `jwt_authn`, and Lua for interceptors, as Choreo Connect does it.
    Envoy,
    /// Envoy with `ext_authz` as the interceptor.
    EnvoyAuthz,
    /// Envoy with `ext_proc`, whose service is the interceptor itself.
    EnvoyProc,
    /// The engine of Micro Integrator.
    Synapse,
    /// The JVM gateway.
    Spring,
}

impl PeerKind {
    pub const ALL: [Self; 8] = [
        Self::Nginx,
        Self::NginxCompiles,
        Self::Haproxy,
        Self::Envoy,
        Self::EnvoyAuthz,
        Self::EnvoyProc,
        Self::Synapse,
        Self::Spring,
    ];

    /// Returns the name on the command line, in files and in `SERVER_process.csv`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::NginxCompiles => "nginx-compiles",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::EnvoyAuthz => "envoy-authz",
            Self::EnvoyProc => "envoy-proc",
            Self::Synapse => "synapse",
            Self::Spring => "spring",
        }
    }

    /// Returns the name in reports.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::NginxCompiles => "nginx (compiling for each message)",
            Self::Haproxy => "HAProxy",
            Self::Envoy => "Envoy",
            Self::EnvoyAuthz => "Envoy (ext_authz)",
            Self::EnvoyProc => "Envoy (ext_proc)",
            Self::Synapse => "Apache Synapse",
            Self::Spring => "Spring Cloud Gateway",
        }
    }

    /// Returns true if it runs on a JVM, and so has a log of garbage collections.
    #[must_use]
    pub fn is_jvm(self) -> bool {
        matches!(self, Self::Synapse | Self::Spring)
    }

    /// Returns the reason why this peer cannot do the work, or `None` if it can.
    #[must_use]
    pub fn cannot(self, work: &Work) -> Option<&'static str> {
        let is_intercepted = |route: &Route| matches!(route.task, Task::Intercept { .. });
        if matches!(self, Self::EnvoyAuthz | Self::EnvoyProc)
            && !work.routes.iter().any(is_intercepted)
        {
            return Some("without an interceptor it is Envoy");
        }
        if self == Self::NginxCompiles && !work.routes.iter().any(nginx::has_definitions) {
            return Some("without definitions it is nginx");
        }
        work.routes.iter().find_map(|route| match self {
            Self::Nginx | Self::NginxCompiles => nginx::cannot(route),
            Self::Haproxy => haproxy::cannot(route),
            Self::Envoy | Self::EnvoyAuthz | Self::EnvoyProc => envoy::cannot(route),
            Self::Synapse => synapse::cannot(route),
            Self::Spring => spring::cannot(route),
        })
    }

    /// Returns the version that it prints, with those of the libraries that do the work, or `None` if it is not installed.
    #[must_use]
    pub fn version(self) -> Option<String> {
        match self {
            Self::Nginx | Self::NginxCompiles => nginx::version(),
            Self::Haproxy => haproxy::version(),
            Self::Envoy | Self::EnvoyAuthz => envoy::version(),
            Self::EnvoyProc => envoy::processor().and_then(|_| envoy::version()),
            Self::Synapse => synapse::version(),
            Self::Spring => spring::version(),
        }
    }
}

/// What a row requires of a gateway.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Longer prefixes take precedence over shorter ones, in any order.
    pub routes: Vec<Route>,
}

/// Requests below a path, and what is done with them.
#[derive(Clone, Debug)]
pub struct Route {
    /// The prefix, without a slash at its end. `/` stands for all paths.
    pub prefix: String,
    pub path: ForwardedPath,
    /// The server that receives the requests, and the calls of a flow.
    pub backend: SocketAddr,
    /// If set, requests without a token of this issuer get the status 401.
    pub issuer: Option<Issuer>,
    pub task: Task,
}

/// The path that the backend sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedPath {
    /// The path of the request.
    Same,
    /// The path without the prefix.
    Stripped,
    /// Always this path.
    Fixed(String),
}

/// An issuer of tokens.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The claim `iss`.
    pub name: String,
    /// The file with its key set, as `tidegate token` writes it.
    pub jwks: PathBuf,
}

/// What is done to a message between client and backend.
#[derive(Clone, Debug)]
pub enum Task {
    /// Nothing.
    Forward,
    /// Nothing. Each piece is passed on immediately: event streams and WebSockets.
    Stream,
    /// Nothing. The backend speaks HTTP/2, as gRPC servers do.
    Calls,
    /// An interceptor receives headers and body of each request, and returns what to change (behaviours of Choreo Connect).
    Intercept { service: SocketAddr },
    /// Schemas and stylesheets, in the order in which they run.
    Soap { request: Vec<SoapStep>, response: Vec<SoapStep> },
    /// A flow of document 004 by the reference's name, such as `XSLTProxy`.
    Flow(String),
    /// Something that no peer can do, in words: a hub, validation by OpenAPI.
    Ours(String),
}

/// One step of processing a SOAP message.
#[derive(Clone, Debug)]
pub enum SoapStep {
    /// Validates the envelope, and the body against this WSDL or XML schema, if one is given.
    Validate(Option<PathBuf>),
    /// Checks that the `SOAPAction` is that of the operation in this WSDL.
    Action(PathBuf),
    /// XSLT 1.0.
    Transform(PathBuf),
    /// XSLT 2.0 or 3.0.
    TransformLater(PathBuf),
    /// Uses another backend if the text at the path is this one.
    Route { namespaces: Vec<(String, String)>, xpath: String, equals: String, backend: SocketAddr },
}

/// The environment in which peers run.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Configurations and logs are written to a subfolder for each peer. If the program runs as root, other users must be able to enter the
    /// folder.
    pub folder: PathBuf,
    /// The address to listen on.
    pub host: IpAddr,
    /// The cores of the gateway in the format of `taskset` (`0` or `0,1`). All cores if absent.
    pub cpus: Option<String>,
    pub workers: usize,
    /// The listener's certificate and key (PEM). Plain HTTP if absent.
    pub tls: Option<Tls>,
    /// The heap of a JVM (`2G`). The default is 1 GiB.
    pub heap: Option<String>,
    /// Whether clients speak HTTP/2 by prior knowledge.
    pub http2: bool,
}

#[derive(Clone, Debug)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A running peer. Dropping it ends it and its children.
pub struct Peer {
    pub kind: PeerKind,
    /// See [`PeerKind::version`].
    pub version: String,
    pub address: SocketAddr,
    pub process: Process,
    /// Its output, which shows why it failed.
    pub log: PathBuf,
    /// The log of a JVM's garbage collections (`-Xlog:gc*`).
    pub gc_log: Option<PathBuf>,
    /// Services that belong to it, such as the server of `ext_proc`.
    helpers: Vec<Process>,
}

/// How to start a peer, as its module determines it from the work.
struct Plan {
    command: Command,
    gc_log: Option<PathBuf>,
    helpers: Vec<Process>,
}

/// The input for writing a configuration.
struct Place<'a> {
    folder: &'a Path,
    port: u16,
    ground: &'a Ground,
}

/// Maximum time until a peer answers. A JVM needs about ten seconds on a free core, and minutes on a busy one.
const READY_MAX: Duration = Duration::from_secs(180);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Starts a peer for the work on a free port and waits until it answers. `None` if the peer cannot do the work.
///
/// # Errors
///
/// If the peer is not installed, refuses its configuration, or does not answer in time. The error has the end of its log.
pub fn start(kind: PeerKind, work: &Work, ground: &Ground) -> io::Result<Option<Peer>> {
    if kind.cannot(work).is_some() {
        return Ok(None);
    }
    let missing = || io::Error::other(format!("{} is not installed: `make peers`", kind.title()));
    let version = kind.version().ok_or_else(missing)?;
    let folder = ground.folder.join(kind.name());
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let place = Place { folder: &folder, port: free_port()?, ground };
    let mut work = work.clone();
    work.routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
    let plan = match kind {
        PeerKind::Nginx => nginx::plan(&work, &place, false),
        PeerKind::NginxCompiles => nginx::plan(&work, &place, true),
        PeerKind::Haproxy => haproxy::plan(&work, &place),
        PeerKind::Envoy | PeerKind::EnvoyAuthz | PeerKind::EnvoyProc => {
            envoy::plan(kind, &work, &place)
        }
        PeerKind::Synapse => synapse::plan(&work, &place),
        PeerKind::Spring => spring::plan(&work, &place),
    }?;
    let log = folder.join("output.log");
    let process = Process::start(plan.command, &log)?;
    let address = place.listener();
    let mut peer =
        Peer { kind, version, address, process, log, gc_log: plan.gc_log, helpers: plan.helpers };
    let first = work.routes.first().map_or("/", |route| &route.prefix);
    let path = if kind == PeerKind::Synapse { synapse::READY_PATH } else { first };
    let is_http1 = ground.tls.is_none() && !ground.http2;
    peer.wait_until_ready(path, is_http1).map_err(|error| peer.explain(&error))?;
    Ok(Some(peer))
}

impl Peer {
    /// Returns true if the peer, or a service that belongs to it, has ended.
    ///
    /// # Errors
    ///
    /// If the system cannot tell.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        for helper in &mut self.helpers {
            if helper.has_ended()? {
                return Ok(true);
            }
        }
        self.process.has_ended()
    }

    fn wait_until_ready(&mut self, path: &str, is_http1: bool) -> io::Result<()> {
        let end = Instant::now() + READY_MAX;
        loop {
            check_stopped()?;
            if self.has_ended()? {
                return Err(io::Error::other("ended at start"));
            }
            match self.try_answer(path, is_http1) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => pause(Duration::from_millis(50))?,
            }
        }
    }

    /// Waits for any HTTP reply. Without a token or a message, an error is the right reply. With TLS or HTTP/2, checks only that the peer
    /// listens.
    fn try_answer(&self, path: &str, is_http1: bool) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        if !is_http1 {
            return Ok(());
        }
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 5];
        stream.read_exact(&mut start)?;
        match &start {
            b"HTTP/" => Ok(()),
            other => Err(io::Error::other(format!("answers {other:?}"))),
        }
    }

    fn explain(&self, error: &io::Error) -> io::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        io::Error::other(format!("{}: {error}\n{}", self.kind.title(), tail(&log)))
    }
}

impl Place<'_> {
    /// Returns the address and port to listen on.
    fn listener(&self) -> SocketAddr {
        SocketAddr::new(self.ground.host, self.port)
    }

    /// Writes a file of the configuration.
    fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let file = self.folder.join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, text)?;
        Ok(file)
    }

    /// Returns the command that starts a program on the gateway's cores.
    fn command(&self, program: &Path) -> Command {
        let mut command = match &self.ground.cpus {
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.arg("--cpu-list").arg(cpus).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.stdin(std::process::Stdio::null()).current_dir(self.folder);
        command
    }

    /// Returns the command of a JVM with these jars, and the log of its garbage collections.
    fn java(&self, class_path: &str) -> (Command, PathBuf) {
        let gc_log = self.folder.join("gc.log");
        let heap = self.ground.heap.as_deref().unwrap_or("1G");
        let mut command = self.command(Path::new("java"));
        command.arg(format!("-Xms{heap}")).arg(format!("-Xmx{heap}"));
        let to = gc_log.display();
        command.arg(format!("-Xlog:gc*:file={to}:time,uptime,level,tags:filecount=0"));
        command.args(["-cp", class_path]);
        (command, gc_log)
    }
}

/// Returns a file or folder that `make peers` created, in `tools` above this program or below the current folder.
fn tool(name: &str) -> Option<PathBuf> {
    let ours = env::current_exe().unwrap_or_default();
    let above = ours.ancestors().skip(1).map(|folder| folder.join("tools"));
    let mut folders = above.chain([PathBuf::from("target/tools")]);
    folders.find_map(|folder| folder.join(name).canonicalize().ok())
}

/// Returns a program that `make peers` created, or else one of the system.
fn program(name: &str) -> Option<PathBuf> {
    tool(&format!("bin/{name}")).or_else(|| find(name))
}

/// Returns the first line that a program prints about itself on either output.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(self::program(program)?).args(arguments).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns the name of the current user, as which nginx's worker runs.
fn user() -> io::Result<String> {
    let said = Command::new("id").arg("-un").output()?.stdout;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Returns the jars of a folder among the tools as a class path, and the version in the name of the jar that begins with `named`.
fn jars(folder: &str, named: &str) -> Option<(String, String)> {
    let folder = tool(folder)?;
    let version = fs::read_dir(&folder).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix(named)?.strip_suffix(".jar")?;
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    })?;
    Some((format!("{}/*", folder.display()), version))
}

#[cfg(test)]
mod tests;
