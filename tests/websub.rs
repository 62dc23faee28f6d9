//! `hubs`: subscribers by WebSub, with verification of intent and deliveries to their callbacks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::harness::{Backend, Gate, Gateway, Message, Origin, Wire, until, until_at_last};
use crate::hubs::{events, frame, hub, json_of, poll, publish, socket, start, start_in, stream};
use crate::telemetry::metric;

/// Callbacks of the tests are on loopback.
pub(crate) const LOOPBACK: &str = ", callbacks: { allow: [\"127.0.0.0/8\"] }";
const QUICK: &str = ", callbacks: { allow: [\"127.0.0.0/8\"] }, delivery: { timeout: 2s, retries: 2, initial: 100ms }";

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

pub(crate) fn parameter<'m>(request: &'m Message, name: &str) -> Option<&'m str> {
    let query = request.target().split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// A callback that confirms requests, and answers each event with `reply`.
fn callback(reply: impl Fn(usize, &Message) -> String + Send + Sync + 'static) -> Origin {
    let events = AtomicUsize::new(0);
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let answer = match parameter(&request, "hub.challenge") {
                Some(challenge) => {
                    format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{challenge}",
                        challenge.len()
                    )
                }
                None => reply(events.fetch_add(1, Ordering::SeqCst), &request),
            };
            if !peer.try_send(answer) {
                return;
            }
        }
    })
}

pub(crate) fn confirming() -> Origin {
    callback(|_, _| OK.to_owned())
}

/// The events that an origin got.
pub(crate) fn delivered(origin: &Origin) -> Vec<Message> {
    origin.requests().into_iter().filter(|request| request.method() == "POST").collect()
}

pub(crate) fn texts(origin: &Origin) -> Vec<String> {
    delivered(origin).iter().map(Message::text).collect()
}

/// Checks that the received events are all of `order` in order, except immediate repetitions, and returns the number of these.
/// `may_go_back`: events of a suspended gateway may also arrive late.
#[track_caller]
pub(crate) fn repeats(came: &[String], order: &[String], may_go_back: bool) -> usize {
    let (mut next, mut again) = (0, 0);
    for one in came {
        let (before, ahead) = order.split_at(next);
        if ahead.first() == Some(one) {
            next += 1;
        } else if before.last() == Some(one) || (may_go_back && before.contains(one)) {
            again += 1;
        } else {
            panic!("{one} came instead of number {next}: {came:?}");
        }
    }
    assert_eq!(next, order.len(), "not all came: {came:?}");
    again
}

pub(crate) fn ids(origin: &Origin) -> Vec<String> {
    let events = delivered(origin);
    events.iter().filter_map(|event| event.get("x-hub-event-id")).map(str::to_owned).collect()
}

pub(crate) fn asked(origin: &Origin) -> Vec<Message> {
    origin.requests().into_iter().filter(|request| request.method() == "GET").collect()
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('%', "%25")
        .replace(':', "%3A")
        .replace('/', "%2F")
        .replace('?', "%3F")
        .replace('&', "%26")
}

