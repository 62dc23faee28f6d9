//! `control: { follow: store }`: a change made on one gateway goes to all of a database, in stages.

use serde_json::Value;

use crate::harness::{Gateway, Message, Postgres, Wire, tidegate, until};
use crate::telemetry::metric;

fn yaml(server: &Postgres, keys: &str, status: u16) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         store: {{ postgres: \"{}\" }}\ncontrol: {{ follow: store{keys} }}\n\
         upstreams: {{ gone: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
         routes:\n  a: {{ match: {{ path: /a }}, respond: {{ status: {status} }} }}\n",
        server.url()
    )
}

fn two(server: &Postgres, keys: &str) -> (Gateway, Gateway) {
    let yaml = yaml(server, keys, 200);
    let (first, second) = (Gateway::start(&yaml), Gateway::start(&yaml));
    until("both share one configuration", || {
        [&first, &second].iter().all(|gateway| {
            metric(gateway, "tidegate_store_nodes") == Some(2.0)
                && shared(gateway)["stable"].as_u64() == Some(1)
        })
    });
    (first, second)
}

fn shared(gateway: &Gateway) -> Value {
    let plan: Value = serde_json::from_slice(&gateway.admin_get("/plan").body).unwrap();
    plan["configuration"]["shared"].clone()
}

fn send(gateway: &Gateway, request: &str, body: &str) -> Message {
    let (admin, length) = (gateway.admin(), body.len());
    Wire::connect(admin).ask(format!(
        "{request} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn put(gateway: &Gateway, yaml: &str) {
    let reply = send(gateway, "PUT /config", yaml);
    assert_eq!(reply.status(), 200, "{reply:?}");
}

fn status(gateway: &Gateway) -> u16 {
    gateway.wire().get("/a").status()
}

#[test]
fn a_change_is_tried_where_it_was_made_and_goes_to_all() {
    let server = Postgres::start();
    let (first, second) = two(&server, ", hold: 3s");
    put(&first, &yaml(&server, ", hold: 3s", 201));
    assert_eq!((status(&first), status(&second)), (201, 200));
    until("it is on trial", || shared(&second)["trial"]["number"] == 2);
    assert_eq!(status(&second), 200, "{}", shared(&second));
    until("all have it", || status(&second) == 201);
    assert_eq!(shared(&second)["stable"], 2);
    until("its history has the change", || {
        let history: Value =
            serde_json::from_slice(&second.admin_get("/config/history").body).unwrap();
        history[0]["by"].as_str().is_some_and(|by| by.starts_with("store"))
    });
    // A rollback is an ordinary change, and a gateway that joins later starts with it.
    assert_eq!(send(&second, "POST /config/history/1/rollback", "").status(), 200);
    until("all have the old one", || status(&first) == 200);
    put(&first, &yaml(&server, ", canary: 0", 202));
    until("both take it at once", || status(&second) == 202);
    let third = Gateway::start(yaml(&server, ", canary: 0", 299));
    until("it has caught up", || status(&third) == 202);
}

#[test]
fn a_change_that_fails_requests_is_withdrawn() {
    let server = Postgres::start();
    let keys = ", hold: 60s, error_rate: 5%";
    let (first, second) = two(&server, keys);
    let bad = yaml(&server, keys, 200).replace("respond: { status: 200 }", "upstream: gone");
    put(&first, &bad);
    until("it is on trial", || shared(&first)["trial"]["number"] == 2);
    for _ in 0..30 {
        assert_eq!((status(&first), status(&second)), (502, 200));
    }
    until("it is withdrawn", || status(&first) == 200);
    let told = shared(&first);
    assert!(told["trial"].is_null() && told["stable"] == 1, "{told}");
    assert!(told["withdrawn"].as_str().unwrap().contains("requests failed"), "{told}");
    assert_eq!(status(&second), 200);
}

#[test]
fn of_two_changes_at_once_one_is_that_of_all() {
    let server = Postgres::start();
    let (first, second) = two(&server, ", canary: 0");
    std::thread::scope(|scope| {
        scope.spawn(|| put(&first, &yaml(&server, ", canary: 0", 201)));
        scope.spawn(|| put(&second, &yaml(&server, ", canary: 0", 202)));
    });
    until("both are told the same", || {
        let (a, b) = (status(&first), status(&second));
        a == b && [201, 202].contains(&a) && shared(&first)["stable"].as_u64() >= Some(2)
    });
}

#[test]
fn it_needs_a_store_that_others_see() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (store, code) in
        [("store: { path: var }", 1), ("", 1), ("store: { postgres: \"postgres://u:p@h/d\" }", 0)]
    {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:1\" }} }}\ncontrol: {{ follow: store }}\n{store}\nroutes: {{ a: {{ match: {{ path: / }}, respond: {{ status: 200 }} }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(code), "{store}: {run:?}");
        assert!(code == 0 || run.stderr.contains("a store that several gateways share"), "{run:?}");
    }
}
