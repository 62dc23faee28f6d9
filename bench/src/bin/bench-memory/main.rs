//! `bench-memory`: the memory that a gateway needs for connections that are open and silent, for clients that do not read, and after
//! many have come and left.
//!
//! Owns the measurement from start to table. Each case has a gateway of its own with one worker and plain HTTP/1, and a backend
//! in this process. The figure is the gateway's resident memory (`Rss` of /proc/PID/smaps_rollup) with the connections, less
//! that before them, by their number. The first connections are left out: for them a gateway allocates things once. Memory of the
//! system, such as socket buffers, is not resident memory and not counted.

// The machine's clock is the measuring tool; nothing here runs inside the gateway.
#![allow(clippy::disallowed_methods)]

mod leavers;

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Measures what a silent connection costs the gateway in memory
#[derive(Parser)]
struct Arguments {
    /// Connections of each case
    #[arg(long, default_value_t = 5000)]
    connections: u32,
    /// Cases to run, by name; all when absent
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Clients that come and leave in the last case
    #[arg(long, default_value_t = 100_000)]
    leavers: u32,
    /// The Tidegate to measure; the one built beside this program when absent
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Ends with exit code 1 when a target is not met
    #[arg(long)]
    strict: bool,
}

/// One kind of connection.
struct Case {
    name: &'static str,
    title: &'static str,
    /// Header lines of its request beside the host.
    lines: &'static str,
    /// The backend's answer, whose end is the last that comes.
    reply: &'static [u8],
    /// The policies of its route.
    policies: &'static str,
    /// What the backend sends behind its answer without an end, and which the client does not read.
    flood: Option<&'static [u8]>,
    target_kib: f64,
}

const CASES: [Case; 7] = [
    Case {
        name: "idle",
        title: "idle keep-alive connection, one request made on it",
        lines: "",
        reply: b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nxxxxxxxx",
        policies: "",
        flood: None,
        target_kib: 2.5,
    },
    Case {
        name: "stream",
        title: "event stream, both sockets, one event sent on it",
        lines: EVENTS_ASKED,
        reply: EVENTS,
        policies: "",
        flood: None,
        target_kib: 6.0,
    },
    Case {
        name: "events",
        title: "event stream with the policy `sse`",
        lines: EVENTS_ASKED,
        reply: EVENTS,
        policies: "{ sse: { events: 1000000, per: 1h, connections: 100000 } }",
        flood: None,
        target_kib: 6.0,
    },
    Case {
        name: "tunnel",
        title: "WebSocket, both sockets, one message sent on it",
        lines: UPGRADE_ASKED,
        reply: UPGRADED,
        policies: "",
        flood: None,
        target_kib: 6.0,
    },
    Case {
        name: "messages",
        title: "WebSocket with the policy `websocket`",
        lines: UPGRADE_ASKED,
        reply: UPGRADED,
        policies: "{ websocket: { messages: 1000000, per: 1h, connections: 100000, message_bytes_max: 64KiB } }",
        flood: None,
        target_kib: 6.0,
    },
    Case {
        name: "slow-events",
        title: "client of an event stream that does not read, policy `sse`",
        lines: EVENTS_ASKED,
        reply: EVENTS,
        policies: "{ sse: { events: 1000000000, per: 1h } }",
        flood: Some(b"9\r\ndata: 1\n\n\r\n"),
        target_kib: 64.0,
    },
    Case {
        name: "slow-messages",
        title: "client of a WebSocket that does not read, policy `websocket`",
        lines: UPGRADE_ASKED,
        reply: UPGRADED,
        policies: "{ websocket: { messages: 1000000000, per: 1h } }",
        flood: Some(b"\x81\x08xxxxxxxx"),
        target_kib: 64.0,
    },
];

/// Clients that do not read: the system's buffers of each are some megabytes.
const SLOW: u32 = 200;

const EVENTS_ASKED: &str = "Accept: text/event-stream\r\n";
const EVENTS: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
const UPGRADE_ASKED: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const UPGRADED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x08xxxxxxxx";
/// The first byte of a close frame.
const CLOSE: u8 = 0x88;

/// The name of the case of clients that leave.
const LEAVERS: &str = "leavers";

const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Buffers that are freed after a pause do not count.
const SETTLE: Duration = Duration::from_secs(2);
/// Connections that are opened first and not counted.
const FIRST: u32 = 50;
/// The last bytes of every reply.
const END: usize = 8;