/// Sends a form of a subscriber.
pub(crate) fn send_form(gateway: &Gateway, form: &str) -> Message {
    gateway.wire().ask(format!(
        "POST /news HTTP/1.1\r\nHost: hub.example\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    ))
}

pub(crate) fn form(mode: &str, topic: &str, callback: &str, more: &str) -> String {
    format!("hub.mode={mode}&hub.topic={topic}&hub.callback={}{more}", escape(callback))
}

/// A callback as operators see it, with the values of its query masked.
pub(crate) fn shown(callback: &str) -> String {
    let Some((path, query)) = callback.split_once('?') else { return callback.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}=***"),
        None => "***".to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Subscribes, and waits until the subscription is active.
pub(crate) fn subscribe(gateway: &Gateway, callback: &str, more: &str) {
    let reply = send_form(gateway, &form("subscribe", "sports", callback, more));
    assert_eq!(reply.status(), 202, "{reply:?}");
    until("the subscription is active", || {
        subscriptions(gateway)
            .iter()
            .any(|one| one["callback"] == shown(callback) && one["status"] != "pending")
    });
}

fn admin(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.admin_get(path);
    assert_eq!(reply.status(), 200, "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

pub(crate) fn subscriptions(gateway: &Gateway) -> Vec<Value> {
    admin(gateway, "/hubs/news/subscriptions")["subscriptions"].as_array().unwrap().clone()
}

fn dead(gateway: &Gateway) -> Vec<Value> {
    admin(gateway, "/hubs/news/dead")["dead"].as_array().unwrap().clone()
}

fn admin_send(gateway: &Gateway, method: &str, path: &str) -> u16 {
    let admin = gateway.admin();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    Wire::connect(admin).ask(request).status()
}

fn outcomes(gateway: &Gateway, outcome: &str) -> f64 {
    let name = format!(
        "tidegate_hub_deliveries_total{{hub=\"news\",topic=\"sports\",outcome=\"{outcome}\"}}"
    );
    metric(gateway, &name).unwrap_or_default()
}

#[test]
fn a_subscriber_confirms_and_gets_the_publishers_bytes_signed() {
    let origin = confirming();
    let gateway = start(LOOPBACK);
    let url = format!("{}/cb?key=v", origin.url());
    subscribe(&gateway, &url, "&hub.secret=s3cret&hub.lease_seconds=60");
    let question = &asked(&origin)[0];
    assert!(question.target().starts_with("/cb?key=v&hub.mode=subscribe"), "{question:?}");
    assert_eq!(parameter(question, "hub.topic"), Some("sports"));
    assert_eq!(parameter(question, "hub.lease_seconds"), Some("60"));
    let body = b"\x00\xffgoal\r\n".to_vec();
    let head = format!(
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-goal; v=1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let reply = gateway.wire().ask([head.as_bytes(), &body].concat());
    let id = json_of(&reply)["id"].as_str().unwrap().to_owned();
    until("the event is delivered", || !delivered(&origin).is_empty());
    let event = &delivered(&origin)[0];
    assert_eq!((event.target(), &event.body), ("/cb?key=v", &body));
    assert_eq!(event.get("content-type"), Some("application/x-goal; v=1"));
    assert_eq!(event.get("x-hub-event-id"), Some(&*id));
    let link = "<http://hub.example/news>; rel=\"hub\", <http://hub.example/news/topics/sports>; rel=\"self\"";
    assert_eq!(event.get("link"), Some(link));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"s3cret"), &body);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(event.get("x-hub-signature"), Some(&*format!("sha256={hex}")));
    assert_eq!(event.get("host"), Some(&*origin.address().to_string()));
    until("it is counted", || outcomes(&gateway, "success") == 1.0);
    let hubs = admin(&gateway, "/hubs");
    let expected =
        json!({ "name": "news", "topics": ["sports", "weather"], "subscriptions": 1, "dead": 0 });
    assert_eq!(hubs["hubs"][0], expected);
    let one = &subscriptions(&gateway)[0];
    assert_eq!(
        (&one["subject"], &one["topic"], &one["status"]),
        (&json!(""), &json!("sports"), &json!("active"))
    );
    assert!(one["expires"].as_str().is_some_and(|expires| expires.starts_with("20")));
    assert!(!one.to_string().contains("s3cret"));
}

#[test]
fn an_event_without_a_body_says_so() {
    let origin = confirming();
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &format!("{}/cb", origin.url()), "");
    publish(&gateway, "sports", "");
    until("the event is delivered", || !delivered(&origin).is_empty());
    let event = &delivered(&origin)[0];
    assert_eq!((event.all("content-length"), event.body.len()), (vec!["0"], 0));
}

#[test]
fn events_reach_their_topics_subscribers_in_order() {
    let (sports, both) = (confirming(), confirming());
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &format!("{}/s", sports.url()), "");
    subscribe(&gateway, &format!("{}/s", both.url()), "");
    let url = format!("{}/w", both.url());
    // With the topic's URL, and with the parameters in the query.
    let topic = escape("http://hub.example/news/topics/weather");
    let query = form("subscribe", &topic, &url, "");
    let reply = gateway.wire().ask(format!(
        "POST /news?{query} HTTP/1.1\r\nHost: hub.example\r\nContent-Length: 0\r\n\r\n"
    ));
    assert_eq!(reply.status(), 200);
    until("it is asked", || asked(&both).len() == 2);
    assert!(asked(&both).iter().any(|question| parameter(question, "hub.topic") == Some(&topic)));
    until("it is active", || subscriptions(&gateway).iter().all(|one| one["status"] == "active"));
    let expected: Vec<String> = (0..30).map(|n| format!("goal {n}")).collect();
    expected.iter().for_each(|text| drop(publish(&gateway, "sports", text)));
    publish(&gateway, "weather", "rain");
    until("all are delivered", || delivered(&sports).len() == 30 && delivered(&both).len() == 31);
    assert_eq!(texts(&sports), expected);
    let (rain, goals): (Vec<_>, Vec<_>) =
        delivered(&both).into_iter().partition(|e| e.target() == "/w");
    assert_eq!(goals.iter().map(Message::text).collect::<Vec<_>>(), expected);
    assert_eq!(rain.iter().map(Message::text).collect::<Vec<_>>(), ["rain"]);
    assert!(both.accepted() < 20, "connections are used again: {}", both.accepted());
}

/// The id and the body of each event in JSON.
fn told(events: &[Value]) -> Vec<(String, String)> {
    let text = |event: &Value, key: &str| event[key].as_str().expect(key).to_owned();
    events.iter().map(|event| (text(event, "id"), text(event, "body"))).collect()
}

/// The id and the body of each event in an event stream.
fn told_by_stream(text: &str) -> Vec<(String, String)> {
    let parse = |block: &str| {
        let (id, body) = block.strip_prefix("id: ")?.split_once("\ndata: ")?;
        Some((id.to_owned(), body.to_owned()))
    };
    text.split_terminator("\n\n").map(|block| parse(block).expect("an event")).collect()
}

#[test]
fn one_topic_four_ways_has_the_same_ids_in_one_order() {
    const PUBLISHERS: usize = 4;
    const EACH: usize = 25;
    let (gateway, origin) = (start(LOOPBACK), confirming());
    subscribe(&gateway, &origin.url(), "");
    let (mut events_of, _) = stream(&gateway, "?after=0", "");
    let mut messages = socket(&gateway, "?after=0");
    thread::scope(|publishers| {
        for publisher in 0..PUBLISHERS {
            let gateway = &gateway;
            publishers.spawn(move || {
                for number in 0..EACH {
                    publish(gateway, "sports", &format!("{publisher}.{number}"));
                }
            });
        }
    });
    let polled = poll(&gateway, "?after=0&limit=1000");
    let all = told(polled["events"].as_array().unwrap());
    assert_eq!((all.len(), &polled["next"]), (PUBLISHERS * EACH, &json!(all.last().unwrap().0)));
    let streamed = events(&mut events_of, all.len());
    assert_eq!(told_by_stream(&streamed), all, "as an event stream");
    let sent: Vec<Value> = (0..all.len())
        .map(|_| serde_json::from_slice(&frame(&mut messages).1).expect("JSON"))
        .collect();
    assert_eq!(told(&sent), all, "by WebSocket");
    until("all are delivered", || delivered(&origin).len() == all.len());
    let delivered: Vec<_> = ids(&origin).into_iter().zip(texts(&origin)).collect();
    assert_eq!(delivered, all, "by WebSub");
    // A position from one way of reading is valid for the others.
    let (had, rest) = all.split_at(40);
    let after = format!("?after={}", had.last().unwrap().0);
    let (mut later, _) = stream(&gateway, &after, "");
    assert_eq!(told_by_stream(&events(&mut later, rest.len())), rest);
    let first = frame(&mut socket(&gateway, &after)).1;
    assert_eq!(told(&[serde_json::from_slice(&first).unwrap()]), rest[..1]);
    assert_eq!(told(poll(&gateway, &after)["events"].as_array().unwrap()), rest);
}

#[test]
fn requests_that_cannot_be_served_have_their_status() {
    let gateway = start("");
    let good = "http://192.0.2.9/";
    for (form, status) in [
        (form("publish", "sports", good, ""), 400),
        (form("", "sports", good, ""), 400),
        ("hub.topic=sports".to_owned(), 400),
        (form("subscribe", "", good, ""), 422),
        (form("subscribe", "chess", good, ""), 404),
        (form("subscribe", "sports", "", ""), 400),
        (form("subscribe", "sports", "gopher://8.8.8.8/", ""), 400),
        (form("subscribe", "sports", "http://u:p@8.8.8.8/", ""), 400),
        (form("subscribe", "sports", "http://8.8.8.8/", "&hub.lease_seconds=0"), 400),
        (form("subscribe", "sports", "http://8.8.8.8/", "&hub.lease_seconds=-5"), 400),
        (form("subscribe", "sports", "http://8.8.8.8/", "&hub.lease_seconds=soon"), 400),
        (form("subscribe", "sports", "http://127.0.0.1/", ""), 400),
        (form("subscribe", "sports", "http://10.1.2.3/", ""), 400),
        (form("subscribe", "sports", "http://192.168.0.1/", ""), 400),
        (form("subscribe", "sports", "http://169.254.169.254/latest/meta-data", ""), 400),
        (form("subscribe", "sports", "http://100.64.0.1/", ""), 400),
        (form("subscribe", "sports", "http://0.0.0.0/", ""), 400),
        (form("subscribe", "sports", "http://[::1]/", ""), 400),
        (form("subscribe", "sports", "http://[::ffff:127.0.0.1]/", ""), 400),
        (form("subscribe", "sports", "http://[::ffff:7f00:1]/", ""), 400),
        (form("subscribe", "sports", "http://[fe80::1]/", ""), 400),
        (form("subscribe", "sports", "http://[fd00::1]/", ""), 400),
        (form("subscribe", "sports", "http://[64:ff9b::7f00:1]/", ""), 400),
        (form("subscribe", "sports", "http://2130706433/", ""), 400),
        (form("subscribe", "sports", "http://0177.0.0.1/", ""), 400),
        (form("subscribe", "sports", "http://017700000001/", ""), 400),
        (form("subscribe", "sports", "http://127.0.0.01/", ""), 400),
        (form("subscribe", "sports", "http://0x7f000001/", ""), 400),
        (form("subscribe", "sports", "http://[::127.0.0.1]/", ""), 400),
        (form("subscribe", "sports", "http://[::ffff:0:127.0.0.1]/", ""), 400),
        (form("subscribe", "sports", "http://[2002:7f00:1::]/", ""), 400),
        (form("subscribe", "sports", "http://[0:0:0:0:0:ffff:a9fe:a9fe]/", ""), 400),
        (form("subscribe", "sports", "http://[::1%25lo]/", ""), 400),
        (form("subscribe", "sports", "http://0x7f.1/", ""), 400),
        (form("subscribe", "sports", "http://127.1/", ""), 400),
        (form("subscribe", "sports", "http://localhost/", ""), 400),
        (form("subscribe", "sports", "http://LOCALHOST./", ""), 400),
        (form("subscribe", "sports", "http://no-such-name.invalid/", ""), 400),
        (form("unsubscribe", "sports", good, ""), 202),
    ] {
        let reply = send_form(&gateway, &form);
        assert_eq!(reply.status(), status, "{form}");
    }
    assert_eq!(admin(&gateway, "/hubs/news")["subscriptions"], json!(0));
}

/// A callback that answers the question with these bytes.
fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let challenge = parameter(&request, "hub.challenge").unwrap_or_default().to_owned();
            if !peer.try_send(answer(&format!("{challenge}\n{}", request.target()))) {
                return;
            }
        }
    })
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn challenge(asked: &str) -> &str {
    asked.split('\n').next().unwrap_or_default()
}

