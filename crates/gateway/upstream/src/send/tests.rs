//! When a request is sent again, and where: whole calls to targets in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use kit::fake;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::LocalSet;

use super::*;
use crate::UpstreamSettings;
use crate::settings::tests::settings;
use crate::settings::{Balance, Failures, Retry, Suspend};

/// What the targets do, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The connection is refused.
    Refuses,
    /// The connection is closed after the request has arrived.
    Closes,
    /// The request arrives and nothing comes back.
    IsSilent,
    /// A reply with this status, on a connection that stays open and resets the next request.
    Replies(u16),
}

use Action::{Closes, IsSilent, Refuses, Replies};

/// The outcome of a call: the status or the kind of fault, and the ports of the targets in the order in which they were tried.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    ended: Result<u16, Kind>,
    ports: Vec<u16>,
}

/// Replies to one request after all of its head has arrived.
async fn serve(mut peer: DuplexStream, action: Action) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        match peer.read_buf(&mut bytes).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    match action {
        Refuses | Closes => {}
        IsSilent => std::future::pending().await,
        Replies(status) => {
            let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            peer.write_all(reply.as_bytes()).await.unwrap();
            // The pooled connection ends when the next request arrives.
            while !matches!(peer.read_buf(&mut bytes).await, Ok(0) | Err(_)) {
                if bytes.ends_with(b"\r\n\r\n") {
                    return;
                }
            }
        }
    }
}

/// Makes one call with each of these methods, in order, and returns the outcome of the last one.
async fn call(settings: UpstreamSettings, methods: &[&str], actions: &[Action]) -> Outcome {
    let actions = Rc::new(RefCell::new(VecDeque::from(actions.to_vec())));
    let ports: Rc<RefCell<Vec<u16>>> = Rc::default();
    let seen = ports.clone();
    // Times of suspensions and failed connections are those of the wall clock.
    fake::wall(Duration::from_secs(1_000_000));
    fake::network(move |address| {
        seen.borrow_mut().push(address.port());
        match actions.borrow_mut().pop_front().expect("one more attempt than expected") {
            Refuses => Err(io::ErrorKind::ConnectionRefused.into()),
            action @ (Closes | IsSilent | Replies(_)) => {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                kit::spawn(serve(theirs, action));
                Ok(Box::new(ours))
            }
        }
    });
    let upstream = crate::tests::upstream(settings);
    let mut ended = Err(Kind::Internal);
    for method in methods {
        ports.borrow_mut().clear();
        ended = send(&upstream, method).await;
    }
    let ports = ports.borrow().iter().map(|port| port - 1000).collect();
    Outcome { ended, ports }
}

async fn send(upstream: &Arc<Upstream>, method: &str) -> Result<u16, Kind> {
    let reply = crate::tests::send(upstream, method).await.map_err(|fault| fault.kind)?;
    let status = reply.head.status;
    // Reading the body to its end gives the connection back to the pool.
    reply.body.gather(1 << 16, Kind::Internal).await.unwrap();
    Ok(status)
}

/// Three targets in a fixed order, and no retries except at another target when none can be connected to.
fn three() -> UpstreamSettings {
    UpstreamSettings { balance: Balance::Failover, ..settings(3) }
}

/// With retries after these failures.
fn with_retries(attempts: u32, on: Failures) -> UpstreamSettings {
    let none = Retry::none(on);
    let retry = Retry { attempts, elsewhere: false, non_idempotent: false, ..none };
    UpstreamSettings { retry, ..three() }
}

fn all_failures() -> Failures {
    Failures {
        connect_failure: true,
        reset: true,
        timeout: true,
        statuses: vec![502, 503],
        calls: Vec::new(),
    }
}

