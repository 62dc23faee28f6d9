//! Schedules password checks: each check needs a permit, and clients get permits in turn.
//!
//! A slow hash occupies a core for as long as it is designed to, so there are few permits in the whole process. A client is identified by
//! its address (for IPv6, the /64 network) and not by the name it sends: otherwise, anyone could lock out the owner of a name. One client
//! never has all permits, and waiting checks are started client by client instead of in order of arrival. The lock is held for single
//! operations on lists that are short because of their bounds.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kit::{SharedAlarm, clock};

/// The maximum number of concurrent checks in the whole process.
// Each check occupies a core, and the workers need cores, too.
const CHECKED_MAX: usize = 4;
/// The maximum number of concurrent checks of one client, so that other clients get a permit at once.
const CHECKED_OF_CLIENT_MAX: usize = 2;
/// The maximum number of waiting checks of one client. A person needs one, and an office behind one address a few, since correct passwords
/// are cached.
const WAITING_OF_CLIENT_MAX: usize = 16;
/// The maximum number of waiting checks in the process. Beyond it, a check of the client with the most waiting checks is dropped.
const WAITING_MAX: usize = 256;
/// The longest wait of a request: more than twice the time that sixteen checks of one client take with the slowest common hashes (250 ms).
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The permits in use, and the queues of waiting checks.
#[derive(Default)]
pub(super) struct Checks(Mutex<State>);

#[derive(Default)]
struct State {
    /// The client of each check that runs or has been called to run.
    running: Vec<u64>,
    /// Clients with waiting checks, in the order of their turns.
    clients: VecDeque<Client>,
    /// Checks that were called and have not started yet.
    called: Vec<u64>,
}

struct Client {
    key: u64,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    id: u64,
    waker: Waker,
}

/// The permit to check a password, which is returned when dropped.
pub(super) struct CheckPermit {
    checks: Arc<Checks>,
    client: u64,
}

/// The reason why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// This client has too many waiting checks.
    OfClient,
    /// All clients together have too many, or the wait took too long.
    OfAll,
}

/// A waiting check. If it is dropped, its turn passes to the next check.
struct CheckWaiter<'c> {
    checks: &'c Arc<Checks>,
    client: u64,
    id: u64,
    entered: bool,
}

impl Checks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit for this client.
    pub(super) async fn acquire(
        self: &Arc<Checks>,
        client: u64,
        alarm: &SharedAlarm,
    ) -> Result<CheckPermit, Full> {
        if self.state().begin(client) {
            return Ok(CheckPermit { checks: self.clone(), client });
        }
        let mut waiting =
            CheckWaiter { checks: self, client, id: fastrand::u64(..), entered: false };
        alarm.borrow_mut().set(clock::now(), WAIT_MAX);
        let place = poll_fn(|cx| match waiting.poll(cx) {
            Poll::Ready(taken) => Poll::Ready(taken),
            Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| Err(Full::OfAll)),
        });
        let place = place.await;
        alarm.borrow_mut().clear();
        place
    }
}

impl State {
    /// Starts a check if a permit is free for this client. Waiting checks cannot use that permit, or they would have been called, so none
    /// is overtaken.
    fn begin(&mut self, client: u64) -> bool {
        let free = self.may_run(client);
        if free {
            self.running.push(client);
        }
        free
    }

    fn may_run(&self, client: u64) -> bool {
        let own = self.running.iter().filter(|running| **running == client).count();
        self.running.len() < CHECKED_MAX && own < CHECKED_OF_CLIENT_MAX
    }

    fn waiting_of(&self, client: u64) -> usize {
        let own = self.clients.iter().find(|one| one.key == client);
        own.map_or(0, |own| own.waiting.len())
    }

