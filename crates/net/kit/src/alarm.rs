//! A deadline that can be changed cheaply.
//!
//! Every exchange changes several deadlines, and almost none is ever reached. Registering a timer with the runtime costs far more than
//! storing an instant. Therefore an `Alarm` keeps its registered timer as long as that fires no later than the deadline, and checks the
//! deadline again when it fires.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::clock;

/// An alarm that several owners in one task share.
pub type SharedAlarm = Rc<RefCell<Alarm>>;

/// The maximum number of spare alarms of a thread, which is the number of concurrent deliveries of a hub. Further concurrent waits
/// register new timers.
const KEPT_MAX: usize = 1024;

thread_local! {
    static SPARE: RefCell<Vec<SharedAlarm>> = const { RefCell::new(Vec::new()) };
}

/// One changeable deadline. If it is not set, the alarm never rings.
#[derive(Debug, Default)]
pub struct Alarm {
    deadline: Option<Instant>,
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// The time at which `sleep` ends.
    rings: Instant,
    waker: Option<Waker>,
}

/// Takes a spare alarm of this thread, or creates one. It is unset, and may reuse the timer of an earlier wait. This works because a thread
/// has only one runtime.
pub fn take() -> SharedAlarm {
    // Harmless: if the thread is ending, a new alarm is created.
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Clears an alarm and adds it to the spare alarms of this thread, unless it has another owner.
pub fn give(mut alarm: SharedAlarm) {
    let Some(own) = Rc::get_mut(&mut alarm) else { return };
    own.get_mut().clear();
    // Harmless: if the thread is ending, the alarm is dropped.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT_MAX {
            spare.push(alarm);
        }
    });
}

impl Alarm {
    /// Sets the alarm to ring at `now` plus `after`.
    pub fn set(&mut self, now: Instant, after: Duration) {
        self.set_by(now, after, None);
    }

    /// Sets the alarm to ring at `now` plus `after`, but not later than `latest`.
    pub fn set_by(&mut self, now: Instant, after: Duration, latest: Option<Instant>) {
        let deadline = now.checked_add(after);
        self.deadline = deadline.into_iter().chain(latest).min();
    }

    /// Moves the deadline forward to `to`. An earlier deadline is kept, and `None` changes nothing.
    pub fn bring_forward(&mut self, to: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(to).min();
    }

    /// Returns true if the alarm is set.
    pub fn is_set(&self) -> bool {
        self.deadline.is_some()
    }

    /// Unsets the alarm.
    pub fn clear(&mut self) {
        self.deadline = None;
    }

    /// Ready once the deadline has passed. Until then, the task is registered to be woken at the deadline.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(Timer {
                sleep: Box::pin(tokio::time::sleep_until(deadline)),
                rings: deadline,
                waker: None,
            }),
        };
        timer.poll(cx, deadline)
    }
}

impl Timer {
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let elapsed = self.sleep.is_elapsed();
        if elapsed && clock::now() >= deadline {
            return Poll::Ready(());
        }
        let moved = elapsed || self.rings > deadline;
        if moved {
            self.sleep.as_mut().reset(deadline);
            self.rings = deadline;
        }
        let known = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if known && !moved {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        self.sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_at_the_deadline_that_was_set_last() {
        let mut alarm = Alarm::default();
        let start = clock::now();
        alarm.set(start, Duration::from_secs(5));
        assert!(std::future::poll_fn(|cx| Poll::Ready(alarm.poll(cx))).await.is_pending());
        alarm.set(start, Duration::from_secs(9));
        std::future::poll_fn(|cx| alarm.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_at_the_latest_time_at_most() {
        for (after, rings) in [(1, 1), (9, 3), (u64::MAX, 3)] {
            let mut alarm = Alarm::default();
            let start = clock::now();
            let latest = start + Duration::from_secs(3);
            alarm.set_by(start, Duration::from_secs(after), Some(latest));
            std::future::poll_fn(|cx| alarm.poll(cx)).await;
            assert_eq!(start.elapsed().as_secs(), rings, "{after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_moves_the_timer() {
        let mut alarm = Alarm::default();
        let start = clock::now();
        alarm.set(start, Duration::from_secs(60));
        assert!(std::future::poll_fn(|cx| Poll::Ready(alarm.poll(cx))).await.is_pending());
        alarm.set(start, Duration::from_secs(2));
        std::future::poll_fn(|cx| alarm.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_serves_one_wait_after_the_other() {
        let start = clock::now();
        let (first, held) = (take(), take());
        first.borrow_mut().set(start, Duration::from_secs(5));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(first.borrow_mut().poll(cx))).await.is_pending()
        );
        let (was, still_held) = (Rc::as_ptr(&first), held.clone());
        give(first);
        give(held);
        let again = take();
        assert_eq!(Rc::as_ptr(&again), was, "the one that nobody else held");
        assert!(!again.borrow().is_set());
        again.borrow_mut().set(start, Duration::from_secs(9));
        std::future::poll_fn(|cx| again.borrow_mut().poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 9);
        drop(still_held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cleared_alarm_never_rings() {
        let mut alarm = Alarm::default();
        alarm.set(clock::now(), Duration::from_secs(1));
        alarm.clear();
        let rung = tokio::time::timeout(
            Duration::from_secs(100),
            std::future::poll_fn(|cx| alarm.poll(cx)),
        );
        assert!(rung.await.is_err());
    }
}
