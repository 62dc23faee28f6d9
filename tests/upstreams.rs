//! The way to the upstream: faults, retries, balancing, health, limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::harness::{Gate, Gateway, Message, Origin, Peer, Plain, until};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAILED: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

/// A port that is taken and refuses connections, for as long as the socket lives.
fn refusing() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, format!("http://{address}"))
}

/// Gives each request the next reply, over all connections; the last one again and again.
fn answering_in_turn(replies: &'static [&'static str]) -> Origin {
    let turn = AtomicUsize::new(0);
    Origin::start(move |peer| {
        while peer.request().is_some() {
            let at = turn.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
            match replies[at] {
                "close" => return,
                "hang" => drop(peer.read_to_end()),
                reply => peer.send(reply),
            }
        }
    })
}

/// A gateway before several targets.
fn balancing(origins: &[&Origin], upstream: &str) -> Gateway {
    let targets: Vec<String> = origins.iter().map(|origin| origin.url()).collect();
    Plain { targets: &targets, upstream, ..Plain::default() }.start(origins[0])
}

#[track_caller]
fn fault(gateway: &Gateway, reply: &Message, status: u16, label: &str) {
    assert_eq!(reply.status(), status, "{label}: {reply:?}");
    assert!(reply.text().contains(&format!("\"fault\":\"{label}\"")), "{label}: {reply:?}");
    gateway.wait_for_log(&format!("fault=\"{label}\""));
}

#[test]
fn an_upstream_that_refuses_is_502() {
    let (_socket, url) = refusing();
    let gateway = Plain { targets: &[url], ..Plain::default() }.start(&Origin::echo());
    let mut wire = gateway.wire();
    for request in [GET, POST, GET] {
        fault(&gateway, &wire.ask(request), 502, "connect_failure");
    }
}

#[test]
fn an_upstream_that_closes_before_its_reply_is_502() {
    for started in ["", "HTTP/1.1 200 OK\r\nContent-Le"] {
        for resets in [true, false] {
            let origin = Origin::start(move |peer| {
                peer.request();
                peer.send(started);
                if resets {
                    peer.reset_on_close();
                }
            });
            let gateway = Gateway::before(&origin);
            let mut wire = gateway.wire();
            fault(&gateway, &wire.ask(GET), 502, "upstream_reset");
            fault(&gateway, &wire.ask(POST), 502, "upstream_reset");
            // No silent second try on a new connection.
            assert_eq!(origin.accepted(), 2);
        }
    }
}

#[test]
fn a_reply_that_is_no_http_is_502() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(600_000));
    for reply in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 99 OK\r\n\r\n",
        "HTTP/3.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX Y: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX\0: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbogus\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "\0\0\0\0\0\0\0\0\r\n\r\n",
        long.as_str(),
    ] {
        let bytes = reply.to_owned();
        let origin = Origin::start(move |peer| {
            peer.request();
            peer.try_send(&bytes);
            peer.read_to_end();
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        fault(&gateway, &wire.ask(GET), 502, "upstream_malformed");
        until("the connection is not used again", || origin.open() == 0);
    }
}

#[test]
fn a_reply_that_is_no_http_is_retried_like_a_reset() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let origin = Origin::start(move |peer| {
        peer.request();
        let reply = match counted.fetch_add(1, Ordering::Relaxed) {
            0 => "HTTP/1.1 abc OK\r\n\r\n",
            _ => OK,
        };
        peer.try_send(reply);
        peer.read_to_end();
    });
    for (on, status) in [("connect_failure, 502", 502), ("reset", 200)] {
        asked.store(0, Ordering::Relaxed);
        let retry = format!("retry: {{ attempts: 1, when: [{on}] }}");
        let gateway = Plain { upstream: &retry, ..Plain::default() }.start(&origin);
        assert_eq!(gateway.wire().ask(GET).status(), status, "{on}");
    }
}

#[test]
fn a_reply_that_is_late_is_504() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n");
        peer.read_to_end();
    });
    let gateway =
        Plain { upstream: "timeout: { response: 100ms }", ..Plain::default() }.start(&origin);
    fault(&gateway, &gateway.wire().ask(POST), 504, "upstream_timeout");
    until("the connection is not kept", || origin.open() == 0);
}

