//! Tests of metrics through the public interface: record, render, parse.

use crate::*;
use expect_test::{Expect, expect};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

/// The samples of the families with a prefix, with their types, as in the text.
fn check(telemetry: &Telemetry, prefixes: &[&str], expected: Expect) {
    let text = telemetry.render();
    strictly_openmetrics(&text);
    let wanted = |line: &&str| {
        let name = line.strip_prefix("# TYPE ").unwrap_or(line);
        !line.starts_with("# HELP") && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    expected.assert_eq(
        &text.lines().filter(wanted).map(|line| format!("{line}\n")).collect::<String>(),
    );
}

fn record<'a>(route: &'a RouteMetrics, worker: usize, status: u16, micros: u64) -> Record<'a> {
    Record {
        worker,
        route: Some(route),
        status,
        duration: Duration::from_micros(micros),
        request_bytes: 10,
        reply_bytes: 100,
        ..Record::default()
    }
}

/// A strict parser of the format: each family is declared once, before its samples, with a help text, and no series is
/// repeated.
fn strictly_openmetrics(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with the end marker");
    let (mut families, mut series) = (BTreeMap::new(), BTreeMap::new());
    let mut helped = BTreeSet::new();
    let mut family = ("", "");
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a help has a text");
            assert!(text.ends_with('.') && helped.insert(name), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            family = kind.split_once(' ').expect("a type has a name");
            assert!(helped.contains(family.0), "no help before {line}");
            assert!(families.insert(family.0, family.1).is_none(), "declared twice: {line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
            let bare = name.split('{').next().unwrap();
            let suffixes: &[&str] = match family.1 {
                "counter" => &["_total"],
                "info" => &["_info"],
                "histogram" => &["_sum", "_count", "_bucket"],
                "gauge" => &[""],
                other => panic!("unknown type {other}"),
            };
            assert!(
                suffixes.iter().any(|s| format!("{}{s}", family.0) == bare),
                "{line} in {family:?}"
            );
            check_labels(family.0, name);
            let labels = name.strip_prefix(bare).unwrap();
            assert!(
                labels.is_empty() || labels.starts_with('{') && labels.ends_with('}'),
                "{line}"
            );
            let value: f64 = value.parse().expect("a value is a number");
            assert!(series.insert(name.to_owned(), value).is_none(), "twice: {name}");
        }
    }
    series
}

/// The labels of a series are those in the table of metrics. No value in these tests has a comma or a quote.
fn check_labels(family: &str, series: &str) {
    let metric =
        crate::names::Metric::ALL.iter().find(|metric| metric.name() == family).expect(family);
    let declared: Vec<&str> = metric.labels().iter().map(|label| label.name()).collect();
    let labels = series.split_once('{').map_or("", |(_, rest)| rest).trim_end_matches('}');
    let names = labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0));
    let written: Vec<&str> = names.filter(|name| *name != "le").collect();
    assert_eq!(written, declared, "the labels of {family} in `telemetry::names`");
}

