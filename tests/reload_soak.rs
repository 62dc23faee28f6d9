//! Reloads under open streams: none is dropped, and none keeps more of the past than its own route.
//!
//! `make soak` does it with a thousand reloads of two thousand routes, and then looks at the memory as well, and with a thousand under
//! load.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::{Gateway, PATIENCE, Wire, until};
use crate::reload::put_ok;
use crate::stream_soak::descriptors;
use crate::telemetry::metric;
use crate::under_load::{Behind, Clients, Generation};

const RELOADS: usize = 30;
const ROUTES: usize = 200;

/// The number of reloads before memory is first measured. By then one-time allocations were made, and late ones
/// freed.
const SETTLED: usize = 50;

/// The limit of memory at the end, relative to that value, without the memory of streams.
const GROWTH_MAX: f64 = 1.25;

/// The number of stream pairs for measuring the memory of a pair, and the number opened before. Tables grow by doubling and blocks
/// come in pages, so the next five hundred pairs may take a third of what the previous five hundred took.
const WEIGHED: usize = 1000;
const WEIGHED_AFTER: usize = 250;

/// Within this a gateway gives memory back that it does not use, or never.
const GIVEN_BACK: Duration = Duration::from_millis(2500);

const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
/// An event in a chunk.
const EVENT: &[u8] = b"9\r\ndata: 1\n\n\r\n";
/// A text message of a server, and one of a client with the mask 0.
const MESSAGE: &[u8] = &[0x81, 2, b'h', b'i'];
const MASKED: &[u8] = &[0x81, 0x82, 0, 0, 0, 0, b'h', b'i'];

/// Starts an event stream, or a WebSocket at `/ws`, on each connection, and keeps it for the test. It uses one thread for any number of
/// streams.
struct Service {
    address: SocketAddr,
    /// The sockets in the order of their arrival.
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

/// A client's two streams.
struct Pair {
    events: Wire,
    tunnel: Wire,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = sockets.clone();
        // It ends with the process, when the test is over.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut head = Vec::new();
                let mut piece = [0; 4096];
                while !head.ends_with(b"\r\n\r\n") {
                    let read = socket.read(&mut piece).unwrap();
                    assert_ne!(read, 0, "a whole head");
                    head.extend(&piece[..read]);
                }
                let is_tunnel = head.windows(4).any(|four| four == b"/ws ");
                kept.lock().unwrap().push(socket.try_clone().unwrap());
                socket.write_all(if is_tunnel { SWITCH } else { EVENTS }.as_bytes()).unwrap();
            }
        });
        Service { address, sockets }
    }

    /// Checks that all of these streams still pass data in both directions, in the order in which they were opened.
    #[track_caller]
    fn check_alive(&self, pairs: &mut [Pair]) {
        let mut sockets = self.sockets.lock().unwrap();
        assert_eq!(sockets.len(), 2 * pairs.len());
        for (at, (pair, ends)) in pairs.iter_mut().zip(sockets.chunks_exact_mut(2)).enumerate() {
            ends[0].write_all(EVENT).unwrap();
            assert_eq!(pair.events.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]), "{at}");
            ends[1].write_all(MESSAGE).unwrap();
            assert_eq!(pair.tunnel.read_exact(4).as_deref(), Some(MESSAGE), "{at}");
            pair.tunnel.send(MASKED);
            let mut came = [0; MASKED.len()];
            ends[1].read_exact(&mut came).unwrap();
            assert_eq!(came, MASKED, "{at}");
        }
    }
}

impl Pair {
    /// Starts both kinds of streams on a route with the text of this generation.
    #[track_caller]
    fn open(gateway: &Gateway, route: usize, generation: usize) -> Pair {
        let begin = |request: String, status: u16| {
            let mut wire = gateway.wire();
            wire.send(request);
            let head = wire.read_head();
            let came = (head.status(), head.get("x-generation"));
            assert_eq!(came, (status, Some(generation.to_string().as_str())));
            wire
        };
        let events = begin(format!("GET /r{route}/sse HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
        let tunnel = format!("GET /r{route}/ws HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n\r\n");
        Pair { events, tunnel: begin(tunnel, 101) }
    }
}

/// This many routes, each of which differs between generations.
fn yaml(service: &Service, routes: usize, generation: usize) -> String {
    let mut yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\", timeout: {{ tunnel: 24h }} }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ origin: {{ targets: [\"http://{}\"], breaker: {{ connections: 100000, requests: 100000 }} }} }}\n\
         routes:\n",
        service.address
    );
    let set = format!("response: {{ set: {{ x-generation: \"{generation}\" }} }}");
    for n in 0..routes {
        writeln!(
            yaml,
            "  r{n}: {{ match: {{ path: \"/r{n}/**\" }}, policies: [{{ headers: {{ {set} }} }}], upstream: origin }}"
        )
        .unwrap();
    }
    yaml
}

/// A number that `make soak` sets.
pub(crate) fn asked(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |number| number.parse().expect("a number"))
}

