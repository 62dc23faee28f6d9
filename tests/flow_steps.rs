//! Steps of flows that keep something, that run programs or that ask databases.

use crate::harness::{Gateway, Message, Origin, tidegate};

/// A gateway with one flow on two routes, before an origin by the name of `echo`.
#[track_caller]
fn start(origin: &Origin, flow: &str) -> Gateway {
    start_with(origin, flow, "")
}

#[track_caller]
fn start_with(origin: &Origin, flow: &str, more: &str) -> Gateway {
    Gateway::start(yaml(origin, flow, more))
}

fn yaml(origin: &Origin, flow: &str, more: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ echo: {{ targets: ["{}"] }} }}
routes:
  all: {{ match: {{ path: "/**" }}, flow: main }}
  other: {{ match: {{ path: "/other/**" }}, flow: main }}
flows:
  main: {}
{more}"#,
        origin.url(),
        flow.replace('\n', "\n    "),
    )
}

#[track_caller]
fn post(gateway: &Gateway, path: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// The messages of each case that pass, by their path and the value of a header.
#[test]
fn a_throttle_counts_by_whom_it_is_told() {
    let origin = Origin::saying("unused");
    for (by, passes) in [
        ("", [true, false, false, false]),
        (", by: client", [true, false, false, false]),
        (", by: subject", [true, false, false, false]),
        (", by: route", [true, false, true, false]),
        (", by: 'header:x-key'", [true, true, false, false]),
    ] {
        let steps = format!("[throttle: {{ requests: 1, per: 1h{by} }}, respond: {{ text: in }}]");
        let gateway = start(&origin, &steps);
        let asked = [("/", "a"), ("/", "b"), ("/other/", "a"), ("/other/", "b")];
        let replies =
            asked.map(|(path, key)| post(&gateway, path, &format!("X-Key: {key}\r\n"), ""));
        let passed = replies.each_ref().map(|reply| reply.status() == 200);
        assert_eq!(passed, passes, "{by}");
        let [.., last] = replies;
        assert_eq!(last.status(), 429, "{by}");
        assert!(last.text().contains(r#""fault":"rate_limited""#), "{by}: {}", last.text());
        let wait: u32 = last.get("retry-after").unwrap().parse().unwrap();
        assert!((3500..=3600).contains(&wait), "{by}: {wait}");
    }
}

/// Issue 42: the step has the keys of the policy, and its replies have the remaining quota.
#[test]
fn a_throttle_is_a_rate_limit() {
    let origin = Origin::saying("unused");
    let plans = "plans: { Gold: { requests: 2, per: 1h }, Free: { requests: 1, per: 1h } }\n";
    for (keys, replies) in [
        ("requests: 9, per: 1h, burst: 2", "200 200 429"),
        ("requests: 9, per: 1h, windows: [{ requests: 1, per: 30m }]", "200 429 429"),
        ("requests: 2, per: 1h, algorithm: fixed, status: 503, message: later", "200 200 503"),
        ("requests: 1, per: 1h, algorithm: sliding", "200 429 429"),
        ("plans: true, default: Gold", "200 200 429"),
        ("requests: 2, per: 1h, name: both, keys_max: 1000", "200 200 429"),
        ("requests: 1, per: 1h, by: 'cel:request.query.k'", "200 200 429"),
    ] {
        let gateway = start_with(
            &origin,
            &format!("[throttle: {{ {keys} }}, respond: {{ text: in }}]"),
            plans,
        );
        let all: Vec<Message> = ["/?k=a", "/?k=b", "/?k=a"]
            .into_iter()
            .map(|path| post(&gateway, path, "", ""))
            .collect();
        let statuses: Vec<String> = all.iter().map(|reply| reply.status().to_string()).collect();
        assert_eq!(statuses.join(" "), replies, "{keys}");
        for reply in &all {
            assert!(reply.get("ratelimit").is_some(), "{keys}: {reply:?}");
            assert!(reply.get("ratelimit-policy").is_some(), "{keys}: {reply:?}");
        }
        let last = all.last().unwrap();
        assert!(last.get("retry-after").is_some(), "{keys}");
        assert_eq!(last.text().contains("later"), keys.contains("later"), "{keys}");
    }
    let kong = "[throttle: { requests: 5, per: 1m, headers: kong }, throttle: { requests: 9, per: 1h, headers: none }, respond: { text: in }]";
    let reply = post(&start(&origin, kong), "/", "", "");
    assert_eq!(reply.get("x-ratelimit-remaining-minute"), Some("4"));
    assert_eq!(reply.get("ratelimit-policy"), None);
}

#[test]
fn a_throttle_has_the_complaints_of_a_rate_limit() {
    let origin = Origin::saying("unused");
    for (keys, part) in [
        ("requests: 1", "`requests` needs `per`"),
        ("{}", "the rate limit has no limit"),
        ("requests: 1, per: 1s, default: Gold", "`default` needs `plans: true`"),
        ("plans: true, default: Nosuch", "Nosuch"),
        ("requests: 1, per: 1s, shared: ours", "ours"),
        ("requests: 1, per: 500ms, algorithm: fixed", "a whole number of seconds"),
        ("requests: 1, per: 1s, by: 'cel:org'", "there is no `org`"),
        ("requests: 1, per: 1s, by: nobody", "not a key to count by"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        let keys = if keys == "{}" { "" } else { keys };
        let flow = format!("[throttle: {{ {keys} }}, respond: {{ text: in }}]");
        std::fs::write(&file, yaml(&origin, &flow, "")).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = run.stdout + &run.stderr;
        assert!(run.code == Some(1) && said.contains(part), "{keys}: {said}");
    }
}

#[test]
fn a_throttle_is_caught_and_outlives_a_reload() {
    let origin = Origin::saying("unused");
    let flow = "{ steps: [throttle: { requests: 2, per: 1h }, respond: { text: in }], catch: [respond: { text: '{{ $error.kind }}' }] }";
    let gateway = start(&origin, flow);
    let said = || post(&gateway, "/", "", "").text();
    assert_eq!([said(), said(), said()], ["in", "in", "rate_limited"]);
    gateway.rewrite(yaml(&origin, flow, "plans: { Gold: { requests: 1, per: 1s } }\n"));
    gateway.wait_for_log("generation=2");
    assert_eq!(said(), "rate_limited");
}

#[test]
fn a_cache_gives_a_message_again_for_each_key() {
    let origin = Origin::echo();
    let flow = "[cache: { key: '{{ $query.k }}', ttl: 1h, methods: [POST], steps: [{ call: echo }, { header: { set: { x-made: '{{ $query.n }}' } } }] }, { header: { set: { x-seen: '{{ $query.n }} {{ $status }}' } } }]";
    let gateway = start(&origin, flow);
    for (path, body, made, seen, calls) in [
        ("/?k=a&n=1", "one", ("1", "one"), "1 200", 1),
        ("/?k=a&n=2", "two", ("1", "one"), "2 200", 1),
        ("/?k=b&n=3", "three", ("3", "three"), "3 200", 2),
        ("/?k=a&n=4", "four", ("1", "one"), "4 200", 2),
    ] {
        let reply = post(&gateway, path, "Accept-Encoding: gzip\r\n", body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, made.1), "{path}");
        assert_eq!((reply.get("x-made"), reply.get("x-seen")), (Some(made.0), Some(seen)));
        assert_eq!(origin.requests().len(), calls, "{path}");
    }
    assert!(origin.requests().iter().all(|request| request.get("accept-encoding").is_none()));
}

/// Bodies of other elements with the same text are other keys.
#[test]
fn a_key_of_a_cache_has_the_markup_of_elements() {
    let origin = Origin::echo();
    let flow =
        "[cache: { key: '{{ $method }} {{ $request.body }}', ttl: 1h, steps: [{ call: echo }] }]";
    let gateway = start(&origin, flow);
    let xml = "Content-Type: application/xml\r\n";
    for (body, calls) in [
        ("<a><b>1</b><c>23</c></a>", 1),
        ("<a><b>12</b><c>3</c></a>", 2),
        ("<a><c>12</c><b>3</b></a>", 3),
        ("<a><b>1</b><c>23</c></a>", 3),
    ] {
        assert_eq!(post(&gateway, "/", xml, body).text(), body);
        assert_eq!(origin.requests().len(), calls, "{body}");
    }
    // One element's text is its key, however the message writes it; of several each counts for itself.
    let (origin, others) = (Origin::echo(), Origin::echo());
    let flow = |path: &str| {
        format!("[cache: {{ key: '{{{{ {path} }}}}', ttl: 1h, steps: [{{ call: echo }}] }}]")
    };
    let (one, several) = (start(&origin, &flow("//b[1]")), start(&others, &flow("//b")));
    for (body, calls) in [
        ("<a><b>1</b></a>", (1, 1)),
        ("<x:a xmlns:x='u'> <b n='2'>1</b></x:a>", (1, 1)),
        ("<a><b>1</b><b>23</b></a>", (1, 2)),
        ("<a><b>12</b><b>3</b></a>", (2, 3)),
    ] {
        let seen = [&one, &several].map(|gateway| post(gateway, "/", xml, body).status());
        assert_eq!(seen, [200, 200], "{body}");
        assert_eq!((origin.requests().len(), others.requests().len()), calls, "{body}");
    }
}

/// A reply that ends the flow also does so from the cache. Failures, private replies and faults are not cached.
#[test]
fn a_cache_keeps_what_may_be_given_to_others() {
    let origin = Origin::saying("ok");
    for (steps, again) in [
        ("{ respond: { text: '{{ $query.n }}' } }", "1"),
        ("{ respond: { text: '{{ $query.n }}', status: 404 } }", "1"),
        ("{ respond: { text: '{{ $query.n }}', status: 500 } }", "2"),
        ("{ respond: { text: '{{ $query.n }}', headers: { Set-Cookie: a=b } } }", "2"),
        ("{ fault: { reason: '{{ $query.n }}' } }", "2"),
    ] {
        let flow = format!(
            "{{ steps: [cache: {{ key: all, ttl: 1h, methods: [POST], steps: [{steps}] }}, respond: {{ text: behind }}], catch: [respond: {{ text: '{{{{ $error.message }}}}' }}] }}"
        );
        let gateway = start(&origin, &flow);
        assert_eq!(post(&gateway, "/?n=1", "", "").text(), "1", "{steps}");
        assert_eq!(post(&gateway, "/?n=2", "", "").text(), again, "{steps}");
    }
}

/// The message becomes the program's value, and the rest of the flow sees that.
#[test]
fn a_script_makes_the_message_anew() {
    let origin = Origin::echo();
    let program = "{ id: .order.id, total: ([.order.lines[] | .price * .count] | add) }";
    let flow = format!(
        "[script: {{ jq: '{program}' }}, call: echo, header: {{ set: {{ x-total: '{{{{ $body.total }}}}' }} }}]"
    );
    let gateway = start(&origin, &flow);
    for id in ["1", "12345678901234567890123456789.10"] {
        let body = format!(
            r#"{{"order": {{"id": {id}, "lines": [{{"price": 3, "count": 2}}, {{"price": 4, "count": 1}}]}}}}"#
        );
        let reply = post(&gateway, "/", "Content-Type: application/json\r\n", &body);
        assert_eq!((reply.status(), reply.get("x-total")), (200, Some("10")), "{}", reply.text());
        assert_eq!(reply.text(), format!(r#"{{"id":{id},"total":10}}"#));
        let request = origin.requests().pop().unwrap();
        assert_eq!(request.get("content-type"), Some("application/json"));
    }
    let reply = post(&gateway, "/", "Content-Type: application/json\r\n", "{");
    assert_eq!(reply.status(), 400, "{}", reply.text());
    let reply = post(&gateway, "/", "Content-Type: text/xml\r\n", "<a/>");
    assert_eq!(reply.status(), 400, "{}", reply.text());
}

/// Each ends within its bounds, once, in the flow's `catch`, and the next message is answered.
#[test]
fn a_script_that_asks_too_much_is_stopped() {
    let origin = Origin::saying("unused");
    for (program, why) in [
        ("def f: f; f", "stopped after 1 s"),
        ("last(range(1e12))", "stopped after 1 s"),
        ("def f: 1 + f; f", "too much memory or stack"),
        ("[limit(1e9; repeat(1))]", ""),
        ("[range(1e9)] | length", ""),
        (r#""x" * 1e9 | length"#, ""),
        ("reduce range(1e9) as $i (0; . + 1)", "stopped after 1 s"),
        (".a.b", "cannot index"),
        ("1, 2", "several values"),
        ("error(\"none left\")", "none left"),
        ("halt", "too much memory or stack"),
    ] {
        let program = program.replace('\'', "''");
        let flow = format!(
            "{{ steps: [filter: {{ when: \"$query.ok = '1'\", then: [respond: {{ text: fine }}] }}, script: {{ jq: '{program}' }}, respond: {{}}], catch: [respond: {{ text: '{{{{ $error.detail }}}}' }}] }}"
        );
        let gateway = start(&origin, &flow);
        for _ in 0..2 {
            let reply = post(&gateway, "/", "Content-Type: application/json\r\n", r#"{"a":"b"}"#);
            let said = reply.text();
            assert!(said.starts_with("script: ") && said.contains(why), "{program}: {said}");
        }
        assert_eq!(post(&gateway, "/?ok=1", "", "").text(), "fine", "{program}");
    }
}

/// Messages that take long are stopped or wait among themselves, and no other message of the step notices.
#[test]
fn messages_that_hog_a_script_leave_the_others_their_turn() {
    let origin = Origin::saying("unused");
    let flow = "[script: { jq: 'if .long then last(range(1e12)) else .a end' }, respond: {}]";
    let gateway = start(&origin, flow);
    let head = |body: &str| {
        let length = body.len();
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let long = r#"{"long":true}"#;
    // More than run at once; whichever ends is asked for again, so that there always are some.
    let mut hogs: Vec<_> = (0..24).map(|_| gateway.wire()).collect();
    for round in 0..3 {
        hogs.iter_mut().for_each(|hog| hog.send(head(long)));
        for number in 0..20 {
            let short = gateway.wire().ask(head(&format!("{{\"a\":{number}}}")));
            assert_eq!((short.status(), short.text()), (200, number.to_string()), "round {round}");
        }
        for hog in &mut hogs {
            let ended = hog.read_reply();
            match ended.status() {
                500 => {}
                503 => assert_eq!(ended.get("retry-after"), Some("1"), "{}", ended.text()),
                other => panic!("{other}: {}", ended.text()),
            }
        }
    }
}

/// A running program does not block the workers, and leaves no trace.
#[test]
fn a_script_keeps_no_worker_and_no_process() {
    let origin = Origin::saying("unused");
    let flow = "[filter: { when: \"$query.ok = '1'\", then: [respond: { text: fine }] }, script: { jq: 'def f: f; f' }, respond: {}]";
    let gateway = start(&origin, flow);
    let children = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap();
        let of =
            |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children"));
        threads.map(|thread| of(thread.unwrap()).unwrap().split_whitespace().count()).sum::<usize>()
    };
    let mut slow = gateway.wire();
    slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post(&gateway, "/?ok=1", "", "").text(), "fine");
    assert_eq!(children(), 1);
    assert_eq!(slow.read_reply().status(), 500);
    assert_eq!(children(), 0);
}
