//! `rate_limit`: allows exactly the configured number of requests over all workers, and tells refused clients when to
//! retry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::harness::{Gateway, Message, Origin, Plain, Wire, tidegate, until};
use crate::reload::put;

fn limited(limit: &str) -> String {
    format!("policies: [{{ rate_limit: {{ {limit} }} }}]")
}

fn start(origin: &Origin, limit: &str) -> Gateway {
    Plain { route: &limited(limit), ..Plain::default() }.start(origin)
}

/// The number of requests out of `count` that pass, one after the other.
fn passed(wire: &mut Wire, request: &str, count: usize) -> usize {
    let statuses = (0..count).map(|_| wire.ask(request).status());
    statuses.filter(|status| *status == 200).count()
}

fn get(header: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\n{header}\r\n")
}

#[test]
fn exactly_the_burst_passes_over_all_workers_and_connections() {
    let origin = Origin::saying("ok");
    let yaml =
        Plain { route: &limited("requests: 100, per: 1h"), ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start(yaml.replace("workers: 1", "workers: 2"));
    let passed_all = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let passed = passed(&mut gateway.wire(), &get(""), 40);
                passed_all.fetch_add(passed, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(passed_all.load(Ordering::SeqCst), 100);
    assert_eq!(origin.requests().len(), 100);
}

#[test]
fn replies_tell_how_the_caller_stands() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "requests: 2, per: 1h");
    let mut wire = gateway.wire();
    let told = |reply: &Message| {
        let value = |name: &str| reply.get(name).unwrap_or_default().to_owned();
        (value("ratelimit"), value("ratelimit-policy"))
    };
    let policy = "\"1h\";q=2;w=3600".to_owned();
    let first = wire.get("/");
    assert_eq!(told(&first), ("\"1h\";r=1;t=1800".to_owned(), policy.clone()));
    // A machine may be slow, but not by a minute.
    let whole_in = |reply: &Message| {
        let (standing, told_policy) = told(reply);
        assert_eq!(told_policy, policy);
        standing.strip_prefix("\"1h\";r=0;t=").unwrap().parse::<u64>().unwrap()
    };
    assert!((3540..=3600).contains(&whole_in(&wire.get("/"))));
    let refused = wire.get("/");
    assert_eq!(refused.status(), 429);
    assert!((3540..=3600).contains(&whole_in(&refused)));
    let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
    assert!((1740..=1800).contains(&wait), "{wait}");
    assert_eq!(refused.get("content-type"), Some("application/problem+json"));
    assert!(refused.text().contains("\"fault\":\"rate_limited\""), "{refused:?}");
}

#[test]
fn a_caller_that_waits_as_it_was_told_passes_and_not_before() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "requests: 1, per: 2s, headers: false");
    let mut wire = gateway.wire();
    let first = wire.get("/");
    assert_eq!((first.status(), first.get("ratelimit")), (200, None));
    let start = std::time::Instant::now();
    let refused = wire.get("/");
    assert_eq!((refused.status(), refused.get("retry-after")), (429, Some("2")));
    until("it passes again", || wire.get("/").status() == 200);
    assert!(start.elapsed().as_millis() >= 1800, "{:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 10);
}

#[test]
fn whoever_shares_a_count() {
    let origin = Origin::saying("ok");
    let limit = "requests: 3, per: 1h, by: ";
    // A header counts for itself, and a request without it by its client.
    let gateway = start(&origin, &format!("{limit}\"header:X-Key\""));
    let mut wire = gateway.wire();
    for (header, pass) in [("X-Key: a\r\n", 3), ("x-key: b\r\n", 3), ("", 3), ("X-Key: a\r\n", 0)] {
        assert_eq!(passed(&mut wire, &get(header), 5), pass, "{header}");
    }
    // A route is one count for all.
    let gateway = start(&origin, &format!("{limit}route"));
    assert_eq!(passed(&mut gateway.wire(), &get("X-Key: a\r\n"), 2), 2);
    assert_eq!(passed(&mut gateway.wire(), &get("X-Key: b\r\n"), 5), 1);
    // The client is the peer, whatever its headers claim.
    let gateway = start(&origin, &format!("{limit}client"));
    assert_eq!(passed(&mut gateway.wire(), &get("X-Forwarded-For: 192.0.2.1\r\n"), 2), 2);
    assert_eq!(passed(&mut gateway.wire(), &get("X-Forwarded-For: 192.0.2.2\r\n"), 5), 1);
    // An expression gives the key, and where it gives none the client counts.
    let gateway =
        start(&origin, &format!("{limit}\"cel:request.headers['x-org'] + request.method\""));
    let mut wire = gateway.wire();
    for (header, pass) in [("X-Org: a\r\n", 3), ("x-org: b\r\n", 3), ("", 3), ("X-Org: a\r\n", 0)] {
        assert_eq!(passed(&mut wire, &get(header), 5), pass, "{header}");
    }
    // A trusted proxy is believed.
    let limit = limited("requests: 3, per: 1h");
    let gateway =
        Plain { route: &limit, listener: "trusted_proxies: [\"127.0.0.0/8\"]", ..Plain::default() };
    let gateway = gateway.start(&origin);
    for client in ["192.0.2.1", "192.0.2.2"] {
        let request = get(&format!("X-Forwarded-For: {client}\r\n"));
        assert_eq!(passed(&mut gateway.wire(), &request, 5), 3, "{client}");
    }
}