#[test]
fn a_reply_may_be_slow_but_not_pause() {
    let (next, done) = (Gate::default(), Gate::default());
    let origin = Origin::start({
        let (next, done) = (next.clone(), done.clone());
        move |peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            next.wait();
            peer.read_to_end();
            done.open();
        }
    });
    let gateway =
        Plain { upstream: "timeout: { response: 100ms }", ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.send(GET);
    next.open();
    let reply = wire.read_reply();
    assert_eq!((reply.text().as_str(), reply.whole), ("hello", false));
    done.wait();
    gateway.wait_for_log("fault=\"upstream_timeout\"");
}

/// A client that pauses, within its own limit, is not the upstream's fault.
#[test]
fn a_slow_client_is_not_a_slow_upstream() {
    let origins = [
        Origin::echo(),
        // Answers while the request is still coming.
        Origin::start(|peer| {
            peer.request_head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            (0..5).for_each(|_| peer.read_exact(1).map(|byte| peer.send(byte)).unwrap());
        }),
    ];
    for origin in origins {
        let gateway =
            Plain { upstream: "timeout: { response: 1s }", ..Plain::default() }.start(&origin);
        let mut wire = gateway.wire();
        wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        for part in ["hel", "lo"] {
            wire.is_silent_for(Duration::from_millis(1500));
            wire.send(part);
        }
        let reply = wire.read_reply();
        assert_eq!((reply.status(), reply.text().as_str(), reply.whole), (200, "hello", true));
    }
}

