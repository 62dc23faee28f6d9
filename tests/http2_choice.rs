//! HTTP/2 towards upstreams: the limits of the breaker, the time of a whole call, targets that have gone without a word, and targets
//! that choose their protocol, and choose anew.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::harness::frames::{END, data, frame, head, kind, reply};
use crate::harness::{Authority, Gate, Gateway, H2, Origin, Peer, Plain, full, until};
use crate::telemetry::metric;

const LOG: &str =
    "admin: { address: \"127.0.0.1:0\" }\ntelemetry: { access_log: { path: stdout } }";

fn with(upstream: &str, origin: &Origin) -> Gateway {
    let upstream = format!("protocol: http2, {upstream}");
    Plain { upstream: &upstream, more: LOG, ..Plain::default() }.start(origin)
}

#[track_caller]
fn refused(gateway: &Gateway, count: f64) {
    let reply = gateway.wire().get("/");
    assert_eq!(reply.status(), 503);
    gateway.wait_for_output("\"fault\":\"breaker_open\"");
    let refused = metric(gateway, "tidegate_upstream_breaker_refused_total{upstream=\"origin\"}");
    assert_eq!(refused, Some(count));
}

/// Answers at once, or for `/held` once the gate opens, on connections with this limit of streams.
fn held(gate: &Gate, streams: u32) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer| {
        peer.greet(&[(3, streams)]);
        while let Some((stream, request)) = peer.whole_stream() {
            if request.target() == "/held" {
                gate.wait();
            }
            peer.try_send(reply(stream, "ok"));
        }
    })
}

#[test]
fn the_breaker_bounds_requests_on_a_shared_connection() {
    let gate = Gate::default();
    let origin = held(&gate, 100);
    let gateway = with("breaker: { requests: 2 }", &origin);
    let mut wires: Vec<_> = (0..2).map(|_| gateway.wire()).collect();
    wires.iter_mut().for_each(|wire| wire.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n"));
    let active = "tidegate_upstream_requests_active{upstream=\"origin\"}";
    until("both are there", || metric(&gateway, active) == Some(2.0));
    refused(&gateway, 1.0);
    gate.open();
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().text(), "ok"));
    assert_eq!(gateway.wire().get("/").text(), "ok");
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn the_breaker_bounds_connections_that_have_a_stream() {
    let gate = Gate::default();
    let origin = held(&gate, 1);
    let gateway = with("breaker: { connections: 1, requests: 100 }", &origin);
    // With this the target's limit is known.
    assert_eq!(gateway.wire().get("/").text(), "ok");
    let mut first = gateway.wire();
    first.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(2);
    refused(&gateway, 1.0);
    gate.open();
    assert_eq!(first.read_reply().text(), "ok");
    assert_eq!(gateway.wire().get("/").text(), "ok");
}

#[test]
fn the_breaker_bounds_those_that_wait_for_a_connection() {
    // It accepts connections, and never sends SETTINGS.
    let origin = Origin::start(|peer| {
        peer.read_to_end();
    });
    let targets = [format!("https://{}", origin.address())];
    let upstream = "protocol: http2, breaker: { pending: 1 }, timeout: { connect: 5m }";
    let gateway =
        Plain { upstream, targets: &targets, more: LOG, ..Plain::default() }.start(&origin);
    let mut first = gateway.wire();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let pending = "tidegate_upstream_requests_pending{upstream=\"origin\"}";
    until("it waits", || metric(&gateway, pending) == Some(1.0));
    refused(&gateway, 1.0);
}

#[test]
fn the_time_of_a_whole_call_ends_it_before_and_in_its_reply() {
    let (told, tells) = mpsc::channel();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.greet(&[]);
        while let Some((stream, request)) = peer.whole_stream() {
            match request.target() {
                "/silent" => {}
                "/slow" => {
                    let lines = [(":status", "200")];
                    peer.send([head(stream, 0, &lines), data(stream, 0, "begun")].concat());
                }
                _ => {
                    peer.send(reply(stream, "ok"));
                    continue;
                }
            }
            let next = loop {
                // One that has begun never pauses for long enough to be late by that.
                if !peer.is_silent_for(Duration::from_millis(20)) {
                    let next = peer.any_frame().expect("a reset");
                    if next.kind == kind::RST_STREAM {
                        break next;
                    }
                } else if request.target() == "/slow" {
                    peer.send(data(stream, 0, "."));
                }
            };
            told.send((next.stream == stream, next.number())).unwrap();
        }
    });
    let gateway = with("timeout: { total: 500ms, response: 1h }, retry: { attempts: 0 }", &origin);
    let began = Instant::now();
    assert_eq!(gateway.wire().get("/silent").status(), 504);
    assert!(began.elapsed() >= Duration::from_millis(500));
    gateway.wait_for_output("\"fault\":\"upstream_timeout\"");
    assert_eq!(tells.recv().unwrap(), (true, 8));
    // On a busy machine it may be late before it has begun.
    let mut cut = gateway.wire().get("/slow");
    until("it has begun in time", || {
        if cut.status() == 504 {
            cut = gateway.wire().get("/slow");
        }
        cut.status() == 200
    });
    assert!(!cut.whole && cut.text().starts_with("begun"), "{cut:?}");
    assert_eq!(tells.recv().unwrap(), (true, 8));
    until("the next one is answered", || gateway.wire().get("/").status() == 200);
}