#[test]
fn all_windows_hold_and_what_one_refuses_costs_the_others_nothing() {
    let origin = Origin::saying("ok");
    let gateway =
        start(&origin, "requests: 5, per: 1h, windows: [{ requests: 1000, per: 1d, burst: 3 }]");
    let mut wire = gateway.wire();
    assert_eq!(passed(&mut wire, &get(""), 20), 3);
    let reply = wire.get("/");
    let standing = reply.get("ratelimit").unwrap();
    assert!(standing.starts_with("\"1h\";r=2;"), "{standing}");
    assert!(standing.contains(", \"1d\";r=0;"), "{standing}");
    let wait: u64 = reply.get("retry-after").unwrap().parse().unwrap();
    assert!((60..=87).contains(&wait), "{wait}");
}

#[test]
fn limits_of_one_name_share_their_counts_and_others_do_not() {
    let origin = Origin::saying("ok");
    let route = |path: &str, name: &str| {
        format!(
            "{{ match: {{ path: {path} }}, upstream: origin, policies: [{{ rate_limit: {{ requests: 4, per: 1h{name} }} }}] }}"
        )
    };
    let gateway = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [{:?}] }} }}\n\
         routes:\n  a: {}\n  b: {}\n  c: {}\n  d: {}\n",
        origin.url(),
        route("/a", ", name: orders"),
        route("/b", ", name: orders"),
        route("/c", ""),
        route("/d", ""),
    ));
    let mut wire = gateway.wire();
    let mut passed = |path: &str| (0..6).filter(|_| wire.get(path).status() == 200).count();
    assert_eq!((passed("/a"), passed("/b"), passed("/c"), passed("/d")), (4, 0, 4, 4));
    assert!(wire.get("/a").get("ratelimit-policy").unwrap().starts_with("\"orders\";q=4"));
}

#[test]
fn an_unchanged_limit_keeps_its_counts_on_reload() {
    let origin = Origin::saying("ok");
    let yaml = |limit: &str, more: &str| {
        let route = format!("{}{more}", limited(limit));
        let admin = "admin: { address: \"127.0.0.1:0\" }";
        Plain { route: &route, more: admin, ..Plain::default() }.yaml(&origin)
    };
    let gateway = Gateway::start(yaml("requests: 5, per: 1h", ""));
    let reload = |yaml: &str| assert_eq!(put(&gateway, yaml).status(), 200);
    let mut wire = gateway.wire();
    assert_eq!(passed(&mut wire, &get(""), 3), 3);
    reload(&yaml("requests: 5, per: 1h", ", host: target"));
    assert_eq!(passed(&mut gateway.wire(), &get(""), 9), 2);
    reload(&yaml("requests: 6, per: 1h", ""));
    assert_eq!(passed(&mut gateway.wire(), &get(""), 9), 6);
}

#[test]
fn a_flood_of_made_up_keys_locks_nobody_out_and_forgets_no_offender() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "requests: 10, per: 1h, by: \"header:x-key\", keys_max: 1000");
    let mut wire = gateway.wire();
    assert_eq!(passed(&mut wire, &get("x-key: offender\r\n"), 12), 10);
    for key in 0..6000 {
        assert_eq!(wire.ask(get(&format!("x-key: {key}\r\n"))).status(), 200, "{key}");
    }
    assert_eq!(passed(&mut wire, &get("x-key: offender\r\n"), 3), 0);
}

