//! Copies of requests for a mirror.

use hyper::Request;
use rustix::process::Signal;

use crate::harness::{Gate, Gateway, H2, Message, Origin, Peer, full, tidegate, until};

/// A route with a mirror, on one worker. `mirror` are the keys besides its upstream.
fn start(origin: &Origin, mirror_at: &str, mirror: &str, route: &str) -> Gateway {
    Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
drain: {{ delay: 0s }}
upstreams:
  origin: {{ targets: ["{}"] }}
  mirror: {{ targets: ["{mirror_at}"] }}
routes:
  all: {{ match: {{}}, {route} upstream: origin, mirror: {{ upstream: mirror{mirror} }} }}
"#,
        origin.url()
    ))
}

/// The number of copies with this outcome.
fn count(gateway: &Gateway, outcome: &str) -> u64 {
    let start = format!("tidegate_mirror_requests_total{{route=\"all\",outcome=\"{outcome}\"}} ");
    let metrics = gateway.admin_get("/metrics").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    line.map_or(0, |count| count.parse().unwrap())
}

#[track_caller]
fn wait_for(gateway: &Gateway, outcome: &str, expected: u64) {
    until(&format!("{expected} are {outcome}"), || count(gateway, outcome) == expected);
}

#[test]
fn a_mirror_gets_what_the_upstream_gets() {
    let (origin, mirror) = (Origin::echo(), Origin::saying("nobody reads this"));
    let route = r#"strip_prefix: "", policies: [{ headers: { request: { set: { x-a: b }, remove: [x-b] } } }],"#;
    let gateway = start(&origin, &mirror.url(), "", route);
    let mut wire = gateway.wire();
    for (request, reply) in [
        ("GET /a?b=c HTTP/1.1\r\nHost: a.test\r\nX-B: c\r\nAuthorization: Basic YTpi\r\n\r\n", ""),
        (
            "POST /d/../e HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nConnection: x-c\r\nX-C: d\r\n\r\none",
            "one",
        ),
        (
            "PUT /f HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n2\r\n+3\r\n0\r\n\r\n",
            "two+3",
        ),
    ] {
        assert_eq!(wire.ask(request).text(), reply);
    }
    let h2 = H2::connect(gateway.address("public"));
    let request = Request::post("http://a.test/h2").body(full("four")).unwrap();
    assert_eq!(h2.ask(request).body, "four");
    wait_for(&gateway, "success", 4);
    let (asked, copied) = (origin.requests(), mirror.requests());
    assert_eq!(copied.len(), 4, "{copied:?}");
    for asked in &asked {
        let copy = copied.iter().find(|copy| copy.start == asked.start).unwrap();
        assert_eq!(copy.body, asked.body);
        // The bodies were copied whole, so their length is known.
        let lines = |message: &Message| -> Vec<(String, String)> {
            let framing = ["content-length", "transfer-encoding"];
            let all = message.headers.iter();
            let mut lines: Vec<_> = all
                .map(|(name, value)| (name.to_lowercase(), value.clone()))
                .filter(|(name, _)| !framing.contains(&name.as_str()))
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(lines(copy), lines(asked));
        assert_eq!((copy.get("x-a"), copy.get("x-b"), copy.get("x-c")), (Some("b"), None, None));
        assert_eq!(copy.get("host"), Some("a.test"));
        assert!(copy.get("via").is_some_and(|via| via.contains("tidegate-")), "{copy:?}");
    }
}

#[test]
fn the_host_follows_the_rule_of_the_route() {
    let (origin, mirror) = (Origin::echo(), Origin::echo());
    let gateway = start(&origin, &mirror.url(), "", "host: target,");
    assert_eq!(gateway.wire().get("/").status(), 200);
    mirror.wait_for_requests(1);
    assert_eq!(mirror.request().get("host"), Some(mirror.address().to_string().as_str()));
}

#[test]
fn a_mirror_that_is_away_or_fails_is_not_noticed() {
    let origin = Origin::saying("fine");
    for (mirror, outcome) in [
        (None, "failure"),
        (Some(Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")), "success"),
        (Some(Origin::answering("no reply of HTTP\r\n\r\n")), "failure"),
        (Some(Origin::start(|peer| drop(peer.request()))), "failure"),
    ] {
        // Port 1 is closed.
        let at = mirror.as_ref().map_or("http://127.0.0.1:1".to_owned(), Origin::url);
        let gateway = start(&origin, &at, "", "");
        let mut wire = gateway.wire();
        for _ in 0..3 {
            assert_eq!(wire.get("/").text(), "fine");
        }
        wait_for(&gateway, outcome, 3);
    }
}

#[test]
fn nobody_waits_for_a_mirror_and_there_are_never_too_many() {
    let (origin, mirror) = (Origin::saying("fine"), Origin::silent());
    let gateway = start(&origin, &mirror.url(), "", "");
    let mut wire = gateway.wire();
    for _ in 0..300 {
        assert_eq!(wire.get("/").text(), "fine");
    }
    mirror.wait_for_requests(256);
    assert_eq!(count(&gateway, "dropped"), 300 - 256);
    assert_eq!((mirror.requests().len(), origin.requests().len()), (256, 300));
    // Copies in progress do not delay the end.
    gateway.signal(Signal::TERM);
    assert!(gateway.wait_for_exit().success());
}

/// A client with a mirror is not asked for a body that the upstream does not want.
#[test]
fn a_copied_body_waits_for_the_leave_of_the_upstream() {
    let mirror = Origin::saying("nobody reads this");
    let origin = Origin::start(|peer| {
        if peer.request_head().is_some() {
            peer.send("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = start(&origin, &mirror.url(), "", "");
    let mut wire = gateway.wire();
    wire.send("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(wire.read_head().status(), 403);
    assert_eq!(origin.request().get("expect"), Some("100-continue"));
    wait_for(&gateway, "incomplete", 1);
}

#[test]
fn large_bodies_are_sent_and_not_copied() {
    let (origin, mirror) = (Origin::echo(), Origin::echo());
    let gateway = start(&origin, &mirror.url(), ", body_bytes_max: 10B", "");
    let mut wire = gateway.wire();
    for (framing, body) in [
        ("Content-Length: 11", "hello world"),
        ("Transfer-Encoding: chunked", "b\r\nhello world\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"),
    ] {
        let reply = wire.ask(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}"));
        assert_eq!(reply.text(), "hello world");
    }
    wait_for(&gateway, "too_large", 3);
    let reply = wire.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello worl");
    assert_eq!(reply.text(), "hello worl");
    wait_for(&gateway, "success", 1);
    assert_eq!(mirror.request().text(), "hello worl");
}

#[test]
fn a_body_that_breaks_off_is_no_copy() {
    let (origin, mirror) = (Origin::echo(), Origin::echo());
    let gateway = start(&origin, &mirror.url(), "", "limits: { body_bytes_max: 10B },");
    let mut wire = gateway.wire();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    until("the origin is asked", || origin.accepted() == 1);
    drop(wire);
    wait_for(&gateway, "incomplete", 1);
    let over = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n";
    assert_eq!(gateway.wire().ask(over).status(), 413);
    wait_for(&gateway, "incomplete", 2);
    assert_eq!(mirror.requests().len(), 0);
}

#[test]
fn upgrades_have_no_copy_and_neither_has_what_is_refused() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.request();
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        opened.open();
        peer.is_closed();
    });
    let mirror = Origin::echo();
    let gateway = start(&origin, &mirror.url(), "", "limits: { body_bytes_max: 1B },");
    let mut wire = gateway.wire();
    wire.send(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert_eq!(wire.read_head().status(), 101);
    gate.wait();
    let large = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(gateway.wire().ask(large).status(), 413);
    let metrics = gateway.admin_get("/metrics").text();
    assert!(!metrics.contains("tidegate_mirror_requests_total{"), "{metrics}");
    assert_eq!(mirror.accepted(), 0);
}

#[test]
fn a_part_of_the_requests_is_copied() {
    let (origin, mirror) = (Origin::saying("fine"), Origin::saying("fine"));
    for (percent, least, most) in [("0", 0, 0), ("25.5", 20, 190), ("100", 400, 400)] {
        let gateway = start(&origin, &mirror.url(), &format!(", percent: {percent}"), "");
        let mut wire = gateway.wire();
        for _ in 0..400 {
            assert_eq!(wire.get("/").text(), "fine");
        }
        let copied = || count(&gateway, "success") + count(&gateway, "dropped");
        until("enough are copied", || copied() >= least);
        assert!(copied() <= most, "{percent} %: {} of 400", copied());
    }
}

#[test]
fn a_reply_without_an_end_is_left() {
    let origin = Origin::saying("fine");
    let mirror = Origin::start(|peer: &mut Peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n");
        peer.is_closed();
    });
    let gateway = start(&origin, &mirror.url(), "", "");
    assert_eq!(gateway.wire().get("/").text(), "fine");
    wait_for(&gateway, "success", 1);
    until("the stream is closed", || mirror.open() == 0);
}

#[test]
fn a_mirror_is_told_of_and_what_is_wrong_with_one_too() {
    let (origin, mirror) = (Origin::saying("fine"), Origin::saying("fine"));
    let gateway = start(&origin, &mirror.url(), ", percent: 12.5", "");
    let routes = gateway.admin_get("/routes").text();
    let expected = r#""mirror":{"upstream":"mirror","percent":12.5,"body_bytes_max":65536}"#;
    assert!(routes.contains(expected), "{routes}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let good = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams: { blue: { targets: ["http://127.0.0.1:1"] }, green: { targets: ["http://127.0.0.1:2"] } }
routes: { a: { match: {}, upstream: blue, mirror: { upstream: green, percent: 0.25 } } }
"#;
    std::fs::write(&file, good).unwrap();
    let asked = tidegate(&["explain", file.to_str().unwrap(), "GET", "/"]);
    let expected = ", 0.25 % of them copied to upstream `green`";
    assert!(asked.stdout.contains(expected), "{}", asked.stdout);
    let checked = tidegate(&["check", file.to_str().unwrap()]);
    assert!(!checked.stderr.contains("nothing uses the upstream"), "{}", checked.stderr);
    std::fs::write(
        &file,
        r#"listen: { public: { address: "127.0.0.1:0" } }
upstreams: { blue: { targets: ["http://127.0.0.1:1"] }, green: { targets: ["http://127.0.0.1:2"] } }
routes:
  typo:  { match: { path: /a }, upstream: blue, mirror: { upstream: gren } }
  more:  { match: { path: /b }, upstream: blue, mirror: { upstream: green, percent: 101 } }
  less:  { match: { path: /c }, upstream: blue, mirror: { upstream: green, percent: -1 } }
  word:  { match: { path: /d }, upstream: blue, mirror: { upstream: green, percent: some } }
  fine:  { match: { path: /e }, upstream: blue, mirror: { upstream: green, percent: 0.00001 } }
  large: { match: { path: /f }, upstream: blue, mirror: { upstream: green, body_bytes_max: 1GiB } }
  fixed: { match: { path: /g }, respond: {}, mirror: { upstream: green } }
  none:  { match: { path: /h }, upstream: blue, mirror: { percent: 5 } }
"#,
    )
    .unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    for expected in [
        "4:69: there is no upstream `gren`; did you mean `green`?",
        "5:85: expected a number from 0 to 100",
        "6:85: expected a number from 0 to 100",
        "7:85: expected a number from 0 to 100",
        "8:85: expected a number from 0 to 100",
        "9:92: the limit is too large for the body of a copy",
        "10:54: warning: `mirror` has no effect on a fixed reply",
        "11:49: the key `upstream` is missing",
    ] {
        assert!(
            run.stderr.contains(&format!("gate.yaml:{expected}")),
            "{expected}\n{}",
            run.stderr
        );
    }
}