#[test]
fn who_does_not_confirm_gets_nothing() {
    let origins = [
        answering(|_| ok("")),
        answering(|_| ok("no")),
        answering(|asked| ok(&format!("{} ", challenge(asked)))),
        answering(ok),
        answering(|asked| {
            let body = challenge(asked).to_owned();
            format!("HTTP/1.1 404 No\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }),
        // An endless challenge, and one that is never completed.
        answering(|asked| {
            let body = challenge(asked);
            format!("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{}", body.repeat(1000))
                .into_bytes()
        }),
        answering(|asked| {
            let front = challenge(asked).get(..31).unwrap_or_default();
            format!("HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{front}").into_bytes()
        }),
        answering(|asked| {
            let body = challenge(asked);
            format!(
                "HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        }),
        answering(|_| b"garbage\r\n\r\n".to_vec()),
        Origin::silent(),
    ];
    let gateway = start(", callbacks: { allow: [\"127.0.0.0/8\"] }, delivery: { timeout: 5s }");
    for origin in &origins {
        let reply = send_form(&gateway, &form("subscribe", "sports", &origin.url(), ""));
        assert_eq!(reply.status(), 202);
    }
    until("none is left", || admin(&gateway, "/hubs/news")["subscriptions"] == json!(0));
    publish(&gateway, "sports", "goal");
    let good = confirming();
    subscribe(&gateway, &good.url(), "");
    publish(&gateway, "sports", "second");
    until("others are served", || texts(&good) == ["second"]);
    for (number, origin) in origins.iter().enumerate() {
        let count = asked(origin).len();
        assert_eq!((count, delivered(origin).len()), (1, 0), "callback {number} is asked once");
    }
}

#[test]
fn an_event_between_the_request_and_the_confirmation_is_delivered() {
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let answer = match parameter(&request, "hub.challenge") {
                Some(challenge) => {
                    opens.wait();
                    ok(challenge)
                }
                None => OK.as_bytes().to_vec(),
            };
            peer.send(answer);
        }
    });
    let gateway = start(LOOPBACK);
    publish(&gateway, "sports", "before");
    assert_eq!(send_form(&gateway, &form("subscribe", "sports", &origin.url(), "")).status(), 202);
    until("it is asked", || !asked(&origin).is_empty());
    publish(&gateway, "sports", "meanwhile");
    assert!(delivered(&origin).is_empty(), "not before it has agreed");
    gate.open();
    until("it is delivered", || !delivered(&origin).is_empty());
    assert_eq!(texts(&origin), ["meanwhile"]);
}

#[test]
fn who_unsubscribes_gets_nothing_any_more_once_that_is_confirmed() {
    let agrees = Arc::new(Mutex::new(false));
    let says = agrees.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let answer =
                match (parameter(&request, "hub.mode"), parameter(&request, "hub.challenge")) {
                    (Some("unsubscribe"), _) if !*says.lock().unwrap() => ok("no"),
                    (_, Some(challenge)) => ok(challenge),
                    _ => OK.as_bytes().to_vec(),
                };
            if !peer.try_send(answer) {
                return;
            }
        }
    });
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &origin.url(), "");
    let leave = form("unsubscribe", "sports", &origin.url(), "");
    assert_eq!(send_form(&gateway, &leave).status(), 202);
    until("it is asked", || asked(&origin).len() == 2);
    publish(&gateway, "sports", "one");
    until("what it did not agree to has no effect", || texts(&origin) == ["one"]);
    *agrees.lock().unwrap() = true;
    assert_eq!(send_form(&gateway, &leave).status(), 202);
    until("it is gone", || subscriptions(&gateway).is_empty());
    publish(&gateway, "sports", "two");
    assert_eq!(send_form(&gateway, &leave).status(), 202, "as often as one likes");
    let other = confirming();
    subscribe(&gateway, &other.url(), "");
    publish(&gateway, "sports", "three");
    until("others get theirs", || texts(&other) == ["three"]);
    assert_eq!(texts(&origin), ["one"]);
}