#[test]
fn a_plan_is_the_callers_own_whoever_finds_out_who_asks() {
    let origin = Origin::saying("ok");
    let keys = r#"{ ann: { key: "ann-key", tier: Gold }, bob: { key: "bob-key", tier: Silver }, eve: "eve-key" }"#;
    let route = format!(
        "policies: [{{ api_key: {{ header: x-key, keys: {keys} }} }}, {{ rate_limit: {{ plans: true, requests: 1, per: 1h }} }}]"
    );
    let plans = "plans: { Gold: { requests: 4, per: 1h }, Silver: { requests: 2, per: 1h } }";
    let gateway = Plain { route: &route, more: plans, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    for (key, pass) in [("ann", 4), ("bob", 2), ("eve", 1)] {
        assert_eq!(passed(&mut wire, &get(&format!("X-Key: {key}-key\r\n")), 6), pass, "{key}");
    }
}

#[test]
fn a_limit_above_who_asks_is_a_complaint_and_without_anybody_who_asks_a_warning() {
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let key = "api_key: { header: x-key, keys: { ann: k } }";
    let limit = "requests: 1, per: 1s";
    for (policies, code, complaint) in [
        (
            format!("{{ rate_limit: {{ {limit}, by: subject }} }}, {{ {key} }}"),
            1,
            "move it below `api_key`",
        ),
        (
            format!("{{ rate_limit: {{ {limit}, by: \"cel:subject + 'x'\" }} }}, {{ {key} }}"),
            1,
            "move it below `api_key`",
        ),
        (
            format!("{{ concurrency: {{ requests: 1, by: subject }} }}, {{ {key} }}"),
            1,
            "move it below `api_key`",
        ),
        (
            format!("{{ authorize: {{ rule: \"tier == 'Gold'\" }} }}, {{ {key} }}"),
            1,
            "needs the subject",
        ),
        (format!("{{ {key} }}, {{ rate_limit: {{ {limit}, by: subject }} }}"), 0, ""),
        (format!("{{ rate_limit: {{ {limit}, by: client }} }}, {{ {key} }}"), 0, ""),
        (
            format!("{{ rate_limit: {{ {limit}, by: subject }} }}"),
            0,
            "no policy identifies the client, so this counts by client address",
        ),
    ] {
        let route = format!("policies: [{policies}]");
        std::fs::write(&file, Plain { route: &route, ..Plain::default() }.yaml(&origin)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(code), "{policies}: {said}");
        assert!(said.contains(complaint), "{policies}: {said}");
        assert_eq!(
            said.contains("no policy identifies") || said.contains("below it finds"),
            !complaint.is_empty(),
            "{said}"
        );
    }
}

#[test]
fn mistakes_are_complained_about_with_a_way_out() {
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (limit, more, complaint) in [
        ("requests: 5", "", "add `per: 1m`"),
        ("per: 5s", "", "add `requests: 100`"),
        ("by: client", "", "the rate limit has no limit"),
        ("requests: 0, per: 1s", "", "a whole number from 1"),
        ("requests: 1, per: 0s", "", "the time must not be zero"),
        ("requests: 1, per: 1s, by: clint", "", "not a key to count by"),
        ("requests: 1, per: 1s, by: \"header:a b\"", "", "not a key to count by"),
        ("requests: 1, per: 1s, by: \"cel:org\"", "", "there is no `org`"),
        ("requests: 1, per: 1s, by: \"cel:request.\"", "", "the expression cannot be used"),
        ("plans: true", "plans: { Gold: { requests: 1, per: 1s } }", "add `default: PLAN`"),
        (
            "plans: true, default: Golf",
            "plans: { Gold: { requests: 1, per: 1s } }",
            "there is no plan `Golf`; did you mean `Gold`?",
        ),
        ("requests: 1, per: 1s", "plans: { Gold: {} }", ""),
        ("plans: true, requests: 1, per: 1s", "plans: { Gold: {} }", "a plan needs limits"),
        (
            "plans: true, requests: 1, per: 1s",
            "plans: { Gold: { unlimited: true, requests: 1, per: 1s } }",
            "an unlimited plan cannot have limits",
        ),
        ("requests: 1, per: 1s, name: 'a\"b'", "", "is not allowed in a header value"),
        (
            "requests: 1, per: 1s, windows: [{ requests: 1, per: 1s }, { requests: 1, per: 2s }, { requests: 1, per: 3s }, { requests: 1, per: 4s }]",
            "",
            "at most 4 windows",
        ),
    ] {
        let plain = Plain { route: &limited(limit), more, ..Plain::default() };
        std::fs::write(&file, plain.yaml(&origin)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(i32::from(!complaint.is_empty())), "{limit}: {said}");
        assert!(said.contains(complaint), "{limit}: {said}");
    }
}

/// Seconds until midnight (UTC).
fn until_midnight() -> u64 {
    86_400 - crate::tokens::now() % 86_400
}

#[test]
fn fixed_windows_begin_on_the_clock() {
    let origin = Origin::saying("ok");
    for algorithm in ["fixed", "sliding"] {
        let limit = format!("requests: 3, per: 24h, algorithm: {algorithm}");
        let gateway = start(&origin, &limit);
        let mut wire = gateway.wire();
        let before = until_midnight();
        assert_eq!(passed(&mut wire, &get(""), 3), 3, "{algorithm}");
        let refused = wire.get("/");
        let after = until_midnight();
        assert_eq!(refused.status(), 429);
        let told = refused.get("ratelimit").unwrap().to_owned();
        let reset: u64 = told.strip_prefix("\"1d\";r=0;t=").unwrap().parse().unwrap();
        let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
        // Midnight may come meanwhile.
        if after <= before {
            assert!((after..=before).contains(&reset), "{algorithm}: {after} {reset} {before}");
            match algorithm {
                "fixed" => assert_eq!(wait, reset),
                _ => assert!(wait > reset, "{wait}"),
            }
        }
    }
}

#[test]
fn replies_tell_in_kongs_words() {
    let origin = Origin::saying("ok");
    let limit = "windows: [{ requests: 2, per: 24h }, { requests: 100, per: 8760h }], algorithm: fixed, headers: kong";
    let gateway = start(&origin, limit);
    let mut wire = gateway.wire();
    for (status, left, year) in [(200, "1", "99"), (200, "0", "98"), (429, "0", "98")] {
        let reply = wire.get("/");
        assert_eq!(reply.status(), status);
        for (name, value) in [
            ("x-ratelimit-limit-day", "2"),
            ("x-ratelimit-remaining-day", left),
            ("x-ratelimit-limit-year", "100"),
            ("x-ratelimit-remaining-year", year),
            ("ratelimit-limit", "2"),
            ("ratelimit-remaining", left),
        ] {
            assert_eq!(reply.all(name), [value], "{name}: {reply:?}");
        }
        let reset: u64 = reply.get("ratelimit-reset").unwrap().parse().unwrap();
        assert!((1..=86_400).contains(&reset), "{reset}");
        assert_eq!((reply.get("ratelimit"), reply.get("ratelimit-policy")), (None, None));
        assert_eq!(reply.get("retry-after").is_some(), status == 429);
    }
}

#[test]
fn a_refusal_has_the_operators_status_and_text() {
    let origin = Origin::saying("ok");
    let limit =
        "requests: 1, per: 1h, status: 503, message: \"Come back \\\"later\\\".\", headers: none";
    for (errors, code, text) in [
        ("problem", 503, "\"status\":503"),
        ("wso2", 503, "\"code\":\"900800\""),
        ("kong", 503, "Come back"),
    ] {
        let route = format!("errors: {errors}, {}", limited(limit));
        let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
        let mut wire = gateway.wire();
        assert_eq!(wire.get("/").status(), 200);
        let refused = wire.get("/");
        assert_eq!(refused.status(), code, "{errors}: {refused:?}");
        assert!(refused.text().contains(text), "{errors}: {}", refused.text());
        assert!(refused.text().contains("Come back"), "{errors}: {}", refused.text());
        assert_eq!(refused.get("ratelimit"), None);
        assert!(refused.get("retry-after").is_some());
    }
}

#[test]
fn windows_on_the_clock_that_cannot_work_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    for (limit, code, part) in [
        ("requests: 1, per: 1500ms, algorithm: fixed", 1, "a whole number of seconds"),
        ("requests: 1, per: 1m, burst: 2, algorithm: sliding", 1, "`burst` has no effect"),
        ("requests: 1, per: 5m, headers: kong", 0, "no `X-RateLimit` headers for a window"),
        ("requests: 1, per: 1m, algorithm: fixd", 1, "did you mean `fixed`"),
        ("requests: 1, per: 1m, status: 200", 1, "from 400 to 599"),
    ] {
        let yaml = Plain { route: &limited(limit), ..Plain::default() }.yaml(&origin);
        std::fs::write(&file, yaml).unwrap();
        let said = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(code), "{limit}: {said:?}");
        assert!(said.stderr.contains(part), "{limit}: {}", said.stderr);
    }
}

