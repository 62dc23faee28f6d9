//! The compared gateways, started in front of a rig. The floor is a program that does nothing but send what comes to each client, in a
//! loop.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use bench::peers::{Kind, Programs};
use bench::process::{Cores, Process, check_stopped, cpu_of, free_port, pause, softirq_thread};

use crate::configs::Setting;
use crate::scenario::Wire;

const READY_MAX: Duration = Duration::from_secs(15);

/// What all gateways of a run share.
pub(crate) struct Ground {
    /// Configurations and logs; removed at the end of the run.
    pub(crate) folder: PathBuf,
    pub(crate) programs: Programs,
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

impl Ground {
    /// Starts a gateway in front of this backend, and waits until it listens.
    pub(crate) fn start(&self, kind: Kind, backend: u16, wire: Wire) -> io::Result<Peer> {
        let port = free_port()?;
        let setting = Setting { port, backend, folder: &self.folder, user: &self.user, wire };
        let (name, text) = setting.write(kind);
        let file = self.folder.join(name);
        fs::write(&file, text)?;
        let mut command = self.programs.command(kind, self.cores.gateway, &file)?;
        if kind == Kind::Floor {
            let ports = [port, backend].map(|port| port.to_string());
            command.args(["--loop", &ports.join(",")]);
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
