//! Two targets, one of them unavailable: by default no request is lost.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::harness::{Backend, Gateway, Origin, Wire, tidegate, until};

/// The number of requests in the original report.
const REQUESTS: usize = 267;

const BALANCES: [&str; 5] =
    ["round_robin", "least_requests", "failover", "hash", "{ hash: { by: \"header:x-key\" } }"];

/// A request of a kind, told apart from the others of its kind by its number.
type Written = fn(usize) -> String;

const KINDS: [(&str, Written); 4] = [
    ("GET", |n| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Key: {n}\r\n\r\n")),
    ("POST", |n| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nX-Key: {n}\r\nContent-Length: 5\r\n\r\nhello")
    }),
    ("POST in chunks", |n| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nX-Key: {n}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        )
    }),
    // More than is ever kept to be sent again.
    ("large POST", |n| {
        let body = "x".repeat(100_000);
        format!("POST / HTTP/1.1\r\nHost: a\r\nX-Key: {n}\r\nContent-Length: 100000\r\n\r\n{body}")
    }),
];

fn gateway(targets: &[&str], upstream: &str) -> Gateway {
    Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ pair: {{ targets: {targets:?}, {upstream} }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: pair }} }}\n"
    ))
}

/// The number of requests that did not get 200, over a few connections, so that both workers have some.
fn failures(wires: &mut [Wire], written: Written) -> usize {
    let count = wires.len();
    let failed = |n: &usize| wires[n % count].ask(written(*n)).status() != 200;
    (0..REQUESTS).filter(failed).count()
}

#[test]
fn with_one_target_of_two_dead_no_request_fails() {
    let mut table = Vec::new();
    for balance in BALANCES {
        for (dead, warm) in [(0, false), (1, false), (0, true), (1, true)] {
            let mut pair = [(); 2].map(|()| Backend::start("echo", &[]));
            let urls = pair.each_ref().map(|backend| backend.url.clone());
            let urls = urls.each_ref().map(String::as_str);
            let gateway = gateway(&urls, &format!("balance: {balance}"));
            let mut wires = [(); 4].map(|()| gateway.wire());
            if warm {
                // Connections to both are kept before one dies.
                assert_eq!(failures(&mut wires, KINDS[0].1), 0);
            }
            pair[dead].kill();
            let state = if warm { "warm" } else { "cold" };
            let failed = KINDS.map(|(kind, written)| (kind, failures(&mut wires, written)));
            table.push((balance, ["first", "second"][dead], state, failed));
        }
    }
    let failed = table.iter().filter(|(.., kinds)| kinds.iter().any(|(_, failed)| *failed > 0));
    assert_eq!(failed.count(), 0, "of {REQUESTS} requests of a kind each: {table:#?}");
}

#[test]
fn with_all_but_one_of_many_dead_no_request_fails() {
    let alive = Backend::start("echo", &[]);
    let mut dead = [(); 4].map(|()| Backend::start("echo", &[]));
    let mut urls: Vec<String> = dead.iter().map(|backend| backend.url.clone()).collect();
    urls.push(alive.url.clone());
    dead.iter_mut().for_each(Backend::kill);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for upstream in
        ["", "retry: { attempts: 1 }", "retry: { attempts: 1, on: [connect_failure, 503] }"]
    {
        let gateway = gateway(&urls, upstream);
        let mut wires = [(); 2].map(|()| gateway.wire());
        assert_eq!(failures(&mut wires, KINDS[1].1), 0, "{upstream}");
    }
}

/// A machine that is gone refuses nothing: connecting takes all of its time, and then the next target is asked.
#[test]
fn a_target_that_never_answers_a_connection_costs_no_request() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Connections are never accepted, and once the queue is full the system drops new ones.
    let limit = std::time::Duration::from_millis(200);
    let mut queued = Vec::new();
    while let Ok(connection) = std::net::TcpStream::connect_timeout(&address, limit) {
        queued.push(connection);
    }
    let well = Backend::start("echo", &[]);
    let gone = format!("http://{address}");
    for balance in BALANCES {
        let upstream = format!("balance: {balance}, timeout: {{ connect: 100ms }}");
        let gateway = gateway(&[&gone, &well.url], &upstream);
        let mut wires = [(); 4].map(|()| gateway.wire());
        let failed = KINDS.map(|(kind, written)| (kind, failures(&mut wires, written)));
        assert!(failed.iter().all(|(_, failed)| *failed == 0), "{balance}: {failed:?}");
    }
}