#[test]
fn a_limit_counts_what_replies_cost() {
    let cost = |line: &str| {
        Origin::answering(format!("HTTP/1.1 200 OK\r\n{line}Content-Length: 2\r\n\r\nok"))
    };
    let hour = "requests: 10, per: 24h";
    for (line, limit, left) in [
        ("X-Cost: 4\r\n", "cost: { header: x-cost }", vec!["6", "2", "0", "refused"]),
        (
            "X-Cost: 4\r\n",
            "algorithm: sliding, cost: { header: x-cost }",
            vec!["6", "2", "0", "refused"],
        ),
        (
            "X-Cost: 4\r\n",
            "algorithm: fixed, cost: { header: x-cost, refuse: replies }",
            vec!["6", "2", "0", "refused"],
        ),
        ("X-Cost: 4\r\n", "cost: { header: x-cost, refuse: both }", vec!["6", "2", "0", "refused"]),
        (
            "X-Cost: a=1, b=9\r\nX-Cost: c=2\r\n",
            "cost: { header: x-cost, name: b }",
            vec!["1", "0", "refused"],
        ),
        ("X-Cost: 99999999999\r\n", "cost: { header: x-cost }", vec!["10", "10"]),
        ("X-Cost: 4294967295\r\n", "cost: { header: x-cost }", vec!["0", "refused"]),
        (
            "X-Cost: 4294967295\r\n",
            "algorithm: fixed, cost: { header: x-cost }",
            vec!["0", "refused"],
        ),
        ("X-Cost: -3\r\n", "cost: { header: x-cost }", vec!["10", "10"]),
        ("X-Cost: 2.5\r\n", "cost: { header: x-cost }", vec!["10", "10"]),
        ("X-Cost: 4\r\nAge: 1\r\n", "cost: { header: x-cost }", vec!["10", "10"]),
        ("", "cost: { header: x-cost }", vec!["10", "10"]),
    ] {
        let origin = cost(line);
        let gateway = start(&origin, &format!("{hour}, {limit}"));
        let mut wire = gateway.wire();
        for (at, left) in left.iter().enumerate() {
            let reply = wire.get("/");
            let what = format!("{line:?} {limit}, request {at}: {reply:?}");
            assert_eq!(reply.get("x-cost"), None, "{what}");
            match *left {
                "refused" => {
                    assert_eq!(reply.status(), 429, "{what}");
                    assert!(reply.get("retry-after").is_some(), "{what}");
                }
                left => {
                    assert_eq!(reply.status(), 200, "{what}");
                    let told = reply.get("ratelimit").unwrap_or_default();
                    assert!(told.contains(&format!("r={left};")), "{what}");
                }
            }
        }
        // The upstream sees a request that is refused by its reply alone.
        let refused = left.iter().filter(|left| **left == "refused").count();
        let unseen = if limit.contains("refuse: replies") { 0 } else { refused };
        assert_eq!(origin.requests().len(), left.len() - unseen, "{line:?} {limit}");
    }
}

