//! Changes of the configuration: some parts change at once, some stay, and some changes must not be noticeable.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{
    Authority, ClosedPort, Gate, Gateway, H2, Message, Origin, Peer, Wire, full, tidegate, until,
};
use crate::telemetry::metric;

const LISTEN: &str = "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\nworkers: 2\n";

/// A configuration whose route `/version` returns a text.
fn version(version: &str) -> String {
    format!(
        "{LISTEN}routes: {{ version: {{ match: {{ path: /version }}, respond: {{ body: \"{version}\" }} }} }}\n"
    )
}

/// The same with additional routes to one origin.
fn with_routes(version: &str, origin: &Origin, upstream: &str, routes: &str) -> String {
    format!(
        "{LISTEN}upstreams: {{ origin: {{ targets: [\"http://{}\"]{upstream} }} }}\n\
         routes:\n  version: {{ match: {{ path: /version }}, respond: {{ body: \"{version}\" }} }}\n{routes}",
        origin.address()
    )
}

/// A route that forwards.
fn route(name: &str, path: &str) -> String {
    format!("  {name}: {{ match: {{ path: \"{path}\" }}, upstream: origin }}\n")
}

fn served(gateway: &Gateway) -> String {
    gateway.wire().get("/version").text()
}

/// Sends a configuration to the admin API and reads the answer.
#[track_caller]
pub(crate) fn put(gateway: &Gateway, yaml: &str) -> Message {
    let head = format!(
        "PUT /config HTTP/1.1\r\nHost: {}\r\nContent-Type: application/yaml\r\nContent-Length: {}\r\n\r\n",
        gateway.admin(),
        yaml.len()
    );
    Wire::connect(gateway.admin()).ask(head + yaml)
}