/// The origin closes a kept connection just when the next request is on its way.
#[test]
fn a_stale_connection_is_replaced_once_where_repeating_is_safe() {
    let big = format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{}",
        "x".repeat(100_000)
    );
    for (request, status) in [
        (GET, 200),
        ("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        (PUT, 200),
        (POST, 502),
        ("PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 502),
        (&big, 502),
    ] {
        let origin = Origin::start(|peer| {
            peer.request();
            peer.send(OK);
            if peer.number > 0 {
                // Only the first connection goes stale.
                echo_rest(peer);
            }
            peer.request_head();
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        assert_eq!(wire.ask(GET).status(), 200);
        let reply = wire.ask(request);
        assert_eq!(reply.status(), status, "{reply:?}");
        let line = request.lines().next().unwrap();
        assert_eq!(origin.accepted(), if status == 200 { 2 } else { 1 }, "{line}");
        if request == PUT {
            assert_eq!(origin.requests().last().unwrap().body, b"hello");
        }
    }
}

fn echo_rest(peer: &mut Peer) {
    while peer.request().is_some() {
        peer.send(OK);
    }
}

/// That a stale connection is replaced once does not mean again and again.
#[test]
fn a_second_silent_close_is_a_fault() {
    let origin = Origin::start(|peer| {
        if peer.number == 0 {
            peer.request();
            peer.send(OK);
        }
        peer.request();
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    assert_eq!(wire.ask(GET).status(), 200);
    fault(&gateway, &wire.ask(GET), 502, "upstream_reset");
    assert_eq!(origin.accepted(), 2);
}

/// A balancer on the way that has forgotten one connection has forgotten the others of the pool too: they are checked as well.
#[test]
fn one_stale_connection_is_not_replaced_by_another() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            if peer.number >= 3 {
                return echo_rest(peer);
            }
            peer.request();
            gate.wait();
            peer.send(OK);
            peer.request();
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wires = [gateway.wire(), gateway.wire(), gateway.wire()];
    wires.iter_mut().for_each(|wire| wire.send(GET));
    origin.wait_for_requests(3);
    gate.open();
    for wire in &mut wires {
        assert_eq!(wire.read_reply().status(), 200);
    }
    for _ in 0..4 {
        assert_eq!(wires[0].ask(GET).status(), 200);
    }
}

/// Connections that the origin closed while they were idle are noticed before they are used: not even a POST fails.
#[test]
fn connections_closed_while_idle_are_not_used() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send(OK);
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..20 {
        assert_eq!(wire.ask(POST).status(), 200);
        until("the origin has closed", || origin.open() == 0);
    }
    assert_eq!(origin.accepted(), 20);
}

/// Unrequested data on a kept connection must not become the reply to the next request.
#[test]
fn unasked_bytes_are_not_the_next_reply() {
    let origin = Origin::start(|peer| {
        while peer.request().is_some() {
            peer.send(format!("{OK}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"));
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..5 {
        assert_eq!(wire.ask(GET).text(), "ok");
    }
    assert_eq!(origin.accepted(), 5);
}

#[test]
fn connections_are_kept_as_long_and_as_many_as_configured() {
    let origin = Origin::saying("ok");
    let gateway = Plain { upstream: "timeout: { idle: 100ms }", ..Plain::default() }.start(&origin);
    gateway.wire().ask(GET);
    until("the idle connection is closed", || origin.open() == 0);
    let origin = Origin::saying("ok");
    let gateway = Plain { upstream: "pool: { idle_max: 0 }", ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    for accepted in 1..4 {
        wire.ask(GET);
        assert_eq!(origin.accepted(), accepted);
    }
}

#[test]
fn what_is_configured_is_tried_again() {
    let in_all = |attempts: u32, on: &str| {
        format!("timeout: {{ response: 1s }}, retry: {{ attempts: {attempts}, on: [{on}] }}")
    };
    for (replies, retry, status, requests) in [
        (&[FAILED, FAILED, OK][..], in_all(2, "503"), 200, 3),
        (&[FAILED, FAILED, OK], in_all(1, "503"), 503, 2),
        (&[FAILED, OK], in_all(2, "502"), 503, 1),
        (&[FAILED, OK], in_all(0, "503"), 503, 1),
        (&["close", OK], in_all(1, "reset"), 200, 2),
        (&["close", OK], in_all(1, "503"), 502, 1),
        (&["hang", OK], in_all(1, "timeout"), 200, 2),
        (&["hang", OK], in_all(1, "reset"), 504, 1),
        (&["close", "hang", FAILED, OK], in_all(5, "reset, timeout, 503"), 200, 4),
    ] {
        let retry = &retry;
        std::thread::scope(|scope| {
            for request in [GET, PUT, POST] {
                scope.spawn(move || {
                    let origin = answering_in_turn(replies);
                    let gateway = Plain { upstream: retry, ..Plain::default() }.start(&origin);
                    let reply = gateway.wire().ask(request);
                    assert_eq!(reply.status(), status, "{replies:?} {retry} {reply:?}");
                    let seen = origin.requests();
                    assert_eq!(seen.len(), requests, "{replies:?} {retry}");
                    assert!(seen.iter().all(|request| *request == seen[0]), "{seen:?}");
                });
            }
        });
    }
}

#[test]
fn a_body_too_large_to_keep_has_one_attempt() {
    let origin = answering_in_turn(&[FAILED, OK]);
    let upstream = "retry: { attempts: 3, on: [503], body_bytes_max: 4B }";
    let gateway = Plain { upstream, ..Plain::default() }.start(&origin);
    // Larger than one read: a body that comes with its head is at hand.
    let body = "x".repeat(200_000);
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let reply = gateway.wire().ask(head + &body);
    assert_eq!((reply.status(), reply.text().as_str()), (503, "busy"));
    assert_eq!(origin.request().body, body.as_bytes());
}

/// A body that a policy has gathered is in memory anyway.
#[test]
fn a_body_at_hand_is_sent_again_whatever_its_size() {
    let origin = answering_in_turn(&[FAILED, OK]);
    let upstream = "retry: { attempts: 3, on: [503], body_bytes_max: 4B }";
    let route = "policies: [{ soap: { envelope: off, action: off } }]";
    let gateway = Plain { upstream, route, ..Plain::default() }.start(&origin);
    let body = format!("<a>{}</a>", "x".repeat(200_000));
    let lines = format!("Content-Type: text/xml\r\nContent-Length: {}", body.len());
    let reply = gateway.wire().ask(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{body}"));
    assert_eq!(reply.status(), 200, "{reply:?}");
    let seen = origin.requests();
    assert!(seen.len() == 2 && seen.iter().all(|request| request.body == body.as_bytes()));
}

/// A policy's own call obeys the retries of its upstream.
#[test]
fn a_fetch_goes_on_to_another_target_only_where_retries_do() {
    let origin = Origin::saying("ok");
    for (retry, status) in [("", 200), ("retry: { attempts: 0 }, ", 500)] {
        let (_socket, url) = refusing();
        let service = answering_in_turn(&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]);
        let more = format!(
            "upstreams: {{ origin: {{ targets: [\"{}\"] }}, asked: {{ {retry}balance: failover, targets: [\"{url}\", \"{}\"] }} }}",
            origin.url(),
            service.url()
        );
        let gateway = Gateway::start(format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
{more}
routes:
  all:
    match: {{ path: "/**" }}
    upstream: origin
    policies: [{{ interceptor: {{ request: {{ upstream: asked }} }} }}]
"#
        ));
        let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: abc\r\n\r\n");
        assert_eq!(reply.status(), status, "{retry}: {reply:?}");
        if status == 200 {
            assert_eq!(service.request().get("x-request-id"), Some("abc"));
        }
    }
}

#[test]
fn a_target_that_refuses_is_passed_over() {
    let (_socket, url) = refusing();
    let origin = Origin::saying("ok");
    let upstream = "retry: { attempts: 1, on: [connect_failure] }";
    let gateway =
        Plain { targets: &[url, origin.url()], upstream, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    for request in [GET, POST, GET, POST] {
        assert_eq!(wire.ask(request).status(), 200);
    }
}

#[test]
fn round_robin_follows_the_weights() {
    let origins = [Origin::saying("a"), Origin::saying("b"), Origin::saying("c")];
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams:
  origin: {{ targets: ["{}", {{ url: "{}", weight: 2 }}, {{ url: "{}", weight: 3 }}], balance: round_robin }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin }} }}
"#,
        origins[0].url(),
        origins[1].url(),
        origins[2].url()
    ));
    let mut wire = gateway.wire();
    (0..30).for_each(|_| drop(wire.ask(GET)));
    assert_eq!(origins.each_ref().map(|origin| origin.requests().len()), [5, 10, 15]);
}

#[test]
fn least_requests_avoids_the_busy() {
    let gate = Gate::default();
    let script = |gate: Gate| {
        move |peer: &mut Peer| {
            while let Some(request) = peer.request() {
                if request.target() == "/slow" {
                    gate.wait();
                }
                peer.send(OK);
            }
        }
    };
    let origins = [Origin::start(script(gate.clone())), Origin::start(script(gate.clone()))];
    let gateway = balancing(&[&origins[0], &origins[1]], "balance: least_requests");
    let mut slow = gateway.wire();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let count = |at: usize| origins[at].requests().len();
    until("one is busy", || count(0) + count(1) == 1);
    let (busy, free) = if count(0) == 1 { (0, 1) } else { (1, 0) };
    let mut wire = gateway.wire();
    (0..10).for_each(|_| drop(wire.ask(GET)));
    assert_eq!((count(busy), count(free)), (1, 10));
    gate.open();
    assert_eq!(slow.read_reply().status(), 200);
}

#[test]
fn a_hash_stays_and_losing_a_target_moves_only_its_keys() {
    let origins = [Origin::saying("a"), Origin::saying("b"), Origin::saying("c")];
    let [a, b, c] = &origins;
    let place = |gateway: &Gateway| -> BTreeMap<usize, String> {
        let mut wire = gateway.wire();
        let ask = |key| {
            (
                key,
                wire.ask(format!("GET /{key} HTTP/1.1\r\nHost: a\r\nX-User: {key}\r\n\r\n")).text(),
            )
        };
        (0..60).map(ask).collect()
    };
    let balance = "balance: { hash: { by: \"header:x-user\" } }";
    let gateway = balancing(&[a, b, c], balance);
    let before = place(&gateway);
    assert_eq!(before, place(&gateway), "the same key, the same target");
    for name in ["a", "b", "c"] {
        let share = before.values().filter(|place| *place == name).count();
        // Addresses are drawn again in each run: 5 of 60 occur once in 40,000 runs.
        assert!(share > 1, "{name} has {share} of 60");
    }
    let after = place(&balancing(&[a, c], balance));
    for (key, was) in before {
        assert!(was == "b" || after[&key] == was, "key {key} moved from {was} to {}", after[&key]);
    }
}

#[test]
fn a_hash_may_be_of_the_client_the_path_or_a_cookie() {
    let origins = [Origin::saying("a"), Origin::saying("b")];
    for (by, head) in [
        ("client", "GET /x HTTP/1.1\r\nX-Forwarded-For: 10.0.0.KEY\r\n"),
        ("path", "GET /KEY HTTP/1.1\r\n"),
        ("cookie:user", "GET / HTTP/1.1\r\nCookie: a=b; user=KEY; c=d\r\n"),
    ] {
        let upstream = format!("balance: {{ hash: {{ by: \"{by}\" }} }}");
        let targets = origins.each_ref().map(Origin::url);
        let listener = "trusted_proxies: [\"127.0.0.1/32\"]";
        let gateway =
            Plain { targets: &targets, upstream: &upstream, listener, ..Plain::default() }
                .start(&origins[0]);
        let mut wire = gateway.wire();
        let mut ask = |key: usize| {
            wire.ask(format!("{}Host: a\r\n\r\n", head.replace("KEY", &key.to_string()))).text()
        };
        let first: String = (0..24).map(&mut ask).collect();
        assert_eq!(first, (0..24).map(&mut ask).collect::<String>(), "{by}");
        assert!(first.contains('a') && first.contains('b'), "{by}: {first}");
    }
}

/// An origin whose health can be switched.
fn switchable(name: &'static str) -> (Origin, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(true));
    let switch = well.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() == "/health" && !well.load(Ordering::SeqCst) {
                peer.try_send(FAILED)
            } else {
                peer.try_send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
                    name.len()
                ))
            };
        }
    });
    (origin, switch)
}