#[test]
fn a_lease_ends_unless_it_is_renewed() {
    let (short, renewed) = (confirming(), confirming());
    let gateway = start(&format!("{LOOPBACK}, leases: {{ default: 2s, max: 1h }}"));
    subscribe(&gateway, &short.url(), "");
    subscribe(&gateway, &renewed.url(), "&hub.lease_seconds=1");
    let again = form("subscribe", "sports", &renewed.url(), "&hub.lease_seconds=99999999999");
    assert_eq!(send_form(&gateway, &again).status(), 202);
    until("the renewal is confirmed", || asked(&renewed).len() == 2);
    assert_eq!(parameter(&asked(&renewed)[1], "hub.lease_seconds"), Some("3600"), "shortened");
    until("the short lease is over", || subscriptions(&gateway).len() == 1);
    publish(&gateway, "sports", "late");
    until("the other goes on", || texts(&renewed) == ["late"]);
    assert!(delivered(&short).is_empty());
}

#[test]
fn a_failed_delivery_is_tried_again_and_holds_back_the_later_ones() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let times = seen.clone();
    let origin = callback(move |number, _| {
        times.lock().unwrap().push(Instant::now());
        match number {
            0 => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
            1 => "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            _ => OK.to_owned(),
        }
    });
    let gateway = start(QUICK);
    subscribe(&gateway, &origin.url(), "");
    let id = publish(&gateway, "sports", "one");
    publish(&gateway, "sports", "two");
    until("all are delivered", || delivered(&origin).len() == 4);
    assert_eq!(texts(&origin), ["one", "one", "one", "two"]);
    let ids: Vec<_> =
        delivered(&origin).iter().map(|e| e.get("x-hub-event-id").unwrap().to_owned()).collect();
    assert_eq!(&ids[..3], [&*id, &*id, &*id]);
    let times = seen.lock().unwrap().clone();
    assert!(times[1] - times[0] >= Duration::from_millis(100));
    assert!(times[2] - times[1] >= Duration::from_millis(200));
    until("it is active again", || subscriptions(&gateway)[0]["status"] == "active");
    assert_eq!((outcomes(&gateway, "failure"), outcomes(&gateway, "success")), (2.0, 2.0));
}

#[test]
fn slow_and_dead_callbacks_delay_nobody() {
    let slow: Vec<Origin> = (0..3)
        .map(|_| {
            Origin::start(|peer| {
                while let Some(request) = peer.request() {
                    // Events are never answered.
                    let Some(challenge) = parameter(&request, "hub.challenge") else { continue };
                    peer.send(ok(challenge));
                }
            })
        })
        .collect();
    let good = confirming();
    let gateway = start(
        ", callbacks: { allow: [\"127.0.0.0/8\"] }, delivery: { timeout: 30s, initial: 10s }",
    );
    for origin in slow.iter().chain([&good]) {
        subscribe(&gateway, &origin.url(), "");
    }
    let began = Instant::now();
    for number in 0..10 {
        publish(&gateway, "sports", &number.to_string());
    }
    until("the good one has all", || delivered(&good).len() == 10);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    until("the others have the first", || slow.iter().all(|origin| texts(origin) == ["0"]));
}

