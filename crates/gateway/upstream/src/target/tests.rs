//! How long a target is out, and why.

use kit::fake;

use super::*;
use crate::Targets;
use crate::settings::tests::settings;
use crate::settings::{Failures, Health, UnhealthyAfter};

fn target_of(settings: UpstreamSettings) -> Arc<Target> {
    crate::tests::upstream(settings).targets().members()[0].target.clone()
}

fn target() -> Arc<Target> {
    target_of(settings(1))
}

/// Sets the wall clock to this many milliseconds after a fixed time.
fn at(ms: u64) {
    fake::wall(Duration::from_millis(1_000_000 + ms));
}

#[tokio::test(start_paused = true)]
async fn each_ejection_lasts_longer_up_to_ten_times() {
    let target = target();
    let mut now = 0;
    for factor in (1..=10).chain([10, 10]) {
        at(now);
        target.eject(Duration::from_secs(3));
        assert!(target.is_ejected() && !target.is_available(), "{factor}");
        at(now + 3000 * factor - 1);
        assert!(target.is_ejected(), "{factor}");
        now += 3000 * factor;
        at(now);
        assert!(!target.is_ejected() && target.is_available(), "{factor}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_is_avoided_for_a_second_after_a_failed_connection() {
    at(0);
    let target = target();
    target.extend_unreachable();
    assert!(!target.is_unreachable(), "no connection has failed");
    target.set_unreachable();
    at(999);
    assert!(target.is_unreachable());
    target.extend_unreachable();
    at(1998);
    assert!(target.is_unreachable(), "another request has tried it");
    at(1999);
    assert!(!target.is_unreachable() && target.is_available());
    target.extend_unreachable();
    assert!(target.is_unreachable(), "the result of the next try is not known yet");
    target.succeeded();
    assert!(!target.is_unreachable());
    target.extend_unreachable();
    assert!(!target.is_unreachable());
}

#[test]
fn only_faults_in_a_row_reach_the_limit() {
    let outlier = Outlier {
        consecutive_faults: 3,
        statuses: Vec::new(),
        until_probe: false,
        eject: Duration::from_secs(1),
        max_ejected_percent: 100,
    };
    let target = target();
    let fail = || target.failed(&outlier);
    assert_eq!([fail(), fail()], [false, false]);
    target.succeeded();
    assert_eq!([fail(), fail(), fail(), fail()], [false, false, true, true]);
    target.eject(Duration::ZERO);
    assert!(!fail(), "an ejection starts the count again");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_sent_before_a_suspension_neither_extends_nor_ends_it() {
    let rule = Suspend {
        on: Failures::default(),
        after: 1,
        initial: Duration::from_secs(10),
        factor_permille: 1000,
        max: Duration::from_secs(10),
    };
    at(0);
    let target = target();
    let early = clock::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    let length = target.record_listed_failure(&rule, clock::now());
    assert_eq!(length, Some(Duration::from_secs(10)));
    let end = Duration::from_millis(1_000_000) + Duration::from_secs(11);
    assert_eq!(target.suspended_until(), Some(end));
    assert_eq!(target.record_listed_failure(&rule, early), None);
    assert!(!target.record_listed_success(early));
    assert_eq!((target.suspended_until(), target.is_available()), (Some(end), false));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(target.suspended_until().is_none() && target.is_available());
    assert!(target.record_listed_success(clock::now()), "it had been suspended");
}

#[test]
fn replies_decide_the_health_of_a_target_without_checks_and_no_other() {
    let health = Health {
        path: None,
        grpc: None,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        unhealthy_after: UnhealthyAfter::Any(1),
        healthy_after: 1,
        statuses: Vec::new(),
        unhealthy_statuses: None,
    };
    let plain = target();
    plain.record_failing(|| "it replied 500".to_owned());
    assert_eq!(plain.health(), TargetHealth::Failing);
    assert_eq!(plain.reason().as_deref().map(String::as_str), Some("it replied 500"));
    plain.record_failing(|| unreachable!("the first reason stays"));
    assert!(plain.is_available(), "it gets requests, or its health would never change");
    plain.succeeded();
    assert_eq!((plain.health(), plain.reason()), (TargetHealth::Healthy, None));
    let checked = target_of(UpstreamSettings { health: Some(health), ..settings(1) });
    checked.record_failing(|| unreachable!("its replies do not count"));
    checked.succeeded();
    assert_eq!(checked.health(), TargetHealth::Unknown);
    checked.explain("probe: status 503".to_owned());
    checked.set_healthy(false);
    assert_eq!((checked.health(), checked.is_available()), (TargetHealth::Unhealthy, false));
    assert_eq!(checked.reason().as_deref().map(String::as_str), Some("probe: status 503"));
    checked.set_healthy(true);
    assert!(checked.is_available() && checked.reason().is_none());
}

#[test]
fn operators_take_a_target_out_and_put_it_back() {
    let target = target();
    for (weight, drained, expected, is_available) in [
        (None, Some(true), (None, true), false),
        (Some(0), None, (Some(0), true), false),
        (None, Some(false), (Some(0), false), false),
        (Some(7), None, (Some(7), false), true),
        (None, None, (Some(7), false), true),
        (Some(u16::MAX), None, (Some(65_535), false), true),
    ] {
        target.set(weight, drained);
        assert_eq!((target.weight_set(), target.is_drained()), expected);
        assert_eq!(target.is_available(), is_available, "{expected:?}");
    }
}

/// Operators write ids into scripts, so they must not change.
#[test]
fn ids_depend_on_the_url_alone() {
    let of = |host: &str, port| {
        let own = TargetSettings { https: false, host: host.to_owned(), port, weight: 1 };
        target_of(UpstreamSettings { targets: Targets::Fixed(vec![own]), ..settings(1) }).id()
    };
    assert_eq!(of("127.0.0.1", 1000), of("127.0.0.1", 1000));
    assert_ne!(of("127.0.0.1", 1000), of("127.0.0.1", 1001));
    // FNV-1a of `http://a`.
    assert_eq!(of("a", 80), "731f311e");
}

#[test]
fn active_requests_count_until_they_are_dropped() {
    let target = target();
    let requests = [target.begin(), target.begin()];
    assert_eq!((target.active(), requests[0].url()), (2, "http://127.0.0.1:1000"));
    drop(requests);
    assert_eq!(target.active(), 0);
}