/// The same, and it has to succeed.
#[track_caller]
pub(crate) fn put_ok(gateway: &Gateway, yaml: &str) -> Value {
    let reply = put(gateway, yaml);
    assert_eq!(reply.status(), 200, "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

/// The admin API's report of the configuration.
#[track_caller]
fn configuration(gateway: &Gateway) -> Value {
    let plan: Value = serde_json::from_slice(&gateway.admin_get("/plan").body).unwrap();
    plan["configuration"].clone()
}

#[test]
fn a_changed_file_serves_within_two_seconds() {
    let gateway = Gateway::start(version("one"));
    let place = gateway.path("tidegate.yaml");
    let (folders, data) = (["v3", "v4"].map(|name| gateway.path(name)), gateway.path("..data"));
    for (folder, text) in folders.iter().zip(["three", "four"]) {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("tidegate.yaml"), version(text)).unwrap();
    }
    // As with a ConfigMap of Kubernetes: the file is a link through another link, which is changed.
    let turn = |folder: &str| {
        symlink(folder, gateway.path("..new")).unwrap();
        fs::rename(gateway.path("..new"), &data).unwrap();
    };
    let changes: [(&str, &dyn Fn()); 4] = [
        ("written in place", &|| fs::write(&place, version("written in place")).unwrap()),
        ("renamed over", &|| gateway.rewrite(version("renamed over"))),
        ("three", &|| {
            turn("v3");
            symlink("..data/tidegate.yaml", gateway.path("new")).unwrap();
            fs::rename(gateway.path("new"), &place).unwrap();
        }),
        ("four", &|| turn("v4")),
    ];
    for (text, change) in changes {
        change();
        let start = Instant::now();
        until(&format!("{text} serves"), || served(&gateway) == text);
        assert!(start.elapsed() < Duration::from_secs(2), "{text} took {:?}", start.elapsed());
    }
}

#[test]
fn whatever_a_configuration_is_made_of_is_watched() {
    let route = |name: &str, text: &str| {
        format!(
            "routes: {{ {name}: {{ match: {{ path: /{name} }}, respond: {{ body: \"{text}\" }} }} }}\n"
        )
    };
    let files = [
        ("a.yaml", LISTEN),
        ("b.yaml", &route("version", "${file:text.txt}")),
        ("text.txt", "one\n"),
    ];
    let gateway = Gateway::start_folder(&files);
    assert_eq!(served(&gateway), "one");
    gateway.put("text.txt", "two\n");
    until("the new text serves", || served(&gateway) == "two");
    gateway.put("c.yaml", &route("more", "three"));
    until("the new file serves", || gateway.wire().get("/more").text() == "three");
    fs::remove_file(gateway.path("c.yaml")).unwrap();
    until("the removed one does not", || gateway.wire().get("/more").status() == 404);
    // A file that is not a configuration, such as a log, is not a change of it.
    gateway.put("access.log", "a line\n");
    gateway.signal(Signal::HUP);
    gateway.wait_for_log("the configuration is unchanged");
    assert!(!gateway.log().contains("generation=5"), "{}", gateway.log());
    // A folder is not the admin API's to write to.
    let reply = put(&gateway, LISTEN);
    assert_eq!(reply.status(), 409, "{reply:?}");
}

#[test]
fn sighup_reloads() {
    let gateway = Gateway::start(version("one"));
    // Nothing changed, so only the signal caused the check.
    gateway.signal(Signal::HUP);
    gateway.wait_for_log("the configuration is unchanged");
    gateway.rewrite(version("two"));
    gateway.signal(Signal::HUP);
    until("the new one serves", || served(&gateway) == "two");
}

#[test]
fn the_admin_api_reloads_and_writes_the_file() {
    let gateway = Gateway::start(version("one"));
    let done = put_ok(&gateway, &version("two"));
    assert_eq!((&done["generation"], &done["changed"]), (&2.into(), &true.into()));
    // It serves once the answer is there, on every worker.
    for _ in 0..8 {
        assert_eq!(served(&gateway), "two");
    }
    assert_eq!(fs::read_to_string(gateway.path("tidegate.yaml")).unwrap(), version("two"));
    assert_eq!(gateway.admin_get("/config").text(), version("two"));
    let again = put_ok(&gateway, &version("two"));
    assert_eq!((&again["generation"], &again["changed"]), (&2.into(), &false.into()));
    assert_eq!(metric(&gateway, "tidegate_config_generation"), Some(2.0));
}

#[test]
fn a_bad_configuration_leaves_the_old_one_serving_and_says_so_everywhere() {
    let gateway = Gateway::start(version("one"));
    let failures = || metric(&gateway, "tidegate_config_reloads_total{result=\"failure\"}");
    assert_eq!(failures(), Some(0.0));
    gateway.rewrite(version("two").replace("respond", "respnd"));
    gateway.wait_for_log("unknown key `respnd`; did you mean `respond`?");
    gateway.wait_for_log("the new configuration is refused, the old one stays in service");
    assert_eq!(served(&gateway), "one");
    until("the metrics count it", || failures() == Some(1.0));
    let state = configuration(&gateway);
    let why = state["last_failed"]["why"].as_str().unwrap();
    assert!(why.starts_with("tidegate.yaml:4:"), "{why}");
    assert_eq!(state["generation"], 1);
    assert_eq!(gateway.admin_get("/config").text(), version("one"));

    // Mended, nothing is left of it.
    gateway.rewrite(version("three"));
    until("the mended one serves", || served(&gateway) == "three");
    until("the state is good", || configuration(&gateway)["last_failed"].is_null());
    assert_eq!(configuration(&gateway)["generation"], 2);
}

#[test]
fn a_bad_configuration_sent_to_the_admin_api_changes_nothing() {
    let gateway = Gateway::start(version("one"));
    let bad = LISTEN.replacen("address", "adress", 1) + "routes: { a: { match: { path: a } } }\n";
    let reply = put(&gateway, &bad);
    assert_eq!(
        (reply.status(), reply.get("content-type")),
        (422, Some("application/problem+json"))
    );
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    let places: Vec<_> = problem["complaints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (&c["line"], &c["column"]))
        .collect();
    assert_eq!(
        places,
        [(&1.into(), &21.into()), (&4.into(), &11.into()), (&4.into(), &31.into())],
        "{problem:#}"
    );
    assert_eq!(served(&gateway), "one");
    assert_eq!(fs::read_to_string(gateway.path("tidegate.yaml")).unwrap(), version("one"));
}

#[test]
fn an_unchanged_upstream_keeps_its_connections() {
    let origin = Origin::saying("hello");
    let one_worker = |text: &str, upstream: &str| {
        with_routes(text, &origin, upstream, &route("all", "/**"))
            .replace("workers: 2", "workers: 1")
    };
    let gateway = Gateway::start(one_worker("0", ""));
    let mut wire = gateway.wire();
    for n in 1..=5 {
        assert_eq!(wire.get("/").text(), "hello");
        put_ok(&gateway, &one_worker(&n.to_string(), ""));
        assert_eq!(wire.get("/version").text(), n.to_string());
    }
    assert_eq!(wire.get("/").text(), "hello");
    assert_eq!((origin.accepted(), origin.open()), (1, 1));

    // A changed one begins anew, and nothing is left of the old one.
    put_ok(&gateway, &one_worker("6", ", timeout: { response: 7s }"));
    assert_eq!(wire.get("/").text(), "hello");
    assert_eq!(origin.accepted(), 2);
    until("the old connection is closed", || origin.open() == 1);
    for (sample, expected) in [("idle", 1.0), ("open", 1.0)] {
        let sample = format!("tidegate_upstream_connections_{sample}{{upstream=\"origin\"}}");
        until(&format!("{sample} is {expected}"), || metric(&gateway, &sample) == Some(expected));
    }
}

/// Results of health checks do not outlast their configuration: neither without checks, nor with new ones while a stream still
/// uses the old upstream.
#[test]
fn health_is_what_the_checks_that_serve_say() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            match request.target() {
                "/bad" => peer.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
                "/stream" => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
                    return drop(peer.read_to_end());
                }
                _ => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            }
        }
    });
    let checked = |health: &str| with_routes("", &origin, health, &route("all", "/**"));
    let checking = |path: &str| {
        format!(
            ", health: {{ path: {path}, interval: 20ms, unhealthy_after: 2, healthy_after: 2 }}"
        )
    };
    let gateway = Gateway::start(checked(&checking("/good")));
    let mut stream = gateway.wire();
    stream.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    let status = || gateway.wire().get("/x").status();
    put_ok(&gateway, &checked(&checking("/bad")));
    until("it is not well", || status() == 503);
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(status(), 503, "the checks of the old upstream go on");
    }
    put_ok(&gateway, &checked(""));
    until("nobody says otherwise", || status() == 200);
}

