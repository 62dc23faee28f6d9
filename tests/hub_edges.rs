//! `hubs`: the limits of subscribers', publishers' and readers' input, the headers of an event, and the links of the hub.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, until};
use crate::hubs::{bodies, events, hub, json_of, poll, publish, start, stream};
use crate::websub::{
    LOOPBACK, asked, confirming, delivered, escape, form, send_form, subscribe, texts,
};

fn detail(reply: &Message) -> String {
    let problem: Value = serde_json::from_slice(&reply.body).expect("a problem");
    problem["detail"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_parameter_that_is_too_long_is_refused_by_its_name() {
    let gateway = start(LOOPBACK);
    let good = form("subscribe", "sports", "http://127.0.0.1:9/", "");
    let long = |bytes: usize| "1".repeat(bytes);
    for (name, form) in [
        (
            "hub.topic",
            form(
                "subscribe",
                &format!("http://hub/topics/sports?{}", long(60_000)),
                "http://127.0.0.1:9/",
                "",
            ),
        ),
        ("hub.topic", form("subscribe", &long(2049), "http://127.0.0.1:9/", "")),
        (
            "hub.callback",
            form("subscribe", "sports", &format!("http://127.0.0.1:9/{}", long(2048)), ""),
        ),
        ("hub.secret", format!("{good}&hub.secret={}", long(200))),
        ("hub.lease_seconds", format!("{good}&hub.lease_seconds={}", long(65))),
        ("hub.mode", format!("{good}&hub.mode={}", long(9000))),
        ("foreign", format!("{good}&foreign={}", long(9000))),
    ] {
        let reply = send_form(&gateway, &form);
        assert_eq!(reply.status(), 400, "{name}");
        assert!(detail(&reply).contains(&format!("`{name}`")), "{reply:?}");
        assert!(reply.text().contains("The request to the hub is not valid."), "{reply:?}");
    }
    let host = long(2100);
    let asked = format!(
        "POST /news?{} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n",
        form("subscribe", "sports", "http://127.0.0.1:9/", "")
    );
    assert_eq!(gateway.wire().ask(asked).status(), 400, "it is stored with the subscription");
    for query in ["topic=sports&topic=weather", "topic=weather&to%70ic=sports"] {
        let ask =
            format!("POST /news/publish?{query} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let reply = gateway.wire().ask(ask);
        assert_eq!((reply.status(), &*detail(&reply)), (400, "`topic` is given twice."));
    }
    let unknown = gateway.wire().get("/news/topics/chess");
    assert!(unknown.text().contains("There is no such topic."), "{unknown:?}");
    let publish = send_form(&gateway, "hub.mode=publish&hub.url=http://a/");
    assert!(publish.status() == 400 && detail(&publish).contains("/publish?topic="), "{publish:?}");
}

#[test]
fn lines_that_belong_to_an_event_come_with_it() {
    let origin = confirming();
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &origin.url(), "&hub.secret=s3");
    let gzip = b"\x1f\x8b\x08\x00rest";
    let head = "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\
                Content-Language: de\r\nce-id: 7\r\nCE-Type: goal\r\nX-Other: no\r\nContent-Length: 8\r\n\r\n";
    let reply = gateway.wire().ask([head.as_bytes(), gzip].concat());
    assert_eq!(reply.status(), 200, "{reply:?}");
    until("it comes", || delivered(&origin).len() == 1);
    let event = &delivered(&origin)[0];
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("content-language", "de"),
        ("ce-id", "7"),
        ("ce-type", "goal"),
    ] {
        assert_eq!(event.get(name), Some(value), "{event:?}");
    }
    assert_eq!((&*event.body, event.get("x-other")), (&gzip[..], None));
    let read = &poll(&gateway, "?after=0")["events"][0];
    let expected = json!({ "content-encoding": "gzip", "content-language": "de", "ce-id": "7", "ce-type": "goal" });
    assert_eq!(read["headers"], expected);
    publish(&gateway, "sports", "plain");
    assert_eq!(poll(&gateway, "?after=0")["events"][1].get("headers"), None);
    let large = format!(
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nce-x: {}\r\nContent-Length: 0\r\n\r\n",
        "x".repeat(17_000)
    );
    assert_eq!(gateway.wire().ask(large).status(), 431);
}

#[test]
fn a_callback_that_says_when_is_not_asked_before() {
    let times = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = times.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let mut times = seen.lock().unwrap();
            times.push(Instant::now());
            let reply = match (times.len(), request.get("x-hub-event-id")) {
                (1, Some(_)) => "HTTP/1.1 503 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
                (2, Some(_)) => {
                    "HTTP/1.1 429 Later\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"
                }
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            };
            drop(times);
            if !peer.try_send(reply) {
                return;
            }
        }
    });
    let gateway = start(&format!(
        "{LOOPBACK}, verify: false, delivery: {{ initial: 10ms, max: 2s, retries: 3 }}"
    ));
    assert_eq!(send_form(&gateway, &form("subscribe", "sports", &origin.url(), "")).status(), 202);
    publish(&gateway, "sports", "goal");
    until("it comes at last", || times.lock().unwrap().len() == 3);
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "as it was asked");
    let last = times[2] - times[1];
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(20)).contains(&last),
        "at most `max`: {last:?}"
    );
}