#[test]
fn what_fails_for_the_last_time_is_dead_until_an_operator_sends_it_again() {
    let fails = Arc::new(Mutex::new(true));
    let says = fails.clone();
    let origin = callback(move |_, _| {
        if *says.lock().unwrap() {
            "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned()
        } else {
            OK.to_owned()
        }
    });
    let gateway = start(QUICK);
    subscribe(&gateway, &origin.url(), "");
    let id = publish(&gateway, "sports", "one");
    publish(&gateway, "sports", "two");
    until("both are dead", || dead(&gateway).len() == 2);
    assert_eq!(texts(&origin), ["one", "one", "one", "two", "two", "two"]);
    let first = dead(&gateway).into_iter().find(|one| one["event"] == id).expect("the first");
    let subscription = subscriptions(&gateway)[0].clone();
    assert_eq!(
        (&first["subscription"], &first["callback"], &first["attempts"], &first["last"]),
        (&subscription["id"], &json!(origin.url()), &json!(3), &json!("status 500"))
    );
    assert_eq!(subscription["status"], "failing");
    assert_eq!(admin(&gateway, "/hubs/news")["dead"], json!(2));
    assert_eq!(outcomes(&gateway, "dead"), 2.0);
    *fails.lock().unwrap() = false;
    origin.forget();
    let path = format!("/hubs/news/dead/{}", first["id"].as_str().unwrap());
    assert_eq!(admin_send(&gateway, "POST", &format!("{path}/retry")), 202);
    until("it is sent again", || texts(&origin) == ["one"]);
    until("it is dead no longer", || dead(&gateway).len() == 1);
    let other = dead(&gateway)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(admin_send(&gateway, "DELETE", &format!("/hubs/news/dead/{other}")), 204);
    assert_eq!((dead(&gateway).len(), texts(&origin).len()), (0, 1));
    for (method, path) in [
        ("DELETE", format!("/hubs/news/dead/{other}")),
        ("POST", format!("/hubs/news/dead/{other}/retry")),
        ("POST", "/hubs/news/dead/x/retry".to_owned()),
        ("DELETE", "/hubs/other/dead/x".to_owned()),
        ("DELETE", "/hubs/news/subscriptions/x".to_owned()),
    ] {
        assert_eq!(admin_send(&gateway, method, &path), 404, "{method} {path}");
    }
    publish(&gateway, "sports", "three");
    until("it goes on", || texts(&origin) == ["one", "three"]);
}

#[test]
fn a_subscriber_that_is_gone_and_one_that_is_removed_get_nothing_more() {
    let gone = callback(|_, _| "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n".to_owned());
    let removed = confirming();
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &gone.url(), "");
    subscribe(&gateway, &removed.url(), "");
    publish(&gateway, "sports", "one");
    until("one is left", || subscriptions(&gateway).len() == 1);
    until("and has the event", || texts(&removed) == ["one"]);
    let id = subscriptions(&gateway)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(admin_send(&gateway, "DELETE", &format!("/hubs/news/subscriptions/{id}")), 204);
    assert!(subscriptions(&gateway).is_empty());
    let denied = |request: &Message| parameter(request, "hub.mode") == Some("denied");
    until("the subscriber is told", || asked(&removed).iter().any(denied));
    let told = asked(&removed).into_iter().find(denied).unwrap();
    assert_eq!(parameter(&told, "hub.topic"), Some("sports"));
    assert!(parameter(&told, "hub.reason").is_some_and(|reason| !reason.is_empty()));
    assert_eq!(parameter(&told, "hub.challenge"), None);
    let other = confirming();
    subscribe(&gateway, &other.url(), "");
    publish(&gateway, "sports", "two");
    until("others get theirs", || texts(&other) == ["two"]);
    assert_eq!((texts(&gone).len(), texts(&removed).len()), (1, 1));
}

#[test]
fn there_are_no_more_subscriptions_than_allowed() {
    let origin = confirming();
    let gateway = start(&format!("{LOOPBACK}, subscriptions_max: 2"));
    let url = |n: usize| format!("{}/{n}", origin.url());
    (0..2).for_each(|n| subscribe(&gateway, &url(n), ""));
    assert_eq!(send_form(&gateway, &form("subscribe", "sports", &url(2), "")).status(), 429);
    assert_eq!(
        send_form(&gateway, &form("subscribe", "sports", &url(1), "")).status(),
        202,
        "a renewal"
    );
    assert_eq!(send_form(&gateway, &form("unsubscribe", "sports", &url(0), "")).status(), 202);
    until("there is room", || subscriptions(&gateway).len() == 1);
    subscribe(&gateway, &url(2), "");
    assert_eq!(admin(&gateway, "/hubs/news")["subscriptions"], json!(2));
}

