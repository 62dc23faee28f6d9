use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use backends::{Certificate, Kind, Options, Tls, spawn_thread};

use super::*;
use crate::generator::{
    ErrorKind, Expected, ExpectedBody, Group, Share, Stage, Target, Template, Text, TlsTarget,
};

fn load(address: SocketAddr, users: u32, expected: ExpectedBody) -> Load {
    let request = Template {
        label: "HTTP Request".to_owned(),
        weight: 1,
        method: "POST".to_owned(),
        path: Text::same("/echo"),
        headers: vec![("Content-Type".to_owned(), Text::same("text/plain"))],
        body: "${number:12} ${random:50}".parse().unwrap(),
        expected: Expected { body: expected, ..Expected::default() },
    };
    let group = Group {
        stages: vec![Stage { users, over: Duration::ZERO }],
        think: Duration::from_millis(5),
        requests: vec![request],
    };
    Load {
        target: Target { address, host: "localhost".to_owned(), tls: None },
        work: Work::Requests(Requests { groups: vec![group], tables: BTreeMap::new() }),
        warm_up: Duration::from_millis(300),
        duration: Duration::from_millis(1300),
        connect_max: Duration::from_secs(5),
        response_max: Duration::from_secs(5),
        seed: 1,
        threads: 1,
        share: Share::default(),
    }
}

fn group(load: &mut Load) -> &mut Group {
    match &mut load.work {
        Work::Requests(requests) => requests.groups.first_mut().unwrap(),
        Work::Sse(_) | Work::Websocket(_) | Work::Websub(_) | Work::Calls(_) => {
            panic!("requests")
        }
    }
}

fn ran(load: &Load) -> Outcome {
    run(load, &Control::default(), None).unwrap()
}

fn errors(outcome: &Outcome) -> BTreeMap<ErrorKind, u64> {
    let mut all = outcome.measured();
    all.add(&outcome.warmed_up());
    all.errors
}

/// Starts a server that handles each connection with `answer`.
fn server(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

/// Reads one request without a body.
fn request(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    matches!(stream.read(&mut bytes), Ok(1..))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn users_send_requests_and_are_counted() {
    // The delay is long compared with the time in which a user waits for a CPU on a busy machine.
    let options = Options { delay: Duration::from_millis(30), ..Options::default() };
    let backend = spawn_thread(Kind::Echo, options).unwrap();
    let mut load = load(backend.address(), 20, ExpectedBody::Echo);
    load.threads = 2;
    let outcome = ran(&load);
    assert_eq!(errors(&outcome), BTreeMap::new());
    let measured = outcome.measured();
    assert!(measured.latencies.len() > 100, "{measured:?}");
    assert_eq!(measured.statuses, BTreeMap::from([(200, measured.latencies.len())]));
    assert!((outcome.users.measured - 20.0).abs() < 0.5, "{:?}", outcome.users);
    let accounted = outcome.users_accounted().unwrap();
    assert_eq!(outcome.generators.len(), 1);
    // While a thread waits for a CPU, its users wait between requests. No latency includes that time.
    let generator = outcome.generators[0];
    let waited = generator.waited.as_secs_f64() / generator.wall.as_secs_f64() / 2.0;
    assert!((accounted / 20.0 - 1.0).abs() < 0.1 + waited, "{accounted}, {waited}");
    assert!(outcome.generators[0].cpu > Duration::ZERO && outcome.generators[0].threads == 2);
    assert!(!outcome.is_generator_bottleneck(), "{:?}", outcome.generators);
    let samples: u64 = outcome.labels[0].steps.iter().map(|step| step.samples).sum();
    let all = measured.latencies.len() + outcome.warmed_up().latencies.len();
    assert_eq!(samples, all);
    let intervals: u64 =
        outcome.labels[0].intervals.iter().map(|one| one.measured.len() + one.warm_up.len()).sum();
    assert_eq!(intervals, all);
    assert_eq!(measured.sent_bytes % measured.latencies.len(), 0, "requests have one length");
}

#[test]
fn a_wrong_reply_is_an_error_of_its_kind() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let contains = ExpectedBody::Contains(Text::same("no such text"));
    let outcome = ran(&load(backend.address(), 5, contains));
    let all = outcome.measured().latencies.len() + outcome.warmed_up().latencies.len();
    assert_eq!(errors(&outcome), BTreeMap::from([(ErrorKind::Content, all)]));
    let mut load = load(backend.address(), 5, ExpectedBody::Any);
    group(&mut load).requests[0].expected.status = 201;
    let found: Vec<ErrorKind> = errors(&ran(&load)).into_keys().collect();
    assert_eq!(found, [ErrorKind::Status]);
}

#[test]
fn a_reply_after_the_longest_time_is_an_error() {
    let delay = Duration::from_millis(800);
    let backend = spawn_thread(Kind::Echo, Options { delay, ..Options::default() }).unwrap();
    let mut load = load(backend.address(), 5, ExpectedBody::Echo);
    load.response_max = Duration::from_millis(200);
    let outcome = ran(&load);
    let found: Vec<ErrorKind> = errors(&outcome).into_keys().collect();
    assert_eq!(found, [ErrorKind::ResponseTimeout]);
    assert!(outcome.measured().latencies.max() < delay, "nobody waits longer");
    load.response_max = Duration::from_secs(5);
    assert_eq!(errors(&ran(&load)), BTreeMap::new());
}

#[test]
fn bodies_larger_than_the_sockets_buffers_are_sent_whole() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let mut load = load(backend.address(), 3, ExpectedBody::Echo);
    group(&mut load).requests[0].body = "${random:1000000}".parse().unwrap();
    let outcome = ran(&load);
    assert_eq!(errors(&outcome), BTreeMap::new());
    let all = outcome.measured().latencies.len() + outcome.warmed_up().latencies.len();
    assert!(all >= 3, "each user has its reply: {all}");
}

