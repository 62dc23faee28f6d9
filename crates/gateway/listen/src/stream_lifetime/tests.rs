//! When a stream counts as silent, and when a credential expires, with a paused clock.

use std::future::poll_fn;

use kit::fake;

use super::*;

/// Waits until the stream is silent. Returns the time in seconds.
async fn silent(silence: &StreamSilence) -> u64 {
    let began = clock::now();
    poll_fn(|cx| if silence.is_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    began.elapsed().as_secs()
}

fn silence(seconds: Option<u64>) -> StreamSilence {
    let idle = seconds.map(Duration::from_secs);
    StreamSilence::of(&Streams { idle, ..Streams::USUAL }, None)
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_silent_after_its_time_without_data_and_at_most_a_quarter_later() {
    assert_eq!(silent(&silence(Some(80))).await, 80);
    assert_eq!(silent(&silence(None)).await, 3600);
    for (moves_at, expected) in [(1, 100), (19, 100), (21, 120), (79, 160)] {
        let silence = silence(Some(80));
        let moves = async {
            tokio::time::sleep(Duration::from_secs(moves_at)).await;
            silence.moved.set(true);
        };
        let (ended, ()) = tokio::join!(silent(&silence), moves);
        assert_eq!(ended, expected, "data after {moves_at} s");
        assert!(silence.has_ended(), "and it stays so");
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_expires_by_the_wall_clock() {
    fake::wall(Duration::from_secs(1000));
    let left = |expires| {
        let expiry = Expiry::at(expires, POLICY_VIOLATION);
        expiry.map(|expiry| expiry.at.duration_since(clock::now()).as_secs())
    };
    for (expires, expected) in [(1010, Some(10)), (1000, Some(0)), (1, Some(0)), (u64::MAX, None)] {
        assert_eq!(left(expires), expected, "{expires}");
    }
}