#[test]
fn nothing_fails_under_load_while_reloading() {
    const RELOADS: usize = 30;
    let origin = Origin::saying("hello");
    // Every second one also changes the upstream, so that old pools remain.
    let configuration = |n: usize| {
        let upstream = if n.is_multiple_of(2) { "" } else { ", timeout: { response: 7s }" };
        let extra: String =
            (0..n % 5).map(|i| route(&format!("extra{i}"), &format!("/extra/{i}"))).collect();
        with_routes(&n.to_string(), &origin, upstream, &(route("all", "/**") + &extra))
    };
    let gateway = Gateway::start(configuration(0));
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let going_on = || !over.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let hammer = || {
            let mut wire = gateway.wire();
            let mut seen = 0;
            while going_on() {
                let reply = wire.get("/extra/3");
                assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"), "{reply:?}");
                let version: usize = wire.get("/version").text().parse().unwrap();
                // A connection stays on its worker, so it never goes back.
                assert!(version >= seen, "{version} after {seen}");
                seen = version;
                asked.fetch_add(2, Ordering::SeqCst);
            }
            seen
        };
        let new_connections = || {
            while going_on() {
                let reply = gateway
                    .wire()
                    .ask("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
                assert_eq!((reply.status(), reply.whole), (200, true), "{reply:?}");
            }
        };
        let hammers: Vec<_> = (0..4).map(|_| scope.spawn(hammer)).collect();
        let others = scope.spawn(new_connections);
        for n in 1..=RELOADS {
            put_ok(&gateway, &configuration(n));
            let before = asked.load(Ordering::SeqCst);
            until("traffic passed", || {
                asked.load(Ordering::SeqCst) > before
                    || hammers.iter().any(|hammer| hammer.is_finished())
            });
        }
        over.store(true, Ordering::SeqCst);
        hammers.into_iter().for_each(|hammer| assert!(hammer.join().unwrap() >= RELOADS - 1));
        others.join().unwrap();
    });
    assert_eq!(
        metric(&gateway, "tidegate_requests_total{route=\"all\",status_class=\"5xx\"}"),
        Some(0.0)
    );
}