/// The memory of a pair of streams, measured with a gateway with a single route. A gateway with many routes frees garbage of its
/// start while streams are opened, so that a pair would seem to have negative size.
#[track_caller]
fn pair_bytes() -> f64 {
    let service = Service::start();
    let gateway = Gateway::start(yaml(&service, 1, 0));
    let open = |count| (0..count).map(|_| Pair::open(&gateway, 0, 0)).collect::<Vec<Pair>>();
    let _first = open(WEIGHED_AFTER);
    let before = gateway.resident_bytes() as f64;
    let _weighed = open(WEIGHED);
    let after = gateway.resident_bytes() as f64;
    service.sockets.lock().unwrap().clear();
    (after - before) / WEIGHED as f64
}

/// Waits until earlier plans are dropped and their memory is returned to the system, which happens every second.
#[track_caller]
fn settle(gateway: &Gateway) {
    let alive = || metric(gateway, "tidegate_plans_alive").unwrap();
    until("only the plan that serves is left", || alive() < 1.5);
    let mut last = f64::MAX;
    until("memory is given back no more", || {
        thread::sleep(GIVEN_BACK);
        let now = gateway.resident_bytes() as f64;
        let is_less = now < last * 0.99;
        last = now;
        !is_less
    });
}

#[test]
fn streams_of_any_age_last_and_keep_their_route_alone() {
    let reloads = asked("TIDEGATE_SOAK_RELOADS", RELOADS);
    let routes = asked("TIDEGATE_SOAK_ROUTES", ROUTES);
    let pair_bytes = if reloads > SETTLED { pair_bytes() } else { 0.0 };
    let service = Service::start();
    let gateway = Gateway::start(yaml(&service, routes, 0));
    assert!(!gateway.may_have_huge_pages());
    let mut pairs = Vec::new();
    // The memory without the streams.
    let apart = |open: usize| gateway.resident_bytes() as f64 - pair_bytes * open as f64;
    let mut settled = None;
    for generation in 1..=reloads {
        pairs.push(Pair::open(&gateway, generation % routes, generation - 1));
        put_ok(&gateway, &yaml(&service, routes, generation));
        if generation.is_multiple_of(SETTLED) {
            settle(&gateway);
            let now = apart(pairs.len());
            println!("{generation} reloads: {:.1} MiB beside the streams", now / 1_048_576.0);
            settled.get_or_insert(now);
        }
    }
    settle(&gateway);
    service.check_alive(&mut pairs);
    if let Some(settled) = settled {
        let end = apart(pairs.len());
        println!("a pair of streams: {:.1} KiB", pair_bytes / 1024.0);
        assert!(end <= settled * GROWTH_MAX, "{settled} bytes after {SETTLED} reloads, then {end}");
    }
}

/// Descriptors that stay when all clients have gone: idle connections to the services, a few for each worker.
const DESCRIPTORS_SPARE: usize = 16;

/// The number of reloads under load, and of reloads whose streams stay open besides the first ones.
const LOADED_RELOADS: usize = 20;
const KEPT: usize = 3;

/// True for reloads after which memory and descriptors are measured, if there are many. After a tenth of the reloads, a gateway has
/// everything it needs.
fn is_looked_at(reload: usize, reloads: usize) -> bool {
    reload == reloads.div_ceil(10).max(LOADED_RELOADS / 2)
}

/// Requests, streams of every kind, a hub and a queue continue while each route changes repeatedly.
#[test]
fn nobody_notices_that_the_configuration_changes() {
    let reloads = asked("TIDEGATE_SOAK_LOADED_RELOADS", LOADED_RELOADS);
    let behind = Behind::start();
    let gateway = Gateway::start(behind.yaml(0));
    // Some that it has anyway are opened after its first listener.
    until("all is open", || metric(&gateway, "tidegate_workers").is_some());
    let before = descriptors(&gateway);
    let mut generations = vec![Generation::open(&gateway)];
    let clients = Clients::start(&gateway, &behind);
    let mut warm = None;
    for number in 1..=reloads {
        put_ok(&gateway, &behind.yaml(number));
        behind.service.send_events();
        generations.iter_mut().for_each(Generation::echo);
        generations.push(Generation::open(&gateway));
        if generations.len() > KEPT + 1 {
            generations.remove(1);
        }
        let requests = clients.go_on(5);
        if is_looked_at(number, reloads) {
            warm = Some(gateway.resident_bytes() as f64);
            println!("{number} reloads, {requests} requests: {warm:?} bytes");
        }
    }
    let plans = || metric(&gateway, "tidegate_plans_alive").unwrap();
    until("only the plan that serves is left", || plans() < 1.5);
    let (warm, end) = (warm.unwrap(), gateway.resident_bytes() as f64);
    let done = clients.finish(&gateway, &behind);
    println!(
        "{reloads} reloads, {} requests, {} events, {} messages: {:.1} MiB, then {:.1}",
        done.requests,
        done.events,
        done.messages,
        warm / 1_048_576.0,
        end / 1_048_576.0
    );
    assert_eq!(done.stale, 0, "a reload closes no connection");
    let spare = if reloads < 500 { f64::from(1 << 24) } else { 0.0 };
    assert!(end <= warm * GROWTH_MAX + spare, "{warm} bytes, then {end}");
    drop((generations, done.reader));
    until("the descriptors are as before", || descriptors(&gateway) <= before + DESCRIPTORS_SPARE);
}
