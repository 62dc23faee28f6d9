//! The store in PostgreSQL: a publish beside a plain insert and commit at the same server in the same run.
//!
//! The server has its default settings: it syncs each commit, and compiles what it takes for costly.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::deliver::body;
use crate::gateway::Gateway;
use crate::wire::Wire;
use crate::{Arguments, Row};

/// Bytes of an event and of a row.
const BYTES: usize = 1024;
/// Events and rows that are measured, each after the one before, and those that come first.
const COUNT: u64 = 1000;
const WARM_UP: u64 = 100;
/// A server that does not answer by then has not started.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The most that a publish may take, as a multiple of the plain insert.
const TIMES_MAX: f64 = 3.0;

pub(crate) fn measure(arguments: &Arguments) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    // The server's user has to reach it.
    let place = tempfile::tempdir()?;
    let server = Server::start(place.path())?;
    let store = format!("{{ postgres: \"postgres://bench@127.0.0.1:{}/postgres\" }}", server.port);
    let gateway =
        Gateway::start_at(&arguments.program(), folder.path(), "{ topics: [news] }", &store)?;
    // Before and after, since the disk's time varies.
    let before = server.insert()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let publish = LocalSet::new().block_on(&runtime, publish(&gateway))?;
    let plain = f64::midpoint(before, server.insert()?);
    let times = publish / plain;
    Ok(vec![
        Row::new(
            "a publish of 1 KiB, store in PostgreSQL",
            format!("{publish:.2} ms; a plain insert and commit {plain:.2} ms; {times:.1} times"),
        )
        .with_target("3 times a plain insert", times <= TIMES_MAX),
    ])
}

/// The mean time of a publish in milliseconds.
async fn publish(gateway: &Gateway) -> io::Result<f64> {
    let mut wire = Wire::connect(gateway.public).await?;
    let mut began = Instant::now();
    for number in 0..WARM_UP + COUNT {
        if number == WARM_UP {
            began = Instant::now();
        }
        let head = format!(
            "POST /hub/publish?topic=news HTTP/1.1\r\nHost: hub\r\nContent-Length: {BYTES}\r\n\r\n"
        );
        match wire.ask(&[head.as_bytes(), &body(BYTES, number)].concat()).await? {
            (200, _) => {}
            (status, _) => return Err(io::Error::other(format!("publishing: {status}"))),
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / COUNT as f64)
}

/// A server with a database of its own.
struct Server {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> io::Result<Server> {
        give_away(folder)?;
        let data = folder.join("data");
        let made = command("initdb")
            .args(["--encoding=UTF8", "--locale=C", "--username=bench", "--auth=trust"])
            .arg("--pgdata")
            .arg(&data)
            .stdout(Stdio::null())
            .status()?;
        if !made.success() {
            return Err(io::Error::other("initdb has failed"));
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = fs::File::create(folder.join("log"))?;
        let mut process = command("postgres");
        process.arg("-D").arg(&data).arg("-k").arg(folder);
        process.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        let process = process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let server = Server { process, folder: folder.to_owned(), port };
        let began = Instant::now();
        while server.run("select 1;").is_err() {
            if began.elapsed() > START_MAX {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("the database does not start: {log}")));
            }
            thread::sleep(LOOK_AGAIN);
        }
        server.run("create table plain (id bigint primary key, bytes bytea not null);")?;
        Ok(server)
    }

    /// The mean time of an insert with its commit, in milliseconds.
    fn insert(&self) -> io::Result<f64> {
        self.run("truncate plain;")?;
        let rows = |ids: std::ops::Range<u64>| -> String {
            let row = |id| {
                format!("insert into plain values ({id}, decode(repeat('78', {BYTES}), 'hex'));\n")
            };
            ids.map(row).collect()
        };
        // What it takes to start the client is in both.
        let few = self.run(&rows(0..WARM_UP))?;
        let many = self.run(&rows(WARM_UP..WARM_UP + WARM_UP + COUNT))?;
        Ok(many.saturating_sub(few).as_secs_f64() * 1e3 / COUNT as f64)
    }

    /// Runs statements, each as a transaction, and gives the time.
    fn run(&self, statements: &str) -> io::Result<Duration> {
        let began = Instant::now();
        let mut client = Command::new(tool("psql"))
            .args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "bench", "-d", "postgres", "-h"])
            .arg("127.0.0.1")
            .args(["-p", &self.port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut into) = client.stdin.take() {
            into.write_all(statements.as_bytes())?;
        }
        if client.wait()?.success() {
            Ok(began.elapsed())
        } else {
            Err(io::Error::other(format!("psql has failed: {}", self.folder.display())))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An end in which it takes its own processes with it.
        let id = self.process.id().to_string();
        drop(Command::new("kill").args(["-QUIT", &id]).status());
        drop(self.process.wait());
    }
}

/// One of the server's programs, which refuse to run as root.
fn command(name: &str) -> Command {
    let mut command = Command::new(tool(name));
    command.current_dir("/");
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command
}

/// Where Debian keeps them, or on the path.
fn tool(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found = versions.map(|version| version.path().join("bin").join(name));
    found.find(|path| path.is_file()).unwrap_or_else(|| name.into())
}

fn give_away(folder: &Path) -> io::Result<()> {
    match user() {
        Some((user, group)) => chown(folder, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// The server's user and group, where this runs as root.
fn user() -> Option<(u32, u32)> {
    let own = fs::read_to_string("/proc/self/status").ok()?;
    let is_root = own.lines().any(|line| line.starts_with("Uid:\t0\t"));
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:"))?;
    let mut words = line.split(':').skip(1);
    is_root.then_some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}