/// An origin with a path that upgrades and echoes lines, and one that streams the events it is given.
fn streaming_origin(events: Receiver<&'static str>) -> Origin {
    let events = Mutex::new(events);
    Origin::start(move |peer: &mut Peer| {
        while let Some(request) = peer.request() {
            if request.target() == "/ws" {
                peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                while let Some(line) = peer.read_until(b"\n") {
                    peer.send(line);
                }
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            for event in events.lock().unwrap().iter() {
                peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            }
            peer.send("0\r\n\r\n");
        }
    })
}

#[test]
fn tunnels_and_streams_live_on_also_without_their_route() {
    let (event, events): (SyncSender<&str>, _) = sync_channel(1);
    let origin = streaming_origin(events);
    let gateway = Gateway::start(with_routes(
        "one",
        &origin,
        "",
        &(route("ws", "/ws") + &route("sse", "/sse")),
    ));

    let mut tunnel = gateway.wire();
    tunnel.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.read_head().status(), 101);
    let mut stream = gateway.wire();
    stream.send("GET /sse HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stream.read_head().status(), 200);

    let changes = [
        (
            "with the same routes",
            with_routes("two", &origin, "", &(route("ws", "/ws") + &route("sse", "/sse"))),
        ),
        (
            "with another upstream",
            with_routes("three", &origin, ", timeout: { response: 50s }", &route("ws", "/ws")),
        ),
        ("with nothing of it", version("four")),
    ];
    for (text, yaml) in &changes {
        put_ok(&gateway, yaml);
        tunnel.send(format!("{text}\n"));
        assert_eq!(tunnel.read_until(b"\n"), Some(format!("{text}\n").into_bytes()));
        event.send(text).unwrap();
        assert_eq!(stream.read_chunk(), Some(text.as_bytes().to_vec()));
    }
    // New ones go by the new plan.
    assert_eq!(gateway.wire().get("/sse").status(), 404);
    // The stream ends normally, and its connection can be reused.
    drop(event);
    assert_eq!(stream.read_chunk(), None);
    stream.read_until(b"\r\n").unwrap();
    assert_eq!(stream.get("/version").text(), "four");
}

#[test]
fn a_request_under_way_ends_on_its_old_route() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            while peer.request().is_some() {
                gate.wait();
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
            }
        }
    });
    let slow = "  slow:\n    match: { path: /slow }\n    policies: [{ headers: { response: { set: { x-plan: old } } } }]\n    upstream: origin\n";
    let gateway = Gateway::start(with_routes("one", &origin, "", slow));
    let mut wire = gateway.wire();
    wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let h2 = H2::connect(gateway.address("public"));
    let request = hyper::Request::get("http://a.test/slow").body(full("")).unwrap();
    let stream = h2.sender.clone().send_request(request);
    origin.wait_for_requests(2);
    put_ok(&gateway, &version("two"));
    // The same HTTP/2 connection uses both plans at the same time.
    assert_eq!(h2.get("http://a.test/version").body, "two");
    gate.open();
    let reply = wire.read_reply();
    assert_eq!((reply.text().as_str(), reply.get("x-plan")), ("old", Some("old")));
    let reply = h2.block_on(stream).unwrap();
    assert_eq!(reply.headers()["x-plan"], "old");
    assert_eq!(wire.get("/slow").status(), 404);
}

