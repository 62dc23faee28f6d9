//! A PostgreSQL server of a test's own, in a folder of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Identity, until};

/// A running server with the user `tester`, whose password is `geheim`. It is killed with the test.
pub(crate) struct Postgres {
    process: Child,
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
}

/// Ports that are tried until one stays free between the moment it is found and the server's start.
const ATTEMPTS: usize = 5;

impl Postgres {
    /// Starts a server on a port of the loopback and on a socket in its folder.
    #[track_caller]
    pub(crate) fn start() -> Postgres {
        Postgres::start_with(&[])
    }

    /// The same with more settings, each `name=value`.
    #[track_caller]
    pub(crate) fn start_with(settings: &[&str]) -> Postgres {
        let folder = tempfile::tempdir().unwrap();
        give_away(folder.path());
        Postgres::start_in(folder, settings)
    }

    /// A server that speaks TLS with this certificate.
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

    /// Its address, with the user and the password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://tester:geheim@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port of the loopback.
    #[allow(dead_code, reason = "the tests of the store have no use for it")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its address by the socket in its folder, where no password is asked for.
    pub(crate) fn socket_url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://tester@{folder}:{}/postgres", self.port)
    }

    /// Runs statements, and gives the rows of the last: columns divided by `|`.
    #[track_caller]
    pub(crate) fn sql(&self, statements: &str) -> String {
        said(psql(self.folder.path(), self.port, statements))
    }

    /// Runs statements in a session that then stays as it is, in the middle of a transaction perhaps, until it is dropped.
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

    /// What it has said so far.
    #[allow(dead_code, reason = "the tests of the store have no use for it")]
    pub(crate) fn log(&self) -> String {
        log(self.folder.path())
    }

    /// Ends it in the middle of whatever it does, as a loss of power would.
    pub(crate) fn kill(&mut self) {
        // It takes its children with it; a plain kill would leave them for a moment.
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::QUIT).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again after a kill, on the same port and with the same data.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.process = serve(self.folder.path(), self.port, &self.settings);
        let (folder, port) = (self.folder.path(), self.port);
        assert!(is_up(&mut self.process, folder, port), "no server: {}", log(folder));
    }
}

/// A session that stands still.
#[allow(dead_code, reason = "not all suites use it")]
pub(crate) struct Held {
    process: Child,
    _into: ChildStdin,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have been stopped.
        let _killed = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _reaped = self.process.wait();
    }
}

/// Makes a file or a folder the server's.
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
    // A machine of tests does not lose power, and has little memory.
    command.args(["-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=50"]);
    for setting in settings {
        command.args(["-c", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("postgres; scripts/setup.sh installs it")
}

/// Waits until it answers. False: it has ended.
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

/// One of the server's programs. It refuses to run as root, and gets another user then.
fn command(name: &str) -> Command {
    let mut command = Command::new(tool(name));
    // Its current folder has to be one that it may read.
    command.current_dir("/");
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

/// A program on the path, or where Debian keeps those of the server.
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

/// A user and a group for the server, if this is root.
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
