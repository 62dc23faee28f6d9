//! The limits of a body whose client is slow, with a paused clock.

use std::future::poll_fn;

use super::*;

/// Limits of 10 s for a pause, 100 bytes per second, and this many seconds in total.
fn pace(total: Option<u64>) -> Pace {
    let pause = Duration::from_secs(10);
    Pace {
        pause,
        rate: 100,
        credit: pause,
        end: total.and_then(|total| clock::now().checked_add(Duration::from_secs(total))),
        total: Duration::from_secs(total.unwrap_or(0)),
        waiting: None,
        nearest: Nearest::Pause,
        progress: BodyProgress::default(),
        alarm: None,
    }
}

/// Waits until a limit is reached. Returns the time in milliseconds, and what was slow.
async fn late(pace: &mut Pace) -> (u128, String) {
    let began = clock::now();
    let fault = poll_fn(|cx| pace.poll_late(cx)).await;
    assert_eq!(fault.kind, Kind::RequestTimeout);
    // Timers are exact to a millisecond.
    (began.elapsed().as_millis() / 10 * 10, fault.cause.to_string())
}

/// Waits this long for bytes, which then arrive.
async fn wait(pace: &mut Pace, ms: u64, bytes: usize) {
    let waiting = poll_fn(|cx| pace.poll_late(cx));
    let late = tokio::time::timeout(Duration::from_millis(ms), waiting).await;
    assert!(late.is_err(), "within the limits");
    pace.received(bytes);
}

const PAUSED: &str = "the request's body paused for 10s";
const SLOW: &str = "the request's body arrived at less than 100 bytes per second";
const LONG: &str = "the request's body took longer than 15s";

#[tokio::test(start_paused = true)]
async fn the_time_for_a_pause_begins_again_with_each_piece() {
    let mut pace = pace(None);
    for _ in 0..5 {
        wait(&mut pace, 9000, 100_000).await;
    }
    assert_eq!(late(&mut pace).await, (10_000, PAUSED.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_byte_now_and_then_is_cut_off_as_if_it_had_paused() {
    let mut trickle = pace(None);
    wait(&mut trickle, 4000, 1).await;
    wait(&mut trickle, 4000, 1).await;
    // 2 s of the 10 s are left, and each byte is worth 10 ms.
    assert_eq!(late(&mut trickle).await, (2020, SLOW.to_owned()));
    let mut just_enough = pace(None);
    for _ in 0..20 {
        wait(&mut just_enough, 4000, 400).await;
    }
    // Bytes beyond the rate do not buy a longer pause.
    wait(&mut just_enough, 4000, 1_000_000).await;
    assert_eq!(late(&mut just_enough).await, (10_000, PAUSED.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn time_in_which_nobody_waits_for_the_client_does_not_count() {
    let mut pace = pace(None);
    wait(&mut pace, 9000, 0).await;
    // The gateway waits for the upstream, and pieces arrive without a wait.
    tokio::time::advance(Duration::from_secs(100)).await;
    pace.received(0);
    assert_eq!(late(&mut pace).await, (1000, SLOW.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_whole_body_has_a_limit_even_if_its_client_is_fast() {
    let mut pace = pace(Some(15));
    wait(&mut pace, 9000, 100_000).await;
    assert_eq!(late(&mut pace).await, (6000, LONG.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_has_begun_lifts_the_rate_and_a_stream_also_the_pause() {
    let mut replied = pace(None);
    wait(&mut replied, 9000, 0).await;
    let progress = replied.progress().clone();
    // The reply begins during the wait, after the alarm was set for the rate, which rings 1 s after the last piece.
    let begins = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        progress.begin_reply();
    };
    let (late_at, ()) = tokio::join!(late(&mut replied), begins);
    assert_eq!(late_at, (10_000, PAUSED.to_owned()), "since the last piece");
    let mut streamed = pace(None);
    streamed.progress().begin_stream();
    streamed.progress().begin_reply();
    wait(&mut streamed, 3_600_000, 0).await;
    let mut limited = pace(Some(15));
    limited.progress().begin_stream();
    assert_eq!(late(&mut limited).await, (15_000, LONG.to_owned()), "the total is kept");
}

#[test]
fn progress_is_reported_once() {
    let mut pace = pace(None);
    let progress = pace.progress().clone();
    assert!(!progress.has_moved());
    pace.received(1);
    assert_eq!([progress.has_moved(), progress.has_moved()], [true, false]);
}
