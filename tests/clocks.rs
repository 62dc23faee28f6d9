//! A wall clock that is set forward and back while gateways run: no acknowledged data is lost or delayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::{Clock, Gate, Gateway, Origin, Postgres, until, until_at_last};
use crate::hubs::{bodies, poll, publish};
use crate::telemetry::metric;
use crate::websub::{form, repeats, send_form, subscribe};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// There and back, and past the right time.
const SETTINGS: [i64; 7] = [HOUR, 0, -HOUR, DAY, -DAY, 2 * DAY, 0];

/// A gateway with a hub, a queue and a schedule, whose events are kept for half an hour.
fn yaml(origin: &Origin, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         hubs:\n  news:\n    topics: [sports, weather]\n    callbacks: {{ allow: [\"127.0.0.0/8\"] }}\n    retention: {{ age: 30m }}\n    \
         delivery: {{ timeout: 60s, retries: 100, initial: 100ms, max: 1s }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         queues: {{ work: {{ flow: send, retry: {{ attempts: 1000, initial: 100ms, max: 1s }} }} }}\n\
         flows:\n  keep: [{{ store: {{ queue: work }} }}]\n  send: [{{ call: {{ upstream: origin, path: /work }} }}]\n  \
         tick: [{{ call: {{ upstream: origin, path: /tick }} }}, {{ respond: {{}} }}]\n\
         schedules: {{ beat: {{ cron: \"* * * * * *\", flow: tick }} }}\n\
         routes:\n  news: {{ match: {{ path: \"/news/**\" }}, hub: news }}\n  keep: {{ match: {{ path: /keep }}, flow: keep }}\n{more}",
        origin.url()
    )
}

/// A service that takes everything while it is well, and confirms subscriptions always.
fn service(is_well: &Arc<AtomicBool>) -> Origin {
    let is_well = is_well.clone();
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let challenge =
                request.target().split('&').find_map(|pair| pair.strip_prefix("hub.challenge="));
            let (status, body) = match challenge {
                Some(challenge) => ("200 OK", challenge),
                None if is_well.load(Ordering::SeqCst) || request.target() == "/tick" => {
                    ("200 OK", "")
                }
                None => ("503 No", ""),
            };
            let reply =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

/// The texts that came at a path since the service forgot the ones before, again and again where it did not take them.
fn came(origin: &Origin, path: &str) -> Vec<String> {
    let all = origin.requests().into_iter();
    all.filter(|request| request.method() == "POST" && request.target() == path)
        .map(|request| request.text())
        .collect()
}

fn keep(gateway: &Gateway, text: &str) {
    let length = text.len();
    let request = format!(
        "POST /keep HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}"
    );
    assert_eq!(gateway.wire().ask(request).status(), 202);
}

/// The callbacks of all subscriptions.
fn callbacks(gateway: &Gateway) -> Vec<String> {
    let reply = gateway.admin_get("/hubs/news/subscriptions");
    let read: Value = serde_json::from_slice(&reply.body).unwrap();
    let all = read["subscriptions"].as_array().unwrap().iter();
    all.map(|one| one["callback"].as_str().unwrap().to_owned()).collect()
}

fn lag(gateway: &Gateway) -> Option<f64> {
    metric(gateway, "tidegate_hub_lag_events{hub=\"news\",topic=\"sports\"}")
}

fn runs(gateway: &Gateway) -> f64 {
    let name = "tidegate_schedule_runs_total{schedule=\"beat\",result=\"success\"}";
    metric(gateway, name).unwrap_or_default()
}

/// Subscriptions, events and messages wait while the clock is set, and then come in their order, each one once.
#[test]
fn what_waits_is_delivered_whatever_the_clock_is_set_to() {
    let (is_well, clock) = (Arc::new(AtomicBool::new(true)), Clock::new());
    let origin = service(&is_well);
    let gateway = Gateway::start_by(&clock, yaml(&origin, ""));
    subscribe(&gateway, &format!("{}/long", origin.url()), "");
    subscribe(&gateway, &format!("{}/short", origin.url()), "&hub.lease_seconds=1800");
    let mut number = 0;
    let mut texts = Vec::new();
    let mut publish_next = || {
        let text = format!("number {number}");
        publish(&gateway, "sports", &text);
        keep(&gateway, &text);
        number += 1;
        texts.push(text);
        texts.clone()
    };
    for by in SETTINGS {
        is_well.store(false, Ordering::SeqCst);
        origin.forget();
        let first = publish_next();
        let first = first.last().unwrap().clone();
        let tried = |path: &str| came(&origin, path).len();
        until("all have failed twice", || {
            ["/long", "/short", "/work"].iter().all(|path| tried(path) >= 2)
        });

        gateway.set(&clock, by);
        // Lags are measured and old events dropped in one turn, which has ended when the second value is seen.
        for waiting in [2.0, 3.0] {
            publish_next();
            until("they are counted", || lag(&gateway) == Some(waiting));
        }
        let (ran, had) = (runs(&gateway), ["/long", "/short", "/work"].map(tried));
        until("what failed is tried again", || {
            ["/long", "/short", "/work"].iter().zip(had).all(|(path, had)| tried(path) > had)
        });
        until("the schedule goes on", || runs(&gateway) >= ran + 2.0);
        origin.forget();
        is_well.store(true, Ordering::SeqCst);
        let all = publish_next();
        let last = all.last().unwrap();
        for path in ["/long", "/short", "/work"] {
            until("all has come", || came(&origin, path).last() == Some(last));
            let order = &all[all.iter().position(|text| *text == first).unwrap()..];
            // An event that failed just before the recovery is there twice.
            repeats(&came(&origin, path), order, false);
        }
        until("nothing is left", || lag(&gateway) == Some(0.0));
        assert_eq!(bodies(&poll(&gateway, "?after=0&limit=1000")), all, "by {by} seconds");
        assert_eq!(callbacks(&gateway).len(), 2, "by {by} seconds");
    }
}

/// Leases and windows of limits end on time, although the clock shows that a day is left.
#[test]
fn what_ends_after_a_time_ends_although_the_clock_is_set_back() {
    let (is_well, clock) = (Arc::new(AtomicBool::new(true)), Clock::new());
    let origin = service(&is_well);
    let limits = "    limits: { events: 1, per: 1h, by: subscription }\n";
    let yaml = yaml(&origin, "").replace("    retention", &format!("{limits}    retention"));
    let gateway = Gateway::start_by(&clock, yaml);
    subscribe(&gateway, &format!("{}/long", origin.url()), "");
    ["one", "two"].iter().for_each(|text| drop(publish(&gateway, "sports", text)));
    let limited =
        "tidegate_hub_deliveries_total{hub=\"news\",topic=\"sports\",outcome=\"limited\"}";
    until("the second is one too many", || metric(&gateway, limited) == Some(1.0));
    subscribe(&gateway, &format!("{}/short", origin.url()), "&hub.lease_seconds=8");
    gateway.set(&clock, -DAY);
    publish(&gateway, "sports", "three");
    until("the window is another", || came(&origin, "/long") == ["one", "three"]);
    until("the lease is over", || callbacks(&gateway).len() == 1);
}

/// Two gateways whose clocks are set to different days, and then only one of them.
#[test]
fn gateways_that_share_a_store_need_not_agree_about_the_time() {
    let (is_well, clocks) = (Arc::new(AtomicBool::new(true)), [Clock::new(), Clock::new()]);
    let (origin, server) = (service(&is_well), Postgres::start());
    let yaml = yaml(&origin, &format!("store: {{ postgres: \"{}\" }}\n", server.url()));
    let gateways = clocks.each_ref().map(|clock| Gateway::start_by(clock, &yaml));
    let partitions = |gateway: &Gateway| metric(gateway, "tidegate_store_partitions").unwrap();
    until("both have a half", || gateways.iter().all(|gateway| partitions(gateway) == 8.0));
    let paths: Vec<String> = (0..12).map(|n| format!("/{n}")).collect();
    for (n, path) in paths.iter().enumerate() {
        subscribe(&gateways[n % 2], &format!("{}{path}", origin.url()), "&hub.lease_seconds=1800");
    }
    let mut ids = 0;
    let mut publish_some = |gateways: &[&Gateway]| {
        let texts: Vec<String> = (ids..ids + 6).map(|n| format!("number {n}")).collect();
        for (text, gateway) in texts.iter().zip(gateways.iter().cycle()) {
            publish(gateway, "sports", text);
        }
        ids += 6;
        texts
    };
    let count = || origin.requests().len();
    let has =
        |texts: &[String]| paths.iter().all(|path| came(&origin, path).last() == texts.last());
    for (first, second) in [(-HOUR, DAY), (DAY, -HOUR), (0, DAY)] {
        is_well.store(false, Ordering::SeqCst);
        origin.forget();
        let [left, right] = &gateways;
        let mut texts = publish_some(&[left, right]);
        until("it has failed everywhere", || {
            paths.iter().all(|path| !came(&origin, path).is_empty())
        });
        left.set(&clocks[0], first);
        right.set(&clocks[1], second);
        // Each renews leases of subscriptions that the other one delivers.
        for (n, path) in paths.iter().enumerate() {
            let callback = format!("{}{path}", origin.url());
            let form = form("subscribe", "sports", &callback, "&hub.lease_seconds=1800");
            assert_eq!(send_form(&gateways[n % 2], &form).status(), 202);
        }
        origin.forget();
        is_well.store(true, Ordering::SeqCst);
        texts.extend(publish_some(&[right, left]));
        until_at_last("all is delivered", count, || has(&texts));
        for path in &paths {
            repeats(&came(&origin, path), &texts, true);
        }
        assert_eq!(callbacks(left).len(), paths.len(), "by {first} and {second} seconds");
    }
    // The gateway with the right clock ends, and the one whose clock is a day ahead takes over its work.
    let [left, right] = gateways;
    origin.forget();
    drop(left);
    until("the other has all", || partitions(&right) == 16.0);
    let texts = publish_some(&[&right]);
    until_at_last("all is delivered", count, || has(&texts));
    assert_eq!(callbacks(&right).len(), paths.len());
}

/// A clock that was a day ahead is corrected during a run: the next run is not a day late.
#[test]
fn a_clock_that_is_set_back_during_a_run_is_followed() {
    let (gate, clock) = (Gate::default(), Clock::new());
    let opens = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            opens.wait();
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    clock.set(DAY);
    let gateway = Gateway::start_by(&clock, yaml(&origin, ""));
    origin.wait_for_requests(1);
    gateway.set(&clock, 0);
    gate.open();
    origin.wait_for_requests(3);
}

/// The gateway that owns a schedule dies just before a daily run: the one that takes over does the run, and does not repeat an earlier
/// run.
#[test]
fn a_run_that_was_due_while_its_gateway_was_gone_is_made_up_for() {
    let (origin, server) = (Origin::saying("ok"), Postgres::start());
    let daily = |seconds: i64| {
        let at = format!("@{}", unix().saturating_add_signed(seconds));
        let mut command = std::process::Command::new("date");
        let said = command.args(["-u", "-d", &at, "+%-S %-M %-H * * *"]).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    };
    let yaml = |cron: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
             upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
             flows:\n  tick: [{{ call: {{ upstream: origin, path: /tick }} }}]\n\
             schedules: {{ daily: {{ cron: \"{cron}\", flow: tick }} }}\n\
             store: {{ postgres: \"{}\" }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\n",
            origin.url(),
            server.url()
        )
    };
    let has =
        |gateway: &Gateway, count: f64| metric(gateway, "tidegate_store_partitions") == Some(count);
    let runs = |gateway: &Gateway| {
        metric(gateway, "tidegate_schedule_runs_total{schedule=\"daily\",result=\"success\"}")
    };
    // The first of two gateways does the daily run.
    let yaml = yaml(&daily(20));
    let first = Gateway::start(&yaml);
    until("the first has all", || has(&first, 16.0));
    let second = Gateway::start(&yaml);
    until("both have a half", || has(&first, 8.0) && has(&second, 8.0));
    origin.wait_for_requests(1);
    until("it is counted", || runs(&first).or(runs(&second)) == Some(1.0));
    let (owner, other) = match runs(&first) {
        Some(_) => (first, second),
        None => (second, first),
    };
    // The other one takes over at once, and does not do it again.
    drop(owner);
    until("the other has all", || has(&other, 16.0));
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(origin.requests().len(), 1, "it was done");
    // The same with a missed run: its gateway is killed just before.
    let yaml = yaml.replace(&cron_of(&yaml), &daily(45));
    crate::reload::put_ok(&other, &yaml);
    let third = Gateway::start(&yaml);
    until("both have a half", || has(&third, 8.0) && has(&other, 8.0));
    let owner = |gateway: &Gateway| {
        let admin = gateway.admin();
        let request = format!(
            "POST /schedules/daily/run HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n"
        );
        crate::harness::Wire::connect(admin).ask(request).status() == 202
    };
    // A run is requested outside of the schedule's times.
    let (mine, left) = if owner(&third) {
        (third, other)
    } else {
        assert!(owner(&other));
        (other, third)
    };
    origin.wait_for_requests(2);
    mine.signal(rustix::process::Signal::KILL);
    origin.wait_for_requests(3);
    until("the one that is left has done it", || runs(&left) == Some(1.0));
}

/// A gateway over the clock changes of a real time zone: a time skipped in spring is due later by the same amount, a time repeated in
/// autumn is due once, and an hourly schedule is due in both.
#[test]
fn a_schedule_follows_daylight_saving_time() {
    for (what, zone, begin, moves, cron, due) in [
        // 02:30 is skipped, and due at 03:30, which is 01:30 in UTC.
        (
            "spring",
            "Europe/Berlin",
            "2027-03-28T00:59:50Z",
            ["2027-03-28T01:29:55Z", "2027-03-29T00:29:50Z"],
            "0 30 2 * * *",
            [1, 2],
        ),
        // 02:30 comes at 00:30 and at 01:30 in UTC.
        (
            "autumn",
            "Europe/Berlin",
            "2027-10-31T00:29:55Z",
            ["2027-10-31T01:29:55Z", "2027-11-01T01:29:55Z"],
            "0 30 2 * * *",
            [1, 2],
        ),
        (
            "autumn, hourly",
            "Europe/Berlin",
            "2027-10-31T00:29:55Z",
            ["2027-10-31T01:29:55Z", "2027-10-31T02:29:55Z"],
            "0 30 * * * *",
            [2, 3],
        ),
        // A zone that changes by half an hour.
        (
            "half an hour",
            "Australia/Lord_Howe",
            "2027-10-02T15:29:55Z",
            ["2027-10-02T15:44:55Z", "2027-10-03T15:14:55Z"],
            "0 15 2 * * *",
            [1, 2],
        ),
    ] {
        let origin = Origin::saying("ok");
        let at = |time: &str| seconds_of(time) - i64::try_from(unix()).unwrap();
        let clock = Clock::new();
        clock.set(at(begin));
        let schedule = format!("beat: {{ cron: \"{cron}\", time_zone: {zone}, flow: tick }}");
        let text =
            yaml(&origin, "").replace("beat: { cron: \"* * * * * *\", flow: tick }", &schedule);
        let gateway = Gateway::start_by(&clock, text);
        std::thread::sleep(std::time::Duration::from_secs(12));
        let first = came(&origin, "/tick").len();
        for (to, due) in moves.iter().zip(due) {
            gateway.set(&clock, at(to));
            until(&format!("{what}: {due} at {to}"), || came(&origin, "/tick").len() >= due);
            std::thread::sleep(std::time::Duration::from_secs(7));
            assert_eq!(came(&origin, "/tick").len(), due, "{what} at {to}, {first} before");
        }
    }
}

fn seconds_of(time: &str) -> i64 {
    let said = std::process::Command::new("date").args(["-u", "-d", time, "+%s"]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().parse().unwrap()
}

fn unix() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// The expression in a configuration.
fn cron_of(yaml: &str) -> String {
    let begin = yaml.split("cron: \"").nth(1).unwrap();
    begin.split('"').next().unwrap().to_owned()
}