#[test]
fn health_checks_take_a_target_out_and_back_in() {
    let ((a, a_well), (b, b_well)) = (switchable("a"), switchable("b"));
    let upstream = "health: { path: /health, interval: 20ms, timeout: 1s, unhealthy_after: 2, healthy_after: 2 }";
    let gateway = balancing(&[&a, &b], upstream);
    let mut wire = gateway.wire();
    let mut five = || (0..5).map(|_| wire.ask(GET).text()).collect::<String>();
    let mixed = five();
    assert!(mixed.contains('a') && mixed.contains('b'), "{mixed}");
    a_well.store(false, Ordering::SeqCst);
    until("one is out", || five() == "bbbbb");
    a_well.store(true, Ordering::SeqCst);
    until("it is back in", || five().contains('a'));
    [a_well, b_well].iter().for_each(|well| well.store(false, Ordering::SeqCst));
    until("nobody is well", || gateway.wire().ask(GET).status() == 503);
    fault(&gateway, &gateway.wire().ask(GET), 503, "no_target");
    let probe = a.requests().into_iter().find(|request| request.target() == "/health").unwrap();
    assert_eq!(
        (probe.method(), probe.get("host")),
        ("GET", Some(a.address().to_string().as_str()))
    );
}

/// A service whose health has the status of the switch.
fn with_health(name: &'static str) -> (Origin, Arc<AtomicUsize>) {
    let status = Arc::new(AtomicUsize::new(200));
    let switch = status.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let health = request.target() == "/health";
            let status = if health { status.load(Ordering::SeqCst) } else { 200 };
            let length = name.len();
            peer.try_send(format!("HTTP/1.1 {status} S\r\nContent-Length: {length}\r\n\r\n{name}"));
        }
    });
    (origin, switch)
}