#[test]
fn listeners_come_go_and_move() {
    let listeners = |list: &str| version("x").replace("public: { address: \"127.0.0.1:0\" }", list);
    let public = "public: { address: \"127.0.0.1:0\" }";
    let gateway = Gateway::start(listeners(public));
    let first = gateway.address("public");

    put_ok(&gateway, &listeners(&format!("{public}, second: {{ address: \"127.0.0.1:0\" }}")));
    let second = gateway.address("second");
    assert_ne!(first, second);
    let (mut on_first, mut on_second) = (Wire::connect(first), Wire::connect(second));
    assert_eq!((on_first.get("/version").status(), on_second.get("/version").status()), (200, 200));

    // Moved: the new address is open and the old one closed. Its clients are served and then asked to close.
    let gate = begin_request(&mut on_first);
    put_ok(
        &gateway,
        &listeners("public: { address: \"127.0.0.2:0\" }, second: { address: \"127.0.0.1:0\" }"),
    );
    let address = || gateway.address("public");
    until("the new address is logged", || address().ip().to_string() == "127.0.0.2");
    let moved = address();
    assert_eq!(Wire::connect(moved).get("/version").status(), 200);
    until("the old address is closed", || std::net::TcpStream::connect(first).is_err());
    on_first.send(gate);
    let reply = on_first.read_reply();
    assert_eq!((reply.status(), reply.get("connection")), (200, Some("close")));
    assert!(on_first.is_closed());
    // The unchanged one is not affected.
    assert_eq!(gateway.address("second"), second);
    assert_eq!(on_second.get("/version").status(), 200);

    // Removed: idle connections are closed.
    put_ok(&gateway, &listeners("public: { address: \"127.0.0.2:0\" }"));
    assert!(on_second.is_closed());
    until("the removed address is closed", || std::net::TcpStream::connect(second).is_err());
    assert_eq!(gateway.address("public"), moved);
}

/// Sends all of a request but its end, which is given back.
fn begin_request(wire: &mut Wire) -> &'static str {
    wire.send("GET /version HTTP/1.1\r\nHost: a.te");
    "st\r\n\r\n"
}

/// Settings of an unchanged listener apply from the next request on, also on existing connections.
#[test]
fn the_next_request_of_an_open_connection_has_the_new_limits() {
    let gateway = Gateway::start(version("1"));
    let (mut idle, mut begun) = (gateway.wire(), gateway.wire());
    let h2 = H2::connect(gateway.address("public"));
    let long = format!("/version?{}", "x".repeat(2_000));
    let asks = |target: &str| {
        let request = hyper::Request::get(format!("http://a.test{target}")).body(full("")).unwrap();
        h2.block_on(h2.sender.clone().send_request(request)).unwrap().status()
    };
    assert_eq!((idle.get(&long).status(), begun.get(&long).status()), (200, 200));
    assert_eq!(asks(&long), 200);
    begun.send("GET /ver");
    let limited = version("2").replacen(
        "127.0.0.1:0\" }",
        "127.0.0.1:0\", limits: { target_bytes_max: 1KiB } }",
        1,
    );
    put_ok(&gateway, &limited);
    assert_eq!(idle.get(&long).status(), 414);
    assert_eq!(asks(&long), 414);
    begun.send(format!("{} HTTP/1.1\r\nHost: a\r\n\r\n", &long[4..]));
    assert_eq!(begun.read_reply().status(), 414);
}

#[test]
fn a_certificate_is_swapped_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let (first, second) = (old.issue("a.test"), new.issue("a.test"));
    let plain = "public: { address: \"127.0.0.1:0\" }";
    let secure =
        "public: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem } }";
    let files = [("cert.pem", first.certificate.as_str()), ("key.pem", first.key.as_str())];
    let gateway = Gateway::start_beside(version("one").replace(plain, secure), &files);
    let address = gateway.address("public");
    let mut open = Wire::connect_tls(address, "a.test", &old.trust());
    assert_eq!(open.get("/version").status(), 200);

    // One file after the other: in between they do not match, and the old pair stays in use.
    gateway.put("cert.pem", &second.certificate);
    gateway.put("key.pem", &second.key);
    until("the new certificate is shown", || {
        Wire::try_tls(address, "a.test", &new.trust()).is_ok()
    });
    assert!(
        Wire::try_tls(address, "a.test", &old.trust()).is_err(),
        "the old certificate is still shown"
    );
    assert_eq!(Wire::connect_tls(address, "a.test", &new.trust()).get("/version").status(), 200);
    assert_eq!(open.get("/version").status(), 200);
}

