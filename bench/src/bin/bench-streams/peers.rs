//! The compared gateways: their programs, and how they start.

use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use bench::process::{
    Cores, Process, beside_us, check_stopped, cpu_of, find, free_port, pause, pinned,
    softirq_thread,
};

use crate::configs::Setting;
use crate::scenario::Wire;

const READY_MAX: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Tidegate,
    /// Another build of Tidegate, most often of the commit before a change.
    #[value(skip)]
    Before,
    Nginx,
    Haproxy,
    Envoy,
    /// A program that does nothing but send what comes to each client, in a loop.
    Loop,
}

/// What all gateways of a run share.
pub(crate) struct Ground {
    /// Configurations and logs; removed at the end of the run.
    pub(crate) folder: PathBuf,
    pub(crate) tidegate: Option<PathBuf>,
    pub(crate) before: Option<PathBuf>,
    pub(crate) cores: Cores,
    pub(crate) user: String,
}

/// A running gateway.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(crate) process: Process,
    pub(crate) port: u16,
    softirq_thread: Option<u32>,
}

impl Peer {
    /// CPU time of the gateway, with what the kernel did for it elsewhere on its core.
    pub(crate) fn cpu(&self) -> Duration {
        self.process.cpu() + self.softirq_thread.map_or(Duration::ZERO, cpu_of)
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Before => "before",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Loop => "loop",
        }
    }
}

impl Ground {
    pub(crate) fn program(&self, kind: Kind) -> Option<PathBuf> {
        match kind {
            Kind::Tidegate => {
                let program = self.tidegate.clone().unwrap_or_else(|| beside_us("tidegate"));
                program.exists().then_some(program)
            }
            Kind::Before => self.before.clone(),
            Kind::Nginx | Kind::Haproxy | Kind::Envoy => find(kind.name()),
            Kind::Loop => env::current_exe().ok(),
        }
    }

    /// Starts a gateway in front of this backend, and waits until it listens.
    pub(crate) fn start(&self, kind: Kind, backend: u16, wire: Wire) -> io::Result<Peer> {
        let port = free_port()?;
        let setting = Setting { port, backend, folder: &self.folder, user: &self.user, wire };
        let (name, text) = setting.write(kind);
        let file = self.folder.join(name);
        fs::write(&file, text)?;
        let program = self.program(kind);
        let program = program.ok_or_else(|| io::Error::other("it is not installed"))?;
        let mut command = pinned(self.cores.gateway, program);
        match kind {
            Kind::Tidegate | Kind::Before => _ = command.arg("run").arg(file),
            Kind::Nginx => _ = command.arg("-p").arg(&self.folder).arg("-c").arg(file),
            Kind::Haproxy => _ = command.arg("-db").arg("-f").arg(file),
            Kind::Envoy => {
                command.args(["--concurrency", "1", "--log-level", "error"]);
                command.args(["--disable-hot-restart", "--config-path"]).arg(file);
            }
            Kind::Loop => {
                let ports = [port, backend].map(|port| port.to_string());
                command.args(["--loop", &ports.join(",")]);
            }
        }
        self.start_command(kind, command, port)
    }

    fn start_command(&self, kind: Kind, command: Command, port: u16) -> io::Result<Peer> {
        let log = self.folder.join(format!("{}.log", kind.name()));
        let softirq_thread = softirq_thread(self.cores.gateway);
        let mut peer = Peer { kind, process: Process::start(command, &log)?, port, softirq_thread };
        let end = Instant::now() + READY_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            check_stopped()?;
            if peer.process.has_ended()? || Instant::now() > end {
                let log = fs::read_to_string(log).unwrap_or_default();
                let why = format!("{} does not listen: {log}", kind.name());
                return Err(io::Error::other(why));
            }
            pause(Duration::from_millis(20))?;
        }
        Ok(peer)
    }
}
