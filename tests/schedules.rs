//! `schedules`: flows that run at times.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Gate, Gateway, Origin, Wire, tidegate, until};
use crate::reload::put_ok;
use crate::telemetry::metric;

fn yaml(origin: &Origin, schedules: &str, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         drain: {{ delay: 0s }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         flows:\n  tick: [{{ call: {{ upstream: origin, path: /tick, fault_on: [5xx] }} }}, {{ respond: {{}} }}]\n\
         schedules: {{ {schedules} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\n{more}",
        origin.url()
    )
}

fn count(gateway: &Gateway, name: &str) -> f64 {
    metric(gateway, name).unwrap_or_default()
}

#[test]
fn a_flow_runs_at_its_interval_and_first_after_one() {
    let origin = Origin::saying("ok");
    let start = Instant::now();
    let gateway = Gateway::start(yaml(
        &origin,
        "beat: { every: 400ms, flow: tick, message: { json: { a: 1 } } }",
        "",
    ));
    origin.wait_for_requests(1);
    assert!(start.elapsed() >= Duration::from_millis(400));
    origin.wait_for_requests(3);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(1200) && took < Duration::from_secs(10), "{took:?}");
    let request = origin.requests()[0].clone();
    assert_eq!(
        (request.method(), request.target(), &*request.text()),
        ("POST", "/tick", "{\"a\":1}")
    );
    assert_eq!(request.get("content-type"), Some("application/json"));
    assert!(request.get("host").is_some_and(|host| host == origin.address().to_string()));
    let runs = "tidegate_schedule_runs_total{schedule=\"beat\",result=\"success\"}";
    until("the runs are counted", || count(&gateway, runs) >= 3.0);
    assert!(count(&gateway, "tidegate_flow_runs_total{flow=\"tick\"}") >= 3.0);
    let last = count(&gateway, "tidegate_schedule_last_run_timestamp_seconds{schedule=\"beat\"}");
    assert!(last > 1_700_000_000.0);
}

#[test]
fn cron_runs_at_the_seconds_of_the_clock() {
    let origin = Origin::saying("ok");
    let schedules = "all: { cron: \"* * * * * *\", time_zone: Europe/Berlin, flow: tick, message: { xml: \"<a/>\" } }, \
                     never: { cron: \"0 0 0 29 2 *\", flow: tick }";
    let _gateway = Gateway::start(yaml(&origin, schedules, ""));
    origin.wait_for_requests(1);
    let request = origin.requests()[0].clone();
    assert_eq!((&*request.text(), request.get("content-type")), ("<a/>", Some("application/xml")));
    // On a busy machine some of them are late.
    until("one comes with the second", || {
        let before = origin.requests().len();
        origin.wait_for_requests(before + 1);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        since.subsec_millis() < 500
    });
}

/// An origin that answers once its gate is open.
fn held() -> (Gate, Origin) {
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            opens.wait();
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (gate, origin)
}

#[test]
fn a_run_that_takes_long_is_never_there_twice() {
    let (gate, origin) = held();
    let gateway = Gateway::start(yaml(&origin, "slow: { every: 100ms, flow: tick }", ""));
    origin.wait_for_requests(1);
    sleep(Duration::from_millis(450));
    assert_eq!(origin.requests().len(), 1);
    gate.open();
    origin.wait_for_requests(2);
    let skipped = "tidegate_schedule_skipped_total{schedule=\"slow\"}";
    until("what was skipped is counted", || count(&gateway, skipped) >= 3.0);
}

/// A reload that changes the times of a schedule, or removes and restores it, does not end a run in progress, and starts no second
/// one.
#[test]
fn a_reload_begins_no_second_run_either() {
    let (gate, origin) = held();
    let gateway = Gateway::start(yaml(&origin, "slow: { every: 100ms, flow: tick }", ""));
    origin.wait_for_requests(1);
    for schedules in
        ["slow: { every: 150ms, flow: tick }", "", "slow: { every: 100ms, flow: tick }"]
    {
        put_ok(&gateway, &yaml(&origin, schedules, ""));
        sleep(Duration::from_millis(500));
        assert_eq!(origin.requests().len(), 1, "{schedules}");
    }
    let skipped = "tidegate_schedule_skipped_total{schedule=\"slow\"}";
    until("what was skipped is counted", || count(&gateway, skipped) >= 3.0);
    // Neither does a stop.
    put_ok(&gateway, &yaml(&origin, "slow: { every: 1h, flow: tick }", ""));
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    gate.open();
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("all requests have ended");
    let runs = gateway.log().matches("the schedule has failed").count();
    assert_eq!((origin.requests().len(), runs), (1, 0), "{}", gateway.log());
}

#[test]
fn a_run_that_fails_is_logged_and_the_next_one_comes() {
    let origin = Origin::answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(yaml(&origin, "broken: { every: 100ms, flow: tick }", ""));
    origin.wait_for_requests(3);
    gateway.wait_for_log("the schedule has failed");
    assert!(gateway.log().contains("broken") && gateway.log().contains("upstream_status"));
    let failed = "tidegate_schedule_runs_total{schedule=\"broken\",result=\"failure\"}";
    until("the failures are counted", || count(&gateway, failed) >= 2.0);
}

#[test]
fn a_reload_keeps_what_is_the_same_and_ends_what_is_gone() {
    let origin = Origin::saying("ok");
    let beat = "beat: { every: 3s, flow: tick }";
    let gateway = Gateway::start(yaml(&origin, beat, ""));
    for round in 0..5 {
        sleep(Duration::from_millis(200));
        let more = format!("plans: {{ p{round}: {{ unlimited: true }} }}\n");
        put_ok(&gateway, &yaml(&origin, beat, &more));
    }
    let reloaded = Instant::now();
    origin.wait_for_requests(1);
    // Two seconds are left of it, and three if the last reload has put it off.
    assert!(reloaded.elapsed() < Duration::from_millis(2900), "reloads do not put it off");
    put_ok(&gateway, &yaml(&origin, "", ""));
    let before = origin.requests().len();
    sleep(Duration::from_millis(3300));
    assert_eq!(origin.requests().len(), before);
}

#[test]
fn a_shutdown_waits_for_a_run_and_begins_no_other() {
    let (gate, origin) = held();
    let gateway = Gateway::start(yaml(&origin, "slow: { every: 100ms, flow: tick }", ""));
    origin.wait_for_requests(1);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    sleep(Duration::from_millis(200));
    gate.open();
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    assert_eq!(origin.requests().len(), 1);
    gateway.wait_for_log("all requests have ended");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let origin = Origin::silent();
    let folder = tempfile::tempdir().unwrap();
    for (schedule, said) in [
        ("a: { flow: tick }", "a schedule needs `every` or `cron`"),
        (
            "a: { every: 1s, cron: \"* * * * * *\", flow: tick }",
            "`every` and `cron` cannot be combined",
        ),
        ("a: { every: 10ms, flow: tick }", "the interval is too short"),
        ("a: { every: 1s, flow: tock }", "there is no flow `tock`; did you mean `tick`?"),
        ("a: { cron: \"* * * * *\", flow: tick }", "5 fields, but 6 are needed"),
        ("a: { cron: \"0 61 * * * *\", flow: tick }", "the minute `61`: must be from 0 to 59"),
        ("a: { cron: \"0 0 0 31 2 *\", flow: tick }", "there is no such day"),
        (
            "a: { cron: \"* * * * * *\", time_zone: Mars, flow: tick }",
            "there is no time zone `Mars`",
        ),
        (
            "a: { every: 1s, flow: tick, message: { xml: \"<a/>\", text: b } }",
            "a message can have only one kind of body",
        ),
        ("a: { every: 1s, flow: tick, message: { xml: \"<a>\" } }", "this is not XML: 1:4"),
        ("a: { every: 1s, flow: tick, often: true }", "unknown key `often`"),
    ] {
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, yaml(&origin, schedule, "")).unwrap();
        let run = tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{schedule}");
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains(said) && output.contains("a.yaml:8:"), "{schedule}: {output}");
    }
}

