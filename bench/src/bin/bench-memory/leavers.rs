//! Clients that come, get their first event or message, and leave: nothing of them may stay.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{CASES, Case, Gateway, open};

/// What was there before, and what is there behind it.
pub(crate) struct Left {
    leavers: u32,
    before: Held,
    after: Held,
    /// The time that this took.
    settled: Duration,
}

/// What a gateway holds.
#[derive(Clone, Copy)]
struct Held {
    resident_kib: f64,
    fds: f64,
    /// Open connections of clients, and requests that upstreams work on.
    open: f64,
}

/// The policies of both kinds of stream.
const POLICIES: &str = "{ sse: { events: 1000000000, per: 1h, connections: 100000 } }, \
    { websocket: { messages: 1000000000, per: 1h, connections: 100000 } }";
/// Clients that are there at once.
const AT_ONCE: u32 = 500;
/// For the first a gateway allocates things once.
const FIRST: u32 = 5_000;
const SETTLE_MAX: Duration = Duration::from_secs(30);
const RESIDENT_MAX: f64 = 1.05;
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Lets clients of event streams and of WebSockets come and leave, in turn.
pub(crate) fn measure(program: &Path, backend: SocketAddr, leavers: u32) -> io::Result<Left> {
    let folder = tempfile::tempdir()?;
    let gateway = Gateway::start(program, folder.path(), backend, POLICIES)?;
    come_and_leave(&gateway, FIRST.min(leavers))?;
    let begun = gateway.held()?;
    let before = settled(&gateway, |held| held.open == 0.0 && held.fds <= begun.fds)?.0;
    come_and_leave(&gateway, leavers)?;
    let (after, settled) = settled(&gateway, |after| is_back(&before, after))?;
    Ok(Left { leavers, before, after, settled })
}

fn come_and_leave(gateway: &Gateway, leavers: u32) -> io::Result<()> {
    let kinds = ["events", "messages"].map(|name| CASES.iter().find(|case| case.name == name));
    let kinds: Vec<&Case> = kinds.into_iter().flatten().collect();
    for (wave, kind) in (0..leavers.div_ceil(AT_ONCE)).zip(kinds.iter().cycle()) {
        let there = open(gateway, kind, AT_ONCE.min(leavers - wave * AT_ONCE))?;
        drop(there);
    }
    Ok(())
}

/// What is held once that is good, or at the latest when it has to be.
fn settled(gateway: &Gateway, is_good: impl Fn(&Held) -> bool) -> io::Result<(Held, Duration)> {
    let began = Instant::now();
    loop {
        let held = gateway.held()?;
        if is_good(&held) && began.elapsed() > crate::SETTLE || began.elapsed() > SETTLE_MAX {
            return Ok((held, began.elapsed()));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn is_back(before: &Held, after: &Held) -> bool {
    after.resident_kib <= before.resident_kib * RESIDENT_MAX
        && after.fds <= before.fds
        && after.open <= before.open
}

impl Gateway {
    fn held(&self) -> io::Result<Held> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let sum = |names: &[&str]| {
            let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        let open = ["tidegate_connections_open{", "tidegate_upstream_requests_active{"];
        let fds: f64 = sum(&["process_open_fds "]);
        if fds > 0.0 {
            Ok(Held { resident_kib: self.resident_kib()?, fds, open: sum(&open) })
        } else {
            Err(io::Error::other(format!("no metrics: {text}")))
        }
    }
}

impl Left {
    pub(crate) fn is_met(&self) -> bool {
        is_back(&self.before, &self.after)
    }

    pub(crate) fn table(&self) -> String {
        let Left { leavers, before, after, settled } = self;
        let rise = (after.resident_kib / before.resident_kib - 1.0) * 100.0;
        let verdict = if self.is_met() { "met" } else { "missed" };
        format!(
            "{leavers} clients of event streams and WebSockets that come and leave, {} s later\n\n\
             | | before | after | target |\n| --- | --- | --- | --- |\n\
             | MiB resident | {:.1} | {:.1} ({rise:+.1} %) | +5 % |\n\
             | descriptors | {} | {} | as before |\n\
             | open connections and active requests | {} | {} | as before: {verdict} |\n",
            settled.as_secs(),
            before.resident_kib / 1024.0,
            after.resident_kib / 1024.0,
            before.fds,
            after.fds,
            before.open,
            after.open,
        )
    }
}
