//! The cases of websub.rocks, the W3C's test suite, by number: 100 to 106 for hubs, discovery for publishers, and 300 to 302 for
//! subscribers with the backend `webhook`. Cases 100 to 205 for subscribers are about finding a hub; ours gets its URL.

use aws_lc_rs::hmac;

use crate::harness::{Backend, Gateway, Message, Origin, Wire, until};
use crate::hubs::start;
use crate::websub::{
    LOOPBACK, asked, confirming, delivered, escape, parameter, send_form, shown, subscriptions,
    texts,
};

/// The URLs of the hub and the topic, according to the topic.
struct TopicLinks {
    hub: String,
    topic: String,
}

/// The target of a link with a relation. All headers of that name count as one.
fn link(message: &Message, relation: &str) -> String {
    let lines = message.all("link").join(",");
    let named = format!("rel=\"{relation}\"");
    let found: Vec<&str> = lines.split(',').filter(|link| link.contains(&named)).collect();
    let [one] = found[..] else { panic!("one rel={relation} of {lines}") };
    let (_, target) = one.split_once('<').expect("a target");
    target.split_once('>').expect("its end").0.to_owned()
}

/// The links that a subscriber finds at a topic (for publishers, `discover`). HEAD finds the same.
fn discover(gateway: &Gateway, target: &str) -> TopicLinks {
    let [got, headed] = ["GET", "HEAD"].map(|method| {
        let mut wire = gateway.wire();
        wire.send(format!("{method} {target} HTTP/1.1\r\nHost: hub.example\r\n\r\n"));
        let head = wire.read_head();
        assert_eq!(head.status(), 200, "{head:?}");
        TopicLinks { hub: link(&head, "hub"), topic: link(&head, "self") }
    });
    assert_eq!((&got.hub, &got.topic), (&headed.hub, &headed.topic));
    assert_eq!(got.topic, format!("http://hub.example{target}"), "the topic is what was asked for");
    got
}

fn form(mode: &str, found: &TopicLinks, callback: &str, more: &str) -> String {
    let (topic, callback) = (escape(&found.topic), escape(callback));
    format!("hub.mode={mode}&hub.topic={topic}&hub.callback={callback}{more}")
}

/// Sends a form, waits for the question, and checks that it has what websub.rocks looks for.
fn verified(gateway: &Gateway, found: &TopicLinks, origin: &Origin, mode: &str, more: &str) {
    let before = asked(origin).len();
    let reply = send_form(gateway, &form(mode, found, &callback(origin), more));
    assert_eq!(reply.status(), 202, "{reply:?}");
    until("the callback is asked", || asked(origin).len() == before + 1);
    let question = asked(origin).pop().expect("a question");
    assert_eq!(parameter(&question, "hub.mode"), Some(mode));
    assert_eq!(parameter(&question, "hub.topic"), Some(&*escape(&found.topic)));
    assert!(parameter(&question, "hub.challenge").is_some_and(|it| it.len() >= 16));
    let lease = parameter(&question, "hub.lease_seconds");
    let is_number = lease.is_some_and(|it| it.parse::<u64>().is_ok_and(|seconds| seconds > 0));
    assert_eq!(is_number, mode == "subscribe", "{question:?}");
    let status = |it: &Origin| {
        let all = subscriptions(gateway);
        let of = shown(&callback(it));
        let one = all.into_iter().find(|one| one["callback"] == of);
        one.map(|one| one["status"].as_str().unwrap().to_owned())
    };
    let after = (mode == "subscribe").then(|| "active".to_owned());
    until("what it agreed to is so", || status(origin) == after);
}

/// Each subscriber has its own query, which has to be kept.
fn callback(origin: &Origin) -> String {
    format!("{}/sub?token=t0k", origin.url())
}

