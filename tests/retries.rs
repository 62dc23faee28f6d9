//! `retry`: pauses, the time of one attempt, and the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{ClosedPort, Gate, Origin, PATIENCE, Plain, tidegate};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

/// Answers 503 this many times, then 200.
fn busy(times: usize) -> Origin {
    let left = Arc::new(AtomicUsize::new(times));
    Origin::start(move |peer| {
        while peer.request().is_some() {
            let is_busy =
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if !peer.try_send(if is_busy.is_ok() { BUSY } else { OK }) {
                return;
            }
        }
    })
}

#[test]
fn retries_wait_for_their_pauses() {
    for (pauses, least) in [("pause: 100ms, pause_max: 200ms", 50 + 100 + 100), ("", 0)] {
        let origin = busy(3);
        let upstream = format!("retry: {{ attempts: 3, when: [503], {pauses} }}");
        let gateway = Plain { upstream: &upstream, ..Plain::default() }.start(&origin);
        let began = Instant::now();
        assert_eq!(gateway.wire().get("/").status(), 200);
        assert!(began.elapsed() >= Duration::from_millis(least), "{:?}", began.elapsed());
        assert_eq!(origin.requests().len(), 4);
    }
}

/// What a target may have received is not sent again, if the operator says so.
#[test]
fn a_post_is_repeated_only_where_that_is_allowed() {
    const ASK: &str = " / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na";
    for (key, method, statuses) in [
        ("", "POST", [200, 200]),
        ("non_idempotent: true", "PATCH", [200, 200]),
        ("non_idempotent: false", "POST", [503, 502]),
        ("non_idempotent: false", "PATCH", [503, 502]),
        ("non_idempotent: false", "PUT", [200, 200]),
    ] {
        let upstream = format!("retry: {{ attempts: 2, when: [503, reset], {key} }}");
        let closing = Origin::start(|peer| {
            // The first request of all gets no answer.
            while peer.request().is_some() && peer.number > 0 && peer.try_send(OK) {}
        });
        for (origin, status) in [busy(1), closing].into_iter().zip(statuses) {
            let gateway = Plain { upstream: &upstream, ..Plain::default() }.start(&origin);
            let reply = gateway.wire().ask(format!("{method}{ASK}"));
            assert_eq!(reply.status(), status, "{method} {key}");
            let times = if status == 200 { 2 } else { 1 };
            assert_eq!(origin.requests().len(), times, "{method} {key}");
        }
    }
    // Nothing was sent.
    let origin = Origin::saying("ok");
    let closed = ClosedPort::any();
    let targets = [format!("http://{}", closed.address), origin.url()];
    let upstream = "retry: { attempts: 1, non_idempotent: false }";
    let gateway = Plain { upstream, targets: &targets, ..Plain::default() }.start(&origin);
    for _ in 0..4 {
        assert_eq!(gateway.wire().ask(format!("POST{ASK}")).status(), 200);
    }
}

/// Only the pause that is due has to end within `timeout.total`. The longest one may be longer.
#[test]
fn a_retry_is_left_out_only_if_its_own_pause_is_too_long() {
    for (pause, status, times) in [("25ms", 200, 2), ("20s", 503, 1)] {
        let origin = busy(1);
        let retry = format!("{{ attempts: 3, when: [503], pause: {pause}, pause_max: 20s }}");
        let upstream = format!("timeout: {{ total: 8s }}, retry: {retry}");
        let gateway = Plain { upstream: &upstream, ..Plain::default() }.start(&origin);
        assert_eq!(gateway.wire().get("/").status(), status, "{pause}");
        assert_eq!(origin.requests().len(), times, "{pause}");
    }
}

/// The first attempt gets no answer, and the second is asked long before the whole response timeout.
#[test]
fn an_attempt_has_a_time_of_its_own() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            if peer.number == 0 {
                held.wait();
            }
            if !peer.try_send(OK) {
                return;
            }
        }
    });
    let upstream =
        "timeout: { response: 60s }, retry: { attempts: 1, when: [timeout], try_timeout: 100ms }";
    let gateway = Plain { upstream, ..Plain::default() }.start(&origin);
    let began = Instant::now();
    assert_eq!(gateway.wire().get("/").status(), 200);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    assert_eq!(origin.requests().len(), 2);
    gate.open();

    let silent = Origin::silent();
    let upstream = "retry: { try_timeout: 50ms }";
    let gateway = Plain { upstream, ..Plain::default() }.start(&silent);
    assert_eq!(gateway.wire().get("/").status(), 504);
    gateway.wait_for_log("no reply within 50ms (`try_timeout`)");
}

/// Three retries may always be in progress. The other waiting requests get the first reply.
#[test]
fn retries_are_bounded_by_a_budget() {
    let (first, second) = (Gate::default(), Gate::default());
    let (held, again) = (first.clone(), second.clone());
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let is_first = request.get("x-first").is_none_or(|_| peer.number < 10);
            if is_first {
                held.wait()
            } else {
                again.wait()
            }
            if !peer.try_send(if is_first { BUSY } else { OK }) {
                return;
            }
        }
    });
    let upstream = "pool: { idle_max: 0 }, retry: { attempts: 1, when: [503], budget: 10% }";
    let gateway = Plain { upstream, ..Plain::default() }.start(&origin);
    let statuses = std::thread::scope(|scope| {
        let ask = || gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\nX-First: 1\r\n\r\n").status();
        let clients: Vec<_> = (0..10).map(|_| scope.spawn(ask)).collect();
        origin.wait_for_requests(10);
        first.open();
        origin.wait_for_requests(13);
        second.open();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((passed, origin.requests().len()), (3, 13), "{statuses:?}");
}

#[test]
fn retries_that_cannot_work_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    for (retry, code, part) in [
        ("attempts: 1, pause: 1s", 1, "`pause` is longer than `pause_max`"),
        ("attempts: 1, when: [503], try_timeout: 1s", 0, "add `timeout` to `when`"),
        ("pause: 10ms", 0, "`pause` has no effect, because nothing is retried"),
        ("attempts: 1, budget: 120%", 1, "a number from 0 to 100"),
    ] {
        let upstream = format!("retry: {{ {retry} }}");
        let yaml = Plain { upstream: &upstream, ..Plain::default() }.yaml(&origin);
        std::fs::write(&file, yaml).unwrap();
        let said = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(code), "{retry}: {said:?}");
        assert!(said.stderr.contains(part), "{retry}: {}", said.stderr);
    }
}