#[test]
fn each_kind_of_failed_check_counts_on_its_own() {
    let ((a, a_status), (b, _)) = (with_health("a"), with_health("b"));
    for (after, unhealthy, status, is_out) in [
        ("{ status: 2 }", "", 500, true),
        ("{ status: 2 }", "", 404, true),
        ("{ status: 2 }", ", unhealthy_statuses: [500-599]", 404, false),
        ("{ status: 2 }", ", unhealthy_statuses: [500-599]", 500, true),
        ("{ connection: 1 }", "", 500, false),
    ] {
        a_status.store(200, Ordering::SeqCst);
        let upstream = format!(
            "health: {{ path: /health, interval: 20ms, unhealthy_after: {after}, healthy_after: 1{unhealthy} }}"
        );
        let gateway = balancing(&[&a, &b], &upstream);
        let mut wire = gateway.wire();
        let mut four = || (0..4).map(|_| wire.ask(GET).text()).collect::<String>();
        a.forget();
        a_status.store(status, Ordering::SeqCst);
        let checks = || a.requests().iter().filter(|one| one.target() == "/health").count();
        until("it was checked often", || checks() >= 5);
        let what = format!("{after}{unhealthy}: {status}");
        if is_out {
            until(&what, || four() == "bbbb");
        } else {
            assert!(four().contains('a'), "{what}");
        }
        a_status.store(200, Ordering::SeqCst);
        until("it is back in", || four().contains('a'));
    }
}

