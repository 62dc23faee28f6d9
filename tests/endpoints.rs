//! Upstreams as endpoints: failover, clients that stay at their target, targets that are suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::{Backend, Gateway, Message, Origin, Wire, tidegate, until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

fn yaml(targets: &[&str], upstream: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ group: {{ targets: {targets:?}, {upstream} }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: group }} }}\n"
    )
}

/// Returns its name, or 503 while it is unhealthy.
fn target(name: &'static str) -> (Origin, Arc<AtomicBool>) {
    let sick = Arc::new(AtomicBool::new(false));
    let seen = sick.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            let well = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
            let reply = if seen.load(Ordering::SeqCst) { BUSY } else { well.as_str() };
            if !peer.try_send(reply) {
                return;
            }
        }
    });
    (origin, sick)
}

/// The admin API's report of the first target.
#[track_caller]
fn first(gateway: &Gateway) -> Value {
    let upstreams = gateway.admin_get("/upstreams").text();
    serde_json::from_str::<Value>(&upstreams).unwrap()[0]["targets"][0].clone()
}

#[track_caller]
fn count(gateway: &Gateway, name: &str, url: &str) -> Option<f64> {
    let sample = format!("tidegate_upstream_target_{name}{{upstream=\"group\",target=\"{url}\"}}");
    crate::telemetry::metric(gateway, &sample)
}

#[test]
fn a_suspended_target_gets_nothing_until_its_time_is_over() {
    let ((one, sick), (two, _)) = (target("one"), target("two"));
    let suspend = "balance: failover, suspend: { on: [503], initial: 400ms, factor: 3, max: 1s }";
    let (url, other) = (one.url(), two.url());
    let gateway = Gateway::start(yaml(&[&url, &other], suspend));
    // Over connections enough that both workers have some.
    let mut wires = [(); 4].map(|()| gateway.wire());
    assert!(wires.iter_mut().all(|wire| wire.ask(GET).text() == "one"));
    assert_eq!(first(&gateway)["suspended_until_unix_ms"], Value::Null);

    sick.store(true, Ordering::SeqCst);
    assert_eq!(wires[0].ask(GET).text(), "busy");
    gateway.wait_for_log("target suspended for 400ms");
    until("the next failure makes it longer", || {
        let said = wires.each_mut().map(|wire| wire.ask(GET).text());
        assert!(said.iter().all(|text| text == "busy" || text == "two"), "{said:?}");
        gateway.log().contains("target suspended for 1s")
    });
    until("it is shown everywhere, until when", || {
        wires[0].ask(GET);
        let end = first(&gateway)["suspended_until_unix_ms"].as_u64().unwrap_or_default();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        (now + 1..=now + 1000).contains(&u128::from(end))
            && count(&gateway, "suspended", &url) == Some(1.0)
    });
    assert!(count(&gateway, "suspensions_total", &url).is_some_and(|times| times >= 2.0));
    assert_eq!(count(&gateway, "suspended", &other), Some(0.0));

    sick.store(false, Ordering::SeqCst);
    until("it is back", || wires[0].ask(GET).text() == "one");
    assert!(wires.iter_mut().all(|wire| wire.ask(GET).text() == "one"));
    gateway.wait_for_log("replies again after a suspension");
    assert_eq!(first(&gateway)["suspended_until_unix_ms"], Value::Null);
    assert_eq!(count(&gateway, "suspended", &url), Some(0.0));
}

#[test]
fn a_target_that_refuses_connections_is_suspended_and_no_request_fails() {
    let mut dead = Backend::start("echo", &[]);
    let (two, _) = target("two");
    dead.kill();
    let suspend = "balance: failover, suspend: { on: [connect_failure], initial: 1h, max: 1h }";
    let gateway = Gateway::start(yaml(&[&dead.url, &two.url()], suspend));
    let mut wires = [(); 4].map(|()| gateway.wire());
    for _ in 0..20 {
        assert!(wires.iter_mut().all(|wire| wire.ask(GET).text() == "two"));
    }
    let failed = crate::telemetry::metric(
        &gateway,
        "tidegate_upstream_connections_failed_total{upstream=\"group\"}",
    );
    assert_eq!(failed, Some(1.0), "it was tried once");
    assert_eq!(count(&gateway, "suspensions_total", &dead.url), Some(1.0));
}

#[test]
fn an_endpoint_that_is_suspended_and_a_group_without_one_are_told_apart() {
    for (count, label) in [(1, "target_suspended"), (2, "no_target")] {
        let origins = [(); 2].map(|()| Origin::answering(BUSY));
        let urls = origins.each_ref().map(Origin::url);
        let urls: Vec<&str> = urls.iter().take(count).map(String::as_str).collect();
        let suspend = "suspend: { on: [503], initial: 1h, max: 1h }";
        let gateway = Gateway::start(yaml(&urls, suspend));
        let mut wire = gateway.wire();
        (0..count).for_each(|_| assert_eq!(wire.ask(GET).text(), "busy"));
        let reply = wire.ask(GET);
        assert_eq!(reply.status(), 503, "{reply:?}");
        assert!(reply.text().contains(&format!("\"fault\":\"{label}\"")), "{reply:?}");
        gateway.wait_for_log(&format!("fault=\"{label}\""));
    }
}

