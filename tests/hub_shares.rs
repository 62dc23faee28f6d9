//! `hubs`: subscribers that would leave no room for others, and what operators see of events that could not be delivered.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Gate, Gateway, Origin, Wire, until};
use crate::hubs::hub;
use crate::websub::{LOOPBACK, asked, confirming, delivered, form, parameter, texts};

const FORM: &str = "application/x-www-form-urlencoded";

/// A gateway whose subscribers are ann, bob and cid by their keys.
fn start(keys: &str) -> Gateway {
    let policy = "hub: news, policies: [{ api_key: { header: x-api-key, keys: { ann: a, bob: b, cid: c } } }] }";
    Gateway::start(hub(&format!("{LOOPBACK}{keys}")).replace("hub: news }", policy))
}

fn post(wire: &mut Wire, key: &str, target: &str, content_type: &str, body: &str) -> u16 {
    let reply = wire.ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nx-api-key: {key}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    reply.status()
}

fn subscribe(gateway: &Gateway, key: &str, callback: &str) -> u16 {
    post(&mut gateway.wire(), key, "/news", FORM, &form("subscribe", "sports", callback, ""))
}

fn publish(gateway: &Gateway, body: &str) {
    assert_eq!(
        post(&mut gateway.wire(), "b", "/news/publish?topic=sports", "text/plain", body),
        200
    );
}

