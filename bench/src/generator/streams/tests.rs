use std::time::Duration;

use backends::{Kind, Options, spawn_thread};

use crate::generator::{
    Control, ErrorKind, Load, Share, Sse, Streams, Target, Text, WebSocket, Work, run,
};

fn load(address: std::net::SocketAddr, work: Work) -> Load {
    Load {
        target: Target { address, host: "localhost".to_owned(), tls: None },
        work,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(1000),
        connect_max: Duration::from_secs(5),
        response_max: Duration::from_secs(5),
        seed: 1,
        threads: 1,
        share: Share::default(),
    }
}

fn sse(path: &str) -> Work {
    let (connections, ramp) = (20, Duration::from_millis(100));
    let (path, headers, events) = (Text::same(path), Vec::new(), 30);
    Work::Sse(Sse { connections, ramp, path, headers, events, is_shared: false })
}

fn sockets() -> Work {
    Work::Websocket(WebSocket {
        connections: 10,
        ramp: Duration::from_millis(100),
        headers: Vec::new(),
        path: Text::same("/ws/${user:3}"),
        events_per_second: 10,
        message_bytes: 500,
    })
}

#[test]
fn event_streams_are_read_to_their_last_event() {
    let backend = spawn_thread(Kind::Sse, Options::default()).unwrap();
    let load = load(backend.address(), sse("/events?interval=10ms&count=30"));
    let outcome = run(&load, &Control::default(), None).unwrap();
    let Some(Streams::Sse(counts)) = outcome.streams else { panic!("{outcome:?}") };
    assert_eq!((counts.attempted, counts.failed, counts.received), (20, 0, 600));
    assert_eq!((counts.lost, counts.duplicated, counts.reordered), (0, 0, 0));
    let samples = outcome.warmed_up().latencies.len() + outcome.measured().latencies.len();
    assert_eq!(samples, 20, "each stream was opened");
}

#[test]
fn missing_events_are_lost() {
    let backend = spawn_thread(Kind::Sse, Options::default()).unwrap();
    let load = load(backend.address(), sse("/events?interval=10ms&count=25"));
    let outcome = run(&load, &Control::default(), None).unwrap();
    let Some(Streams::Sse(counts)) = outcome.streams else { panic!("{outcome:?}") };
    assert_eq!((counts.received, counts.lost, counts.failed), (500, 100, 0));
}

#[test]
fn streams_that_are_refused_have_failed() {
    let backend = spawn_thread(Kind::Sse, Options::default()).unwrap();
    let outcome =
        run(&load(backend.address(), sse("/events?interval=x")), &Control::default(), None)
            .unwrap();
    let Some(Streams::Sse(counts)) = &outcome.streams else { panic!("{outcome:?}") };
    assert_eq!((counts.attempted, counts.failed, counts.received, counts.lost), (20, 20, 0, 0));
    let mut all = outcome.measured();
    all.add(&outcome.warmed_up());
    assert_eq!(all.errors.into_iter().collect::<Vec<_>>(), [(ErrorKind::Status, 20)]);
}

#[test]
fn messages_come_back_reversed() {
    let backend = spawn_thread(Kind::Reverse, Options::default()).unwrap();
    let outcome = run(&load(backend.address(), sockets()), &Control::default(), None).unwrap();
    let Some(Streams::Websocket(counts)) = &outcome.streams else { panic!("{outcome:?}") };
    assert_eq!((counts.attempted, counts.failed), (10, 0));
    assert!(counts.sent > 40 && counts.sent <= 100, "{counts:?}");
    assert_eq!(counts.sent, counts.received);
    assert_eq!(counts.error_rate, Some(0.0));
    let all = outcome.measured().latencies.len() + outcome.warmed_up().latencies.len();
    assert_eq!(all, counts.sent);
}

#[test]
fn connections_that_are_not_upgraded_have_failed_and_send_nothing() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let outcome = run(&load(backend.address(), sockets()), &Control::default(), None).unwrap();
    let Some(Streams::Websocket(counts)) = &outcome.streams else { panic!("{outcome:?}") };
    assert_eq!((counts.attempted, counts.failed, counts.sent), (10, 10, 0));
}