#[test]
fn subscriptions_of_a_topic_that_went_are_shown_and_come_back_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (origin, brief) = (confirming(), confirming());
    let gateway = start_in(folder.path(), LOOPBACK);
    subscribe(&gateway, &origin.url(), "");
    subscribe(&gateway, &brief.url(), "");
    let yaml = |topics: &str| {
        let store = json!({ "path": folder.path().join("store") });
        format!("{}store: {store}\n", hub(LOOPBACK).replace("[sports, weather]", topics))
    };
    crate::reload::put_ok(&gateway, &yaml("[weather]"));
    let statuses = |gateway: &Gateway| -> Vec<Value> {
        subscriptions(gateway).iter().map(|one| one["status"].clone()).collect()
    };
    assert_eq!(statuses(&gateway), ["no_topic", "no_topic"]);
    assert_eq!(admin(&gateway, "/hubs/news")["subscriptions"], json!(2));
    crate::reload::put_ok(&gateway, &yaml("[sports, weather]"));
    assert_eq!(statuses(&gateway), ["active", "active"]);
    publish(&gateway, "sports", "goal");
    until("both have it", || texts(&origin) == ["goal"] && texts(&brief) == ["goal"]);
    drop(gateway);

    // A subscription whose lease ends meanwhile is removed, since the topic may never be configured again.
    let gateway = Gateway::start(yaml("[sports, weather]"));
    subscribe(&gateway, &format!("{}/brief", brief.url()), "&hub.lease_seconds=2");
    drop(gateway);
    let is_gone = |gateway: &Gateway| {
        (0..20).any(|_| {
            sleep(Duration::from_millis(50));
            statuses(gateway).len() == 2
        })
    };
    until("the short lease is over", || is_gone(&Gateway::start(yaml("[weather]"))));
}

#[test]
fn subjects_have_subscriptions_and_limits_of_their_own() {
    let origin = confirming();
    let yaml = hub(&format!("{LOOPBACK}, verify: false, limits: {{ events: 2, per: 1h }}"))
        .replace(
            "hub: news }",
            "hub: news, policies: [{ api_key: { header: x-api-key, keys: { ann: a, bob: b } } }] }",
        );
    let gateway = Gateway::start(yaml);
    let send = |key: &str, target: &str, content_type: &str, body: &str| {
        gateway.wire().ask(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nx-api-key: {key}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let form_type = "application/x-www-form-urlencoded";
    let same = form("subscribe", "sports", &origin.url(), "");
    for (key, callback) in
        [("a", origin.url()), ("b", origin.url()), ("a", format!("{}/2", origin.url()))]
    {
        let body = form("subscribe", "sports", &callback, "");
        assert_eq!(send(key, "/news", form_type, &body).status(), 202);
    }
    until("all are there", || subscriptions(&gateway).len() == 3);
    let mut subjects: Vec<_> =
        subscriptions(&gateway).iter().map(|one| one["subject"].to_string()).collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["\"ann\"", "\"ann\"", "\"bob\""]);
    for n in 0..3 {
        assert_eq!(
            send("a", "/news/publish?topic=sports", "text/plain", &n.to_string()).status(),
            200
        );
    }
    // Two for each subject; the first event took both of ann's.
    until("all are sent or dropped", || {
        outcomes(&gateway, "success") + outcomes(&gateway, "limited") == 9.0
    });
    assert_eq!((outcomes(&gateway, "success"), outcomes(&gateway, "limited")), (4.0, 5.0));
    assert_eq!(delivered(&origin).len(), 4);
    let leave = same.replace("=subscribe", "=unsubscribe");
    assert_eq!(send("b", "/news", form_type, &leave).status(), 202);
    until("only bob's is gone", || subscriptions(&gateway).len() == 2);
    assert!(subscriptions(&gateway).iter().all(|one| one["subject"] == "ann"));
}

#[test]
fn a_reload_keeps_subscriptions_and_what_they_have_had() {
    let origin = confirming();
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &origin.url(), "");
    publish(&gateway, "sports", "0");
    until("it is delivered", || delivered(&origin).len() == 1);
    for n in 1..4 {
        let keys = format!("{LOOPBACK}, event_bytes_max: {n}MiB");
        crate::reload::put_ok(&gateway, &hub(&keys));
        publish(&gateway, "sports", &n.to_string());
        until("it is delivered", || delivered(&origin).len() == n + 1);
    }
    assert_eq!(texts(&origin), ["0", "1", "2", "3"]);
    // With loopback no longer allowed, nothing is sent there.
    crate::reload::put_ok(&gateway, &hub(", delivery: { retries: 0 }"));
    publish(&gateway, "sports", "4");
    until("it is dead", || dead(&gateway).len() == 1);
    assert!(
        dead(&gateway)[0]["last"].as_str().unwrap().contains("no permitted address"),
        "{:?}",
        dead(&gateway)
    );
    assert_eq!(delivered(&origin).len(), 4);
}

#[test]
fn a_killed_gateway_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicUsize::new(1));
    let refusing = refuses.clone();
    let origin = callback(move |_, _| match refusing.load(Ordering::SeqCst) {
        0 => OK.to_owned(),
        _ => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
    });
    let keys = format!("{LOOPBACK}, delivery: {{ retries: 20, initial: 200ms, max: 500ms }}");
    let gateway = start_in(folder.path(), &keys);
    subscribe(&gateway, &origin.url(), "");
    let id = publish(&gateway, "sports", "one");
    until("it was tried", || !delivered(&origin).is_empty());
    drop(gateway);

    let gateway = start_in(folder.path(), &keys);
    let tried = delivered(&origin).len();
    until("it is tried again", || delivered(&origin).len() > tried);
    refuses.store(0, Ordering::SeqCst);
    publish(&gateway, "sports", "two");
    until("all are delivered", || texts(&origin).last().is_some_and(|text| text == "two"));
    let ids = delivered(&origin);
    let (last, ones) = ids.split_last().unwrap();
    assert!(ones.iter().all(|one| one.get("x-hub-event-id") == Some(&*id)), "{ids:?}");
    assert_ne!(last.get("x-hub-event-id"), Some(&*id));
    assert_eq!(subscriptions(&gateway).len(), 1);
    drop(gateway);

    let gateway = start_in(folder.path(), &keys);
    publish(&gateway, "sports", "three");
    until("the next is delivered", || texts(&origin).last().is_some_and(|text| text == "three"));
    let twice = texts(&origin).iter().filter(|text| *text == "two").count();
    assert!(twice <= 2, "only what was in flight may come again: {twice}");
}