/// A gateway that was started here; it ends with the case.
struct Gateway {
    process: Child,
    address: SocketAddr,
    admin: SocketAddr,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Nobody misses what cannot be said.
            drop(writeln!(io::stderr(), "bench-memory: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> io::Result<ExitCode> {
    let names: Vec<&str> = CASES.iter().map(|case| case.name).chain([LEAVERS]).collect();
    if let Some(name) = arguments.only.iter().find(|name| !names.contains(&name.as_str())) {
        let names = names.join(", ");
        return Err(io::Error::other(format!("no case is called `{name}`; there are {names}")));
    }
    let backend = serve_backend()?;
    let beside = || env::current_exe().unwrap_or_default().with_file_name("tidegate");
    let program = arguments.tidegate.clone().unwrap_or_else(beside);
    let mut output = io::stdout();
    let count = arguments.connections;
    writeln!(
        output,
        "{count} of each, resident memory of the gateway, one worker, plain HTTP/1\n"
    )?;
    writeln!(output, "| case | KiB each | target | MiB before | MiB with them |")?;
    writeln!(output, "| --- | --- | --- | --- | --- |")?;
    let mut all_met = true;
    for case in CASES {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == case.name) {
            continue;
        }
        let held = if case.flood.is_some() { count.min(SLOW) } else { count };
        let (before, with) = hold(&program, backend, &case, held)?;
        let each = (with - before) / f64::from(held.max(1));
        let met = each <= case.target_kib;
        all_met &= met;
        let (title, target) = (case.title, case.target_kib);
        let verdict = if met { "met" } else { "missed" };
        let (before, with) = (before / 1024.0, with / 1024.0);
        writeln!(output, "| {title} | {each:.2} | {target} {verdict} | {before:.1} | {with:.1} |")?;
    }
    if arguments.only.is_empty() || arguments.only.iter().any(|name| name == LEAVERS) {
        let left = leavers::measure(&program, backend, arguments.leavers)?;
        writeln!(output, "\n{}", left.table())?;
        all_met &= left.is_met();
    }
    Ok(if arguments.strict && !all_met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Opens the connections and gives the KiB without and with them.
fn hold(program: &Path, backend: SocketAddr, case: &Case, count: u32) -> io::Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let gateway = Gateway::start(program, folder.path(), backend, case.policies)?;
    let first = open(&gateway, case, FIRST)?;
    thread::sleep(SETTLE);
    let before = gateway.resident_kib()?;
    let held = open(&gateway, case, count)?;
    thread::sleep(SETTLE);
    let with = gateway.resident_kib()?;
    // Only open connections count.
    let are_slow = case.flood.is_some();
    first.iter().chain(&held).try_for_each(|stream| check_open(stream, are_slow))?;
    Ok((before, with))
}

impl Gateway {
    fn start(
        program: &Path,
        folder: &Path,
        backend: SocketAddr,
        policies: &str,
    ) -> io::Result<Gateway> {
        let [address, admin] = [free_address()?, free_address()?];
        let file = folder.join("tidegate.yaml");
        fs::write(
            &file,
            format!(
                "listen: {{ plain: {{ address: \"{address}\" }} }}\nadmin: {{ address: \"{admin}\" }}\nworkers: 1\ndrain: {{ delay: 0s }}\n\
                 upstreams: {{ held: {{ targets: [\"http://{backend}\"], breaker: {{ connections: 100000, requests: 100000 }} }} }}\n\
                 routes: {{ held: {{ match: {{ path: \"/**\" }}, upstream: held, policies: [{policies}] }} }}\n"
            ),
        )?;
        let mut command = Command::new(program);
        command.arg("run").arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(fs::File::create(folder.join("log"))?).spawn()?;
        let mut gateway = Gateway { process, address, admin };
        let end = Instant::now() + ANSWER_MAX;
        while TcpStream::connect(address).is_err() {
            if gateway.process.try_wait()?.is_some() || Instant::now() > end {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("the gateway does not listen: {log}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(gateway)
    }

    fn resident_kib(&self) -> io::Result<f64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kib = line.and_then(|line| line.trim_end_matches("kB").trim().parse().ok());
        kib.ok_or_else(|| io::Error::other("the system does not say what is resident"))
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn open(gateway: &Gateway, case: &Case, count: u32) -> io::Result<Vec<TcpStream>> {
    let request = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", case.name, case.lines);
    let end = case.reply.get(case.reply.len().saturating_sub(END)..).unwrap_or_default();
    let open_one = |_| {
        let mut stream = TcpStream::connect(gateway.address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(request.as_bytes())?;
        let mut reply = Vec::new();
        let mut piece = [0; 4096];
        while match case.flood {
            Some(_) => reply.is_empty(),
            None => !reply.ends_with(end),
        } {
            let count = match stream.read(&mut piece) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            };
            let count = count.map_err(|error| {
                let came = String::from_utf8_lossy(&reply);
                io::Error::new(error.kind(), format!("{}: {error} behind {came:?}", case.name))
            })?;
            reply.extend_from_slice(piece.get(..count).unwrap_or_default());
        }
        // Gateways may give other reasons and lines, but no other status.
        if reply.get(..12) == case.reply.get(..12) {
            Ok(stream)
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&reply).into_owned()))
        }
    };
    (0..count).map(open_one).collect()
}

fn check_open(stream: &TcpStream, is_slow: bool) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    match stream.peek(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Ok(0) => Err(io::Error::other("a connection was closed while it was measured")),
        Ok(_) if is_slow => Ok(()),
        Ok(_) => Err(io::Error::other("more than one reply came")),
        Err(error) => Err(error),
    }
}

/// A backend in a thread of this process, for as long as that runs. It answers every head as its path says.
fn serve_backend() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || runtime.block_on(accept(listener)));
    Ok(address)
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (socket, _) = listener.accept().await?;
        drop(tokio::spawn(answer(socket)));
    }
}

async fn answer(mut socket: tokio::net::TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while socket.read_buf(&mut head).await? > 0 {
        // A gateway waits for the answer to a close frame (RFC 6455, 5.5.1), and holds both sockets meanwhile.
        if head.first() == Some(&CLOSE) {
            return socket.write_all(&[CLOSE, 0]).await;
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let is = |case: &&Case| head.starts_with(format!("GET /{} ", case.name).as_bytes());
        let Some(case) = CASES.iter().find(is) else { return Ok(()) };
        socket.write_all(case.reply).await?;
        if let Some(flood) = case.flood {
            let flood = flood.repeat(1000);
            loop {
                socket.write_all(&flood).await?;
            }
        }
        head.clear();
    }
    Ok(())
}
