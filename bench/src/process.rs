//! Child processes: finds, starts and measures them, and always stops them.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Set by the first Ctrl-C. Every wait then ends, and dropping the processes stops them.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Time that a process has to end before it is killed. A build instrumented for profiling writes its profile when it ends.
const STOP_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Number of lines of a log that an error shows.
const TAIL_LINES: usize = 20;

/// Makes Ctrl-C and SIGTERM stop the run cleanly.
pub fn watch_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            STOPPED.store(true, Ordering::Relaxed);
        });
    })?;
    Ok(())
}

/// Sleeps, but ends early after a Ctrl-C.
pub fn pause(time: Duration) -> io::Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check_stopped()?;
        thread::sleep(LOOK_AGAIN.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

pub fn check_stopped() -> io::Result<()> {
    if STOPPED.load(Ordering::Relaxed) {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
    }
    Ok(())
}

/// The last lines of a log.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

/// A started process. Dropping it ends it and its descendants.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a process. Its output goes to the file, which is shown if it fails.
    pub fn start(mut command: Command, log: &Path) -> io::Result<Self> {
        let output = fs::File::create(log)?;
        command.stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: command.spawn()? })
    }

    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits until `find` finds something in the log, such as the address.
    ///
    /// # Errors
    ///
    /// If the process ends or takes longer than `time_max`. The error has the end of the log.
    pub fn wait_for<T>(
        &mut self,
        log: &Path,
        time_max: Duration,
        find: impl Fn(&str) -> Option<T>,
    ) -> io::Result<T> {
        let end = Instant::now() + time_max;
        loop {
            check_stopped()?;
            let text = fs::read_to_string(log)?;
            if let Some(found) = find(&text) {
                return Ok(found);
            }
            if self.has_ended()? || Instant::now() > end {
                return Err(io::Error::other(format!("did not start:\n{}", tail(&text))));
            }
            pause(LOOK_AGAIN)?;
        }
    }

    /// Returns the ids of the process and its descendants.
    #[must_use]
    pub fn tree(&self) -> Vec<u32> {
        let mut tree = vec![self.child.id()];
        let mut seen = 0;
        while let Some(&pid) = tree.get(seen) {
            seen += 1;
            for task in tasks(pid) {
                let children = fs::read_to_string(task.join("children")).unwrap_or_default();
                tree.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        tree
    }

    fn signal(&self, name: &str, pids: &[u32]) {
        let mut command = Command::new("kill");
        command.arg(name).args(pids.iter().map(u32::to_string));
        // If this fails, the processes have already ended.
        drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let tree = self.tree();
        self.signal("-TERM", &[self.child.id()]);
        let end = Instant::now() + STOP_MAX;
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(LOOK_AGAIN);
        }
        self.signal("-KILL", &tree);
        drop(self.child.wait());
    }
}

/// Returns the path of a program in the folder of this program.
#[must_use]
pub fn beside_us(name: &str) -> PathBuf {
    let ours = env::current_exe().unwrap_or_default();
    ours.with_file_name(name)
}

/// Returns the path of a program among our own tools, or else of the system.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let tools = [beside_us("../tools/bin"), PathBuf::from("target/tools/bin")];
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let folders = tools.into_iter().chain(env::split_paths(&path)).chain(system);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns a port of 127.0.0.1 that is not in use.
///
/// # Errors
///
/// If the system provides none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn tasks(pid: u32) -> Vec<std::path::PathBuf> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    folder.map(|tasks| tasks.flatten().map(|task| task.path()).collect()).unwrap_or_default()
}

/// Returns the id of the kernel thread that handles the remaining softirqs of a core. Of a process that sends much, the kernel charges the
/// CPU time of the network either to this thread or to the process.
#[must_use]
pub fn softirq_thread(core: usize) -> Option<u32> {
    let name = format!("ksoftirqd/{core}\n");
    let mut processes = fs::read_dir("/proc").ok()?.flatten();
    let is_it = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm == name);
    let path = processes.find_map(|process| Some(process.path()).filter(|path| is_it(path)))?;
    path.file_name()?.to_str()?.parse().ok()
}

/// Returns the CPU time of a process, by the scheduler's count in nanoseconds. /proc/PID/stat has a resolution of 10 ms.
#[must_use]
pub fn cpu_of(pid: u32) -> Duration {
    let times = tasks(pid).into_iter().filter_map(|task| {
        let times = fs::read_to_string(task.join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// Returns the resident memory of a process, or 0 if it does not exist.
pub(crate) fn rss_bytes_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_measured_and_stopped_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & while :; do :; done"]);
        let process = Process::start(command, &folder.path().join("log")).unwrap();
        let pid = process.child.id();
        while cpu_of(pid) < Duration::from_millis(20) || process.tree().len() < 2 {
            thread::yield_now();
        }
        assert!(rss_bytes_of(pid) > 100_000);
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_failure_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing; exit 1"]);
        let mut process = Process::start(command, &log).unwrap();
        let waited = process.wait_for(&log, Duration::from_secs(5), |_| None::<()>);
        assert!(waited.unwrap_err().to_string().contains("no such thing"));
    }
}
