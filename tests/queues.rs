//! `queues`: messages that a flow stores, and that another flow processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Gate, Gateway, Message, Origin, Wire, until};
use crate::hub_shares::act;
use crate::telemetry::metric;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const FAILED: &str = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

/// A gateway that stores messages in a queue, and forwards them from there.
pub(crate) fn yaml(origin: &Origin, keys: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         drain: {{ delay: 0s }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         flows:\n  keep: [{{ store: {{ queue: work }} }}]\n  send: [{{ call: origin }}]\n\
         queues: {{ work: {{ flow: send{keys} }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/in/**\" }}, strip_prefix: /in, flow: keep }} }}\n",
        origin.url()
    )
}

const QUICK: &str = ", retry: { attempts: 3, initial: 100ms }";

pub(crate) fn put(gateway: &Gateway, path: &str, body: &str) {
    let reply = gateway.wire().ask(format!(
        "PUT /in{path} HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/x\r\nX-Own: 1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!((reply.status(), reply.text().as_str()), (202, ""), "{reply:?}");
}

/// An origin that answers each request with `reply`.
pub(crate) fn origin(
    reply: impl Fn(usize, &Message) -> &'static str + Send + Sync + 'static,
) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            peer.send(reply(count.fetch_add(1, Ordering::SeqCst), &request));
        }
    })
}

pub(crate) fn texts(origin: &Origin) -> Vec<String> {
    origin.requests().iter().map(Message::text).collect()
}

fn admin(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.admin_get(path);
    assert_eq!(reply.status(), 200, "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

fn dead(gateway: &Gateway) -> Vec<Value> {
    admin(gateway, "/queues/work/dead")["dead"].as_array().unwrap().clone()
}

fn admin_send(gateway: &Gateway, method: &str, path: &str) -> u16 {
    let admin = gateway.admin();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    Wire::connect(admin).ask(request).status()
}

#[test]
fn a_stored_message_is_processed_as_it_came() {
    let origin = origin(|_, _| OK);
    let gateway = Gateway::start(yaml(&origin, ""));
    put(&gateway, "/a?b=c", "\0one\n");
    origin.wait_for_requests(1);
    let request = origin.request();
    assert_eq!(
        (request.method(), request.target(), &*request.text()),
        ("PUT", "/a?b=c", "\0one\n")
    );
    assert_eq!((request.get("content-type"), request.get("x-own")), (Some("text/x"), Some("1")));
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    expected.iter().for_each(|text| put(&gateway, "/", text));
    origin.wait_for_requests(21);
    assert_eq!(texts(&origin)[1..], expected);
    let count = |name: &str| metric(&gateway, name).unwrap_or_default();
    until("all are counted", || {
        count("tidegate_queue_runs_total{queue=\"work\",outcome=\"success\"}") == 21.0
    });
    assert_eq!(count("tidegate_queue_stored_total{queue=\"work\"}"), 21.0);
    until("none is left", || {
        admin(&gateway, "/queues")
            == json!({ "queues": [{ "name": "work", "depth": 0, "dead": 0 }] })
    });
}

#[test]
fn a_message_that_fails_holds_back_the_others_in_strict_order_only() {
    for (order, expected) in
        [("strict", ["bad", "bad", "bad", "good"]), ("free", ["bad", "good", "bad", "bad"])]
    {
        let times = Arc::new(Mutex::new(Vec::new()));
        let seen = times.clone();
        let origin = origin(move |_, request| {
            seen.lock().unwrap().push(Instant::now());
            if request.text() == "bad" { FAILED } else { OK }
        });
        let keys = format!(", order: {order}, retry: {{ attempts: 3, initial: 300ms }}");
        let gateway = Gateway::start(yaml(&origin, &keys));
        put(&gateway, "/", "bad");
        put(&gateway, "/", "good");
        origin.wait_for_requests(4);
        assert_eq!(texts(&origin), expected, "{order}");
        until("it is dead", || dead(&gateway).len() == 1);
        let times = times.lock().unwrap().clone();
        assert!(times[3] - times[0] >= Duration::from_millis(900), "300 and 600 milliseconds");
    }
}

#[test]
fn a_dead_message_is_processed_again_when_an_operator_says_so() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let gateway = Gateway::start(yaml(&origin, QUICK));
    put(&gateway, "/a", "one");
    put(&gateway, "/b", "two");
    until("both are dead", || dead(&gateway).len() == 2);
    let [first, second] = &dead(&gateway)[..] else { panic!("two") };
    assert_eq!((&first["attempts"], &first["last"]), (&json!(3), &json!("status 503")));
    // A field named `message` would take the place of the text in a log of JSON.
    let said = format!(
        "dead after its last attempt: status 503 queue=\"work\" id={}",
        first["id"].as_str().unwrap()
    );
    until("the log tells", || gateway.log().contains(&said));
    *fails.lock().unwrap() = false;
    origin.forget();
    let path = |one: &Value| format!("/queues/work/dead/{}", one["id"].as_str().unwrap());
    assert_eq!(admin_send(&gateway, "POST", &format!("{}/retry", path(first))), 202);
    origin.wait_for_requests(1);
    assert_eq!((origin.request().target(), texts(&origin)), ("/a", vec!["one".to_owned()]));
    assert_eq!(admin_send(&gateway, "DELETE", &path(second)), 204);
    assert!(dead(&gateway).is_empty());
    for (method, path) in [
        ("DELETE", path(second)),
        ("POST", format!("{}/retry", path(second))),
        ("DELETE", "/queues/work/dead/x".to_owned()),
        ("DELETE", "/queues/other/dead/1".to_owned()),
    ] {
        assert_eq!(admin_send(&gateway, method, &path), 404, "{method} {path}");
    }
}

#[test]
fn so_many_messages_are_processed_at_once() {
    let (gate, running, most) =
        (Gate::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (opens, runs, sees) = (gate.clone(), running.clone(), most.clone());
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            sees.fetch_max(runs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            opens.wait();
            runs.fetch_sub(1, Ordering::SeqCst);
            peer.try_send(OK);
        }
    });
    let gateway = Gateway::start(yaml(&origin, ", order: free, concurrency: 3"));
    (0..12).for_each(|n| put(&gateway, "/", &n.to_string()));
    until("three have come", || running.load(Ordering::SeqCst) == 3);
    gate.open();
    origin.wait_for_requests(12);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn what_was_answered_with_202_outlives_a_killed_gateway() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let folder = tempfile::tempdir().unwrap();
    let store = json!({ "path": folder.path().join("store") });
    let yaml = yaml(&origin, ", retry: { attempts: 1000, initial: 100ms, factor: 1 }");
    let yaml = format!("{yaml}store: {store}\n");
    let gateway = Gateway::start(&yaml);
    (0..3).for_each(|n| put(&gateway, &format!("/{n}"), &n.to_string()));
    origin.wait_for_requests(2);
    // Dropping it kills it.
    drop(gateway);
    *fails.lock().unwrap() = false;
    let gateway = Gateway::start(&yaml);
    until("all are processed", || texts(&origin).iter().any(|text| text == "2"));
    let mut order = texts(&origin);
    order.dedup();
    assert_eq!(order, ["0", "1", "2"]);
    until("none is left", || admin(&gateway, "/queues")["queues"][0]["depth"] == 0);
}

#[test]
fn a_reload_keeps_what_waits() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let slow = ", retry: { attempts: 100, initial: 100ms, factor: 1 }";
    let gateway = Gateway::start(yaml(&origin, slow));
    (0..3).for_each(|n| put(&gateway, "/", &n.to_string()));
    origin.wait_for_requests(2);
    *fails.lock().unwrap() = false;
    let more = yaml(&origin, slow)
        .replace("workers: 2", "workers: 2\nplans: { gold: { unlimited: true } }");
    crate::reload::put_ok(&gateway, &more);
    until("all are processed", || texts(&origin).iter().any(|text| text == "2"));
    let mut order = texts(&origin);
    order.dedup();
    assert_eq!(order, ["0", "1", "2"]);
}

#[test]
fn the_metrics_tell_depth_age_and_tries() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let gateway =
        Gateway::start(yaml(&origin, ", retry: { attempts: 1000, initial: 100ms, factor: 1 }"));
    let count = |name: &str| metric(&gateway, name);
    let runs = |outcome| {
        count(&format!("tidegate_queue_runs_total{{queue=\"work\",outcome=\"{outcome}\"}}"))
    };
    let (depth, age) = (
        "tidegate_queue_depth{queue=\"work\"}",
        "tidegate_queue_oldest_age_seconds{queue=\"work\"}",
    );
    (0..3).for_each(|n| put(&gateway, "/", &n.to_string()));
    until("three wait", || count(depth) == Some(3.0));
    until("the oldest grows old", || count(age) > Some(1.0));
    until("its tries are counted", || runs("failure") > Some(2.0));
    *fails.lock().unwrap() = false;
    until("none waits", || (count(depth), count(age)) == (Some(0.0), Some(0.0)));
    assert_eq!(runs("success"), Some(3.0));
}

#[test]
fn configurations_that_cannot_be_are_complained_of() {
    let origin = Origin::silent();
    for (yaml, complaint) in [
        (yaml(&origin, "").replace("queue: work", "queue: wrok"), "did you mean `work`?"),
        (yaml(&origin, "").replace("flow: send", "flow: sent"), "did you mean `send`?"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        std::fs::write(&file, yaml).unwrap();
        let run = crate::harness::tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1));
        assert!((run.stdout + &run.stderr).contains(complaint), "{complaint}");
    }
}

#[test]
fn several_at_once_in_strict_order_are_warned_of() {
    let origin = Origin::silent();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml(&origin, ", concurrency: 2")).unwrap();
    let run = crate::harness::tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(0));
    let said = run.stdout + &run.stderr;
    assert!(said.contains("messages in strict order are processed one at a time"), "{said}");
}

/// A flow that refuses some messages because of their content.
fn picky(origin: &Origin, keys: &str) -> String {
    yaml(origin, keys).replace(
        "send: [{ call: origin }]",
        "send: [{ filter: { when: \"$body.bad\", then: [{ fault: { code: client, reason: 'no' } }] } }, { call: origin }]",
    )
}

const BAD: &str = r#"{"bad":true}"#;
const GOOD: &str = r#"{"good":true}"#;

fn put_json(gateway: &Gateway, body: &str) {
    let reply = gateway.wire().ask(format!(
        "PUT /in/a?token=geheim&b=1 HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nAuthorization: Bearer geheim\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status(), 202, "{reply:?}");
}

#[test]
fn a_message_that_cannot_pass_is_dead_at_once_and_holds_back_nothing() {
    let origin = origin(|_, _| OK);
    // With retries, a valid message would wait for hours.
    let gateway = Gateway::start(picky(&origin, ", retry: { attempts: 9, initial: 1h, max: 1h }"));
    for body in [BAD, BAD, GOOD] {
        put_json(&gateway, body);
    }
    origin.wait_for_requests(1);
    assert_eq!(texts(&origin), [GOOD]);
    until("both are dead", || dead(&gateway).len() == 2);
    let first = dead(&gateway).remove(0);
    assert_eq!(first["attempts"], 1);
    assert!(first["last"].as_str().unwrap().starts_with("flow_refused"), "{first}");
    until("the log tells", || {
        gateway.log().contains("dead at once, because a retry cannot succeed")
    });
}

#[test]
fn the_dead_have_bounds_that_are_told_before_they_are_met() {
    let origin = origin(|_, _| OK);
    let gateway = Gateway::start(picky(&origin, ", dead: { messages_max: 5 }"));
    let count = |name: &str| metric(&gateway, &format!("{name}{{queue=\"work\"}}"));
    (0..4).for_each(|_| put_json(&gateway, BAD));
    until("they are counted", || count("tidegate_queue_dead_messages") == Some(4.0));
    assert!(count("tidegate_queue_dead_bytes").unwrap() > 100.0);
    until("the log warns", || gateway.log().contains("are close to `dead.messages_max`"));
    let ids = || -> Vec<u64> {
        let dead = dead(&gateway);
        dead.iter().map(|dead| dead["id"].as_str().unwrap().parse().unwrap()).collect()
    };
    let before = ids();
    (0..4).for_each(|_| put_json(&gateway, BAD));
    until("the newest are kept", || ids().last() == Some(&(before[3] + 4)) && ids().len() == 5);
    assert_eq!(ids()[0], before[3], "the oldest have gone");
    until("it is counted", || count("tidegate_queue_dead_removed_total") == Some(3.0));
    gateway.wait_for_log("a dead message was removed");

    // Limited by size and by age.
    for (bound, most) in [("bytes_max: 600B", 3), ("age_max: 1s", 0)] {
        let gateway = Gateway::start(picky(&origin, &format!(", dead: {{ {bound} }}")));
        (0..6).for_each(|_| put_json(&gateway, BAD));
        let removed = "tidegate_queue_dead_removed_total{queue=\"work\"}";
        until("the others are gone", || {
            let removed = metric(&gateway, removed).unwrap_or_default();
            removed >= 3.0 && dead(&gateway).len() <= most
        });
    }
}

#[test]
fn a_dead_message_is_shown_with_its_failures_and_without_its_secrets() {
    let origin = origin(|_, _| FAILED);
    // The first one waits for two seconds, during which it is inspected.
    let retry = ", retry: { attempts: 3, initial: 1s, factor: 1 }";
    let gateway = Gateway::start(yaml(&origin, retry));
    put_json(&gateway, r#"{"password":"geheim","a":1}"#);
    put(&gateway, "/b", "text");
    until("it waits", || {
        let waiting = admin(&gateway, "/queues/work/messages");
        waiting["messages"].as_array().unwrap().len() == 2
            && waiting["messages"][0]["attempts"].as_u64() >= Some(1)
    });
    let waiting = admin(&gateway, "/queues/work/messages")["messages"][1].clone();
    assert_eq!((&waiting["method"], &waiting["path"]), (&json!("PUT"), &json!("/b")));
    assert_eq!(waiting["attempts"], 0);
    let first = admin(&gateway, "/queues/work/messages")["messages"][0]["id"].clone();
    let behind =
        admin(&gateway, &format!("/queues/work/messages?after={}", first.as_str().unwrap()));
    assert_eq!(behind["messages"].as_array().unwrap().len(), 1);
    until("both are dead", || dead(&gateway).len() == 2);
    let id = dead(&gateway)[0]["id"].as_str().unwrap().to_owned();
    let shown = admin(&gateway, &format!("/queues/work/dead/{id}"));
    assert_eq!(shown["path"], "/a?token=***&b=1");
    assert_eq!(shown["body"], r#"{"password":"***","a":1}"#);
    assert_eq!(shown["headers"]["authorization"], "***");
    assert_eq!(shown["headers"]["content-type"], "application/json");
    assert_eq!(shown["content_type"], "application/json");
    let faults = shown["attempts"].as_array().unwrap();
    assert_eq!(faults.len(), 3);
    assert!(faults.iter().all(|fault| fault["fault"] == "status 503"), "{shown}");
    let time = |value: &Value| value.as_str().unwrap().to_owned();
    assert!(time(&shown["time"]) <= time(&faults[0]["time"]));
    assert!(time(&faults[2]["time"]) <= time(&shown["died"]));
    assert!(!shown.to_string().contains("geheim"), "{shown}");
    assert_eq!(gateway.admin_get("/queues/work/dead/999").status(), 404);

    // A body that is not text is shown in Base64, up to 64 KiB.
    let large = "\u{fffd}".repeat(30_000).replace('\u{fffd}', "x\0");
    put(&gateway, "/c", &large);
    until("it is dead", || dead(&gateway).len() == 3);
    let id = dead(&gateway)[2]["id"].as_str().unwrap().to_owned();
    let shown = admin(&gateway, &format!("/queues/work/dead/{id}"));
    assert_eq!((&shown["bytes"], &shown["truncated"]), (&json!(60_000), &json!(false)));
    put(&gateway, "/d", &"y".repeat(100_000));
    until("it is dead", || dead(&gateway).len() == 4);
    let id = dead(&gateway)[3]["id"].as_str().unwrap().to_owned();
    let shown = admin(&gateway, &format!("/queues/work/dead/{id}"));
    assert_eq!(
        (shown["body"].as_str().unwrap().len(), &shown["truncated"]),
        (65_536, &json!(true))
    );
}

#[test]
fn all_that_is_dead_is_put_back_or_forgotten() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let gateway = Gateway::start(yaml(&origin, ", retry: { attempts: 1 }"));
    let expected: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    expected.iter().for_each(|body| put(&gateway, "/", body));
    until("all are dead", || admin(&gateway, "/queues/work")["dead"] == 150);
    *fails.lock().unwrap() = false;
    origin.forget();
    let retry = || act(&gateway, "POST", "/queues/work/dead/retry");
    assert_eq!(retry(), (200, json!({ "retried": 150, "left": 0 })));
    origin.wait_for_requests(150);
    assert_eq!(texts(&origin), expected, "in their order");
    assert!(dead(&gateway).is_empty());
    *fails.lock().unwrap() = true;
    (0..3).for_each(|_| put(&gateway, "/", "x"));
    until("they are dead", || dead(&gateway).len() == 3);
    let remove = || act(&gateway, "DELETE", "/queues/work/dead");
    assert_eq!(remove(), (200, json!({ "removed": 3 })));
    assert_eq!(remove(), (200, json!({ "removed": 0 })));
    assert_eq!(retry(), (200, json!({ "retried": 0, "left": 0 })));
    assert!(dead(&gateway).is_empty());
    assert_eq!(admin_send(&gateway, "DELETE", "/queues/other/dead"), 404);
}

#[test]
fn a_paused_queue_waits_also_over_a_restart() {
    let origin = origin(|_, _| OK);
    let folder = tempfile::tempdir().unwrap();
    let store = json!({ "path": folder.path().join("store") });
    let yaml = format!("{}store: {store}\n", yaml(&origin, ""));
    let gateway = Gateway::start(&yaml);
    put(&gateway, "/", "before");
    origin.wait_for_requests(1);
    assert_eq!(admin_send(&gateway, "POST", "/queues/work/pause"), 204);
    assert_eq!(admin(&gateway, "/queues/work")["paused"], true);
    put(&gateway, "/", "while");
    drop(gateway);
    let gateway = Gateway::start(&yaml);
    put(&gateway, "/", "again");
    until("the queue is looked after", || {
        metric(&gateway, "tidegate_queue_depth{queue=\"work\"}") == Some(2.0)
    });
    assert_eq!(texts(&origin), ["before"]);
    assert_eq!(admin_send(&gateway, "POST", "/queues/work/resume"), 204);
    origin.wait_for_requests(3);
    assert_eq!(texts(&origin), ["before", "while", "again"]);
    assert_eq!(admin(&gateway, "/queues/work").get("paused"), None);
    assert_eq!(admin_send(&gateway, "POST", "/queues/other/pause"), 404);
}

#[test]
fn a_queue_that_starts_paused_runs_once_an_operator_says_so_also_over_a_reload() {
    let origin = origin(|_, _| OK);
    let paused = yaml(&origin, ", paused: true");
    let gateway = Gateway::start(&paused);
    put(&gateway, "/", "one");
    until("the queue is looked after", || {
        metric(&gateway, "tidegate_queue_depth{queue=\"work\"}") == Some(1.0)
    });
    assert_eq!(admin(&gateway, "/queues/work")["paused"], true);
    assert!(origin.requests().is_empty());
    assert_eq!(admin_send(&gateway, "POST", "/queues/work/resume"), 204);
    origin.wait_for_requests(1);
    let more = paused.replace("workers: 2", "workers: 2\nplans: { gold: { unlimited: true } }");
    crate::reload::put_ok(&gateway, &more);
    gateway.wait_for_log("an operator has resumed this queue, so `paused: true` has no effect");
    put(&gateway, "/", "two");
    origin.wait_for_requests(2);
    assert_eq!(admin(&gateway, "/queues/work").get("paused"), None);
    // What an operator pauses stays so without the key.
    assert_eq!(admin_send(&gateway, "POST", "/queues/work/pause"), 204);
    crate::reload::put_ok(&gateway, &yaml(&origin, ""));
    put(&gateway, "/", "three");
    until("the queue is looked after", || {
        metric(&gateway, "tidegate_queue_depth{queue=\"work\"}") == Some(1.0)
    });
    assert_eq!(admin(&gateway, "/queues/work")["paused"], true);
    assert_eq!(texts(&origin), ["one", "two"]);
}

#[test]
fn a_queue_pauses_after_the_last_attempt_and_keeps_its_order() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = origin(move |_, _| if *says.lock().unwrap() { FAILED } else { OK });
    let keys = ", retry: { attempts: 2, initial: 100ms, then: pause }";
    let gateway = Gateway::start(yaml(&origin, keys));
    put(&gateway, "/", "one");
    put(&gateway, "/", "two");
    until("it is paused", || admin(&gateway, "/queues/work")["paused"] == true);
    gateway.wait_for_log("paused after the last attempt at a message");
    assert_eq!(texts(&origin), ["one", "one"]);
    assert!(dead(&gateway).is_empty());
    *fails.lock().unwrap() = false;
    assert_eq!(admin_send(&gateway, "POST", "/queues/work/resume"), 204);
    until("none is left", || admin(&gateway, "/queues/work")["depth"] == 0);
    assert_eq!(texts(&origin), ["one", "one", "one", "two"]);
}

#[test]
fn dead_messages_are_put_into_another_queue() {
    let origin = origin(|_, request| if request.target() == "/told" { OK } else { FAILED });
    let keys =
        ", retry: { attempts: 2, initial: 100ms }, dead: { queue: failed } }, failed: { flow: tell";
    let yaml = yaml(&origin, keys).replace(
        "send: [{ call: origin }]",
        "send: [{ call: origin }]\n  tell: [{ call: { upstream: origin, path: /told } }]",
    );
    let gateway = Gateway::start(yaml);
    put(&gateway, "/a", "one");
    origin.wait_for_requests(3);
    let targets: Vec<_> =
        origin.requests().iter().map(|request| request.target().to_owned()).collect();
    assert_eq!(targets, ["/a", "/a", "/told"]);
    let told = &origin.requests()[2];
    assert_eq!((told.method(), &*told.text(), told.get("x-own")), ("PUT", "one", Some("1")));
    until("none is left", || {
        admin(&gateway, "/queues")
            == json!({ "queues": [
                { "name": "work", "depth": 0, "dead": 0 },
                { "name": "failed", "depth": 0, "dead": 0 },
            ] })
    });
    let dead = "tidegate_queue_runs_total{queue=\"work\",outcome=\"dead\"}";
    until("it is counted", || metric(&gateway, dead) == Some(1.0));
}

#[test]
fn statuses_are_failures_if_they_are_written() {
    const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
    for (fault_on, reply, tries, count) in [
        ("", GONE, 1, 0),
        (", fault_on: [4xx]", GONE, 1, 1),
        (", fault_on: [4xx]", FAILED, 1, 0),
        (", fault_on: [500-599]", FAILED, 3, 1),
        (", fault_on: []", FAILED, 1, 0),
    ] {
        let origin = origin(move |_, _| reply);
        let gateway = Gateway::start(yaml(&origin, &format!("{QUICK}{fault_on}")));
        put(&gateway, "/", "one");
        until("it has ended", || {
            let queue = admin(&gateway, "/queues/work");
            (&queue["depth"], &queue["dead"]) == (&json!(0), &json!(count))
                && !texts(&origin).is_empty()
        });
        assert_eq!(texts(&origin).len(), tries, "{fault_on} {reply}");
    }
}

#[test]
fn messages_are_begun_at_an_interval() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let origin = origin(move |_, _| {
        seen.lock().unwrap().push(Instant::now());
        OK
    });
    let gateway = Gateway::start(yaml(&origin, ", interval: 1s, order: free, concurrency: 5"));
    (0..3).for_each(|n| put(&gateway, "/", &n.to_string()));
    origin.wait_for_requests(3);
    let times = times.lock().unwrap();
    // A request arrives some time after its attempt began.
    assert!(times[2] - times[0] >= Duration::from_millis(1500), "{times:?}");
    assert_eq!(texts(&origin), ["0", "1", "2"]);
}