#[test]
fn tls_certificates_are_checked_if_authorities_are_given() {
    let certificate = Certificate::self_signed(&["localhost"]).unwrap();
    let tls = Some(Tls::Pem(certificate.clone()));
    let backend = spawn_thread(Kind::Echo, Options { tls, ..Options::default() }).unwrap();
    let other = Certificate::self_signed(&["localhost"]).unwrap();
    for (authorities, is_right) in [
        (None, true),
        (Some(certificate.certificate_pem), true),
        (Some(other.certificate_pem), false),
    ] {
        let mut load = load(backend.address(), 3, ExpectedBody::Echo);
        group(&mut load).requests[0].body = "${random:100000}".parse().unwrap();
        load.target.tls = Some(TlsTarget { name: "localhost".to_owned(), authorities });
        let outcome = ran(&load);
        if is_right {
            assert_eq!(errors(&outcome), BTreeMap::new());
            assert!(outcome.measured().latencies.len() > 3);
        } else {
            let kinds: Vec<ErrorKind> = errors(&outcome).into_keys().collect();
            assert_eq!(kinds, [ErrorKind::Tls]);
        }
    }
}

#[test]
fn an_unreachable_target_is_retried_with_pauses() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = ran(&load(address, 2, ExpectedBody::Any));
    let errors = errors(&outcome);
    let count = errors.get(&ErrorKind::Connect).copied().unwrap_or(0);
    assert!(errors.len() == 1 && (4..60).contains(&count), "{errors:?}");
}

#[test]
fn connections_that_the_server_closes_are_opened_again() {
    let address = server(|mut stream| {
        if request(&mut stream) {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                .unwrap();
        }
    });
    let outcome = ran(&load(address, 2, ExpectedBody::Equals(Text::same("ok"))));
    assert_eq!(errors(&outcome), BTreeMap::new());
    assert!(outcome.measured().latencies.len() > 5);
}

#[test]
fn invalid_http_ends_the_sample_and_not_the_generator() {
    for (reply, kind) in [
        (&b"SSH-2.0-OpenSSH\r\n\r\n"[..], ErrorKind::Protocol),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", ErrorKind::Protocol),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", ErrorKind::Closed),
        (b"", ErrorKind::Closed),
    ] {
        let address = server(move |mut stream| {
            if request(&mut stream) {
                stream.write_all(reply).unwrap();
            }
        });
        let kinds: Vec<ErrorKind> =
            errors(&ran(&load(address, 1, ExpectedBody::Any))).into_keys().collect();
        assert_eq!(kinds, [kind], "{}", String::from_utf8_lossy(reply));
    }
}