#[test]
fn requests_to_callbacks_say_who_asks() {
    let origin = confirming();
    let gateway = start(LOOPBACK);
    subscribe(&gateway, &origin.url(), "");
    publish(&gateway, "sports", "goal");
    until("it comes", || delivered(&origin).len() == 1);
    for request in [&asked(&origin)[0], &delivered(&origin)[0]] {
        assert!(
            request.get("user-agent").is_some_and(|name| name.starts_with("tidegate/")),
            "{request:?}"
        );
    }
}

#[test]
fn topics_may_be_paths_and_urls() {
    let origin = confirming();
    let url = "https://feeds.example/a.xml?lang=de";
    let yaml = hub(LOOPBACK).replace("[sports, weather]", &format!("[sports, \"a/b\", \"{url}\"]"));
    let gateway = Gateway::start(yaml);
    let escaped = "https%3A%2F%2Ffeeds.example%2Fa.xml%3Flang%3Dde";
    for (number, (topic, name, read, link)) in [
        ("a/b", "a%2Fb", "/news/topics/a/b", "<http://hub.example/news/topics/a/b>"),
        (
            "http://hub.example/news/topics/a/b?x=y",
            "a/b",
            "/news/topics?topic=a%2Fb",
            "<http://hub.example/news/topics/a/b>",
        ),
        (escaped, escaped, &format!("/news/topics?topic={escaped}"), &format!("<{url}>")),
        (
            "http%3A%2F%2Fhub.example%2Fnews%2Ftopics%2Fsports%3Fwait%3D1s",
            "sports",
            "/news/topics/sports",
            "<http://hub.example/news/topics/sports>",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let callback = format!("{}/{number}", origin.url());
        let asked = send_form(&gateway, &form("subscribe", topic, &callback, ""));
        assert_eq!(asked.status(), 202, "{topic} {asked:?}");
        until("it is active", || {
            let all = crate::websub::subscriptions(&gateway);
            all.iter().any(|one| one["callback"] == *callback && one["status"] == "active")
        });
        let text = format!("event {number}");
        publish(&gateway, name, &text);
        until("it comes", || texts(&origin).contains(&text));
        let event = delivered(&origin).into_iter().find(|event| event.text() == text).unwrap();
        assert!(
            event.get("link").unwrap().ends_with(&format!("{link}; rel=\"self\"")),
            "{event:?}"
        );
        let ask = format!(
            "GET {read}{}after=0 HTTP/1.1\r\nHost: hub.example\r\n\r\n",
            if read.contains('?') { "&" } else { "?" }
        );
        let reply = gateway.wire().ask(ask);
        assert_eq!(reply.status(), 200, "{read} {reply:?}");
        assert!(bodies(&json_of(&reply)).contains(&&*text));
        assert!(reply.get("link").unwrap().contains(link), "{reply:?}");
    }
}

#[test]
fn links_have_the_origin_that_the_client_asked() {
    let ask = |gateway: &Gateway, lines: &str| {
        let head = format!("GET /news/topics/sports HTTP/1.1\r\nHost: inner:8080\r\n{lines}\r\n");
        gateway.wire().ask(head).get("link").unwrap().to_owned()
    };
    let told = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: hub.example\r\n";
    let links = |base: &str| format!("<{base}>; rel=\"hub\", <{base}/topics/sports>; rel=\"self\"");
    let trusting = hub(LOOPBACK).replacen(
        "\"127.0.0.1:0\" }",
        "\"127.0.0.1:0\", trusted_proxies: [\"127.0.0.0/8\"] }",
        1,
    );
    let gateway = Gateway::start(&trusting);
    assert_eq!(ask(&gateway, told), links("https://hub.example/news"));
    assert_eq!(ask(&gateway, "X-Forwarded-Host: evil/>\r\n"), links("http://inner:8080/news"));
    // The same for the subscriber's events.
    let origin = confirming();
    let body = form("subscribe", "sports", &origin.url(), "");
    let reply = gateway.wire().ask(format!(
        "POST /news HTTP/1.1\r\nHost: inner:8080\r\n{told}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status(), 202);
    until("it is asked", || asked(&origin).len() == 1);
    until("it is active", || crate::websub::subscriptions(&gateway)[0]["status"] == "active");
    publish(&gateway, "sports", "goal");
    until("it comes", || delivered(&origin).len() == 1);
    assert_eq!(delivered(&origin)[0].get("link"), Some(&*links("https://hub.example/news")));
    // Other clients are not trusted, and cannot override the configured URL.
    assert_eq!(ask(&start(""), told), links("http://inner:8080/news"));
    let configured = trusting.replace("topics: [", "url: \"https://public.example/x/\", topics: [");
    assert_eq!(ask(&Gateway::start(configured), told), links("https://public.example/x"));
}

#[test]
fn redirects_of_a_trusted_proxy_lead_to_the_host_that_the_client_asked() {
    let trust = ", trusted_proxies: [\"127.0.0.0/8\"]";
    for (trusted, host, expected) in [
        (trust, "host", "https://public.example:81/x"),
        (trust, "hostname", "https://public.example/x"),
        ("", "host", "https://inner:82/x"),
        ("", "hostname", "https://inner/x"),
    ] {
        let gateway = Gateway::start(format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\"{trusted} }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ redirect: {{ to: \"https://{{{host}}}\", keep_path: true }} }}] }} }}\n"
        ));
        let reply = gateway.wire().ask(
            "GET /x HTTP/1.1\r\nHost: inner:82\r\nX-Forwarded-Host: public.example:81\r\n\r\n",
        );
        assert_eq!(reply.get("location"), Some(expected), "{host}");
    }
}

#[test]
fn an_empty_id_of_an_event_stream_is_none() {
    let gateway = start("");
    let id = publish(&gateway, "sports", "one");
    let (mut wire, head) = stream(&gateway, "?after=0", "Last-Event-ID: \r\n");
    assert_eq!((head.status(), head.get("x-accel-buffering")), (200, Some("no")));
    assert_eq!(events(&mut wire, 1), format!("id: {id}\ndata: one\n\n"));
}

#[test]
fn a_url_or_a_topic_that_cannot_be_is_a_complaint() {
    for (from, to, told) in [
        ("topics: [sports, weather]", "topics: [\"a b\"]", "is not a valid topic name"),
        ("topics: [sports, weather]", "topics: [\"a#b\"]", "is not a valid topic name"),
        ("topics: [", "scopes: { chess: [a] }, topics: [", "not a topic of the hub"),
        ("topics: [", "scopes: { sports: [] }, topics: [", "the topic has no scopes"),
        ("topics: [", "url: \"hub.example\", topics: [", "is not a valid hub URL"),
        ("topics: [", "url: \"https://hub.example/?x\", topics: [", "is not a valid hub URL"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.yaml");
        std::fs::write(&path, hub("").replace(from, to)).unwrap();
        let run = crate::harness::tidegate(&["check", path.to_str().unwrap()]);
        let said = format!("{run:?}");
        assert!(said.contains(told), "{said}");
    }
}

/// A URL at another server is not the hub's, whatever its path. The hub's own URLs are those in its links.
#[test]
fn a_topic_at_another_server_is_refused() {
    let (other, own) = ("https://out.example/feed", "http://hub.example/news");
    for (keys, listener, lines, base) in [
        ("", "", "", own),
        ("", "", "X-Forwarded-Host: out.example\r\nX-Forwarded-Proto: https\r\n", own),
        (
            "",
            ", trusted_proxies: [127.0.0.1]",
            "X-Forwarded-Host: out.example\r\nX-Forwarded-Proto: https\r\n",
            "https://out.example/news",
        ),
        (", url: \"https://out.example/feed\"", "", "", other),
    ] {
        let gateway = Gateway::start(hub(&format!("{LOOPBACK}{keys}")).replace(
            "\"127.0.0.1:0\" } }\nadmin",
            &format!("\"127.0.0.1:0\"{listener} }} }}\nadmin"),
        ));
        let status = |topic: &str| {
            let form = form("unsubscribe", &escape(topic), "http://127.0.0.1:9/", "");
            let reply = gateway.wire().ask(format!(
                "POST /news HTTP/1.1\r\nHost: hub.example\r\n{lines}Content-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\n\r\n{form}",
                form.len()
            ));
            if reply.status() == 400 {
                assert!(detail(&reply).contains(&format!("`{base}/topics`")), "{reply:?}");
            }
            reply.status()
        };
        for (topic, expected) in [
            ("sports".to_owned(), 202),
            (format!("{base}/topics/sports"), 202),
            (
                format!(
                    "{}?x=y",
                    base.to_uppercase().replace("/NEWS", "/news").replace("/FEED", "/feed")
                        + "/topics/sports"
                ),
                202,
            ),
            (format!("{base}/topics?topic=sports"), 202),
            (format!("{base}/topics/chess"), 404),
            (format!("{base}/elsewhere/topics/sports"), 404),
            ("http://evil.example/news/topics/sports".to_owned(), 400),
            ("http://evil.example/news/topics?topic=sports".to_owned(), 400),
            ("http://hub.example:8080/news/topics/sports".to_owned(), 400),
            ("https://hub.example/news/topics/sports".to_owned(), 400),
            ("http://hub.example@evil.example/news/topics/sports".to_owned(), 400),
            ("http://hub.example/other/topics/sports".to_owned(), 400),
            ("http://evil.example/news/topics/chess".to_owned(), 404),
            ("urn:sports".to_owned(), 404),
        ] {
            assert_eq!(status(&topic), expected, "{topic} at {base}");
        }
    }
}