/// The first in the order written whenever it can be reached, and the next while it cannot.
#[test]
fn failover_needs_no_health_checks_and_goes_back() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let first = format!("http://{}", socket.local_addr().unwrap().as_socket().unwrap());
    let second = Origin::saying("second");
    let gateway = gateway(&[&first, &second.url()], "balance: failover");
    let mut wire = gateway.wire();
    let mut who = || {
        let reply = wire.ask(KINDS[1].1(0));
        assert_eq!(reply.status(), 200, "{reply:?}");
        reply.text()
    };
    assert!((0..100).all(|_| who() == "second"), "nobody listens at the first");
    socket.listen(16).unwrap();
    let listener: TcpListener = socket.into();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut wire = Wire::from(socket.unwrap());
            while wire.next_head().is_some() {
                assert_eq!(wire.read_exact(5).as_deref(), Some(&b"hello"[..]));
                wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
            }
        }
    });
    until("the first is back", || who() == "first");
    assert!((0..10).all(|_| who() == "first"));
}

/// The state of each target in the admin API, on its page and in the metrics.
#[track_caller]
fn states(gateway: &Gateway, urls: [&str; 2]) -> [String; 2] {
    let upstreams: serde_json::Value =
        serde_json::from_str(&gateway.admin_get("/upstreams").text()).unwrap();
    let metrics = gateway.admin_get("/metrics").text();
    let targets = &upstreams[0]["targets"];
    [0, 1].map(|at| {
        let state = targets[at]["health"].as_str().unwrap().to_owned();
        let healthy = targets[at]["healthy"].as_bool();
        let known = match state.as_str() {
            "unknown" => None,
            state => Some(state == "healthy"),
        };
        assert_eq!(healthy, known, "{targets}");
        let labels = format!("upstream=\"pair\",target=\"{}\"", urls[at]);
        let gauge =
            |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let one = format!("tidegate_upstream_target_health{{{labels},state=\"{state}\"}}");
        assert_eq!(gauge(&one), Some("1"), "{metrics}");
        let told = gauge(&format!("tidegate_upstream_target_healthy{{{labels}}}"));
        assert_eq!(told, known.map(|well| if well { "1" } else { "0" }), "{metrics}");
        state
    })
}

#[test]
fn a_target_is_unknown_until_its_replies_say_more() {
    let mut dead = Backend::start("echo", &[]);
    dead.kill();
    let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let (well, busy) = (Origin::saying("ok"), Origin::answering(busy));
    for bad in [dead.url.clone(), busy.url()] {
        let urls = [bad.as_str(), &well.url()];
        let gateway = gateway(&urls, "");
        assert_eq!(states(&gateway, urls), ["unknown", "unknown"]);
        let mut wire = gateway.wire();
        (0..10).for_each(|_| drop(wire.get("/")));
        assert_eq!(states(&gateway, urls), ["failing", "healthy"]);
    }
}

#[test]
fn a_setting_that_makes_it_impossible_is_warned_about() {
    let two = "targets: [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]";
    let one = "targets: [\"http://127.0.0.1:1\"]";
    for (upstream, warned) in [
        (two.to_owned(), false),
        (format!("{two}, retry: {{ attempts: 2 }}"), false),
        (format!("{two}, retry: {{ attempts: 2, on: [connect_failure, 503] }}"), false),
        (format!("{two}, retry: {{ attempts: 0 }}"), true),
        (format!("{two}, retry: {{ attempts: 2, on: [503] }}"), true),
        (format!("{two}, balance: failover, retry: {{ attempts: 0 }}"), true),
        (format!("{one}, retry: {{ attempts: 0 }}"), false),
        (format!("{one}, retry: {{ attempts: 2, on: [503] }}"), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ pair: {{ {upstream} }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: pair }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let said = run.stdout + &run.stderr;
        assert_eq!(
            said.contains("request fails if its target cannot be"),
            warned,
            "{upstream}: {said}"
        );
    }
}