/// Killed repeatedly with many events waiting: each time, at most one event of a subscription is repeated.
#[test]
fn a_kill_repeats_one_event_of_a_subscription_at_most() {
    let folder = tempfile::tempdir().unwrap();
    // Slower than they are published.
    let slow = || {
        callback(|_, _| {
            sleep(Duration::from_millis(5));
            OK.to_owned()
        })
    };
    let origins = [slow(), slow(), slow()];
    let mut gateway = start_in(folder.path(), LOOPBACK);
    origins.iter().for_each(|origin| subscribe(&gateway, &origin.url(), ""));
    let (mut published, kills) = (Vec::new(), 5);
    for _ in 0..kills {
        let had = ids(&origins[0]).len();
        published.extend((0..100).map(|_| publish(&gateway, "sports", "event")));
        until("some are delivered", || ids(&origins[0]).len() >= had + 10);
        drop(gateway);
        gateway = start_in(folder.path(), LOOPBACK);
    }
    for origin in &origins {
        let count = || ids(origin).len();
        until_at_last("all are delivered", count, || ids(origin).last() == published.last());
        let again = repeats(&ids(origin), &published, false);
        assert!(again <= kills, "{again} of {kills} kills");
    }
}

#[test]
fn the_metrics_tell_the_lag_and_what_the_store_does() {
    let gate = Gate::default();
    let opens = gate.clone();
    let held = callback(move |_, _| {
        opens.wait();
        OK.to_owned()
    });
    let gateway = start(&format!("{LOOPBACK}, delivery: {{ timeout: 5m }}"));
    subscribe(&gateway, &held.url(), "");
    let quick = confirming();
    subscribe(&gateway, &quick.url(), "");
    (0..5).for_each(|n| drop(publish(&gateway, "sports", &n.to_string())));
    let count = |name: &str| metric(&gateway, name);
    let lag = "tidegate_hub_lag_events{hub=\"news\",topic=\"sports\"}";
    until("the slowest has five to get", || count(lag) == Some(5.0));
    assert!(count("tidegate_store_sync_seconds_count") >= Some(5.0));
    assert!(count("tidegate_store_sync_seconds_sum") > Some(0.0));
    assert!(count("tidegate_store_written_bytes_total") > Some(5.0));
    assert!(count("tidegate_store_commits_total") >= Some(2.0));
    gate.open();
    until("it has them", || count(lag) == Some(0.0));
}

#[test]
fn a_delivery_stands_in_the_access_log_without_the_callbacks_query() {
    let origin = confirming();
    let more = "telemetry: { access_log: { format: json, path: access.log } }\n";
    let gateway = Gateway::start(format!("{}{more}", hub(LOOPBACK)));
    subscribe(&gateway, &format!("{}/cb?token=t0p", origin.url()), "");
    let id = publish(&gateway, "sports", "goal");
    let read = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    let line = || {
        let lines: Vec<Value> =
            read().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        lines.into_iter().find(|line| line["upstream"] == "news")
    };
    until("the delivery is logged", || line().is_some());
    let line = line().unwrap();
    assert_eq!(
        (&line["status"], &line["path"], &line["request_id"]),
        (&json!(200), &json!("/cb"), &json!(id))
    );
    assert!(!read().contains("t0p"));
}

#[test]
fn answers_of_any_size_and_pace_are_cut() {
    let large = callback(|_, _| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{}", "x".repeat(100_000))
    });
    let slow = callback(|_, _| "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx".to_owned());
    let gateway = start(QUICK);
    subscribe(&gateway, &large.url(), "");
    subscribe(&gateway, &slow.url(), "");
    (0..3).for_each(|n| drop(publish(&gateway, "sports", &n.to_string())));
    until("all are delivered, once each", || outcomes(&gateway, "success") == 6.0);
    sleep(Duration::from_millis(300));
    assert_eq!((delivered(&large).len(), delivered(&slow).len()), (3, 3));
}

#[test]
fn the_backend_webhook_confirms_checks_and_counts() {
    let backend = Backend::start("webhook", &["--secret", "s3cret"]);
    let stats = || -> Value {
        let reply = Wire::connect(backend.address()).get("/stats");
        serde_json::from_slice(&reply.body).unwrap()
    };
    let gateway = start(QUICK);
    let url = |target: &str| format!("http://{}{target}", backend.authority());
    subscribe(&gateway, &url("/a?fail=1"), "&hub.secret=s3cret");
    subscribe(&gateway, &url("/b"), "&hub.secret=other");
    subscribe(&gateway, &url("/c"), "");
    let no = form("subscribe", "sports", &url("/d?confirm=no"), "");
    assert_eq!(send_form(&gateway, &no).status(), 202);
    until("it was asked four times", || stats()["questions"] == 4);
    publish(&gateway, "sports", "goal");
    until("what is not signed so is dead", || dead(&gateway).len() == 2);
    until("the other is there", || stats()["events"] == 1);
    let counts = stats();
    assert_eq!(
        (&counts["failed"], &counts["duplicates"], &counts["bytes"]),
        (&json!(1), &json!(0), &json!(4))
    );
    assert_eq!((&counts["invalid"], &counts["unsigned"]), (&json!(3), &json!(3)));
}