/// A cached reply has the header of the first one, and has cost nothing.
#[test]
fn a_reply_from_a_cache_costs_nothing() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nX-Cost: 1\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok",
    );
    let policies = "policies: [{ rate_limit: { requests: 2, per: 24h, cost: { header: x-cost, remove: false } } }, { cache: {} }]";
    let gateway = Plain { route: policies, ..Plain::default() }.start(&origin);
    for _ in 0..4 {
        let reply = gateway.wire().get("/");
        assert_eq!((reply.status(), reply.get("x-cost")), (200, Some("1")));
        assert!(reply.get("ratelimit").unwrap().contains("r=1;"), "{reply:?}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn costs_that_cannot_work_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    let limit = "requests: 1, per: 1m";
    for (cost, part) in [
        ("{}", "`header` is missing"),
        ("{ header: \"a b\" }", "is not a valid header name"),
        ("{ header: content-length }", "cannot be changed"),
        ("{ header: x-cost, name: \"a b\" }", "is not allowed in a header name"),
        ("{ header: x-cost, refuse: reply }", "write `requests`, `replies` or `both`"),
        ("{ header: x-cost, upstream_header: \"\" }", "is not a valid header name"),
    ] {
        let route = limited(&format!("{limit}, cost: {cost}"));
        let yaml = Plain { route: &route, ..Plain::default() }.yaml(&origin);
        std::fs::write(&file, yaml).unwrap();
        let said = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{cost}: {said:?}");
        assert!(said.stderr.contains(part), "{cost}: {}", said.stderr);
    }
    std::fs::write(
        &file,
        "listen: { a: { address: \"127.0.0.1:0\" } }\nflows: { f: { steps: [{ throttle: { requests: 1, per: 1m, cost: { header: x-cost } } }, { respond: {} }] } }\nroutes: { r: { match: { path: / }, flow: f } }\n",
    )
    .unwrap();
    let said = tidegate(&["check", file.to_str().unwrap()]);
    assert!(said.stderr.contains("it sees no reply with their cost"), "{}", said.stderr);
}
