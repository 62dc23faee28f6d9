//! A PostgreSQL server for one test, in its own folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Identity, until};

/// A running server with the user `tester`, whose password is `geheim`. It is killed when dropped.
pub(crate) struct Postgres {
    process: Child,
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
}

/// The number of attempts to find a port that is still free when the server starts.
const ATTEMPTS: usize = 5;

impl Postgres {
    /// Starts a server on a loopback port and on a socket in its folder.
    #[track_caller]
    pub(crate) fn start() -> Postgres {
        Postgres::start_with(&[])
    }

    /// Starts a server with more settings, each `name=value`.
    #[track_caller]
    pub(crate) fn start_with(settings: &[&str]) -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        give_away(folder.path());
        Postgres::start_in(folder, settings)
    }

    /// Starts a server with TLS and this certificate.
    #[track_caller]
    pub(crate) fn start_tls(identity: &Identity) -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        give_away(folder.path());
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            give_away(&path);
            path.display().to_string()
        };
        let certificate = format!("ssl_cert_file={}", file("tls.pem", &identity.certificate));
        let key = format!("ssl_key_file={}", file("tls.key", &identity.key));
        Postgres::start_in(folder, &["ssl=on", &certificate, &key])
    }

    #[track_caller]
    fn start_in(folder: TempDir, settings: &[&str]) -> Postgres {
        let password = folder.path().join("password");
        std::fs::write(&password, "geheim\n").unwrap();
        give_away(&password);
        let made = command("initdb")
            .args(["--no-sync", "--encoding=UTF8", "--locale=C", "--username=tester"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile"])
            .arg(&password)
            .arg("--pgdata")
            .arg(folder.path().join("data"))
            .output()
            .expect("initdb; scripts/setup.sh installs it");
        said(made);
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut process = serve(folder.path(), port, &settings);
            if is_up(&mut process, folder.path(), port) {
                return Postgres { process, folder, port, settings };
            }
        }
        panic!("no server: {}", log(folder.path()));
    }

    /// Returns its URL, with the user and the password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://tester:geheim@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns its loopback port.
    #[allow(dead_code, reason = "the tests of the store have no use for it")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the socket in its folder, which does not require a password.
    pub(crate) fn socket_url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://tester@{folder}:{}/postgres", self.port)
    }

    /// Runs statements and returns the rows of the last one, with columns separated by `|`.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &str) -> String {
        said(psql(self.folder.path(), self.port, statements))
    }

    /// Runs the statements in a file.
    #[track_caller]
    #[allow(dead_code, reason = "only the tests of the store use it")]
    pub(crate) fn sql_file(&self, file: &Path) {
        let mut command = psql_of(self.folder.path(), self.port);
        said(command.arg("-f").arg(file).output().expect("psql; scripts/setup.sh installs it"));
    }

    /// Returns the statements that make a schema with its tables and rows, without those that depend on the version of the server.
    #[track_caller]
    #[allow(dead_code, reason = "only the tests of the store use it")]
    pub(crate) fn dump(&self, schema: &str) -> String {
        let mut command = Command::new(tool("pg_dump"));
        command.args(["-U", "tester", "-d", "postgres", "--inserts", "--no-owner", "-n", schema]);
        command.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        let text = said(command.output().expect("pg_dump; scripts/setup.sh installs it"));
        let others = ["--", "\\", "SET ", "SELECT pg_catalog.set_config"];
        let is_kept = |line: &&str| !others.iter().any(|other| line.starts_with(other));
        let lines = text.lines().filter(|line| !line.is_empty()).filter(is_kept);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Runs statements in a session that is then kept, possibly in a transaction, until it is dropped.
    #[track_caller]
    #[allow(dead_code, reason = "not all suites use it")]
    pub(crate) fn hold(&self, statements: &str) -> Held {
        let mut command = psql_of(self.folder.path(), self.port);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("psql; scripts/setup.sh installs it");
        let mut into = process.stdin.take().unwrap();
        writeln!(into, "{statements};\n\\echo held").unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        while line.trim() != "held" {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "psql has ended");
        }
        Held { process, _into: into }
    }

    /// Returns its log so far.
    #[allow(dead_code, reason = "the tests of the store have no use for it")]
    pub(crate) fn log(&self) -> String {
        log(self.folder.path())
    }

    /// Kills the server, as a loss of power would.
    pub(crate) fn kill(&mut self) {
        // This also ends its child processes, which would outlive a plain kill for a moment.
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::QUIT).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the server again after a kill, on the same port and with the same data.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.process = serve(self.folder.path(), self.port, &self.settings);
        let (folder, port) = (self.folder.path(), self.port);
        assert!(is_up(&mut self.process, folder, port), "no server: {}", log(folder));
    }
}

/// A session that is kept open.
#[allow(dead_code, reason = "not all suites use it")]
pub(crate) struct Held {
    process: Child,
    _into: ChildStdin,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }
}

/// Gives a file or a folder to the server's user.
fn give_away(path: &Path) {
    if let Some((user, group)) = unprivileged() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

fn serve(folder: &Path, port: u16, settings: &[String]) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut command = command("postgres");
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    // Tests do not need durability, and have little memory.
    command.args(["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=50"]);
    for setting in settings {
        command.args(["-c", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("postgres; scripts/setup.sh installs it")
}

/// Waits until the server answers. Returns false if it has ended.
#[track_caller]
fn is_up(process: &mut Child, folder: &Path, port: u16) -> bool {
    let mut ended = false;
    until("the database answers", || {
        ended = process.try_wait().unwrap().is_some();
        ended || psql(folder, port, "select 1").status.success()
    });
    !ended
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn psql_of(folder: &Path, port: u16) -> Command {
    let mut command = Command::new(tool("psql"));
    command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "tester", "-d", "postgres"]);
    command.arg("-h").arg(folder).args(["-p", &port.to_string()]);
    command
}

fn psql(folder: &Path, port: u16, statements: &str) -> Output {
    let mut command = psql_of(folder, port);
    command.args(["-c", statements]);
    command.stdin(Stdio::null()).output().expect("psql; scripts/setup.sh installs it")
}

#[track_caller]
fn said(output: Output) -> String {
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    String::from_utf8(out).unwrap().trim_end().to_owned()
}

/// Returns a command for one of the server's programs. They refuse to run as root, so another user is set in that case.
fn command(name: &str) -> Command {
    let mut command = Command::new(tool(name));
    // The current folder must be readable for that user.
    command.current_dir("/");
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

/// Returns a program on the path or in Debian's folder of the server.
fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions
        .map(|version| version.path().join("bin"))
        .chain(std::env::split_paths(&path))
        .collect();
    folders.retain(|folder| folder.join(name).is_file());
    folders.first().map_or_else(|| name.into(), |folder| folder.join(name))
}

/// Returns a user and a group for the server, if this process runs as root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let found = ["postgres", "nobody"].iter().find_map(|name| {
        let mut words =
            users.lines().find_map(|line| line.strip_prefix(&format!("{name}:")))?.split(':');
        words.next();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    Some(found.expect("a user without rights"))
}
