//! The handover between the residents of two plans: the new resident waits until the old one has released what only one of them may hold.

use std::future::poll_fn;
use std::time::Duration;

use policy::EndSignal;

/// The interval at which the new resident checks whether the old one has finished.
const INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `take` returns a value, and returns it. Returns `None` if the resident is asked to end before that.
pub async fn taken<T>(ending: &EndSignal, take: impl Fn() -> Option<T>) -> Option<T> {
    loop {
        if let Some(taken) = take() {
            return Some(taken);
        }
        if pause(ending, INTERVAL).await {
            return None;
        }
    }
}

/// Waits for `time`, then returns false. Returns true as soon as the resident is asked to end.
pub async fn pause(ending: &EndSignal, time: Duration) -> bool {
    let asked = poll_fn(|cx| ending.poll_asked(cx));
    tokio::time::timeout(time, asked).await.is_ok()
}

#[cfg(test)]
mod tests {
    use kit::clock;
    use std::cell::Cell;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_the_previous_resident_returns_is_taken_soon() {
        let (ending, free) = (EndSignal::default(), Cell::new(false));
        let began = clock::now();
        let taking = taken(&ending, || free.take().then_some("it"));
        let returning = async {
            sleep(Duration::from_secs(5)).await;
            free.set(true);
        };
        let (taken, ()) = tokio::join!(taking, returning);
        assert_eq!(taken, Some("it"));
        assert!(began.elapsed() <= Duration::from_secs(5) + INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resident_that_has_to_end_does_not_wait() {
        let ending = EndSignal::default();
        let began = clock::now();
        let asking = async {
            sleep(Duration::from_secs(5)).await;
            ending.ask();
        };
        let (taken, ()) = tokio::join!(taken(&ending, || None::<()>), asking);
        assert_eq!(taken, None);
        assert!(pause(&ending, Duration::from_secs(60)).await, "it still waits");
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }
}