/// An event stream may be silent without end, but its target is checked.
#[test]
fn a_target_that_has_gone_without_a_word_is_found_out() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        let (stream, request, _) = peer.stream().unwrap();
        let lines = [(":status", "200"), ("content-type", "text/event-stream")];
        peer.send([head(stream, 0, &lines), data(stream, 0, "data: 1\n\n")].concat());
        if request.target() == "/gone" {
            // It reads everything and sends nothing.
            while peer.any_frame().is_some() {}
            return;
        }
        let asked = loop {
            let next = peer.any_frame().expect("a PING");
            match next.kind {
                kind::PING => break next,
                kind::SETTINGS if next.flags & 1 == 0 => {
                    peer.send(frame(kind::SETTINGS, 1, 0, &[]))
                }
                _ => {}
            }
        };
        peer.send(frame(kind::PING, 1, 0, &asked.payload));
        peer.send(data(stream, END, "data: 2\n\n"));
        while peer.any_frame().is_some() {}
    });
    let mut gateway = with("timeout: { idle: 300ms, response: 500ms }", &origin);
    let mut gone = gateway.wire();
    gone.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(gone.read_head().status(), 200);
    assert_eq!(gone.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
    assert!(gone.read_to_end().is_empty(), "it is cut, and not at its end");
    gateway.wait_for_output("it is silent, and does not answer a PING");
    until("the connection is closed", || origin.open() == 0);

    // A target that answers may take longer.
    gateway = with("timeout: { idle: 300ms }", &origin);
    let reply = gateway.wire().get("/there");
    assert!(reply.whole && reply.text() == "data: 1\n\ndata: 2\n\n", "{reply:?}");
}

/// A TLS service whose protocols a test changes, as after a restart. It returns the protocol of the request.
struct Choosy {
    origin: Origin,
    offers: Arc<Mutex<Vec<&'static str>>>,
}

impl Choosy {
    fn start(authority: &Authority, offers: &[&'static str]) -> Choosy {
        let settings = authority.server("127.0.0.1", None);
        let offers = Arc::new(Mutex::new(offers.to_vec()));
        let offered = offers.clone();
        let pick = move || {
            let mut settings = ServerConfig::clone(&settings);
            let offered = offered.lock().unwrap();
            settings.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
            Arc::new(settings)
        };
        let origin = Origin::start_tls_by(pick, |peer| {
            let is_http2 = peer.alpn() == Some("h2");
            if is_http2 {
                peer.greet(&[]);
            }
            loop {
                let target = if is_http2 {
                    peer.whole_stream().map(|(stream, request)| {
                        peer.try_send(reply(stream, "HTTP/2"));
                        request.target().to_owned()
                    })
                } else {
                    peer.request().map(|request| {
                        peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHTTP/1");
                        request.target().to_owned()
                    })
                };
                if target.is_none_or(|target| target == "/last") {
                    return;
                }
            }
        });
        Choosy { origin, offers }
    }
}

#[test]
fn a_target_that_is_restarted_chooses_anew() {
    let authority = Authority::new();
    let service = Choosy::start(&authority, &["h2", "http/1.1"]);
    let targets = [format!("https://{}", service.origin.address())];
    let upstream = "protocol: auto, tls: { ca: ca.pem }";
    let yaml = Plain { upstream, targets: &targets, more: LOG, ..Plain::default() };
    let yaml = yaml.yaml(&service.origin);
    let gateway = Gateway::start_beside(yaml, &[("ca.pem", &authority.pem())]);
    for (offers, expected) in [
        (&["h2", "http/1.1"][..], "HTTP/2"),
        (&["http/1.1"], "HTTP/1"),
        (&["h2"], "HTTP/2"),
        (&[], "HTTP/1"),
        (&["h2", "http/1.1"], "HTTP/2"),
    ] {
        *service.offers.lock().unwrap() = offers.to_vec();
        // For every method, and with many concurrent requests.
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(gateway.wire().ask(post).text(), expected, "{offers:?}");
        let mut wires: Vec<_> = (0..8).map(|_| gateway.wire()).collect();
        wires.iter_mut().for_each(|wire| wire.send(post));
        wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().text(), expected));
        let client = H2::connect(gateway.address("public"));
        let request = hyper::Request::get("http://a.test/").header("te", "trailers");
        assert_eq!(client.ask(request.body(full("")).unwrap()).body, expected);
        // It stops: its connections end.
        while service.origin.open() > 0 {
            gateway.wire().get("/last");
        }
    }
}
