//! Streams of every kind, repeatedly and over reloads: ended streams leave no trace, and open ones stay.
//!
//! `make soak` does it with 100,000 of each kind, and with a thousand reloads under a thousand of each.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::frames::{data, head, kind, window};
use crate::harness::{Gateway, H2, Origin, Wire, until};
use crate::reload::put_ok;
use crate::reload_soak::asked;
use crate::telemetry::metric;

/// Streams of each kind that come and go, by this many clients at once.
const CONNECTS: usize = 40;
const CLIENTS: usize = 4;

/// The number of open streams of each kind over all reloads.
const STREAMS: usize = 4;
const RELOADS: usize = 12;

/// Streams that a client opens on one connection of HTTP/2 before it makes another.
const SHARED_BY: usize = 20;

/// Memory in the end, relative to that after a tenth of the work.
const GROWTH_MAX: f64 = 1.05;

/// Bytes that memory grows by while it settles: few streams do not fill it, and pages of the system are large.
const SETTLING_BYTES: f64 = 16_777_216.0;
const PAGE_BYTES: f64 = 2_097_152.0;

/// The time after which ended streams must have freed their memory, if that is measured strictly.
const SETTLING: Duration = Duration::from_secs(30);

const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
/// An event in a chunk.
const EVENT: &[u8] = b"9\r\ndata: 1\n\n\r\n";
/// A text message of a server, and one of a client with the mask 0.
const MESSAGE: &[u8] = &[0x81, 2, b'h', b'i'];
const MASKED: &[u8] = &[0x81, 0x82, 0, 0, 0, 0, b'h', b'i'];
/// A message of gRPC.
const CALL: &[u8] = b"\0\0\0\0\x02hi";

/// The kinds, by the names of their routes and as the gateway counts them.
pub(crate) const KINDS: [(&str, &str); 5] = [
    ("sse", "sse"),
    ("shared", "sse"),
    ("ws", "websocket"),
    ("ws2", "websocket"),
    ("grpc", "grpc"),
];

/// Sends events on event streams whenever the test requests one, and echoes messages of WebSockets.
pub(crate) struct Service {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Service {
    pub(crate) fn start() -> Service {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = streams.clone();
        // It ends with the process, when the test is over.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, kept) = (socket.unwrap(), kept.clone());
                let threads = thread::Builder::new().stack_size(64 * 1024);
                threads.spawn(move || serve(socket, &kept)).unwrap();
            }
        });
        Service { address, streams }
    }

    /// Sends an event on each stream that is still open.
    pub(crate) fn send_events(&self) {
        self.streams.lock().unwrap().retain_mut(|stream| stream.write_all(EVENT).is_ok());
    }
}

/// One connection, to its end. What breaks is left, as the test looks at the other side.
fn serve(mut socket: TcpStream, streams: &Mutex<Vec<TcpStream>>) {
    let mut piece = [0; 2048];
    let mut came = Vec::new();
    while !came.ends_with(b"\r\n\r\n") {
        match socket.read(&mut piece) {
            Ok(read @ 1..) => came.extend(&piece[..read]),
            Ok(0) | Err(_) => return,
        }
    }
    let is_socket = came.windows(8).any(|eight| eight.eq_ignore_ascii_case(b"upgrade:"));
    let begun =
        if is_socket { SWITCH.as_bytes().to_vec() } else { [EVENTS.as_bytes(), EVENT].concat() };
    if socket.write_all(&begun).is_err() {
        return;
    }
    if !is_socket {
        streams.lock().unwrap().push(socket.try_clone().unwrap());
    }
    while let Ok(1..) = socket.read(&mut piece) {
        if is_socket && socket.write_all(MESSAGE).is_err() {
            break;
        }
    }
    if !is_socket {
        let port = socket.peer_addr().ok();
        streams.lock().unwrap().retain(|stream| stream.peer_addr().ok() != port);
    }
}

/// A service of gRPC that sends each piece of a call back.
pub(crate) fn calls() -> Origin {
    Origin::start(|peer| {
        peer.greet(&[]);
        while let Some(next) = peer.frame() {
            let answer = match next.kind {
                kind::HEADERS => {
                    let lines = [(":status", "200"), ("content-type", "application/grpc")];
                    head(next.stream, 0, &lines)
                }
                kind::DATA if !next.payload.is_empty() => {
                    let room = u32::try_from(next.payload.len()).unwrap();
                    let rooms = [window(0, room), window(next.stream, room)].concat();
                    [rooms, data(next.stream, 0, &next.payload)].concat()
                }
                _ => continue,
            };
            peer.try_send(answer);
        }
    })
}