    /// Adds a waiter at the end of its client's queue.
    fn enter(&mut self, client: u64, waiter: Waiter) -> Result<(), Full> {
        let own = self.waiting_of(client);
        if own >= WAITING_OF_CLIENT_MAX {
            return Err(Full::OfClient);
        }
        let all: usize = self.clients.iter().map(|one| one.waiting.len()).sum();
        if all >= WAITING_MAX {
            let most = self.clients.iter_mut().max_by_key(|one| one.waiting.len());
            let most = most.filter(|most| most.waiting.len() > own + 1).ok_or(Full::OfAll)?;
            if let Some(last) = most.waiting.pop_back() {
                last.waker.wake();
            }
        }
        match self.clients.iter_mut().find(|one| one.key == client) {
            Some(known) => known.waiting.push_back(waiter),
            None => {
                self.clients.push_back(Client { key: client, waiting: VecDeque::from([waiter]) });
            }
        }
        Ok(())
    }

    /// Called when a check of this client has ended. Calls the checks that may run now, one client after the other.
    fn give_back(&mut self, client: u64) {
        if let Some(at) = self.running.iter().position(|running| *running == client) {
            self.running.swap_remove(at);
        }
        while let Some(at) = self.clients.iter().position(|one| self.may_run(one.key)) {
            let Some(mut next) = self.clients.remove(at) else { return };
            if let Some(waiter) = next.waiting.pop_front() {
                self.running.push(next.key);
                self.called.push(waiter.id);
                waiter.waker.wake();
            }
            if !next.waiting.is_empty() {
                self.clients.push_back(next);
            }
        }
    }
}

impl CheckWaiter<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<CheckPermit, Full>> {
        let mut state = self.checks.state();
        if !std::mem::replace(&mut self.entered, true) {
            let waiter = Waiter { id: self.id, waker: cx.waker().clone() };
            // A permit may have become free since the last attempt.
            if state.begin(self.client) {
                return Poll::Ready(Ok(self.place()));
            }
            return match state.enter(self.client, waiter) {
                Ok(()) => Poll::Pending,
                Err(full) => Poll::Ready(Err(full)),
            };
        }
        if let Some(at) = state.called.iter().position(|id| *id == self.id) {
            state.called.swap_remove(at);
            return Poll::Ready(Ok(self.place()));
        }
        let own = state.clients.iter_mut().find(|one| one.key == self.client);
        let own = own.and_then(|own| own.waiting.iter_mut().find(|one| one.id == self.id));
        match own {
            Some(own) => {
                own.waker.clone_from(cx.waker());
                Poll::Pending
            }
            // The check was dropped from the queue to make room.
            None => Poll::Ready(Err(Full::OfAll)),
        }
    }

    fn place(&self) -> CheckPermit {
        CheckPermit { checks: self.checks.clone(), client: self.client }
    }
}

impl Drop for CheckWaiter<'_> {
    fn drop(&mut self) {
        let mut state = self.checks.state();
        if let Some(at) = state.called.iter().position(|id| *id == self.id) {
            state.called.swap_remove(at);
            return state.give_back(self.client);
        }
        if let Some(own) = state.clients.iter_mut().find(|one| one.key == self.client) {
            own.waiting.retain(|one| one.id != self.id);
        }
        state.clients.retain(|one| !one.waiting.is_empty());
    }
}

impl Drop for CheckPermit {
    fn drop(&mut self) {
        self.checks.state().give_back(self.client);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    type PermitFuture<'c> = Pin<Box<dyn Future<Output = Result<CheckPermit, Full>> + 'c>>;

    /// The result of each request for a permit, or `None` while it waits.
    async fn look(
        asked: &mut [Option<PermitFuture<'_>>],
    ) -> Vec<Option<Result<CheckPermit, Full>>> {
        let mut found = Vec::new();
        poll_fn(|cx| {
            found = asked
                .iter_mut()
                .map(|one| {
                    let polled = one.as_mut().map(|asking| asking.as_mut().poll(cx));
                    match polled {
                        Some(Poll::Ready(said)) => {
                            *one = None;
                            Some(said)
                        }
                        Some(Poll::Pending) | None => None,
                    }
                })
                .collect();
            Poll::Ready(())
        })
        .await;
        found
    }

    fn ask<'c>(
        checks: &'c Arc<Checks>,
        alarm: &'c SharedAlarm,
        client: u64,
    ) -> Option<PermitFuture<'c>> {
        Some(Box::pin(checks.acquire(client, alarm)))
    }