#[test]
fn connections_that_are_refused_count_on_their_own() {
    let good = Origin::saying("good");
    let (_socket, closed) = refusing();
    let targets = [good.url(), closed];
    for (after, is_out) in [("{ connection: 1 }", true), ("{ status: 1 }", false)] {
        let upstream = format!(
            "retry: {{ attempts: 0 }}, health: {{ path: /, interval: 20ms, unhealthy_after: {after} }}"
        );
        let gateway = Plain { targets: &targets, upstream: &upstream, ..Plain::default() };
        let gateway = gateway.start(&good);
        let checked = || good.requests().len();
        let before = checked();
        until("it was checked often", || checked() >= before + 5);
        let four = || (0..4).filter(|_| gateway.wire().ask(GET).status() == 200).count();
        if is_out {
            until("the closed target is out", || four() == 4);
        } else {
            assert!(four() < 4, "{after}");
        }
    }
}

#[test]
fn a_target_that_keeps_failing_is_left_out_for_a_while() {
    let (good, bad) = (Origin::saying("good"), Origin::answering(FAILED));
    let upstream = "outlier: { consecutive_faults: 2, eject: 3s, max_ejected_percent: 50 }";
    let gateway = balancing(&[&bad, &good], upstream);
    let mut wire = gateway.wire();
    let faults = (0..10).filter(|_| wire.ask(GET).status() == 503).count();
    assert_eq!(faults, 2);
    gateway.wait_for_log("target ejected");
    until("it is asked again", || wire.ask(GET).status() == 503);
}

/// That another target answered in its place does not make it better.
#[test]
fn a_target_whose_faults_are_retried_is_left_out_too() {
    let (good, bad) = (Origin::saying("good"), Origin::answering(FAILED));
    let upstream =
        "retry: { attempts: 1, on: [503] }, outlier: { consecutive_faults: 2, eject: 60s }";
    let gateway = balancing(&[&bad, &good], upstream);
    let mut wire = gateway.wire();
    for _ in 0..10 {
        assert_eq!(wire.ask(GET).text(), "good");
    }
    assert_eq!(bad.requests().len(), 2);
}

/// The last target's reply is more useful than an error about missing targets.
#[test]
fn where_nobody_is_left_to_ask_the_last_reply_counts() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy";
    let outlier = "outlier: { consecutive_faults: 2, eject: 60s, max_ejected_percent: 100 }";
    let origins = [Origin::answering(busy), Origin::answering(busy)];
    for (origins, asked) in [(&[&origins[0]][..], 2), (&[&origins[0], &origins[1]], 4)] {
        let before: usize = origins.iter().map(|origin| origin.requests().len()).sum();
        let upstream = format!("retry: {{ attempts: 5, on: [503] }}, {outlier}");
        let gateway = balancing(origins, &upstream);
        let reply = gateway.wire().ask(GET);
        assert_eq!((reply.status(), reply.text().as_str()), (503, "busy"), "{reply:?}");
        assert_eq!(reply.get("retry-after"), Some("7"));
        fault(&gateway, &gateway.wire().ask(GET), 503, "no_target");
        let after: usize = origins.iter().map(|origin| origin.requests().len()).sum();
        assert_eq!(after - before, asked);
    }
    let silent = Origin::start(|peer| drop(peer.request()));
    let upstream = format!("retry: {{ attempts: 5, on: [reset] }}, {outlier}");
    let gateway = Plain { upstream: &upstream, ..Plain::default() }.start(&silent);
    fault(&gateway, &gateway.wire().ask(GET), 502, "upstream_reset");
    assert_eq!(silent.requests().len(), 2);
}

#[test]
fn not_all_targets_are_left_out_at_once() {
    let origins = [Origin::answering(FAILED), Origin::answering(FAILED)];
    let upstream = "outlier: { consecutive_faults: 1, eject: 60s, max_ejected_percent: 50 }";
    let gateway = balancing(&[&origins[0], &origins[1]], upstream);
    let mut wire = gateway.wire();
    for _ in 0..6 {
        assert_eq!(wire.ask(GET).text(), "busy");
    }
    assert_eq!(origins.each_ref().map(|origin| origin.requests().len()).into_iter().min(), Some(1));
}

#[test]
fn the_breaker_refuses_what_is_too_much_and_nothing_after() {
    for breaker in ["requests: 1", "connections: 1"] {
        let gate = Gate::default();
        let origin = Origin::start({
            let gate = gate.clone();
            move |peer| {
                while peer.request().is_some() {
                    gate.wait();
                    peer.send(OK);
                }
            }
        });
        let upstream = format!("breaker: {{ {breaker} }}");
        let gateway = Plain { upstream: &upstream, ..Plain::default() }.start(&origin);
        let (mut first, mut second) = (gateway.wire(), gateway.wire());
        first.send(GET);
        origin.wait_for_requests(1);
        fault(&gateway, &second.ask(GET), 503, "breaker_open");
        gate.open();
        assert_eq!(first.read_reply().status(), 200);
        assert_eq!(second.ask(GET).status(), 200);
        assert_eq!(origin.accepted(), 1);
    }
}