/// Each generation of it changes every route.
pub(crate) fn yaml(service: &Service, calls: &Origin, generation: usize) -> String {
    let many = "breaker: { connections: 100000, requests: 100000, pending: 100000 }";
    let mut yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", timeout: {{ tunnel: 24h, body: 24h }}, limits: {{ connections_max: 100000 }} }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 2
upstreams:
  service: {{ targets: ["http://{}"], {many}, timeout: {{ idle: 1s }} }}
  calls: {{ targets: ["{}"], protocol: http2, {many}, timeout: {{ idle: 1s, response: 24h }} }}
routes:
"#,
        service.address,
        calls.url()
    );
    for (name, policy, upstream) in [
        ("sse", "sse: { events: 1000000, per: 1h }", "service"),
        ("shared", "sse: { share: { linger: 1s } }", "service"),
        ("ws", "websocket: { messages: 1000000, per: 1h }", "service"),
        ("ws2", "websocket: { message_bytes_max: 1MiB }", "service"),
        ("grpc", "concurrency: { requests: 1000000 }", "calls"),
    ] {
        let changed =
            format!("headers: {{ response: {{ set: {{ x-generation: \"{generation}\" }} }} }}");
        writeln!(
            yaml,
            "  {name}: {{ match: {{ path: \"/{name}/**\" }}, upstream: {upstream}, policies: [{changed}, {policy}] }}"
        )
        .unwrap();
    }
    yaml
}

/// A client's side of one stream.
pub(crate) enum Stream {
    Events(Wire),
    Socket(Wire),
    Tunnel(TokioIo<Upgraded>),
    Call(Sender<Bytes, std::io::Error>, Incoming),
}

/// A client's connection of HTTP/2, which streams share.
pub(crate) struct Shared {
    h2: H2,
    left: usize,
}

impl Shared {
    pub(crate) fn connect(gateway: &Gateway) -> Shared {
        Shared { h2: H2::connect(gateway.address("public")), left: SHARED_BY }
    }
}