/// The backend replies at once, except in the last second. Then one request waits, and the requests that would have been sent meanwhile are
/// missing. Without correction, the 99th percentile does not show the stall.
#[test]
fn a_stalled_backend_shows_in_the_corrected_p99() {
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let stalled = std::sync::Arc::clone(&is_over);
    let address = server(move |mut stream| {
        let mut answered = 0;
        while request(&mut stream) {
            answered += 1;
            if answered == 1000 && !stalled.swap(true, Ordering::Relaxed) {
                thread::sleep(Duration::from_secs(1));
            }
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    let mut load = load(address, 1, ExpectedBody::Any);
    group(&mut load).think = Duration::ZERO;
    group(&mut load).requests[0].body = Text::default();
    load.warm_up = Duration::from_millis(10);
    load.duration = Duration::from_millis(2500);
    let outcome = ran(&load);
    assert!(is_over.load(Ordering::Relaxed), "it sent fewer than 1000 requests");
    assert_eq!(errors(&outcome), BTreeMap::new());
    let [label] = &outcome.labels[..] else { panic!("one label") };
    let raw = label.measured.latencies.quantile(0.99);
    let corrected = label.corrected().quantile(0.99);
    assert!(raw < Duration::from_millis(100), "{raw:?}");
    assert!(corrected > Duration::from_millis(500), "{corrected:?}");
}

#[test]
fn the_ramp_and_groups_are_followed() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let mut load = load(backend.address(), 8, ExpectedBody::Echo);
    let mut second = group(&mut load).clone();
    second.requests[0].label = "second".to_owned();
    second.stages = vec![
        Stage { users: 10, over: Duration::from_secs(1) },
        Stage { users: 0, over: Duration::ZERO },
    ];
    let Work::Requests(requests) = &mut load.work else { panic!("requests") };
    requests.groups.push(second);
    load.warm_up = Duration::from_millis(500);
    load.duration = Duration::from_millis(1500);
    let outcome = ran(&load);
    // In the warm-up 8 and 0 to 5; then 8, and 5 to 10 for half of the time.
    assert!((outcome.users.warm_up - 10.5).abs() < 1.0, "{:?}", outcome.users);
    assert!((outcome.users.measured - 11.75).abs() < 1.0, "{:?}", outcome.users);
    let labels: Vec<&str> = outcome.labels.iter().map(|label| label.label.as_str()).collect();
    assert_eq!(labels, ["HTTP Request", "second"]);
    assert!(outcome.labels.iter().all(|label| label.measured.latencies.len() > 10));
}

#[test]
fn a_stopped_load_ends_soon_and_is_marked() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let mut load = load(backend.address(), 2, ExpectedBody::Echo);
    load.duration = Duration::from_secs(60);
    let control = Control::default();
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| run(&load, &control, None).unwrap());
        while control.samples() < 50 {
            thread::yield_now();
        }
        control.stop();
        running.join().unwrap()
    });
    assert!(outcome.stopped && outcome.elapsed < Duration::from_secs(20), "{outcome:?}");
}

#[test]
fn the_log_has_a_line_for_each_sample() {
    let backend = spawn_thread(Kind::Echo, Options::default()).unwrap();
    let mut load = load(backend.address(), 2, ExpectedBody::Echo);
    group(&mut load).requests[0].label = "a, \"b\"".to_owned();
    let mut file = tempfile::tempfile().unwrap();
    let outcome = run(&load, &Control::default(), Some(file.try_clone().unwrap())).unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let all = outcome.measured().latencies.len() + outcome.warmed_up().latencies.len();
    assert_eq!(text.lines().count() as u64, all + 1);
    assert!(text.starts_with("timeStamp,elapsed,label,responseCode,"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains(",\"a, \"\"b\"\"\",200,OK,Users 1-"), "{text}");
    assert_eq!(outcome.log_failed, None);
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(run(&load, &Control::default(), Some(full)).is_err(), "not even the header");
}

#[test]
fn a_load_with_mistakes_is_not_run() {
    let mut load = load("127.0.0.1:1".parse().unwrap(), 0, ExpectedBody::Any);
    load.threads = 0;
    let wrong = run(&load, &Control::default(), None).unwrap_err();
    assert_eq!(wrong.lines().count(), 2, "{wrong}");
}