/// The cookie that a reply sets, as the client sends it back.
fn pin(reply: &Message) -> Option<String> {
    let (pair, _) = reply.get("set-cookie")?.split_once(';')?;
    Some(pair.to_owned())
}

fn with(wire: &mut Wire, cookie: &str) -> Message {
    wire.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"))
}

#[test]
fn a_client_stays_at_its_target_over_workers_reloads_restarts_and_gateways() {
    let targets = ["one", "two", "three"].map(target);
    let urls = targets.each_ref().map(|(origin, _)| origin.url());
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let config = yaml(&urls, "sticky: { cookie: srv }");
    let gateway = Gateway::start(&config);
    let reply = gateway.wire().ask(GET);
    let (home, pin) = (reply.text(), pin(&reply).unwrap());
    for url in &urls {
        let (_, port) = url.rsplit_once(':').unwrap();
        assert!(!pin.contains(port) && !pin.contains("127.0.0.1"), "{pin} says where it runs");
    }
    let stays = |gateway: &Gateway| {
        for _ in 0..8 {
            let reply = with(&mut gateway.wire(), &pin);
            assert_eq!((reply.text(), reply.get("set-cookie")), (home.clone(), None));
        }
    };
    stays(&gateway);
    let fewer = urls.iter().filter(|url| **url != urls[0] || home == "one");
    let fewer: Vec<&str> = fewer.copied().rev().collect();
    let changed = yaml(&fewer, "balance: least_requests, sticky: { cookie: srv }");
    gateway.rewrite(changed);
    until("the new configuration serves", || {
        gateway.admin_get("/upstreams").text().contains("least_requests")
    });
    stays(&gateway);
    drop(gateway);
    stays(&Gateway::start(&config));
}

#[test]
fn the_services_cookies_pass_and_the_gateways_own_does_not() {
    let (origin, _) = target("one");
    let gateway = Gateway::start(yaml(&[&origin.url()], "sticky: { cookie: srv }"));
    let mut wire = gateway.wire();
    let own = pin(&wire.ask(GET)).unwrap();
    for (sent, passed, pinned) in [
        (own.clone(), None, true),
        (format!("a=1; {own}; b=2"), Some("a=1; b=2"), true),
        // The service's own of that name, or one of another gateway's.
        ("srv=theirs; a=1".to_owned(), Some("srv=theirs; a=1"), false),
        (format!("srv=theirs; {own}"), Some("srv=theirs"), true),
    ] {
        let reply = with(&mut wire, &sent);
        let asked = origin.requests().pop().unwrap();
        assert_eq!(asked.get("cookie"), passed, "{sent}");
        assert_eq!(reply.get("set-cookie").is_none(), pinned, "{sent}");
    }
}

#[test]
fn a_pinned_target_that_is_not_ready_is_replaced() {
    let targets = ["one", "two"].map(target);
    let urls = targets.each_ref().map(|(origin, _)| origin.url());
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let sticky = "sticky: { cookie: srv }, retry: { attempts: 1, when: [503] }, \
                  suspend: { on: [503], initial: 1h, max: 1h }";
    let gateway = Gateway::start(yaml(&urls, sticky));
    let mut wire = gateway.wire();
    let reply = wire.ask(GET);
    let (home, old) = (reply.text(), pin(&reply).unwrap());
    let (_, sick) = &targets[usize::from(home == "two")];
    sick.store(true, Ordering::SeqCst);
    // The retry's target is the new one, and it stays although the old one is well again.
    let moved = with(&mut wire, &old);
    let new = pin(&moved).unwrap();
    assert!(moved.status() == 200 && moved.text() != home && new != old, "{moved:?}");
    sick.store(false, Ordering::SeqCst);
    for cookie in [&new, &new, &old] {
        let reply = with(&mut wire, cookie);
        assert_eq!(reply.text(), moved.text());
        assert_eq!(pin(&reply).is_some(), *cookie == old, "set anew, once");
    }
}

#[test]
fn mistakes_are_complained_about() {
    for (upstream, complaint) in [
        ("sticky: { cookie: \"\" }", "is not a cookie name"),
        ("sticky: { cookie: srv, secret: \"\" }", "must not be empty"),
        ("sticky: {}", "the key `cookie` is missing"),
        ("suspend: { on: [] }", "nothing suspends a target"),
        ("suspend: { on: [timeouts] }", "did you mean `timeout`?"),
        ("suspend: { on: [404] }", "the status `404` is not a failure of the service"),
        ("suspend: { factor: 0.9 }", "expected a number from 1 to 100"),
        ("suspend: { after: 0 }", "expected a whole number from 1 to 1000"),
        ("suspend: { initial: 2m }", "`initial` is longer than `max`"),
        ("suspend: { initial: 2s, max: 1s }", "`initial` is longer than `max`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        std::fs::write(&file, yaml(&["http://127.0.0.1:1"], upstream)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(1), "{upstream}: {said}");
        assert!(said.contains(complaint), "{upstream}: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    let whole = "balance: failover, sticky: { cookie: srv, secret: s3cret }, suspend: { on: [timeout, connect_failure, reset, 503], \
                 after: 2, initial: 1s, factor: 1.5, max: 60s }";
    std::fs::write(&file, yaml(&["http://127.0.0.1:1"], whole)).unwrap();
    let run = tidegate(&["check".as_ref(), file.as_os_str()]);
    assert_eq!(run.code, Some(0), "{run:?}");
}
