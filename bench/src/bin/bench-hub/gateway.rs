//! A gateway with one hub, as a process of its own: started, measured, and always stopped.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Gateway {
    process: Child,
    folder: PathBuf,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// When its process was started.
    pub(crate) began: Instant,
}

/// A start that takes longer has failed.
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The ticks in which the system counts CPU time.
const TICK: Duration = Duration::from_millis(10);

impl Gateway {
    /// Starts a gateway whose hub `bench` at `/hub` has these keys, with its store in the folder.
    pub(crate) fn start(program: &Path, folder: &Path, hub: &str) -> io::Result<Gateway> {
        let store = format!("{{ path: {:?} }}", folder.join("store"));
        Gateway::start_at(program, folder, hub, &store)
    }

    /// The same with another store.
    pub(crate) fn start_at(
        program: &Path,
        folder: &Path,
        hub: &str,
        store: &str,
    ) -> io::Result<Gateway> {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr();
        let (public, admin) = (free()?, free()?);
        let file = folder.join("tidegate.yaml");
        fs::write(
            &file,
            format!(
                "listen: {{ public: {{ address: \"{public}\" }} }}\nadmin: {{ address: \"{admin}\" }}\nworkers: 1\n\
                 drain: {{ delay: 0s }}\nstore: {store}\nhubs:\n  bench:\n    {hub}\n\
                 routes: {{ hub: {{ match: {{ path: \"/hub/**\" }}, hub: bench }} }}\n"
            ),
        )?;
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", "0"]).arg(program).arg("run").arg(&file).stdin(Stdio::null());
        let log = fs::File::create(folder.join("log"))?;
        let began = Instant::now();
        let process = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut gateway = Gateway { process, folder: folder.to_owned(), public, admin, began };
        while TcpStream::connect(public).is_err() {
            if gateway.process.try_wait()?.is_some() || began.elapsed() > START_MAX {
                return Err(io::Error::other(format!("it does not listen: {}", gateway.log())));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(gateway)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// CPU time of all its threads, of those that have ended too.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<u32> =
            behind_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Fields 14 and 15 of proc_pid_stat(5).
        let ticks = fields.get(11).zip(fields.get(12)).map(|(user, system)| user + system);
        Ok(TICK * ticks.unwrap_or_default())
    }

    pub(crate) fn resident_mib(&self) -> io::Result<f64> {
        resident_mib(self.process.id())
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> io::Result<f64> {
        let text = self.text("/metrics")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.and_then(|value| value.trim().parse().ok());
        value.ok_or_else(|| io::Error::other(format!("there is no metric {name}")))
    }

    fn text(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(START_MAX))?;
        let host = self.admin;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply)?;
        let reply = String::from_utf8_lossy(&reply);
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
        if head.starts_with("HTTP/1.1 200") {
            Ok(body.to_owned())
        } else {
            Err(io::Error::other(format!("{path}: {head}")))
        }
    }

    /// Ends it in an orderly way.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let end = Instant::now() + STOP_MAX;
        while self.process.try_wait()?.is_none() {
            if Instant::now() > end {
                return Err(io::Error::other("the gateway does not end"));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Resident memory of a process.
pub(crate) fn resident_mib(id: u32) -> io::Result<f64> {
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim_end_matches("kB").trim().parse::<f64>().ok());
    let kib = kib.ok_or_else(|| io::Error::other("the system does not say what is resident"))?;
    Ok(kib / 1024.0)
}