/// What is tested, the settings, the methods, what the targets do, and the outcome of the last call.
type Case<'c> =
    (&'c str, UpstreamSettings, &'c [&'c str], &'c [Action], Result<u16, Kind>, &'c [u16]);

async fn check(table: Vec<Case<'_>>) {
    let scene = async {
        for (what, settings, methods, actions, ended, ports) in table {
            let outcome = call(settings, methods, actions).await;
            assert_eq!(outcome, Outcome { ended, ports: ports.to_vec() }, "{what}");
        }
    };
    LocalSet::new().run_until(scene).await;
}

#[tokio::test(start_paused = true)]
async fn other_targets_are_tried_while_nothing_was_sent() {
    check(vec![
        ("each once", three(), &["POST"], &[Refuses, Refuses, Replies(200)], Ok(200), &[0, 1, 2]),
        (
            "and no more",
            three(),
            &["GET"],
            &[Refuses, Refuses, Refuses],
            Err(Kind::ConnectFailure),
            &[0, 1, 2],
        ),
        (
            "a reset is not a failure to connect",
            three(),
            &["GET"],
            &[Closes],
            Err(Kind::UpstreamReset),
            &[0],
        ),
        (
            "not if it is off",
            with_retries(0, all_failures()),
            &["GET"],
            &[Refuses],
            Err(Kind::ConnectFailure),
            &[0],
        ),
        (
            "a target that could not be connected to is not the first choice of the next call",
            three(),
            &["GET", "GET"],
            &[Refuses, Replies(200), Replies(201)],
            Ok(201),
            // The stale connection of the pool is followed by a new one to the same target.
            &[1],
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn listed_failures_are_retried_elsewhere_as_often_as_allowed() {
    let retries = |attempts| with_retries(attempts, all_failures());
    let none_listed = || with_retries(2, Failures::default());
    check(vec![
        ("a status", retries(1), &["GET"], &[Replies(503), Replies(200)], Ok(200), &[0, 1]),
        (
            "the last reply stays",
            retries(1),
            &["GET"],
            &[Replies(503), Replies(502)],
            Ok(502),
            &[0, 1],
        ),
        ("another status", retries(1), &["GET"], &[Replies(500)], Ok(500), &[0]),
        ("a reset", retries(2), &["PUT"], &[Closes, Closes, Replies(200)], Ok(200), &[0, 1, 2]),
        ("connecting", retries(1), &["POST"], &[Refuses, Replies(200)], Ok(200), &[0, 1]),
        ("silence", retries(1), &["GET"], &[IsSilent, Replies(200)], Ok(200), &[0, 1]),
        ("the limit", retries(1), &["GET"], &[Closes, Closes], Err(Kind::UpstreamReset), &[0, 1]),
        ("not listed", none_listed(), &["GET"], &[Replies(503)], Ok(503), &[0]),
        ("nor this", none_listed(), &["GET"], &[Closes], Err(Kind::UpstreamReset), &[0]),
        ("nor that", none_listed(), &["GET"], &[Refuses], Err(Kind::ConnectFailure), &[0]),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_not_idempotent_are_repeated_only_if_the_operator_says_so() {
    let careful = || with_retries(2, all_failures());
    let bold = || {
        let settings = careful();
        UpstreamSettings {
            retry: Retry { non_idempotent: true, ..settings.retry.clone() },
            ..settings
        }
    };
    check(vec![
        ("a status", careful(), &["POST"], &[Replies(503)], Ok(503), &[0]),
        ("a reset", careful(), &["PATCH"], &[Closes], Err(Kind::UpstreamReset), &[0]),
        ("silence", careful(), &["POST"], &[IsSilent], Err(Kind::UpstreamTimeout), &[0]),
        ("allowed", bold(), &["POST"], &[Replies(503), Replies(200)], Ok(200), &[0, 1]),
        ("allowed", bold(), &["PATCH"], &[Closes, Replies(200)], Ok(200), &[0, 1]),
    ])
    .await;
}

/// A pooled connection that the target closes at the next request has probably not carried that request.
#[tokio::test(start_paused = true)]
async fn a_stale_connection_costs_no_retry_but_a_request_that_may_have_arrived_is_not_repeated() {
    let none = || with_retries(0, Failures::default());
    let replies: &[Action] = &[Replies(200), Replies(201)];
    check(vec![
        ("idempotent", none(), &["GET", "GET"], replies, Ok(201), &[0]),
        ("not idempotent", none(), &["GET", "POST"], replies, Err(Kind::UpstreamReset), &[]),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn limits_of_time_end_the_attempts() {
    let limited = |try_timeout, total| {
        let settings = with_retries(5, all_failures());
        let retry = Retry { try_timeout, ..settings.retry.clone() };
        let timeout = crate::settings::Timeouts { total, ..settings.timeout.clone() };
        UpstreamSettings { retry, timeout, ..settings }
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let paused = |settings: UpstreamSettings| {
        let pause = seconds(10);
        let retry = Retry { pause, pause_max: Duration::from_secs(10), ..settings.retry.clone() };
        UpstreamSettings { retry, ..settings }
    };
    let late = Err(Kind::UpstreamTimeout);
    let silent = [IsSilent; 6];
    check(vec![
        // An attempt may last 5 s (`response`), so the third one would begin at the limit of the call.
        ("the whole call", limited(None, seconds(10)), &["GET"], &silent, late, &[0, 1]),
        ("each attempt", limited(seconds(1), seconds(3)), &["GET"], &silent, late, &[0, 1, 2]),
        // A pause is at least 5 s, and would not leave time for the second attempt.
        (
            "a pause",
            paused(limited(None, seconds(4))),
            &["GET"],
            &[Closes],
            Err(Kind::UpstreamReset),
            &[0],
        ),
        (
            "no limit",
            paused(limited(None, None)),
            &["GET"],
            &[Closes, Replies(200)],
            Ok(200),
            &[0, 1],
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_target_gets_no_requests_and_the_only_one_has_its_own_fault() {
    let rule = || Suspend {
        on: all_failures(),
        after: 1,
        initial: Duration::from_secs(30),
        factor_permille: 1000,
        max: Duration::from_secs(30),
    };
    let of = |settings: UpstreamSettings| UpstreamSettings { suspend: Some(rule()), ..settings };
    let two = || UpstreamSettings {
        balance: Balance::Failover,
        retry: Retry { elsewhere: false, ..Retry::none(Failures::default()) },
        ..settings(2)
    };
    let one = || UpstreamSettings { targets: settings(1).targets, ..two() };
    check(vec![
        ("the other one", of(two()), &["GET", "GET"], &[Closes, Replies(200)], Ok(200), &[1]),
        ("a status", of(two()), &["GET", "GET"], &[Replies(503), Replies(200)], Ok(200), &[1]),
        ("both", of(two()), &["GET", "GET", "GET"], &[Closes, Closes], Err(Kind::NoTarget), &[]),
        ("alone", of(one()), &["GET", "GET"], &[Closes], Err(Kind::TargetSuspended), &[]),
    ])
    .await;
}

#[test]
fn only_failures_of_the_target_count_against_it() {
    for (kind, counts) in [
        (Kind::ConnectFailure, true),
        (Kind::ConnectTimeout, true),
        (Kind::UpstreamTls, true),
        (Kind::UpstreamReset, true),
        (Kind::UpstreamTimeout, true),
        (Kind::UpstreamMalformed, true),
        (Kind::BreakerOpen, false),
        (Kind::NoTarget, false),
        (Kind::Unresolved, false),
        (Kind::TargetSuspended, false),
        (Kind::ClientGone, false),
        (Kind::BodyTooLarge, false),
        (Kind::Internal, false),
    ] {
        assert_eq!(counts_against(kind), counts, "{kind:?}");
    }
}

#[test]
fn a_share_of_the_targets_may_be_ejected() {
    for (targets, percent, expected) in
        [(1, 100, 1), (1, 99, 0), (4, 50, 2), (4, 49, 1), (10, 10, 1)]
    {
        let outlier = Outlier {
            consecutive_faults: 1,
            statuses: vec![(500, 599)],
            until_probe: false,
            eject: Duration::from_secs(30),
            max_ejected_percent: percent,
        };
        let settings = UpstreamSettings { outlier: Some(outlier), ..settings(targets) };
        let upstream = crate::tests::upstream(settings);
        let set = upstream.targets();
        for member in set.members() {
            upstream.record_outcome(&member.target, false, || replied(500));
        }
        let ejected = set.members().iter().filter(|member| member.target.is_ejected()).count();
        assert_eq!(ejected, expected, "{percent} % of {targets}");
    }
}