#[test]
fn idle_connections_are_not_too_much() {
    let origins = [Origin::saying("a"), Origin::saying("b"), Origin::saying("c")];
    let gateway = balancing(&origins.each_ref(), "breaker: { connections: 2 }");
    let mut wire = gateway.wire();
    for _ in 0..9 {
        assert_eq!(wire.ask(GET).status(), 200);
    }
}

/// Connections of other workers cannot be closed, and do not count.
#[test]
fn idle_connections_of_other_workers_are_not_too_much() {
    let origin = Origin::saying("ok");
    let upstream = "breaker: { connections: 1 }";
    let yaml = Plain { upstream, ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start(yaml.replace("workers: 1", "workers: 2"));
    for _ in 0..30 {
        assert_eq!(gateway.wire().ask(GET).status(), 200);
    }
}

/// Idle connections do not count, and those taken from a pool do.
#[test]
fn connections_in_use_are_bounded_over_all_workers() {
    let gate = Gate::default();
    let in_use = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start({
        let (gate, in_use) = (gate.clone(), in_use.clone());
        move |peer| {
            while let Some(request) = peer.request() {
                if request.target() == "/slow" {
                    in_use.fetch_add(1, Ordering::SeqCst);
                    gate.wait();
                }
                peer.send(OK);
            }
        }
    });
    let yaml = Plain { upstream: "breaker: { connections: 1 }", ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start(yaml.replace("workers: 1", "workers: 4"));
    for _ in 0..60 {
        assert_eq!(gateway.wire().ask(GET).status(), 200);
    }
    assert!(origin.accepted() > 1, "an idle connection in more than one worker");
    let (said, told) = std::sync::mpsc::channel();
    for _ in 0..24 {
        let (mut wire, said) = (gateway.wire(), said.clone());
        wire.send(GET.replacen('/', "/slow", 1));
        std::thread::spawn(move || said.send(wire.read_reply().status()));
    }
    let mut refused = Vec::new();
    until("all but one are refused", || {
        refused.extend(told.try_iter());
        assert!(in_use.load(Ordering::SeqCst) <= 1, "more than one in use");
        refused.len() == 23
    });
    assert_eq!(refused, [503; 23]);
    gate.open();
    assert_eq!(told.recv().unwrap(), 200);
    assert_eq!(gateway.wire().ask(GET).status(), 200);
}

#[test]
fn targets_may_be_names() {
    let origin = Origin::saying("ok");
    let url = format!("http://localhost:{}", origin.address().port());
    let gateway =
        Plain { targets: std::slice::from_ref(&url), route: "host: target", ..Plain::default() }
            .start(&origin);
    assert_eq!(gateway.wire().ask(GET).status(), 200);
    assert_eq!(origin.request().get("host"), url.strip_prefix("http://"));
}

#[test]
fn issue_19_a_target_of_http2_is_told_as_that() {
    for (first, part) in [
        // SETTINGS, empty and with one of them; GOAWAY with the code and the last stream.
        (
            b"\0\0\0\x04\0\0\0\0\0".as_slice(),
            "it answers with HTTP/2, but the request used HTTP/1.1",
        ),
        (b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64", "it answers with HTTP/2"),
        (b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01", "it answers with HTTP/2"),
        // No frame of a connection.
        (b"\0\0\0\x04\0\0\0\0\x01", "upstream_malformed"),
    ] {
        let origin = Origin::answering(first);
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\ntelemetry: {{ access_log: {{ path: stdout }} }}\n\
             upstreams: {{ grpc: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{}}, upstream: grpc }} }}\n",
            origin.url()
        );
        let gateway = Gateway::start(yaml);
        let reply = gateway.wire().get("/");
        assert_eq!(reply.status(), 502);
        assert!(!reply.text().contains("HTTP/2"), "{}", reply.text());
        gateway.wait_for_output(part);
        assert_eq!(gateway.output().contains("HTTP/2, but"), part.contains("HTTP/2"));
    }
}
