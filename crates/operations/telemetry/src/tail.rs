//! The most recently ended exchanges, for operators who watch the traffic.
//!
//! While nobody watches, the only cost for an exchange is the check of a flag. While somebody watches, each worker keeps a limited number of
//! exchanges per second in its own ring, and counts those above the limit. The access log has all exchanges.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::millis;

use crate::shards::Shards;

/// For how long after the last request of an operator ended exchanges are recorded.
const RECORDED_FOR: Duration = Duration::from_secs(10);

/// Maximum number of exchanges in the ring of a worker. The operator's page polls once per second.
const KEPT_MAX: usize = 400;

/// Maximum number of exchanges that a worker records per second. An operator could not read more.
const PER_SECOND_MAX: u32 = 100;

/// An exchange that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedExchange {
    /// When it ended, since the Unix epoch.
    pub time: Duration,
    pub request_id: Box<str>,
    pub client: IpAddr,
    pub method: Box<str>,
    /// The request's target, without the values of query parameters.
    pub path: Box<str>,
    /// None if no route matched.
    pub route: Option<Box<str>>,
    pub status: u16,
    pub reply_bytes: u64,
    pub duration: Duration,
    /// The part of `duration` that was spent waiting for upstreams.
    pub upstream_wait: Duration,
    /// The label of the fault, and its description.
    pub fault: Option<(&'static str, Box<str>)>,
    pub subject: Option<Box<str>>,
}

/// The exchanges that ended since the last request.
#[derive(Debug, Default)]
pub struct TailPage {
    /// The exchanges with their numbers, in the order in which they ended.
    pub exchanges: Vec<(u64, EndedExchange)>,
    /// The number to pass as `after` to the next [`Tail::read_after`].
    pub next: u64,
    /// The number of exchanges that were not recorded since the operator began to watch.
    pub left_out: u64,
}

/// The rings of all workers.
#[derive(Debug)]
pub struct Tail {
    is_open: AtomicBool,
    /// When recording ends, in milliseconds since the Unix epoch.
    until: AtomicU64,
    /// The number of the newest exchange.
    number: AtomicU64,
    rings: Shards<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// The last second in which the worker reached its limit, since the Unix epoch.
    full_second: AtomicU64,
    kept: Mutex<KeptExchanges>,
}

#[derive(Debug, Default)]
struct KeptExchanges {
    exchanges: VecDeque<(u64, EndedExchange)>,
    second: u64,
    /// The number of exchanges recorded in `second`.
    count: u32,
    left_out: u64,
}

impl Tail {
    pub(crate) fn new(workers: usize) -> Tail {
        Tail {
            is_open: AtomicBool::new(false),
            until: AtomicU64::new(0),
            number: AtomicU64::new(0),
            rings: Shards::new(workers),
        }
    }

    /// True while an operator watches.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// True while an operator watches and this worker may record another exchange in this second. Otherwise the worker need not collect
    /// the data that describes the request.
    pub fn accepts_more(&self, worker: usize) -> bool {
        self.is_open()
            && self.rings.of(worker).full_second.load(Relaxed) != kit::clock::wall().as_secs()
    }

    /// Records an exchange of a worker that ends at `time`. If the ring is full, the oldest exchange is removed. `describe` is called only
    /// if the limit per second is not reached. An exchange above the limit or without a description is counted as left out.
    pub fn record(
        &self,
        worker: usize,
        time: Duration,
        describe: impl FnOnce() -> Option<EndedExchange>,
    ) {
        if millis(time) > self.until.load(Relaxed) {
            self.is_open.store(false, Relaxed);
            return;
        }
        let ring = self.rings.of(worker);
        let mut kept = ring.lock();
        let second = time.as_secs();
        if kept.second != second {
            (kept.second, kept.count) = (second, 0);
        }
        let described = if kept.count < PER_SECOND_MAX { describe() } else { None };
        let Some(exchange) = described else {
            kept.left_out = kept.left_out.saturating_add(1);
            return;
        };
        kept.count += 1;
        if kept.count >= PER_SECOND_MAX {
            ring.full_second.store(second, Relaxed);
        }
        if kept.exchanges.len() >= KEPT_MAX {
            kept.exchanges.pop_front();
        }
        let number = self.number.fetch_add(1, Relaxed) + 1;
        kept.exchanges.push_back((number, exchange));
    }

