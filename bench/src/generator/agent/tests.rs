use std::collections::BTreeMap;

use backends::{Kind, Options, spawn_thread};

use super::*;
use crate::generator::{
    Expected, ExpectedBody, Group, Requests, Share, Stage, Target, Template, Text, Work,
};

fn load(address: SocketAddr) -> Load {
    let request = Template {
        label: "HTTP Request".to_owned(),
        weight: 1,
        method: "POST".to_owned(),
        path: Text::same("/echo"),
        headers: Vec::new(),
        body: "${number:8}".parse().unwrap(),
        expected: Expected { body: ExpectedBody::Echo, ..Expected::default() },
    };
    let stages = vec![Stage { users: 4, over: Duration::ZERO }];
    let group = Group { stages, think: Duration::from_millis(10), requests: vec![request] };
    Load {
        target: Target { address, host: "localhost".to_owned(), tls: None },
        work: Work::Requests(Requests { groups: vec![group], tables: BTreeMap::new() }),
        warm_up: Duration::from_millis(200),
        duration: Duration::from_millis(1200),
        connect_max: Duration::from_secs(5),
        response_max: Duration::from_secs(5),
        seed: 1,
        threads: 1,
        share: Share::default(),
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Starts an agent on a thread that ends with the test. Returns its address, and a channel with the lines of its log.
fn agent() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let (tell, told) = sync_channel(1);
    let (write, log) = sync_channel(100);
    thread::spawn(move || {
        let ready = |address| tell.send(address).unwrap();
        serve_agent(loopback(), false, ready, |line| drop(write.send(line.to_owned())))
    });
    (told.recv().unwrap(), log)
}

/// Starts a server that takes one connection and handles it with `treat`.
fn other(treat: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let bound = TcpListener::bind(loopback()).unwrap();
    let address = bound.local_addr().unwrap();
    thread::spawn(move || treat(bound.accept().unwrap().0));
    address
}

#[test]
fn results_of_two_agents_are_those_of_one_load() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let agents = [agent().0, agent().0];
    let control = Control::default();
    let outcome = run_agents(&load(backend.address()), &agents, &control).unwrap();
    assert_eq!(outcome.agents_lost, Vec::<String>::new());
    assert!((outcome.users.measured - 4.0).abs() < 0.2, "{:?}", outcome.users);
    assert_eq!(outcome.generators.len(), 2);
    let measured = outcome.measured();
    assert!(measured.latencies.len() > 50 && measured.errors.is_empty(), "{measured:?}");
    let accounted = outcome.users_accounted().unwrap();
    // Each agent has two users, so both halves contribute. On a busy machine, some users wait for a CPU.
    assert!(accounted > 2.2 && accounted < 4.6, "{accounted}");
    let intervals = outcome.labels[0].intervals.iter();
    assert_eq!(intervals.map(|one| one.measured.len()).sum::<u64>(), measured.latencies.len());
}

/// The second agent becomes ready, begins, and then disconnects.
#[test]
fn a_lost_agent_is_reported_and_the_others_count() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let lost = other(|mut stream| {
        greet(&mut stream).unwrap();
        let Order::Load(_) = receive(&mut stream, LOAD_BYTES_MAX).unwrap() else { panic!("load") };
        send(&mut stream, &Answer::Ready).unwrap();
        let Order::Go = receive(&mut stream, LOAD_BYTES_MAX).unwrap() else { panic!("go") };
        send(&mut stream, &Answer::Alive { samples: 1, errors: 0 }).unwrap();
    });
    let agents = [agent().0, lost];
    let outcome = run_agents(&load(backend.address()), &agents, &Control::default()).unwrap();
    let [named] = &outcome.agents_lost[..] else { panic!("{:?}", outcome.agents_lost) };
    assert!(named.starts_with(&lost.to_string()) && named.contains("connection ended"), "{named}");
    assert!((outcome.users.measured - 2.0).abs() < 0.2, "{:?}", outcome.users);
}

#[test]
fn other_programs_are_reported_before_anything_runs() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let version = other(|mut stream| {
        stream.write_all(b"tg-bench\0\0\0\x63").unwrap();
        // Until the other side disconnects.
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let garbage = other(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let nobody = TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    for (agent, expected) in [
        (version, "version 99 of the protocol, this one has 3"),
        (garbage, "not tidegate-bench"),
        (nobody, "refused"),
    ] {
        let wrong =
            run_agents(&load(backend.address()), &[agent], &Control::default()).unwrap_err();
        assert!(wrong.contains(expected) && wrong.contains(&agent.to_string()), "{wrong}");
    }
    let three = [agent().0, agent().0, agent().0];
    let wrong = run_agents(&load(backend.address()), &three, &Control::default()).unwrap_err();
    assert!(wrong.contains("4 users do not divide evenly by 3"), "{wrong}");
}

#[test]
fn an_agent_survives_invalid_connections() {
    let (address, log) = agent();
    let greeting = [&GREETING[..], &VERSION.to_be_bytes()].concat();
    let cases: [(Vec<u8>, &str); 5] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "not tidegate-bench"),
        (b"tg-bench\0\0\0\x01".to_vec(), "version 1 of the protocol"),
        ([&greeting[..], &[0xff; 4]].concat(), "exceeds"),
        ([&greeting[..], b"\0\0\0\x05hello"].concat(), "not understood"),
        ([&greeting[..], b"\0\0\0\x05he"].concat(), "within a message"),
    ];
    for (bytes, expected) in cases {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&bytes).unwrap();
        // The agent may have disconnected already.
        drop(stream.shutdown(std::net::Shutdown::Write));
        let line = log.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(line.contains(expected), "{line}");
    }
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let mut bad = load(backend.address());
    bad.threads = 0;
    let wrong = run_agents(&bad, &[address], &Control::default()).unwrap_err();
    assert!(wrong.contains("`threads` must be"), "{wrong}");
    assert!(run_agents(&load(backend.address()), &[address], &Control::default()).is_ok());
}

#[test]
fn an_agent_listens_on_loopback_unless_it_is_told_otherwise() {
    let wrong = serve_agent("0.0.0.0:0".parse().unwrap(), false, |_| {}, |_| {}).unwrap_err();
    assert!(wrong.contains("--public") && wrong.contains("any target"), "{wrong}");
}
