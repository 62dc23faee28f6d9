//! The program under test as a process, with its files.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::clock::{hour, tidy};
use super::{Clock, Wire, until};

/// A running `tidegate run`. It is killed when dropped.
pub(crate) struct Gateway {
    process: Mutex<Child>,
    folder: TempDir,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to its end.
#[track_caller]
pub(crate) fn tidegate<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Run {
    tidegate_with(arguments, &[])
}

/// Runs the program to its end, with variables in its environment.
#[track_caller]
pub(crate) fn tidegate_with<A: AsRef<std::ffi::OsStr>>(
    arguments: &[A],
    variables: &[(&str, &str)],
) -> Run {
    let mut command = Command::new(program());
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    let run = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run { code: run.status.code(), stdout: text(run.stdout), stderr: text(run.stderr) }
}

/// Returns the program that was built for the tests, or the one in `TIDEGATE_PROGRAM`, such as an old version for which a new test must
/// fail.
pub(crate) fn program() -> String {
    let built = || env!("CARGO_BIN_EXE_tidegate").to_owned();
    std::env::var("TIDEGATE_PROGRAM").unwrap_or_else(|_| built())
}

impl Gateway {
    /// Starts with a configuration, whose listeners should use port 0.
    #[track_caller]
    pub(crate) fn start(yaml: impl AsRef<str>) -> Gateway {
        Gateway::start_beside(yaml, &[])
    }

    /// Starts with a configuration and other files next to it, by name and text.
    #[track_caller]
    pub(crate) fn start_beside(yaml: impl AsRef<str>, files: &[(&str, &str)]) -> Gateway {
        let folder = folder_of(files);
        std::fs::write(folder.path().join("tidegate.yaml"), yaml.as_ref()).unwrap();
        Gateway::run(folder, "tidegate.yaml", &[])
    }

    /// Starts with this wall clock.
    #[track_caller]
    pub(crate) fn start_by(clock: &Clock, yaml: impl AsRef<str>) -> Gateway {
        let folder = folder_of(&[("tidegate.yaml", yaml.as_ref())]);
        Gateway::run(folder, "tidegate.yaml", &clock.variables())
    }

    /// Sets the clock that it was started with, and waits until the program has the new time.
    #[track_caller]
    pub(crate) fn set(&self, clock: &Clock, by: i64) {
        clock.set(by);
        until("it has the time", || {
            let reply = self.wire().get("/no/such/path");
            reply.get("date").is_some_and(|date| date.starts_with(&hour(by)))
        });
    }

    /// Starts with a folder of files as its configuration.
    #[track_caller]
    pub(crate) fn start_folder(files: &[(&str, &str)]) -> Gateway {
        Gateway::run(folder_of(files), ".", &[])
    }

    /// Starts with a configuration in a folder, which is deleted when the gateway ends.
    #[track_caller]
    pub(crate) fn start_of(folder: TempDir, configuration: &str) -> Gateway {
        let configuration = folder.path().join(configuration);
        Gateway::run(folder, configuration.to_str().unwrap(), &[])
    }

    /// Starts in a folder that is kept when the gateway ends.
    #[track_caller]
    pub(crate) fn start_in(folder: &Path, configuration: &str) -> Gateway {
        let configuration = folder.join(configuration);
        Gateway::run(folder_of(&[]), configuration.to_str().unwrap(), &[])
    }

    /// Starts a program by another path, such as a link to it that the test changes later.
    #[track_caller]
    pub(crate) fn start_by_path(program: &Path, yaml: impl AsRef<str>) -> Gateway {
        let folder = folder_of(&[("tidegate.yaml", yaml.as_ref())]);
        Gateway::run_program(program.as_os_str(), folder, "tidegate.yaml", &[])
    }

    #[track_caller]
    fn run(folder: TempDir, configuration: &str, variables: &[(&str, String)]) -> Gateway {
        Gateway::run_program(program().as_ref(), folder, configuration, variables)
    }

    #[track_caller]
    fn run_program(
        program: &std::ffi::OsStr,
        folder: TempDir,
        configuration: &str,
        variables: &[(&str, String)],
    ) -> Gateway {
        let mut process = Command::new(program)
            .args(["run", configuration])
            .current_dir(folder.path())
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdout = gather(process.stdout.take().unwrap());
        let stderr = gather(process.stderr.take().unwrap());
        let gateway = Gateway { process: Mutex::new(process), folder, stdout, stderr };
        gateway.wait_for_log("listening listener=");
        gateway
    }

    /// Returns the address of a listener.
    #[track_caller]
    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.logged_address(&format!("listening listener=\"{listener}\" address="))
    }

    /// Returns the address of the admin API.
    #[track_caller]
    pub(crate) fn admin(&self) -> SocketAddr {
        self.logged_address("admin API address=")
    }

    /// Opens a new connection to the listener `public`.
    #[track_caller]
    pub(crate) fn wire(&self) -> Wire {
        Wire::connect(self.address("public"))
    }

