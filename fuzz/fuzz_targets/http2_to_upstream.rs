//! Whatever a client sends over HTTP/2: what an upstream reads is HTTP/1 that our own parser takes, framed once, for one host, and
//! for a path that a route allows. A whole gateway stands between, in this process, so that its code is covered; the client and the
//! upstream are sockets on loopback.
#![no_main]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use control::{Control, Plan};
use http1::{Decoder, Limits};
use libfuzzer_sys::fuzz_target;
use listen::Gateway;

/// The only path that a route takes. A request for another one was smuggled.
const PREFIX: &[u8] = b"/public/";

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(10);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const PING: u8 = 6;

fuzz_target!(|data: &[u8]| {
    let gateway = gateway();
    let mut client = TcpStream::connect(gateway).expect("the gateway listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    let asked = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frames(data), &frame(PING, 0, 0, b"the last")];
    // It may have been sent away before.
    if client.write_all(&asked.concat()).is_ok() {
        read_to_ping(&mut client);
    }
    drop(client);
    // The one worker does things in order: behind this, what came before has reached the upstream.
    let mut second = TcpStream::connect(gateway).expect("the gateway listens");
    second.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    second
        .write_all(b"GET /public/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("the gateway reads");
    let mut reply = Vec::new();
    second.read_to_end(&mut reply).expect("a reply");
    assert!(reply.starts_with(b"HTTP/1.1 200 "), "{}", reply.escape_ascii());
});

/// Frames of the input: kind, flags and stream by a byte each, a length byte, the payload. What is cut off is left out.
fn frames(mut data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [kind, flags, stream, len, rest @ ..] = data {
        let Some((payload, rest)) = rest.split_at_checked(usize::from(*len)) else { break };
        let stream = match kind % 10 {
            SETTINGS | PING => 0,
            _ => 1 + 2 * u32::from(stream % 4),
        };
        out.extend(frame(kind % 10, *flags, stream, payload));
        data = rest;
    }
    out
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let head = [&[a, b, c, kind, flags][..], &stream.to_be_bytes()].concat();
    [head, payload.to_vec()].concat()
}

/// Reads to the answer to our last ping, or to the end.
fn read_to_ping(client: &mut TcpStream) {
    let (mut read, mut piece) = (Vec::new(), [0; 16 << 10]);
    while let Ok(n @ 1..) = client.read(&mut piece) {
        read.extend_from_slice(&piece[..n]);
        if read.windows(8).any(|part| part == b"the last") {
            return;
        }
    }
}

/// Where the gateway listens, started once.
fn gateway() -> SocketAddr {
    static GATEWAY: OnceLock<SocketAddr> = OnceLock::new();
    *GATEWAY.get_or_init(|| {
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = upstream.local_addr().expect("an address");
        std::thread::spawn(move || {
            upstream.incoming().flatten().for_each(|peer| drop(std::thread::spawn(|| judge(peer))));
        });
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\", limits: {{ head_bytes_max: 4KiB, streams_max: 4 }} }} }}\n\
             workers: 1\n\
             upstreams: {{ origin: {{ targets: [\"http://{target}\"] }} }}\n\
             routes: {{ public: {{ match: {{ path: \"/public/**\" }}, upstream: origin,\n\
             \x20 policies: [{{ headers: {{ request: {{ set: {{ x-user: gateway }} }} }} }}] }} }}\n"
        );
        let file = std::env::temp_dir().join(format!("tidegate-fuzz-{}.yaml", std::process::id()));
        std::fs::write(&file, yaml).expect("a file");
        let (sender, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || serve(&file, &sender));
        address.recv().expect("the gateway starts")
    })
}

fn serve(file: &std::path::Path, started: &std::sync::mpsc::Sender<SocketAddr>) {
    let runtime = tokio::runtime::LocalRuntime::new().expect("a runtime");
    runtime.block_on(async {
        let publish = |_: Arc<Plan>| -> control::PublishFuture { Box::pin(async { Ok(()) }) };
        let control = Control::start(file, Box::new(publish)).unwrap_or_else(|report| panic!("{report:#}"));
        let (gateway, upkeep) = Gateway::start(1, control.telemetry().clone()).expect("a worker");
        kit::spawn(upkeep.run());
        gateway.publish(control.plan()).await.expect("the plan serves");
        let (_, address) = gateway.addresses().remove(0);
        started.send(address).expect("somebody waits");
        std::future::pending::<()>().await;
    });
}

/// Reads what the gateway sends, and ends the process where it is not to the letter.
fn judge(mut peer: TcpStream) {
    let (mut input, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        while let Some(len) = judged(&input).unwrap_or_else(|why| guilty(&why, &input)) {
            input.drain(..len);
            let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if peer.write_all(reply).is_err() {
                return;
            }
        }
        match peer.read(&mut piece) {
            Ok(n @ 1..) => input.extend_from_slice(&piece[..n]),
            _ => return,
        }
    }
}

/// How long the request at the front is, if all of it has come.
fn judged(input: &[u8]) -> Result<Option<usize>, String> {
    let mut lines = Vec::new();
    let parsed = http1::parse_request(input, &Limits::default(), &mut lines);
    let Some(head) = parsed.map_err(|error| error.to_string())? else { return Ok(None) };
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    for line in &lines {
        let name = line.name.of(input).to_ascii_lowercase();
        *seen.entry(name.iter().map(|b| if *b == b'_' { b'-' } else { *b }).collect()).or_default() += 1;
    }
    let of = |name: &str| seen.get(name.as_bytes()).copied().unwrap_or_default();
    if !head.path.of(input).starts_with(PREFIX) {
Err("a path that no route takes".to_owned())
} else if of("content-length") + of("transfer-encoding") > 1 {
Err("framed twice".to_owned())
} else if of("host") != 1 {
Err("not for one host".to_owned())
} else if of("content-type") > 1 {
Err("two types".to_owned())
} else if of("x-user") != 1 || of("x-forwarded-for") != 1 {
Err("a line was added to".to_owned())
} else {
            let mut decoder = Decoder::new(head.framing);
            let rest = input.get(head.head_len..).unwrap_or_default();
            let taken = decoder.decode(rest, &mut Vec::new()).map_err(|error| error.to_string())?;
            Ok(decoder.is_done().then_some(head.head_len + taken))
        }
}

fn guilty(why: &str, input: &[u8]) -> ! {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    eprintln!("the upstream was sent {why}: {}", input.escape_ascii());
    std::process::abort();
}