#[test]
fn a_route_is_shown_with_the_sum_of_its_workers() {
    let telemetry = Telemetry::new(2);
    let route = telemetry.route("orders");
    telemetry.record(&record(&route, 0, 200, 40));
    telemetry.record(&record(&route, 1, 204, 60));
    let fault = Record { fault: Some("no_target"), ..record(&route, 1, 503, 10) };
    telemetry.record(&fault);
    telemetry.record(&Record { status: 404, fault: Some("no_route"), ..Record::default() });
    let wanted = [
        "tidegate_requests",
        "tidegate_worker_requests",
        "tidegate_request_bytes",
        "tidegate_reply_bytes",
        "tidegate_faults",
    ];
    check(
        &telemetry,
        &wanted,
        expect![[r##"
        # TYPE tidegate_worker_requests counter
        tidegate_worker_requests_total{worker="0"} 2
        tidegate_worker_requests_total{worker="1"} 2
        # TYPE tidegate_requests counter
        tidegate_requests_total{route="(none)",status_class="1xx"} 0
        tidegate_requests_total{route="(none)",status_class="2xx"} 0
        tidegate_requests_total{route="(none)",status_class="3xx"} 0
        tidegate_requests_total{route="(none)",status_class="4xx"} 1
        tidegate_requests_total{route="(none)",status_class="5xx"} 0
        tidegate_requests_total{route="orders",status_class="1xx"} 0
        tidegate_requests_total{route="orders",status_class="2xx"} 2
        tidegate_requests_total{route="orders",status_class="3xx"} 0
        tidegate_requests_total{route="orders",status_class="4xx"} 0
        tidegate_requests_total{route="orders",status_class="5xx"} 1
        # TYPE tidegate_request_bytes counter
        tidegate_request_bytes_total{route="(none)"} 0
        tidegate_request_bytes_total{route="orders"} 30
        # TYPE tidegate_reply_bytes counter
        tidegate_reply_bytes_total{route="(none)"} 0
        tidegate_reply_bytes_total{route="orders"} 300
        # TYPE tidegate_faults counter
        tidegate_faults_total{route="(none)",reason="no_route"} 1
        tidegate_faults_total{route="orders",reason="no_target"} 1
    "##]],
    );
}

#[test]
fn histograms_are_cumulative_and_separate_the_gateways_own_time() {
    let telemetry = Telemetry::new(1);
    let route = telemetry.route("r");
    let waited = Record {
        upstream: Duration::from_micros(997),
        client: Duration::from_micros(1),
        ..record(&route, 0, 200, 1_001)
    };
    telemetry.record(&waited);
    telemetry.record(&record(&route, 0, 200, 70_000_000));
    check(
        &telemetry,
        &["tidegate_own", "tidegate_upstream_duration"],
        expect![[r##"
        # TYPE tidegate_own_duration_seconds histogram
        tidegate_own_duration_seconds_sum{route="r"} 70.000003
        tidegate_own_duration_seconds_count{route="r"} 2
        tidegate_own_duration_seconds_bucket{le="0.000001",route="r"} 0
        tidegate_own_duration_seconds_bucket{le="0.000002",route="r"} 0
        tidegate_own_duration_seconds_bucket{le="0.000005",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.00001",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.00002",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.00005",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.0001",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.0002",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.0005",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.001",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.002",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.005",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.01",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.05",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="0.25",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="1.0",route="r"} 1
        tidegate_own_duration_seconds_bucket{le="+Inf",route="r"} 2
        # TYPE tidegate_upstream_duration_seconds histogram
        tidegate_upstream_duration_seconds_sum{route="r"} 0.000997
        tidegate_upstream_duration_seconds_count{route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.00005",route="r"} 0
        tidegate_upstream_duration_seconds_bucket{le="0.0001",route="r"} 0
        tidegate_upstream_duration_seconds_bucket{le="0.00025",route="r"} 0
        tidegate_upstream_duration_seconds_bucket{le="0.0005",route="r"} 0
        tidegate_upstream_duration_seconds_bucket{le="0.001",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.0025",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.005",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.01",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.025",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.05",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.1",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.25",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="0.5",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="1.0",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="2.5",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="5.0",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="10.0",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="30.0",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="60.0",route="r"} 1
        tidegate_upstream_duration_seconds_bucket{le="+Inf",route="r"} 1
    "##]],
    );

    let series = strictly_openmetrics(&telemetry.render());
    let bucket = |le: &str| {
        series[&format!("tidegate_request_duration_seconds_bucket{{le=\"{le}\",route=\"r\"}}")]
    };
    assert_eq!(
        (bucket("0.001"), bucket("0.0025"), bucket("60.0"), bucket("+Inf")),
        (0.0, 1.0, 1.0, 2.0)
    );
}

#[test]
fn connections_pools_targets_and_the_configuration_are_shown() {
    let telemetry = Telemetry::new(2);
    let listener = telemetry.listener("public");
    listener.opened(0);
    listener.opened(1);
    listener.closed(1);
    listener.refused(1, Refusal::Tls);
    let upstream = telemetry.upstream("orders");
    for worker in 0..2 {
        let pool = upstream.pool(worker);
        pool.connections_open.add(3);
        pool.connections_idle.add(2);
        pool.connections_created.add(4);
        pool.requests_active.add(1);
        pool.retries.add(1);
    }
    let target = upstream.target("10.0.0.1:80");
    target.set_health(TargetHealth::Unhealthy);
    target.eject();
    target.suspend(kit::clock::wall() + Duration::from_secs(60));
    let _other = upstream.target("10.0.0.2:80");
    telemetry.reload().succeeded(7, "abc");
    telemetry.reload().failed();
    telemetry.worker(1).panics.add(1);
    let wanted = [
        "tidegate_workers",
        "tidegate_worker_panics",
        "tidegate_worker_conn",
        "tidegate_conn",
        "tidegate_upstream",
        "tidegate_config_g",
        "tidegate_config_i",
        "tidegate_config_r",
        "tidegate_access",
    ];
    check(
        &telemetry,
        &wanted,
        expect![[r##"
            # TYPE tidegate_workers gauge
            tidegate_workers 2
            # TYPE tidegate_access_log_dropped counter
            tidegate_access_log_dropped_total 0
            # TYPE tidegate_worker_panics counter
            tidegate_worker_panics_total{worker="0"} 0
            tidegate_worker_panics_total{worker="1"} 1
            # TYPE tidegate_worker_connections_open gauge
            tidegate_worker_connections_open{worker="0"} 1
            tidegate_worker_connections_open{worker="1"} 0
            # TYPE tidegate_connections_open gauge
            tidegate_connections_open{listener="public"} 1
            # TYPE tidegate_connections counter
            tidegate_connections_total{listener="public"} 2
            # TYPE tidegate_connections_refused counter
            tidegate_connections_refused_total{listener="public",reason="connections_max"} 0
            tidegate_connections_refused_total{listener="public",reason="connections_per_client"} 0
            tidegate_connections_refused_total{listener="public",reason="tls"} 1
            tidegate_connections_refused_total{listener="public",reason="proxy_header"} 0
            tidegate_connections_refused_total{listener="public",reason="accept"} 0
            # TYPE tidegate_connections_displaced counter
            tidegate_connections_displaced_total{listener="public"} 0
            # TYPE tidegate_upstream_duration_seconds histogram
            # TYPE tidegate_upstream_connections_open gauge
            tidegate_upstream_connections_open{upstream="orders"} 6
            # TYPE tidegate_upstream_connections_idle gauge
            tidegate_upstream_connections_idle{upstream="orders"} 4
            # TYPE tidegate_upstream_requests_active gauge
            tidegate_upstream_requests_active{upstream="orders"} 2
            # TYPE tidegate_upstream_requests_pending gauge
            tidegate_upstream_requests_pending{upstream="orders"} 0
            # TYPE tidegate_upstream_targets_left_out gauge
            tidegate_upstream_targets_left_out{upstream="orders"} 0
            # TYPE tidegate_upstream_connections_created counter
            tidegate_upstream_connections_created_total{upstream="orders"} 8
            # TYPE tidegate_upstream_connections_failed counter
            tidegate_upstream_connections_failed_total{upstream="orders"} 0
            # TYPE tidegate_upstream_retries counter
            tidegate_upstream_retries_total{upstream="orders"} 2
            # TYPE tidegate_upstream_breaker_refused counter
            tidegate_upstream_breaker_refused_total{upstream="orders"} 0
            # TYPE tidegate_upstream_lookups_failed counter
            tidegate_upstream_lookups_failed_total{upstream="orders"} 0
            # TYPE tidegate_upstream_target_healthy gauge
            tidegate_upstream_target_healthy{upstream="orders",target="10.0.0.1:80"} 0
            # TYPE tidegate_upstream_target_health gauge
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.1:80",state="unknown"} 0
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.1:80",state="healthy"} 0
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.1:80",state="failing"} 0
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.1:80",state="unhealthy"} 1
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.2:80",state="unknown"} 1
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.2:80",state="healthy"} 0
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.2:80",state="failing"} 0
            tidegate_upstream_target_health{upstream="orders",target="10.0.0.2:80",state="unhealthy"} 0
            # TYPE tidegate_upstream_target_ejected gauge
            tidegate_upstream_target_ejected{upstream="orders",target="10.0.0.1:80"} 1
            tidegate_upstream_target_ejected{upstream="orders",target="10.0.0.2:80"} 0
            # TYPE tidegate_upstream_target_ejections counter
            tidegate_upstream_target_ejections_total{upstream="orders",target="10.0.0.1:80"} 1
            tidegate_upstream_target_ejections_total{upstream="orders",target="10.0.0.2:80"} 0
            # TYPE tidegate_upstream_target_suspended gauge
            tidegate_upstream_target_suspended{upstream="orders",target="10.0.0.1:80"} 1
            tidegate_upstream_target_suspended{upstream="orders",target="10.0.0.2:80"} 0
            # TYPE tidegate_upstream_target_suspensions counter
            tidegate_upstream_target_suspensions_total{upstream="orders",target="10.0.0.1:80"} 1
            tidegate_upstream_target_suspensions_total{upstream="orders",target="10.0.0.2:80"} 0
            tidegate_config_info{hash="abc"} 1
            # TYPE tidegate_config_generation gauge
            tidegate_config_generation 7
            # TYPE tidegate_config_reloads counter
            tidegate_config_reloads_total{result="success"} 1
            tidegate_config_reloads_total{result="failure"} 1
        "##]],
    );
}

#[test]
fn the_process_is_shown_under_its_usual_names() {
    let series = strictly_openmetrics(&Telemetry::new(1).render());
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
        "process_threads",
    ] {
        assert!(series[name] > 0.0, "{name}");
    }
    assert!(series.contains_key("process_cpu_seconds_total"));
}

#[test]
fn metrics_without_a_record_are_not_shown() {
    let telemetry = Telemetry::new(2);
    let (_route, _upstream) = (telemetry.route("unused"), telemetry.upstream("unused"));
    let _listener = telemetry.listener("unused");
    assert!(!telemetry.render().contains("unused"));
}

#[test]
fn a_hostile_name_cannot_forge_a_series() {
    let telemetry = Telemetry::new(1);
    let route = telemetry.route("a\"} 1\n# EOF\ntidegate_requests_total{route=\"b\\");
    telemetry.record(&record(&route, 0, 200, 1));
    strictly_openmetrics(&telemetry.render());
}

#[test]
fn counts_survive_a_reload_and_routes_are_bounded() {
    let telemetry = Telemetry::new(1);
    telemetry.record(&record(&telemetry.route("kept"), 0, 200, 1));
    telemetry.record(&record(&telemetry.route("kept"), 0, 200, 1));
    let held: Vec<_> = (0..ROUTES_MAX).map(|n| telemetry.route(&n.to_string())).collect();
    let beyond = telemetry.route("one more");
    telemetry.record(&record(&beyond, 0, 500, 1));
    telemetry.record(&record(held.last().unwrap(), 0, 500, 1));
    let text = telemetry.render();
    let series = strictly_openmetrics(&text);
    let requests = |route: &str, class: &str| {
        series
            .get(&format!("tidegate_requests_total{{route=\"{route}\",status_class=\"{class}\"}}"))
            .copied()
    };
    assert_eq!(requests(OTHER, "5xx"), Some(2.0), "both came after the bound");
    assert_eq!(requests("one more", "5xx"), None);
    // The map was full when "one more" was added, so an unused entry was removed.
    assert_eq!(requests("kept", "2xx"), None);

    drop(held);
    assert!(Arc::ptr_eq(&telemetry.route("again"), &telemetry.route("again")));
}

#[test]
fn counts_never_decrease_or_get_lost_while_workers_record() {
    const EACH: u64 = 50_000;
    let workers = 4;
    let telemetry = Telemetry::new(workers);
    let route = telemetry.route("r");
    let total = "tidegate_requests_total{route=\"r\",status_class=\"2xx\"}";
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                let (telemetry, route) = (&telemetry, &route);
                scope.spawn(move || {
                    (0..EACH).for_each(|n| telemetry.record(&record(route, worker, 200, n)))
                })
            })
            .collect();
        let mut last = 0.0;
        while running.iter().any(|worker| !worker.is_finished()) {
            let now = strictly_openmetrics(&telemetry.render()).get(total).copied().unwrap_or(0.0);
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    });
    let series = strictly_openmetrics(&telemetry.render());
    let expected = (EACH * workers as u64) as f64;
    assert_eq!(series[total], expected);
    assert_eq!(series["tidegate_request_duration_seconds_count{route=\"r\"}"], expected);
    assert_eq!(series["tidegate_reply_bytes_total{route=\"r\"}"], expected * 100.0);
    assert_eq!(series["tidegate_worker_requests_total{worker=\"3\"}"], EACH as f64);
}
