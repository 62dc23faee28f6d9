use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::generator::{Calls, Control, ErrorKind, Load, Outcome, Share, Target, Work, run};

fn ran(address: SocketAddr, path: &str, is_grpc: bool) -> Outcome {
    let (calls, streams, message_bytes) = (7, 3, 5_000);
    let path = path.to_owned();
    let load = Load {
        target: Target { address, host: "localhost".to_owned(), tls: None },
        work: Work::Calls(Calls { calls, streams, path, message_bytes, is_grpc }),
        warm_up: Duration::from_millis(200),
        duration: Duration::from_millis(700),
        connect_max: Duration::from_millis(300),
        response_max: Duration::from_secs(5),
        seed: 1,
        threads: 1,
        share: Share::default(),
    };
    run(&load, &Control::default(), None).unwrap()
}

fn backend() -> SocketAddr {
    let (send, receive) = sync_channel(1);
    thread::spawn(move || {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        crate::call_backend::serve(any, |address| send.send(address).unwrap()).unwrap();
    });
    receive.recv().unwrap()
}

#[test]
fn calls_come_back_over_http2_with_and_without_grpc() {
    let backend = backend();
    for is_grpc in [false, true] {
        let outcome = ran(backend, "/bench.Echo/Unary", is_grpc);
        let measured = outcome.measured();
        assert!(measured.latencies.len() > 20, "{}", measured.latencies.len());
        assert!(outcome.warmed_up().errors.is_empty(), "{:?}", outcome.warmed_up().errors);
        assert!(measured.errors.is_empty(), "{:?}", measured.errors);
        assert!(measured.sent_bytes >= measured.latencies.len() * 5_000);
        let accounted = outcome.users_accounted().unwrap();
        assert!((accounted / outcome.users.measured - 1.0).abs() < 0.05, "{accounted}");
    }
}

/// A server that speaks only HTTP/1 breaks the protocol, and a closed port refuses connections.
#[test]
fn calls_that_fail_are_errors() {
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in plain.incoming().flatten() {
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, kinds) in
        [(address, &[ErrorKind::Protocol, ErrorKind::Closed][..]), (gone, &[ErrorKind::Connect])]
    {
        let outcome = ran(address, "/", false);
        let mut all = outcome.measured();
        all.add(&outcome.warmed_up());
        assert!(all.error_count() > 0 && all.error_count() == all.latencies.len());
        assert!(all.errors.keys().all(|kind| kinds.contains(kind)), "{:?}", all.errors);
    }
}
