//! Logs that go to receivers on the network: HTTP, OTLP, syslog, streams and datagrams.

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::collector::{Collector, attribute};
use crate::harness::{Authority, ClosedPort, Gateway, Origin, PATIENCE, Plain, tidegate, until};
use crate::telemetry::metric;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

const ADMIN: &str = "admin: { address: \"127.0.0.1:0\" }\n";

/// A gateway whose access log goes to a place.
#[track_caller]
fn logging(origin: &Origin, to: &str) -> Gateway {
    Plain { more: &more(to), ..Plain::default() }.start(origin)
}

fn more(to: &str) -> String {
    format!("{ADMIN}telemetry: {{ access_log: {{ to: {to} }} }}")
}

/// The lines of all bodies that a receiver got.
fn posted(receiver: &Origin) -> Vec<Value> {
    let bodies = receiver.requests().into_iter().map(|request| request.body);
    let text = String::from_utf8(bodies.collect::<Vec<_>>().concat()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn dropped(gateway: &Gateway) -> f64 {
    metric(gateway, "tidegate_access_log_dropped_total").unwrap()
}

#[test]
fn lines_are_posted_in_batches() {
    let (origin, receiver) = (Origin::answering(OK), Origin::answering(OK));
    let to = format!(
        "{{ http: \"{}/logs?a=b\", headers: {{ authorization: \"Bearer hush\" }} }}",
        receiver.url()
    );
    let gateway = logging(&origin, &to);
    let mut wire = gateway.wire();
    for at in 0..20 {
        assert_eq!(wire.get(&format!("/{at}")).status(), 200);
    }
    until("all lines are there", || posted(&receiver).len() >= 20);
    let paths: Vec<String> =
        posted(&receiver).iter().map(|line| line["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths, (0..20).map(|at| format!("/{at}")).collect::<Vec<_>>());
    let requests = receiver.requests();
    assert!(requests.len() < 10, "they come in batches: {}", requests.len());
    for request in requests {
        assert_eq!(request.start, "POST /logs?a=b HTTP/1.1");
        assert_eq!(request.get("content-type"), Some("application/x-ndjson"));
        assert_eq!(request.get("authorization"), Some("Bearer hush"));
        assert!(request.get("x-forwarded-for").is_none(), "{request:?}");
    }
    assert_eq!(dropped(&gateway), 0.0);
    let plan = gateway.admin_get("/plan").text();
    assert!(plan.contains("/logs?a=b") && !plan.contains("hush"), "{plan}");
    assert!(!gateway.admin_get("/config").text().contains("hush"));
}

#[test]
fn a_collector_gets_a_record_for_each_line() {
    for collector in [Collector::http(), Collector::grpc()] {
        let origin = Origin::answering(OK);
        let gateway = logging(&origin, &format!("{{ otlp: \"{}\" }}", collector.url()));
        assert_eq!(gateway.wire().get("/a?b=c").status(), 200);
        assert_eq!(gateway.wire().get("/d").status(), 200);
        until("both records are there", || collector.records().len() == 2);
        let record = &collector.records()[0];
        assert_eq!(attribute(&record.attributes, "path").as_deref(), Some("/a?b=c"));
        assert_eq!(attribute(&record.attributes, "status").as_deref(), Some("200"));
        assert_eq!(record.severity_text, "INFO");
        assert!(record.time_unix_nano > 1_700_000_000_000_000_000, "{record:?}");
        let resource = &collector.resources()[0];
        assert_eq!(attribute(&resource.attributes, "service.name").as_deref(), Some("tidegate"));
        assert_eq!(dropped(&gateway), 0.0);
    }
}

#[test]
fn streams_have_lines_or_counted_messages() {
    let origin = Origin::answering(OK);
    for key in ["tcp", "syslog"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = logging(&origin, &format!("{{ {key}: \"tcp://{address}\" }}"));
        assert_eq!(gateway.wire().get("/a").status(), 200);
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = vec![0; 65_536];
        let length = peer.read(&mut bytes).unwrap();
        let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
        let line = if key == "tcp" {
            text.strip_suffix('\n').unwrap().to_owned()
        } else {
            let (count, message) = text.split_once(' ').unwrap();
            assert_eq!(count.parse(), Ok(message.len()), "{text}");
            check_syslog(message)
        };
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&line["path"], &line["status"]), (&"/a".into(), &200.into()));
        // It reconnects, and the next line is not lost in the closed connection.
        drop(peer);
        assert_eq!(gateway.wire().get("/b").status(), 200);
        let (mut peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = peer.read(&mut bytes).unwrap();
        assert!(String::from_utf8_lossy(&bytes[..length]).contains("\"path\":\"/b\""));
        assert_eq!(dropped(&gateway), 0.0);
    }
}

/// The text of a message of RFC 5424.
#[track_caller]
fn check_syslog(message: &str) -> String {
    let fields: Vec<&str> = message.splitn(8, ' ').collect();
    let [version, time, host, program, process, id, data, text] = fields[..] else {
        panic!("{message}");
    };
    assert_eq!((version, program, id, data), ("<134>1", "tidegate", "access", "-"));
    assert!(time.ends_with('Z') && !host.is_empty() && process.parse::<u32>().is_ok());
    text.to_owned()
}

#[test]
fn each_line_is_a_datagram() {
    let origin = Origin::answering(OK);
    for key in ["udp", "syslog"] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap();
        let gateway = logging(&origin, &format!("{{ {key}: \"udp://{address}\" }}"));
        for path in ["/a", "/b"] {
            assert_eq!(gateway.wire().get(path).status(), 200);
        }
        for path in ["/a", "/b"] {
            let mut bytes = vec![0; 65_536];
            let length = socket.recv(&mut bytes).unwrap();
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            let line = if key == "udp" { text } else { check_syslog(&text) };
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["path"], path);
        }
    }
}

#[test]
fn nobody_at_a_port_of_datagrams_is_counted() {
    let origin = Origin::answering(OK);
    let address = {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    };
    let gateway = logging(&origin, &format!("{{ udp: \"udp://{address}\" }}"));
    let mut wire = gateway.wire();
    until("lost lines are counted", || {
        assert_eq!(wire.get("/a").status(), 200);
        dropped(&gateway) > 0.0
    });
}

#[test]
fn tls_is_verified() {
    let authority = Authority::new();
    let server = authority.server("localhost", None);
    let receiver =
        Origin::start_tls(server, |peer| while peer.request().is_some() && peer.try_send(OK) {});
    let (origin, port) = (Origin::answering(OK), receiver.address().port());
    let pem = authority.pem();
    let files = [("ca.pem", pem.as_str())];
    let start = |tls: &str| {
        let to = format!("{{ http: \"https://localhost:{port}/\" {tls} }}");
        Gateway::start_beside(Plain { more: &more(&to), ..Plain::default() }.yaml(&origin), &files)
    };
    let gateway = start(", tls: { ca: ca.pem }");
    assert_eq!(gateway.wire().get("/a").status(), 200);
    until("the line is there", || posted(&receiver).len() == 1);
    let gateway = start("");
    assert_eq!(gateway.wire().get("/b").status(), 200);
    gateway.wait_for_log("lines of the log cannot be sent");
    assert_eq!(posted(&receiver).len(), 1);
}

#[test]
fn a_receiver_that_is_away_for_a_while_misses_nothing() {
    let origin = Origin::answering(OK);
    let closed = ClosedPort::any();
    let address = closed.address;
    let gateway = logging(&origin, &format!("{{ http: \"http://{address}/\" }}"));
    for at in 0..5 {
        assert_eq!(gateway.wire().get(&format!("/{at}")).status(), 200);
    }
    gateway.wait_for_log("lines of the log cannot be sent");
    // The port is not free for a moment, so that no other test gets it.
    let receiver = Origin::start_on(TcpListener::bind(address).unwrap(), |peer| {
        while peer.request().is_some() && peer.try_send(OK) {}
    });
    drop(closed);
    until("all lines are there", || posted(&receiver).len() == 5);
    assert_eq!(dropped(&gateway), 0.0);
    assert_eq!(gateway.log().matches("cannot be sent").count(), 1, "an outage is told once");
}

#[test]
fn a_busy_receiver_is_asked_again() {
    let origin = Origin::answering(OK);
    let receiver = Origin::start(|peer| {
        while peer.request().is_some() {
            let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
            let first = peer.number == 0;
            if !peer.try_send(if first { busy } else { OK }) || first {
                return;
            }
        }
    });
    let gateway = logging(&origin, &format!("{{ http: \"{}/\" }}", receiver.url()));
    assert_eq!(gateway.wire().get("/a").status(), 200);
    until("the same line comes again", || posted(&receiver).len() == 2);
    let lines = posted(&receiver);
    assert_eq!(lines[0], lines[1]);
    assert_eq!(dropped(&gateway), 0.0);
}

#[test]
fn what_a_receiver_refuses_is_counted_and_no_request_suffers() {
    let origin = Origin::answering(OK);
    let no: [&'static str; 3] = [
        "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno",
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
    ];
    for answer in no {
        let receiver = Origin::answering(answer);
        let gateway = logging(&origin, &format!("{{ http: \"{}/\" }}", receiver.url()));
        for _ in 0..3 {
            assert_eq!(gateway.wire().get("/a").status(), 200);
        }
        until("the lines are counted as lost", || dropped(&gateway) == 3.0);
        gateway.wait_for_log("lines of the log cannot be sent");
    }
    // A collector's 200 with something else than its answer, and a status of gRPC that no attempt mends.
    let page =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>";
    for collector in [Collector::answering_http(page), Collector::answering_grpc("3")] {
        let gateway = logging(&origin, &format!("{{ otlp: \"{}\" }}", collector.url()));
        assert_eq!(gateway.wire().get("/a").status(), 200);
        until("the line is counted as lost", || dropped(&gateway) == 1.0);
    }
}

#[test]
fn a_receiver_that_never_answers_costs_lines_and_no_request() {
    let (origin, receiver) = (Origin::answering(OK), Origin::silent());
    let gateway = logging(&origin, &format!("{{ http: \"{}/\" }}", receiver.url()));
    let mut wire = gateway.wire();
    let long = format!("/{}", "x".repeat(4_000));
    // A batch is being sent, and a ring of a megabyte fills up meanwhile.
    until("lines are dropped and counted", || {
        (0..100).for_each(|_| assert_eq!(wire.get(&long).status(), 200));
        dropped(&gateway) > 0.0
    });
    receiver.wait_for_requests(1);
}

#[test]
fn the_last_lines_are_sent_at_the_end_and_at_a_reload() {
    let (origin, receiver, second) =
        (Origin::answering(OK), Origin::answering(OK), Origin::answering(OK));
    let gateway = logging(&origin, &format!("{{ http: \"{}/\" }}", receiver.url()));
    assert_eq!(gateway.wire().get("/a").status(), 200);
    let next = more(&format!("{{ http: \"{}/\" }}", second.url()));
    gateway.rewrite(Plain { more: &next, ..Plain::default() }.yaml(&origin));
    gateway.wait_for_log("generation=2");
    until("the first receiver has its line", || posted(&receiver).len() == 1);
    assert_eq!(gateway.wire().get("/b").status(), 200);
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    assert_eq!(posted(&receiver)[0]["path"], "/a");
    assert_eq!(posted(&second)[0]["path"], "/b");
}

#[test]
fn the_audit_log_has_receivers_too() {
    let (origin, receiver) = (Origin::answering(OK), Origin::answering(OK));
    let more = format!(
        "{ADMIN}telemetry: {{ audit_log: {{ to: {{ http: \"{}/audit\" }} }} }}",
        receiver.url()
    );
    let gateway = Plain { more: &more, ..Plain::default() }.start(&origin);
    let admin = gateway.admin();
    let body = "{\"level\":\"debug\"}";
    let asked = format!(
        "PUT /log HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(crate::harness::Wire::connect(admin).ask(asked).status(), 200);
    until("the line is there", || posted(&receiver).len() == 1);
    let line = &posted(&receiver)[0];
    assert_eq!((&line["path"], &line["status"]), (&"/log".into(), &200.into()));
    assert!(!gateway.log().contains("audit="), "{}", gateway.log());
}

#[test]
fn places_that_cannot_be_are_complaints() {
    for (to, complaint) in [
        ("{}", "a log needs exactly one destination"),
        ("{ file: a, udp: \"udp://a:1\" }", "a log needs exactly one destination"),
        ("{ tcp: \"udp://a:1\" }", "`udp://` is an address for `udp`"),
        ("{ udp: \"tls://a:1\" }", "`tls://` is an address for `tcp`"),
        ("{ tcp: \"tcp://a\" }", "has no port"),
        ("{ syslog: \"http://a:1\" }", "is neither udp, tcp nor tls"),
        ("{ otlp: \"ftp://a\" }", "is neither http, https, grpc nor grpcs"),
        ("{ otlp: \"grpc://a/b\" }", "has a path"),
        ("{ http: \"http://a:b@c/\" }", "cannot have a user name or password"),
        ("{ udp: \"udp://a:1\", headers: { a: b } }", "`headers` applies only to HTTP"),
        ("{ http: \"http://a/\", headers: { \"a b\": c } }", "is not a valid header name"),
        ("{ http: \"http://a/\", headers: { host: c } }", "cannot be changed"),
        ("{ http: \"http://a/\", headers: { a: \"b\\nc\" } }", "has a control character"),
        ("{ http: \"http://a/\", tls: { verify: false } }", "does not use TLS"),
        ("{ http: \"http://a/\", timeout: 0s }", "timeout"),
        ("{ http: \"http://a/\", batch: 3 }", "unknown key `batch`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ a: {{ match: {{ path: / }}, respond: {{ status: 200 }} }} }}\ntelemetry: {{ access_log: {{ to: {to} }} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&[std::path::Path::new("check"), &file]);
        assert_eq!(run.code, Some(1), "{to}: {run:?}");
        let told = format!("{}{}", run.stdout, run.stderr);
        assert!(told.contains(complaint), "{to}: {told}");
        assert_eq!(told.matches("help:").count(), 1, "{to}: one complaint: {told}");
    }
}