fn publish(gateway: &Gateway, content_type: &str, body: &str) {
    let reply = gateway.wire().ask(format!(
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: hub.example\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status(), 200, "{reply:?}");
}

/// Checks a notification like websub.rocks: its content and its links.
fn check(event: &Message, found: &TopicLinks, content_type: &str, body: &str) {
    assert_eq!(event.target(), "/sub?token=t0k");
    assert_eq!((event.get("content-type"), &*event.text()), (Some(content_type), body));
    let links = (link(event, "hub"), link(event, "self"));
    assert_eq!(links, (found.hub.clone(), found.topic.clone()));
}

fn signature(secret: &str, body: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

const HTML: &str = "<!doctype html><title>posts</title><p>goal</p>\n";

#[test]
fn hubs_100_to_102_and_105_to_106_what_a_subscriber_sends_and_gets() {
    for (case, more, secret, content_type, body) in [
        (100, "", None, "text/html; charset=utf-8", HTML),
        (101, "&hub.secret=s3cret", Some("s3cret"), "text/html; charset=utf-8", HTML),
        (102, "&foo=bar&hub.foo=hub.bar", None, "text/html; charset=utf-8", HTML),
        (105, "", None, "text/plain", "goal\n\ngoal \u{26bd}\n"),
        (106, "", None, "application/json", "{ \"posts\": [\"goal\", \"goal\"] }"),
    ] {
        let (gateway, origin) = (start(LOOPBACK), confirming());
        let found = discover(&gateway, "/news/topics/sports");
        verified(&gateway, &found, &origin, "subscribe", more);
        publish(&gateway, content_type, body);
        until("it is notified", || delivered(&origin).len() == 1);
        let event = &delivered(&origin)[0];
        check(event, &found, content_type, body);
        let expected = secret.map(|secret| signature(secret, body));
        assert_eq!(event.get("x-hub-signature"), expected.as_deref(), "case {case}");
    }
}

#[test]
fn hub_103_who_subscribes_again_has_one_subscription_with_what_it_says_now() {
    let (gateway, origin) = (start(LOOPBACK), confirming());
    let found = discover(&gateway, "/news/topics/sports");
    verified(&gateway, &found, &origin, "subscribe", "&hub.secret=first&hub.lease_seconds=60");
    publish(&gateway, "text/html", "one");
    until("it is notified", || texts(&origin) == ["one"]);
    let expires = || subscriptions(&gateway)[0]["expires"].as_str().unwrap().to_owned();
    let before = expires();
    verified(&gateway, &found, &origin, "subscribe", "&hub.secret=second&hub.lease_seconds=3600");
    until("the lease is the new one", || expires() > before);
    publish(&gateway, "text/html", "two");
    publish(&gateway, "text/html", "three");
    until("it is notified of the last", || texts(&origin).last().is_some_and(|it| it == "three"));
    assert_eq!(texts(&origin), ["one", "two", "three"], "once each");
    let events = delivered(&origin);
    for (event, (secret, body)) in
        events.iter().zip([("first", "one"), ("second", "two"), ("second", "three")])
    {
        assert_eq!(event.get("x-hub-signature"), Some(&*signature(secret, body)));
    }
    assert_eq!(subscriptions(&gateway).len(), 1);
}

#[test]
fn hub_104_who_unsubscribes_is_asked_and_gets_nothing_more() {
    let (gateway, origin, stays) = (start(LOOPBACK), confirming(), confirming());
    let found = discover(&gateway, "/news/topics/sports");
    verified(&gateway, &found, &origin, "subscribe", "");
    verified(&gateway, &found, &stays, "subscribe", "");
    publish(&gateway, "text/html", "one");
    until("both are notified", || texts(&origin) == ["one"] && texts(&stays) == ["one"]);
    verified(&gateway, &found, &origin, "unsubscribe", "");
    publish(&gateway, "text/html", "two");
    publish(&gateway, "text/html", "three");
    until("who stays is notified", || texts(&stays) == ["one", "two", "three"]);
    assert_eq!(texts(&origin), ["one"]);
}

#[test]
fn subscribers_300_to_302_take_what_is_signed_and_refuse_the_rest() {
    let backend = Backend::start("webhook", &["--secret", "s3cret"]);
    let good = signature("s3cret", "goal");
    for (case, line, status) in [
        (300, format!("X-Hub-Signature: {good}\r\n"), 200),
        (301, format!("X-Hub-Signature: {}\r\n", signature("other", "goal")), 403),
        (301, format!("X-Hub-Signature: {}\r\n", signature("s3cret", "goal ")), 403),
        (301, format!("X-Hub-Signature: {}\r\n", good.replace("sha256", "md5")), 403),
        (302, String::new(), 401),
    ] {
        let reply = Wire::connect(backend.address())
            .ask(format!("POST /sub HTTP/1.1\r\nHost: a\r\n{line}Content-Length: 4\r\n\r\ngoal"));
        assert_eq!(reply.status(), status, "case {case}: {line}");
    }
}
