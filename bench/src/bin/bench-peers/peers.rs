//! The compared gateways: their programs, how they start, and when they are ready.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::peers::{self, Kind, Programs};
use bench::process::{Cores, Process, beside_us, check_stopped, free_port, pause, pinned};

use crate::cases::Door;
use crate::configs::Setting;

const READY_MAX: Duration = Duration::from_secs(15);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The ports of a gateway on 127.0.0.1.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: u16,
    pub(crate) http2: u16,
    pub(crate) admin: u16,
}

/// A running gateway.
pub(crate) struct Peer {
    pub(crate) process: Process,
    ports: Ports,
}

/// The state that all gateways of a run share.
pub(crate) struct Ground {
    /// Configurations, logs, certificate; removed at the end of the run.
    pub(crate) folder: PathBuf,
    pub(crate) programs: Programs,
    pub(crate) cores: Cores,
    /// The port of the backend, which all gateways forward to.
    pub(crate) backend: u16,
    user: String,
    echo: Process,
}

/// The bare backend, which is the floor, speaks only plain HTTP/1.1.
pub(crate) fn has(kind: Kind, door: Door) -> bool {
    kind != Kind::Floor || door == Door::Plain
}

impl Ground {
    pub(crate) fn prepare(
        folder: &Path,
        tidegate: Option<PathBuf>,
        before: Option<PathBuf>,
    ) -> io::Result<Self> {
        let made = backends::Certificate::self_signed(&["localhost", "127.0.0.1"])?;
        fs::write(folder.join("cert.pem"), &made.certificate_pem)?;
        fs::write(folder.join("key.pem"), &made.key_pem)?;
        fs::write(folder.join("both.pem"), format!("{}{}", made.certificate_pem, made.key_pem))?;
        let user = peers::user()?;
        let programs = Programs { tidegate, before, floor: beside_us("bench-echo") };
        let (cores, backend) = (Cores::choose(), free_port()?);
        let echo = start_echo(folder, "backend", cores.backend, backend)?;
        Ok(Self { folder: folder.to_owned(), programs, cores, backend, user, echo })
    }

    /// Starts a gateway and waits until it forwards.
    pub(crate) fn start(&self, kind: Kind) -> io::Result<Peer> {
        let ports = Ports {
            plain: free_port()?,
            tls: free_port()?,
            http2: free_port()?,
            admin: free_port()?,
        };
        let setting =
            Setting { ports, backend: self.backend, folder: &self.folder, user: &self.user };
        let process = match setting.write(kind) {
            None => start_echo(&self.folder, kind.name(), self.cores.gateway, ports.plain)?,
            Some((name, text)) => {
                let file = self.folder.join(name);
                fs::write(&file, text)?;
                let log = self.folder.join(format!("{}.log", kind.name()));
                Process::start(self.programs.command(kind, self.cores.gateway, &file)?, &log)?
            }
        };
        let mut peer = Peer { process, ports: self.with_shared_doors(kind, ports) };
        peer.wait_until_ready().map_err(|error| self.explain(kind, &error))?;
        Ok(peer)
    }

    pub(crate) fn has_backend(&mut self) -> io::Result<()> {
        if self.echo.has_ended()? {
            return Err(io::Error::other("the backend ended"));
        }
        Ok(())
    }

    /// Tidegate and Envoy accept HTTP/2 by prior knowledge on their plain port, so both doors share it.
    fn with_shared_doors(&self, kind: Kind, ports: Ports) -> Ports {
        match kind {
            Kind::Tidegate | Kind::Before | Kind::Envoy => Ports { http2: ports.plain, ..ports },
            Kind::Floor | Kind::Nginx | Kind::Haproxy => ports,
        }
    }

    fn explain(&self, kind: Kind, error: &io::Error) -> io::Error {
        let log = self.folder.join(format!("{}.log", kind.name()));
        let log = fs::read_to_string(log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(10).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        io::Error::other(format!("{}: {error}\n{}", kind.name(), tail.join("\n")))
    }
}

impl Peer {
    pub(crate) fn port(&self, door: Door) -> u16 {
        match door {
            Door::Plain => self.ports.plain,
            Door::Tls => self.ports.tls,
            Door::Http2 => self.ports.http2,
        }
    }

    pub(crate) fn url(&self, door: Door) -> String {
        let scheme = if door == Door::Tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/echo/x", self.port(door))
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let end = Instant::now() + READY_MAX;
        loop {
            check_stopped()?;
            if self.process.has_ended()? {
                return Err(io::Error::other("ended at start"));
            }
            match self.try_echo() {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => pause(Duration::from_millis(50))?,
            }
        }
    }

    /// Checks that the body is sent back; otherwise the gateway cannot be measured.
    fn try_echo(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.plain))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(
            b"POST /echo/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
              Content-Length: 5\r\n\r\nready",
        )?;
        let mut reply = Vec::new();
        let mut piece = [0; 1024];
        while !reply.ends_with(b"ready") {
            let count = stream.read(&mut piece)?;
            if count == 0 || reply.len() > 64 << 10 {
                let reply = String::from_utf8_lossy(&reply).into_owned();
                return Err(io::Error::other(format!("does not echo, but says: {reply}")));
            }
            reply.extend_from_slice(piece.get(..count).unwrap_or_default());
        }
        Ok(())
    }
}

fn start_echo(folder: &Path, name: &str, core: usize, port: u16) -> io::Result<Process> {
    let mut command = pinned(core, beside_us("bench-echo"));
    command.arg("--port").arg(port.to_string());
    Process::start(command, &folder.join(format!("{name}.log")))
}