#[test]
fn a_name_that_leads_elsewhere_later_is_not_called() {
    let folder = tempfile::tempdir().unwrap();
    let origin = confirming();
    let allowed = "callbacks: { allow: [\"127.0.0.0/8\", \"::1/128\"] }";
    let delivery = "delivery: { timeout: 2s, retries: 1, initial: 100ms }";
    let gateway = start_in(folder.path(), &format!(", {allowed}, {delivery}"));
    let url = format!("http://localhost:{}/cb", origin.address().port());
    subscribe(&gateway, &url, "");
    publish(&gateway, "sports", "one");
    until("it is delivered while that is allowed", || texts(&origin) == ["one"]);
    let accepted = origin.accepted();
    // The same name is refused when a connection is made, although it was permitted at the subscription.
    drop(gateway);
    let gateway = start_in(folder.path(), &format!(", {delivery}"));
    publish(&gateway, "sports", "two");
    until("it is given up", || dead(&gateway).len() == 1);
    assert!(dead(&gateway)[0]["last"].to_string().contains("no permitted address"));
    assert_eq!((texts(&origin).len(), origin.accepted()), (1, accepted));
}

#[test]
fn a_redirect_of_a_delivery_or_a_question_is_not_followed() {
    let inside = confirming();
    let redirect = |status: u16, to: String| {
        format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    };
    let (all, to) = ([301, 302, 303, 307, 308], inside.url());
    let moved = callback(move |number, _| redirect(all[number % 5], format!("{to}/secret")));
    let to = inside.url();
    let asked_away = answering(move |_| redirect(307, format!("{to}/cb")).into_bytes());
    let keys = ", delivery: { timeout: 2s, retries: 4, initial: 50ms, max: 50ms }";
    let gateway = start(&format!("{LOOPBACK}{keys}"));
    subscribe(&gateway, &moved.url(), "");
    let form = form("subscribe", "sports", &asked_away.url(), "");
    assert_eq!(send_form(&gateway, &form).status(), 202);
    publish(&gateway, "sports", "goal");
    until("it is given up", || dead(&gateway).len() == 1);
    until("who was not there is not subscribed", || subscriptions(&gateway).len() == 1);
    assert_eq!(delivered(&moved).len(), 5);
    assert_eq!((inside.accepted(), asked(&asked_away).len()), (0, 1));
}

/// A callback that confirms, and answers events with a beginning and an endless series of pieces.
fn never_ending(
    begin: &'static str,
    piece: &'static [u8],
    pause: Duration,
) -> (Origin, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            if let Some(challenge) = parameter(&request, "hub.challenge") {
                peer.send(ok(challenge));
                continue;
            }
            if !peer.try_send(begin) {
                return;
            }
            while peer.try_send(piece) {
                counted.fetch_add(piece.len(), Ordering::SeqCst);
                sleep(pause);
            }
            return;
        }
    });
    (origin, sent)
}

#[test]
fn answers_without_an_end_are_cut_wherever_they_go_on() {
    const LARGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n";
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let pause = Duration::from_millis(50);
    let (large, sent) = never_ending(LARGE, &[b'x'; 65_536], Duration::ZERO);
    let (drops, _) = never_ending(CHUNKS, b"1\r\nx\r\n", pause);
    // Neither of these ever completes a head.
    let (fields, _) = never_ending("HTTP/1.1 200 OK\r\n", b"X: y\r\n", Duration::ZERO);
    let (field, _) = never_ending("HTTP/1.1 200 OK\r\nX: ", b"y", pause);
    let gateway = start(&format!("{LOOPBACK}, delivery: {{ timeout: 2s, retries: 0 }}"));
    for origin in [&large, &drops, &fields, &field] {
        subscribe(&gateway, &origin.url(), "");
    }
    publish(&gateway, "sports", "goal");
    until("who said 2xx has it", || outcomes(&gateway, "success") == 2.0);
    until("who said nothing whole has not", || outcomes(&gateway, "dead") == 2.0);
    for origin in [&large, &drops, &fields, &field] {
        until("its connection is closed", || origin.open() == 0);
        assert_eq!(delivered(origin).len(), 1);
    }
    // Data after the first kilobytes was only in the system's buffers.
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 64 << 20, "{sent}");
}

/// Rounds of leases that end after a second. `TIDEGATE_SOAK_LEASES` is the total number.
#[test]
fn leases_of_a_second_leave_nothing_behind() {
    const ROUNDS: usize = 6;
    const CLIENTS: usize = 8;
    let all = std::env::var("TIDEGATE_SOAK_LEASES").ok().and_then(|all| all.parse().ok());
    let of_client = all.unwrap_or(2400).max(ROUNDS * CLIENTS) / ROUNDS / CLIENTS;
    // Those of one round may still be in progress while the next one begins.
    let most = 2 * of_client * CLIENTS;
    let gateway = start(&format!(", verify: false, subscriptions_max: {most}"));
    let subscribe = |round: usize, client: usize| {
        let mut wire = gateway.wire();
        for number in 0..of_client {
            let port = 1 + number % 60_000;
            let url = format!("http://8.8.8.8:{port}/{round}/{client}/{number}");
            let form = form("subscribe", "sports", &url, "&hub.lease_seconds=1");
            let reply = wire.ask(format!(
                "POST /news HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\n\r\n{form}",
                form.len()
            ));
            assert_eq!(reply.status(), 202, "round {round}, {number}: {reply:?}");
        }
    };
    let mut resident = Vec::new();
    for round in 0..ROUNDS {
        thread::scope(|clients| {
            for client in 0..CLIENTS {
                let subscribe = &subscribe;
                clients.spawn(move || subscribe(round, client));
            }
        });
        until("all leases are over", || admin(&gateway, "/hubs/news")["subscriptions"] == 0);
        resident.push(gateway.resident_bytes());
    }
    assert!(resident[5] < resident[1] + (16 << 20), "{resident:?}");
    publish(&gateway, "sports", "to nobody");
    assert_eq!((outcomes(&gateway, "success"), outcomes(&gateway, "failure")), (0.0, 0.0));
}