/// Servers that take connections and never answer.
fn silent(count: usize) -> Vec<TcpListener> {
    (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect()
}

fn admin(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.admin_get(path);
    assert_eq!(reply.status(), 200, "{path} {reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

/// Status and JSON of an action of operators.
pub(crate) fn act(gateway: &Gateway, method: &str, path: &str) -> (u16, Value) {
    let admin = gateway.admin();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    let reply = Wire::connect(admin).ask(request);
    (reply.status(), serde_json::from_slice(&reply.body).unwrap_or_default())
}

fn active(gateway: &Gateway, callback: &str) {
    until("it is active", || {
        let all = admin(gateway, "/hubs/news/subscriptions?after=");
        let all = all["subscriptions"].as_array().unwrap().clone();
        all.iter().any(|one| one["callback"] == callback && one["status"] == "active")
    });
}

/// Callbacks that hang have their places for as long as a delivery may take; another subject's events do not wait for them.
#[test]
fn callbacks_that_hang_leave_room_for_those_of_others() {
    let gateway = start("");
    let (bob, cid) = (confirming(), confirming());
    assert_eq!(subscribe(&gateway, "b", &bob.url()), 202);
    active(&gateway, &bob.url());
    let hanging = silent(150);
    let mut wire = gateway.wire();
    let (mut taken, mut refused) = (0, 0);
    for number in 0..1500 {
        let server = hanging[number % hanging.len()].local_addr().unwrap();
        let body = form("subscribe", "sports", &format!("http://{server}/{number}"), "");
        match post(&mut wire, "a", "/news", FORM, &body) {
            202 => taken += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(taken >= 256 && refused > 0, "{taken} unconfirmed, {refused} refused");
    let began = Instant::now();
    publish(&gateway, "goal");
    until("bob has it", || texts(&bob) == ["goal"]);
    assert_eq!(subscribe(&gateway, "c", &cid.url()), 202);
    until("cid is asked", || asked(&cid).len() == 1);
    // Hanging callbacks keep their permits for ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// The same with subscribed callbacks that hang during deliveries. Each has its own origin, so that only the subject is shared.
#[test]
fn deliveries_that_hang_leave_room_for_those_of_others() {
    let gateway = start(", verify: false");
    let bob = confirming();
    let hanging = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = hanging.local_addr().unwrap().port();
    let mut wire = gateway.wire();
    for number in 0..2000 {
        let callback = format!("http://127.1.{}.{}:{port}/", number / 200, 1 + number % 200);
        let body = form("subscribe", "sports", &callback, "");
        assert_eq!(post(&mut wire, "a", "/news", FORM, &body), 202);
    }
    assert_eq!(subscribe(&gateway, "b", &bob.url()), 202);
    let began = Instant::now();
    for text in ["one", "two"] {
        publish(&gateway, text);
        until("bob has it", || texts(&bob).last().is_some_and(|last| last == text));
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn unconfirmed_subscriptions_take_no_places() {
    let gateway = start(", subscriptions_max: 2");
    let hanging = silent(1);
    let server = hanging[0].local_addr().unwrap();
    let of_ann: Vec<u16> =
        (0..3).map(|n| subscribe(&gateway, "a", &format!("http://{server}/{n}"))).collect();
    assert_eq!(of_ann, [202, 202, 429], "they count for her");
    let bob = confirming();
    for number in 0..2 {
        let url = format!("{}/{number}", bob.url());
        assert_eq!(subscribe(&gateway, "b", &url), 202);
        active(&gateway, &url);
    }
    assert_eq!(subscribe(&gateway, "b", &format!("{}/2", bob.url())), 429);
}

/// A subscription that is confirmed when there is no place any more is denied, and its subscriber told.
#[test]
fn a_confirmation_that_comes_too_late_is_denied() {
    let gate = Arc::new(Gate::default());
    let opens = gate.clone();
    let late = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let challenge = parameter(&request, "hub.challenge").unwrap_or_default();
            if !challenge.is_empty() {
                opens.wait();
            }
            let reply = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{challenge}",
                challenge.len()
            );
            if !peer.try_send(reply) {
                return;
            }
        }
    });
    let gateway = start(", subscriptions_max: 1");
    assert_eq!(subscribe(&gateway, "a", &late.url()), 202);
    until("ann is asked", || asked(&late).len() == 1);
    let bob = confirming();
    assert_eq!(subscribe(&gateway, "b", &bob.url()), 202);
    active(&gateway, &bob.url());
    gate.open();
    until("ann is told", || {
        asked(&late).iter().any(|told| parameter(told, "hub.mode") == Some("denied"))
    });
    assert_eq!(admin(&gateway, "/hubs/news")["subscriptions"], json!(1));
    assert_eq!(subscribe(&gateway, "a", &late.url()), 429);
}

/// An unconfirmed subscription whose wish was replaced has no lease that would end it.
#[test]
fn a_wish_that_is_withdrawn_leaves_nothing() {
    let origin = Origin::answering("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    let gate = Arc::new(Gate::default());
    let opens = gate.clone();
    let slow = Origin::start(move |peer| {
        while peer.request().is_some() {
            opens.wait();
            if !peer.try_send("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n") {
                return;
            }
        }
    });
    let gateway = start("");
    for url in [origin.url(), slow.url()] {
        assert_eq!(subscribe(&gateway, "a", &url), 202);
        let leave = form("unsubscribe", "sports", &url, "");
        assert_eq!(post(&mut gateway.wire(), "a", "/news", FORM, &leave), 202);
    }
    gate.open();
    until("nothing is left", || admin(&gateway, "/hubs/news")["subscriptions"] == 0);
}

#[test]
fn operators_see_why_an_event_is_dead_and_act_on_all() {
    let origin = Origin::answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = start(", verify: false, delivery: { retries: 1, initial: 10ms }");
    let callback = format!("{}/cb?token=s3cret", origin.url());
    let body = form("subscribe", "sports", &callback, "&hub.secret=hidden");
    assert_eq!(post(&mut gateway.wire(), "a", "/news", FORM, &body), 202);
    publish(&gateway, "goal");
    let dead = || admin(&gateway, "/hubs/news/dead")["dead"].as_array().unwrap().clone();
    until("it is dead", || dead().len() == 1);
    let id = dead()[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/hubs/news/dead/{id}");
    let shown = admin(&gateway, &path);
    for (name, value) in [
        ("id", json!(id)),
        ("topic", json!("sports")),
        ("method", json!("POST")),
        ("path", json!("/cb")),
        ("callback", json!(format!("{}/cb?token=***", origin.url()))),
        ("content_type", json!("text/plain")),
        ("bytes", json!(4)),
        ("body", json!("goal")),
        ("truncated", json!(false)),
    ] {
        assert_eq!(shown[name], value, "{name} {shown}");
    }
    assert_eq!(shown["headers"]["x-hub-signature"], "***");
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{shown}");
    assert!(attempts.iter().all(|one| one["cause"] == "status 503" && one["time"].is_string()));
    assert!(!shown.to_string().contains("s3cret") && !shown.to_string().contains("hidden"));
    gateway.wait_for_log("the last delivery attempt of an event has failed");
    assert!(!gateway.log().contains("s3cret"));
    // Large bodies are cut.
    publish(&gateway, &"x".repeat(100_000));
    until("the second is dead", || dead().len() == 2);
    let large = dead().into_iter().find(|one| one["id"] != id).unwrap();
    let large = admin(&gateway, &format!("/hubs/news/dead/{}", large["id"].as_str().unwrap()));
    assert_eq!((&large["bytes"], &large["truncated"]), (&json!(100_000), &json!(true)));
    assert_eq!(large["body"].as_str().map(str::len), Some(65_536));
    let (status, told) = act(&gateway, "POST", "/hubs/news/dead/retry");
    assert_eq!((status, &told["retried"]), (200, &json!(2)));
    until("they are dead again", || dead().len() == 2 && delivered(&origin).len() == 8);
    assert_eq!(act(&gateway, "DELETE", "/hubs/news/dead"), (200, json!({ "removed": 2 })));
    assert_eq!(act(&gateway, "DELETE", "/hubs/news/dead"), (200, json!({ "removed": 0 })));
    assert_eq!((dead().len(), gateway.admin_get(&path).status()), (0, 404));
}

#[test]
fn paused_deliveries_wait_and_a_restart_does_not_resume_them() {
    let origin = confirming();
    let folder = tempfile::tempdir().unwrap();
    let store = json!({ "path": folder.path().join("store") });
    let yaml = format!("{}store: {store}\n", hub(LOOPBACK));
    let gateway = Gateway::start(&yaml);
    crate::websub::subscribe(&gateway, &origin.url(), "");
    assert_eq!(act(&gateway, "POST", "/hubs/news/pause").0, 204);
    assert_eq!(admin(&gateway, "/hubs/news")["paused"], true);
    // Until every worker has heard of it an event may pass.
    let publish = |gateway: &Gateway, text: &str| crate::hubs::publish(gateway, "sports", text);
    let mut sent = Vec::new();
    until("deliveries stand still", || {
        let text = format!("event {}", sent.len());
        publish(&gateway, &text);
        sent.push(text.clone());
        std::thread::sleep(Duration::from_millis(200));
        !texts(&origin).contains(&text)
    });
    drop(gateway);
    let gateway = Gateway::start(&yaml);
    assert_eq!(admin(&gateway, "/hubs")["hubs"][0]["paused"], true);
    // Questions are asked.
    let other = confirming();
    crate::websub::subscribe(&gateway, &other.url(), "");
    sent.push("last".to_owned());
    publish(&gateway, "last");
    assert!(!texts(&origin).contains(&"last".to_owned()) && texts(&other).is_empty());
    assert_eq!(act(&gateway, "POST", "/hubs/news/resume").0, 204);
    until("all come in order", || texts(&origin) == sent && texts(&other) == ["last"]);
    assert_eq!(admin(&gateway, "/hubs/news").get("paused"), None);
    assert_eq!(act(&gateway, "POST", "/hubs/none/pause").0, 404);
}