/// A certificate and its key copied one after the other are not an error, if the second comes soon; two that never fit are.
#[test]
fn a_renewed_certificate_waits_for_its_key() {
    let (old, new) = (Authority::new(), Authority::new());
    let (first, second) = (old.issue("a.test"), new.issue("a.test"));
    let plain = "public: { address: \"127.0.0.1:0\" }";
    let secure =
        "public: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem } }";
    let files = [("cert.pem", first.certificate.as_str()), ("key.pem", first.key.as_str())];
    let gateway = Gateway::start_beside(version("one").replace(plain, secure), &files);
    gateway.put("cert.pem", &second.certificate);
    let copied = std::time::Instant::now();
    until("a second has passed", || copied.elapsed().as_millis() >= 1000);
    gateway.put("key.pem", &second.key);
    let address = gateway.address("public");
    until("the new certificate is shown", || {
        Wire::try_tls(address, "a.test", &new.trust()).is_ok()
    });
    assert!(!gateway.log().contains("configuration is refused"), "{}", gateway.log());
    gateway.put("key.pem", &first.key);
    gateway.wait_for_log("certificate and key do not match");
}

/// The same as for any other program, although its sockets could be shared.
#[test]
fn what_another_gateway_listens_on_is_taken() {
    let other = Gateway::start(version("other"));
    let gateway = Gateway::start(version("one"));
    let theirs = format!("address: \"{}\"", other.address("public"));
    let more = format!("{{ public: {{ address: \"127.0.0.1:0\" }}, more: {{ {theirs} }} }}");
    let reply =
        put(&gateway, &version("two").replace("{ public: { address: \"127.0.0.1:0\" } }", &more));
    assert_eq!(reply.status(), 409);
    assert!(reply.text().contains("or use another port"), "{reply:?}");
    assert_eq!(served(&gateway), "one");

    let public = "public: { address: \"127.0.0.1:0\" }";
    let same = version("two").replacen(public, &format!("public: {{ {theirs} }}"), 1);
    gateway.put("same.yaml", &same);
    let run = tidegate(&["run".as_ref(), gateway.path("same.yaml").as_os_str()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("listen.public"), "{run:?}");
    assert_eq!(served(&other), "other");

    // Its end frees the address at once, whatever the state of its connections.
    let mut wire = other.wire();
    wire.ask("GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(wire.is_closed());
    drop(other);
    assert_eq!(served(&Gateway::start(same)), "two");
}

/// This also holds if this gateway has a socket with the same port on an overlapping address.
#[test]
fn a_port_of_ours_is_not_an_address_of_ours() {
    let gateway = Gateway::start(version("one"));
    let theirs = format!("127.0.0.2:{}", gateway.address("public").port());
    let public = "public: { address: \"127.0.0.1:0\" }";
    let more = format!("more: {{ address: \"{theirs}\" }}");
    let other = Gateway::start(version("other").replace(public, &more));
    let reply = put(&gateway, &version("two").replace(public, &format!("{public}, {more}")));
    assert_eq!(reply.status(), 409, "{reply:?}");
    for _ in 0..20 {
        assert_eq!(Wire::connect(other.address("more")).get("/version").text(), "other");
    }
}

#[test]
fn an_address_may_go_and_come_back_and_widen() {
    let gateway = Gateway::start(version("one"));
    let closed = ClosedPort::any();
    let port = closed.address.port();
    let more = |host: &str| {
        let more = format!("}}, more: {{ address: \"{host}:{port}\" }} }}\nadmin");
        version("two").replacen("} }\nadmin", &more, 1)
    };
    for yaml in
        [more("127.0.0.1"), version("one"), more("127.0.0.1"), more("0.0.0.0"), more("127.0.0.1")]
    {
        put_ok(&gateway, &yaml);
        let connected = TcpStream::connect(("127.0.0.1", port));
        assert_eq!(connected.is_ok(), yaml.contains("more"), "{yaml}");
        if let Ok(socket) = connected {
            assert_eq!(Wire::from(socket).get("/version").text(), "two");
        }
    }
}

#[test]
fn an_address_that_is_taken_refuses_the_plan() {
    let gateway = Gateway::start(version("one"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let blocked = version("two").replace(
        "public: { address: \"127.0.0.1:0\" }",
        &format!(
            "public: {{ address: \"127.0.0.1:0\" }}, more: {{ address: \"{}\" }}",
            taken.local_addr().unwrap()
        ),
    );
    let reply = put(&gateway, &blocked);
    assert_eq!(
        (reply.status(), reply.get("content-type")),
        (409, Some("application/problem+json"))
    );
    assert!(reply.text().contains("listen.more"), "{reply:?}");
    assert_eq!(served(&gateway), "one");
    assert_eq!(fs::read_to_string(gateway.path("tidegate.yaml")).unwrap(), version("one"));

    gateway.rewrite(&blocked);
    gateway.wait_for_log("cannot be brought into service: listen.more");
    assert_eq!(served(&gateway), "one");
    let state = configuration(&gateway);
    assert!(state["last_failed"]["why"].as_str().unwrap().contains("listen.more"), "{state}");
    assert_eq!(state["generation"], 1);

    // Freed, the same file serves.
    drop(taken);
    gateway.signal(Signal::HUP);
    until("it serves", || served(&gateway) == "two");
    assert_eq!(Wire::connect(gateway.address("more")).get("/version").text(), "two");
}

#[test]
fn what_a_reload_cannot_change_is_said() {
    let gateway = Gateway::start(version("one"));
    let admin = gateway.admin();
    let cases = [
        (
            "workers: 2",
            "workers: 1",
            "the number of workers stays at 2 until the gateway is restarted",
        ),
        (
            "admin: { address: \"127.0.0.1:0\" }",
            "admin: { address: \"127.0.0.2:0\" }",
            "until the gateway is restarted",
        ),
        ("admin: { address: \"127.0.0.1:0\" }", "", "until the gateway is restarted"),
    ];
    for (old, new, warning) in cases {
        let done = put_ok(&gateway, &version("two").replace(old, new));
        let [said] = &done["warnings"].as_array().unwrap()[..] else { panic!("{new}: {done}") };
        assert!(said["message"].as_str().unwrap().contains(warning), "{new}: {said}");
    }
    assert_eq!(Wire::connect(admin).get("/healthz").status(), 200);
}

/// Kong#6055, envoyproxy/gateway#6919: memory that grows with every push.
#[test]
fn memory_does_not_grow_with_reloads() {
    const RELOADS: usize = 300;
    let origin = Origin::saying("hello");
    let configuration = |n: usize| {
        let routes: String =
            (0..200).map(|i| route(&format!("route{i}"), &format!("/{i}/{}/**", n % 2))).collect();
        with_routes(
            &n.to_string(),
            &origin,
            &format!(", timeout: {{ response: {}s }}", 7 + n % 2),
            &routes,
        )
    };
    let gateway = Gateway::start(configuration(0));
    let mut wire = gateway.wire();
    let mut reload = |n: usize| {
        put_ok(&gateway, &configuration(n));
        assert_eq!(wire.get(&format!("/1/{}/", n % 2)).text(), "hello");
    };
    let resident = || metric(&gateway, "process_resident_memory_bytes").unwrap();
    // The first half fills caches that are kept on purpose: metrics by name, and the allocator's pages, of 2 MiB each.
    (1..=RELOADS / 2).for_each(&mut reload);
    let before = resident();
    (RELOADS / 2 + 1..=RELOADS).for_each(&mut reload);
    let grown = (resident() - before) / f64::from(1 << 20);
    // A plan of this size takes a quarter of a megabyte, so keeping all of them would take 37. The rest is variation.
    assert!(
        grown < 16.0,
        "{grown} MiB more after the last {RELOADS}/2 reloads, from {before} bytes"
    );
    let descriptors = || metric(&gateway, "process_open_fds").unwrap();
    until("the connections of old pools are closed", || descriptors() < 64.0);
}
