//! Large configurations: they serve, and bringing one into service does not affect clients.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::harness::{Gateway, Origin, tidegate, until};
use crate::reload::put;

const ROUTES: usize = 5_000;

/// Routes of every shape: hosts, prefixes, parameters, methods. Each names itself.
fn yaml(origin: &Origin, generation: usize) -> String {
    let mut yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ origin: {{ targets: [\"http://{}\"] }} }}\nroutes:\n  \
         generation: {{ match: {{ path: /generation }}, respond: {{ body: \"{generation}\" }} }}\n",
        origin.address()
    );
    for n in 0..ROUTES {
        let matches = match n % 4 {
            0 => format!("path: \"/exact/{n}\""),
            1 => format!("host: h{n}.example.com, path: \"/**\""),
            2 => format!("path: \"/param/{{id}}/{n}\", methods: [GET]"),
            _ => format!("path: \"/prefix/{n}/**\""),
        };
        let named = format!("headers: {{ response: {{ set: {{ x-route: r{n} }} }} }}");
        writeln!(
            yaml,
            "  r{n}: {{ match: {{ {matches} }}, policies: [{{ {named} }}], upstream: origin }}"
        )
        .unwrap();
    }
    yaml
}

/// A request that the route of a number answers.
fn request(n: usize) -> String {
    let (host, path) = match n % 4 {
        0 => ("a.test".to_owned(), format!("/exact/{n}")),
        1 => (format!("h{n}.example.com"), "/any/thing".to_owned()),
        2 => ("a.test".to_owned(), format!("/param/x/{n}")),
        _ => ("a.test".to_owned(), format!("/prefix/{n}/below/it")),
    };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[test]
fn five_thousand_routes_are_checked_and_found() {
    let origin = Origin::saying("hello");
    let gateway = Gateway::start(yaml(&origin, 0));
    let mut wire = gateway.wire();
    // All four shapes, from the first to the last.
    for n in (0..ROUTES).step_by(ROUTES / 50).flat_map(|n| n..n + 4) {
        let reply = wire.ask(request(n));
        assert_eq!(
            (reply.status(), reply.get("x-route")),
            (200, Some(format!("r{n}").as_str())),
            "{n}"
        );
    }
    assert_eq!(wire.get(&format!("/exact/{}", ROUTES + 1)).status(), 404);
    assert_eq!(origin.accepted(), 1);

    let file = gateway.path("tidegate.yaml");
    let said = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let said = tidegate(&["explain", file.to_str().unwrap(), "GET", "/prefix/4999/x"]);
    assert!(said.stdout.contains("route `r4999`"), "{}", said.stdout);
}

/// Kong#6811: 5,000 routes, ten seconds of 5xx.
#[test]
fn five_thousand_routes_are_reloaded_under_traffic_without_an_error() {
    const RELOADS: usize = 4;
    let origin = Origin::saying("hello");
    let gateway = Gateway::start(yaml(&origin, 0));
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (over, asked, gateway) = (&over, &asked, &gateway);
                scope.spawn(move || {
                    let mut wire = gateway.wire();
                    let mut n = client;
                    while !over.load(Ordering::SeqCst) {
                        n = (n + 997) % ROUTES;
                        let reply = wire.ask(request(n));
                        assert_eq!(
                            (reply.status(), reply.get("x-route")),
                            (200, Some(format!("r{n}").as_str()))
                        );
                        asked.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for generation in 1..=RELOADS {
            let reply = put(&gateway, &yaml(&origin, generation));
            assert_eq!(reply.status(), 200, "{reply:?}");
            assert_eq!(gateway.wire().get("/generation").text(), generation.to_string());
            let before = asked.load(Ordering::SeqCst);
            until("traffic passed", || {
                asked.load(Ordering::SeqCst) > before
                    || clients.iter().any(|client| client.is_finished())
            });
        }
        over.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}