fn admin_post(gateway: &Gateway, path: &str) -> u16 {
    let admin = gateway.admin();
    let request = format!("POST {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    Wire::connect(admin).ask(request).status()
}

fn shown(gateway: &Gateway) -> Value {
    serde_json::from_slice(&gateway.admin_get("/schedules").body).unwrap()
}

#[test]
fn operators_run_a_schedule_now() {
    let (gate, origin) = held();
    let gateway = Gateway::start(yaml(&origin, "night: { every: 1h, flow: tick }", ""));
    let shown = || shown(&gateway)["schedules"][0].clone();
    let first = shown();
    assert_eq!((&first["name"], &first["paused"]), (&"night".into(), &false.into()), "{first}");
    assert_eq!(first["timing"], "every 3600s");
    assert_eq!(admin_post(&gateway, "/schedules/night/run"), 202);
    origin.wait_for_requests(1);
    assert_eq!(shown()["running"], true);
    assert_eq!(admin_post(&gateway, "/schedules/night/run"), 409, "never twice at once");
    gate.open();
    until("it has run", || shown()["running"] == false);
    assert_eq!(admin_post(&gateway, "/schedules/night/run"), 202);
    origin.wait_for_requests(2);
    assert_eq!(admin_post(&gateway, "/schedules/day/run"), 404);
}

#[test]
fn a_paused_schedule_skips_its_times_also_over_a_restart() {
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let store = format!("store: {{ path: {:?} }}\n", folder.path().join("store"));
    for (more, survives) in [(store.as_str(), true), ("", false)] {
        let yaml = yaml(&origin, "beat: { every: 100ms, flow: tick }", more);
        let gateway = Gateway::start(&yaml);
        origin.forget();
        origin.wait_for_requests(2);
        assert_eq!(admin_post(&gateway, "/schedules/beat/pause"), 204);
        assert_eq!(shown(&gateway)["schedules"][0]["paused"], true);
        until("the last run is over", || shown(&gateway)["schedules"][0]["running"] == false);
        sleep(Duration::from_millis(150));
        origin.forget();
        put_ok(
            &gateway,
            &yaml.replace("workers: 2", "workers: 2\nplans: { gold: { unlimited: true } }"),
        );
        sleep(Duration::from_millis(400));
        assert_eq!(origin.requests().len(), 0, "a reload changes nothing");
        // It can be run by hand.
        assert_eq!(admin_post(&gateway, "/schedules/beat/run"), 202);
        origin.wait_for_requests(1);
        drop(gateway);
        if survives {
            let gateway = Gateway::start(&yaml);
            origin.forget();
            sleep(Duration::from_millis(400));
            assert_eq!(origin.requests().len(), 0, "nor does a restart");
            assert_eq!(admin_post(&gateway, "/schedules/beat/resume"), 204);
            origin.wait_for_requests(2);
        }
    }
}