/// Opens a stream of this kind, and sees that it works.
#[track_caller]
pub(crate) fn open(gateway: &Gateway, kind: &str, shared: &Shared) -> Stream {
    let mut stream = match kind {
        "sse" | "shared" => {
            let mut wire = gateway.wire();
            wire.send(format!("GET /{kind}/a HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(wire.read_head().status(), 200);
            if kind == "sse" {
                assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
            }
            return Stream::Events(wire);
        }
        "ws" => {
            let mut wire = gateway.wire();
            wire.send("GET /ws/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
            assert_eq!(wire.read_head().status(), 101);
            Stream::Socket(wire)
        }
        "ws2" => {
            let request = hyper::Request::connect("http://a.test/ws2/a")
                .extension(hyper::ext::Protocol::from_static("websocket"))
                .header("sec-websocket-version", "13");
            let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed();
            let mut sender = shared.h2.sender.clone();
            shared.h2.block_on(async {
                let reply = sender.send_request(request.body(body).unwrap()).await.unwrap();
                assert_eq!(reply.status(), 200);
                Stream::Tunnel(TokioIo::new(hyper::upgrade::on(reply).await.unwrap()))
            })
        }
        _ => {
            let (pieces, body) = Channel::new(4);
            let request = hyper::Request::post("http://a.test/grpc/a.B/C")
                .header("te", "trailers")
                .header("content-type", "application/grpc");
            let mut sender = shared.h2.sender.clone();
            let sent = sender.send_request(request.body(body.boxed()).unwrap());
            let reply = shared.h2.block_on(sent).unwrap();
            assert_eq!(reply.status(), 200);
            Stream::Call(pieces, reply.into_body())
        }
    };
    stream.echo(shared);
    stream
}

impl Stream {
    /// Sends something and gets the answer to it; an event stream gets an event that was sent to all.
    #[track_caller]
    pub(crate) fn echo(&mut self, shared: &Shared) {
        match self {
            Stream::Events(wire) => {
                assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
            }
            Stream::Socket(wire) => {
                wire.send(MASKED);
                assert_eq!(wire.read_exact(MESSAGE.len()).as_deref(), Some(MESSAGE));
            }
            Stream::Tunnel(tunnel) => shared.h2.block_on(async {
                tunnel.write_all(MASKED).await.unwrap();
                let mut came = [0; MESSAGE.len()];
                tunnel.read_exact(&mut came).await.unwrap();
                assert_eq!(came, MESSAGE);
            }),
            Stream::Call(pieces, reply) => shared.h2.block_on(async {
                pieces.send_data(Bytes::from_static(CALL)).await.unwrap();
                let came = reply.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(came, CALL);
            }),
        }
    }
}

/// Opens and leaves this many streams of each kind. A client sends a Close frame only on every second WebSocket.
fn connect(gateway: &Gateway, connects: usize) {
    thread::scope(|clients| {
        for client in 0..CLIENTS {
            clients.spawn(move || {
                let mut shared = Shared::connect(gateway);
                for number in (client..connects).step_by(CLIENTS) {
                    if shared.left == 0 {
                        shared = Shared::connect(gateway);
                    }
                    shared.left -= 1;
                    for (kind, _) in KINDS {
                        let stream = open(gateway, kind, &shared);
                        if let (Stream::Socket(mut wire), true) = (stream, number % 2 == 0) {
                            wire.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
                            wire.read_exact(1);
                        }
                    }
                }
            });
        }
    });
}

/// Descriptors that the program has open.
pub(crate) fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).map_or(0, Iterator::count)
}

/// Streams that the gateway counts as open.
fn open_streams(gateway: &Gateway) -> f64 {
    let of = |(route, kind): &(&str, &str)| {
        let name = format!("tidegate_streams_open{{route=\"{route}\",kind=\"{kind}\"}}");
        metric(gateway, &name).unwrap_or_default()
    };
    KINDS.iter().map(of).sum()
}

#[track_caller]
fn settle(gateway: &Gateway) {
    until("no stream and no connection is left", || {
        let gauges = ["service", "calls"].iter().all(|upstream| {
            ["requests_active", "connections_open"].iter().all(|gauge| {
                let name = format!("tidegate_upstream_{gauge}{{upstream=\"{upstream}\"}}");
                metric(gateway, &name).unwrap() < 0.5
            })
        });
        let clients = metric(gateway, "tidegate_connections_open{listener=\"public\"}").unwrap();
        gauges && clients < 0.5 && open_streams(gateway) < 0.5
    });
}

/// The constant part of the allowed growth of memory.
fn spare(work: usize) -> f64 {
    if work < 1000 { SETTLING_BYTES } else { PAGE_BYTES }
}

#[test]
fn streams_that_come_and_go_leave_nothing_behind() {
    let connects = asked("TIDEGATE_SOAK_CONNECTS", CONNECTS);
    let (service, calls) = (Service::start(), calls());
    let gateway = Gateway::start(yaml(&service, &calls, 0));
    // Some that it has anyway are opened after its first listener.
    until("all is open", || metric(&gateway, "tidegate_workers").is_some());
    let before = descriptors(&gateway);
    connect(&gateway, connects.div_ceil(10).max(CONNECTS));
    settle(&gateway);
    let warm = gateway.resident_bytes() as f64;
    connect(&gateway, connects);
    settle(&gateway);
    // The number of connections for metrics varies.
    until("the descriptors are as before", || descriptors(&gateway) <= before + 1);
    if connects >= 1000 {
        thread::sleep(SETTLING);
    }
    let end = gateway.resident_bytes() as f64;
    println!(
        "{connects} of each kind: {:.1} MiB after a tenth, {:.1} in the end",
        warm / 1_048_576.0,
        end / 1_048_576.0
    );
    assert!(end <= warm * GROWTH_MAX + spare(connects), "{warm} bytes, then {end}");
}

#[test]
fn streams_of_every_kind_outlast_reloads() {
    let streams = asked("TIDEGATE_SOAK_STREAMS", STREAMS);
    let reloads = asked("TIDEGATE_SOAK_STREAM_RELOADS", RELOADS);
    let (service, calls) = (Service::start(), calls());
    let gateway = Gateway::start(yaml(&service, &calls, 0));
    let shared: Vec<Shared> =
        (0..streams.div_ceil(SHARED_BY)).map(|_| Shared::connect(&gateway)).collect();
    let mut open: Vec<(usize, Stream)> = (0..streams)
        .flat_map(|at| KINDS.map(|(kind, _)| (at / SHARED_BY, kind)))
        .map(|(at, kind)| (at, open(&gateway, kind, &shared[at])))
        .collect();
    let all = open.len() as f64;
    let are_open = || (open_streams(&gateway) - all).abs() < 0.5;
    until("all are counted", are_open);
    let mut warm = None;
    for generation in 1..=reloads {
        put_ok(&gateway, &yaml(&service, &calls, generation));
        if generation == reloads.div_ceil(10) {
            let alive = || metric(&gateway, "tidegate_plans_alive").unwrap();
            until("only the plan that serves is left", || alive() < 1.5);
            warm = Some(gateway.resident_bytes() as f64);
        }
    }
    let alive = || metric(&gateway, "tidegate_plans_alive").unwrap();
    until("only the plan that serves is left", || alive() < 1.5);
    let (warm, end) = (warm.unwrap(), gateway.resident_bytes() as f64);
    assert!(are_open(), "{} of {all} are left", open_streams(&gateway));
    service.send_events();
    open.iter_mut().for_each(|(at, stream)| stream.echo(&shared[*at]));
    println!(
        "{reloads} reloads under {all} streams: {:.1} MiB after a tenth, {:.1} in the end",
        warm / 1_048_576.0,
        end / 1_048_576.0
    );
    assert!(end <= warm * GROWTH_MAX + spare(reloads), "{warm} bytes, then {end}");
    drop((open, shared));
    settle(&gateway);
}