    /// Returns the exchanges after the one with this number, and turns recording on for `RECORDED_FOR`. Without a number, the page has no
    /// exchanges, only the number to continue from.
    pub fn read_after(&self, after: Option<u64>, now: Duration) -> TailPage {
        self.until.store(millis(now.saturating_add(RECORDED_FOR)), Relaxed);
        if !self.is_open.swap(true, Relaxed) {
            for ring in self.rings.all() {
                *ring.lock() = KeptExchanges::default();
            }
        }
        // The rings are read one after the other. An exchange that ends meanwhile is for the next page, since an earlier one may be in a ring
        // that was read already. Numbers are given under the lock of a ring, so each ring has all of its exchanges up to this number.
        let mut page = TailPage { next: self.number.load(Relaxed), ..TailPage::default() };
        let Some(after) = after else { return page };
        for ring in self.rings.all() {
            let kept = ring.lock();
            page.left_out = page.left_out.saturating_add(kept.left_out);
            let is_new = |number: u64| after < number && number <= page.next;
            let newer = kept.exchanges.iter().filter(|(number, _)| is_new(*number));
            page.exchanges.extend(newer.cloned());
        }
        page.exchanges.sort_unstable_by_key(|(number, _)| *number);
        page
    }
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, KeptExchanges> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(second: u64, id: &str) -> EndedExchange {
        EndedExchange {
            time: Duration::from_secs(second),
            request_id: id.into(),
            client: IpAddr::from([127, 0, 0, 1]),
            method: "GET".into(),
            path: "/".into(),
            route: None,
            status: 200,
            reply_bytes: 0,
            duration: Duration::ZERO,
            upstream_wait: Duration::ZERO,
            fault: None,
            subject: None,
        }
    }

    fn ids(page: &TailPage) -> Vec<&str> {
        page.exchanges.iter().map(|(_, exchange)| &*exchange.request_id).collect()
    }

    #[test]
    fn exchanges_are_recorded_while_an_operator_watches() {
        let tail = Tail::new(2);
        assert!(!tail.is_open());
        let first = tail.read_after(None, Duration::from_secs(1));
        assert!(first.exchanges.is_empty() && tail.is_open());
        tail.record(0, Duration::from_secs(2), || Some(ended(2, "a")));
        tail.record(1, Duration::from_secs(2), || Some(ended(2, "b")));
        let page = tail.read_after(Some(first.next), Duration::from_secs(2));
        assert_eq!(ids(&page), ["a", "b"]);
        tail.record(0, Duration::from_secs(3), || Some(ended(3, "c")));
        let page = tail.read_after(Some(page.next), Duration::from_secs(3));
        assert_eq!(ids(&page), ["c"]);
        assert_eq!(tail.read_after(Some(page.next), Duration::from_secs(3)).next, page.next);
        tail.record(0, Duration::from_secs(99), || Some(ended(99, "late")));
        assert!(!tail.is_open());
    }

    #[test]
    fn no_exchange_is_skipped_while_others_end() {
        let tail = Tail::new(2);
        let first = tail.read_after(None, Duration::from_secs(KEPT_MAX as u64));
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let tail = &tail;
                scope.spawn(move || {
                    for second in 0..KEPT_MAX as u64 {
                        tail.record(worker, Duration::from_secs(second), || {
                            Some(ended(second, "a"))
                        });
                    }
                });
            }
            let (mut after, mut seen) = (first.next, Vec::new());
            while after < 2 * KEPT_MAX as u64 {
                let page = tail.read_after(Some(after), Duration::from_secs(KEPT_MAX as u64));
                seen.extend(page.exchanges.iter().map(|(number, _)| *number));
                after = page.next;
            }
            assert!(seen.iter().copied().eq(1..=2 * KEPT_MAX as u64), "{seen:?}");
        });
    }

    #[test]
    fn exchanges_above_the_limit_are_counted() {
        let tail = Tail::new(1);
        let first = tail.read_after(None, Duration::from_secs(1));
        for _ in 0..PER_SECOND_MAX + 7 {
            tail.record(0, Duration::from_secs(1), || Some(ended(1, "a")));
        }
        let page = tail.read_after(Some(first.next), Duration::from_secs(1));
        assert_eq!((page.exchanges.len(), page.left_out), (PER_SECOND_MAX as usize, 7));
        // An unknown number finds nothing, and the next request starts at the newest exchange.
        assert_eq!(tail.read_after(Some(u64::MAX), Duration::from_secs(1)).next, page.next);
    }
}