    fn alarms(count: usize) -> Vec<SharedAlarm> {
        (0..count).map(|_| SharedAlarm::default()).collect()
    }

    fn places(found: Vec<Option<Result<CheckPermit, Full>>>) -> Vec<(usize, CheckPermit)> {
        let numbered = found.into_iter().enumerate();
        numbered.filter_map(|(at, said)| Some((at, said?.ok()?))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_never_keeps_the_others_waiting() {
        let (checks, alarms) = (Arc::<Checks>::default(), alarms(40));
        let mut asked: Vec<_> = alarms.iter().take(20).map(|a| ask(&checks, a, 1)).collect();
        let found = look(&mut asked).await;
        let full =
            |said: &&Option<Result<CheckPermit, Full>>| matches!(said, Some(Err(Full::OfClient)));
        assert_eq!(found.iter().filter(full).count(), 2, "two run, sixteen wait");
        let first = places(found);
        assert_eq!(first.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
        // Other clients start at once, and wait only for one another.
        let mut others: Vec<_> = alarms[20..]
            .iter()
            .zip(2..6)
            .map(|(alarm, client)| ask(&checks, alarm, client))
            .collect();
        let second = places(look(&mut others).await);
        assert_eq!(second.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
        drop(first);
        // Each permit goes to the client whose turn it is: one more to the first, then to the others.
        let third = places(look(&mut asked).await);
        assert_eq!(third.len(), 1);
        assert_eq!(places(look(&mut others).await).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_checks_leave_no_state_and_a_check_that_waits_too_long_fails() {
        let (checks, alarm) = (Arc::<Checks>::default(), alarms(4));
        let held = [checks.acquire(1, &alarm[0]).await, checks.acquire(1, &alarm[0]).await];
        let mut asked = vec![ask(&checks, &alarm[0], 1), ask(&checks, &alarm[1], 1)];
        assert!(places(look(&mut asked).await).is_empty());
        drop(held);
        // Both were called, and one is dropped before it starts.
        drop(asked.remove(0));
        let last = places(look(&mut asked).await);
        assert_eq!(last.len(), 1);
        let also = checks.acquire(1, &alarm[0]).await;
        let late = checks.acquire(1, &alarm[1]).await;
        assert_eq!(late.map(drop), Err(Full::OfAll));
        drop((last, also, asked));
        let state = checks.state();
        assert!(state.running.is_empty() && state.clients.is_empty() && state.called.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_with_the_most_waiting_checks_makes_way() {
        let (checks, alarms) = (Arc::<Checks>::default(), alarms(300));
        let mut asked: Vec<_> = alarms
            .iter()
            .take(288)
            .zip(0..)
            .map(|(alarm, n)| ask(&checks, alarm, n / 18))
            .collect();
        // The first two clients run two checks each. All other checks wait, up to sixteen per client.
        let held = places(look(&mut asked).await);
        assert_eq!(held.len(), CHECKED_MAX);
        assert_eq!(checks.state().clients.iter().map(|c| c.waiting.len()).sum::<usize>(), 256);
        let mut late = vec![ask(&checks, &alarms[299], 99)];
        assert!(look(&mut late).await.iter().all(Option::is_none), "it waits");
        let told = look(&mut asked).await;
        let made_way =
            |said: &&Option<Result<CheckPermit, Full>>| matches!(said, Some(Err(Full::OfAll)));
        assert_eq!(told.iter().filter(made_way).count(), 1);
    }
}