    /// Sends a GET to the admin API and returns the reply.
    #[track_caller]
    pub(crate) fn admin_get(&self, path: &str) -> super::Message {
        // The host must be an address: names are refused, since they could belong to a web page.
        let admin = self.admin();
        Wire::connect(admin).ask(format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n"))
    }

    /// Returns the program's log so far.
    pub(crate) fn log(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Returns the program's output so far.
    pub(crate) fn output(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// Stops reading the program's log while the result is held.
    pub(crate) fn hold_log(&self) -> MutexGuard<'_, String> {
        self.stderr.lock().unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) {
        until(&format!("the log says {text:?}"), || {
            // The end of the log may still be in the pipe after the program has ended. Its reader drops the text once it is done.
            let over = self.exit_status().is_some() && Arc::strong_count(&self.stderr) == 1;
            let found = self.log().contains(text);
            assert!(found || !over, "it has ended:\n{}", self.log());
            found
        });
    }

    /// Waits until the program's output has a text.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, text: &str) {
        until(&format!("the output says {text:?}"), || self.output().contains(text));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a running process");
    }

    /// Replaces the configuration atomically.
    #[track_caller]
    pub(crate) fn rewrite(&self, yaml: impl AsRef<str>) {
        self.put("tidegate.yaml", yaml.as_ref());
    }

    /// Writes a file next to the configuration atomically.
    #[track_caller]
    pub(crate) fn put(&self, name: &str, text: &str) {
        let new = self.path(&format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, self.path(name)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }

    /// Starts again with the same folder, after the program has ended.
    #[track_caller]
    pub(crate) fn restart(&self) -> Gateway {
        self.restarted(&[])
    }

    /// Starts again with the same folder and a clock.
    #[track_caller]
    pub(crate) fn restart_by(&self, clock: &Clock) -> Gateway {
        self.restarted(&clock.variables())
    }

    fn restarted(&self, variables: &[(&str, String)]) -> Gateway {
        let copy = tempfile::tempdir().expect("a temporary folder");
        copy_folder(self.folder.path(), copy.path());
        Gateway::run(copy, "tidegate.yaml", variables)
    }

    /// Waits until the program has ended by itself.
    #[track_caller]
    pub(crate) fn wait_for_exit(&self) -> ExitStatus {
        let mut status = None;
        until("the program has ended", || {
            status = self.exit_status();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.process.lock().unwrap().try_wait().expect("a child of ours")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process.lock().unwrap())
    }

    /// Returns true if the program has not disabled transparent huge pages.
    pub(crate) fn may_have_huge_pages(&self) -> bool {
        self.process_field("status", "THP_enabled:") == "1"
    }

    /// Returns the program's resident memory, or 0 on systems without /proc.
    pub(crate) fn resident_bytes(&self) -> usize {
        if cfg!(not(target_os = "linux")) {
            return 0;
        }
        self.process_bytes("smaps_rollup", "Rss:")
    }

    /// Returns the processor time that the program has taken.
    #[track_caller]
    pub(crate) fn cpu_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.pid().as_raw_nonzero());
        let text = std::fs::read_to_string(path).expect("the process runs");
        // The name, which comes second, may have spaces; times are the 14th and 15th field, in hundredths of a second.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let hundredths = |at: usize| fields[at].parse::<u64>().unwrap();
        Duration::from_millis(10 * (hundredths(11) + hundredths(12)))
    }

    /// Returns the program's peak resident memory, or 0 on systems without /proc.
    pub(crate) fn peak_bytes(&self) -> usize {
        if cfg!(not(target_os = "linux")) {
            return 0;
        }
        self.process_bytes("status", "VmHWM:")
    }

    fn process_bytes(&self, file: &str, field: &str) -> usize {
        self.process_field(file, field).trim_end_matches("kB").trim().parse::<usize>().unwrap()
            * 1024
    }

    /// Returns a field of the process's files in /proc.
    #[track_caller]
    fn process_field(&self, file: &str, field: &str) -> String {
        let path = format!("/proc/{}/{file}", self.pid().as_raw_nonzero());
        let text = std::fs::read_to_string(path).expect("the process runs");
        let value = text.lines().find_map(|line| line.strip_prefix(field));
        value.unwrap_or_else(|| panic!("no {field} in {file}")).trim().to_owned()
    }

    #[track_caller]
    fn logged_address(&self, label: &str) -> SocketAddr {
        self.wait_for_log(label);
        let log = self.log();
        let after = log.rsplit(label).next().unwrap();
        let address = after.split_whitespace().next().unwrap();
        address.parse().unwrap_or_else(|_| panic!("no address after {label:?}:\n{log}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may already have ended.
        let pid = self.pid();
        let process = self.process.get_mut().unwrap();
        let _ = process.kill();
        let _ = process.wait();
        tidy(pid);
        if thread::panicking() {
            eprintln!("--- the gateway's log\n{}", self.log());
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&place).unwrap();
            copy_folder(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}

fn folder_of(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Reads lines as they arrive, so that the program never waits for its reader.
fn gather(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text: Arc<Mutex<String>> = Arc::default();
    let sink = text.clone();
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}
