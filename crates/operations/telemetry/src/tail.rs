//! The most recently ended exchanges, for operators who watch.
//!
//! While nobody watches, an exchange only checks a flag. Otherwise each worker keeps a bounded number per second in
//! its own ring; after that, it only counts exchanges until the second is over. The access log has all exchanges.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::shards::Shards;

/// How long exchanges are kept after a request of an operator.
const OPEN_FOR: Duration = Duration::from_secs(10);

/// The limit of exchanges kept for each worker. An operator's page asks once a second.
const KEPT_MAX: usize = 400;

/// The limit of exchanges kept per worker and second. Nobody could read more.
const A_SECOND_MAX: u32 = 100;

/// An exchange that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedExchange {
    /// Its end, since the Unix epoch.
    pub time: Duration,
    pub request_id: Box<str>,
    pub client: IpAddr,
    pub method: Box<str>,
    /// The request's target, without values of queries.
    pub path: Box<str>,
    /// None if no route matched.
    pub route: Option<Box<str>>,
    pub status: u16,
    pub reply_bytes: u64,
    pub duration: Duration,
    /// The part spent waiting for upstreams.
    pub upstream_wait: Duration,
    /// The label of the fault, and what happened.
    pub fault: Option<(&'static str, Box<str>)>,
    pub subject: Option<Box<str>>,
}

/// The exchanges that ended since the last request.
#[derive(Debug, Default)]
pub struct TailPage {
    /// With their numbers, in the order of their ends.
    pub exchanges: Vec<(u64, EndedExchange)>,
    /// The number after which the next request continues.
    pub next: u64,
    /// The number of exchanges above the limits since the watching began.
    pub left_out: u64,
}

/// The rings of all workers.
#[derive(Debug)]
pub struct Tail {
    is_open: AtomicBool,
    /// In milliseconds since the Unix epoch.
    until: AtomicU64,
    /// The last number of an exchange.
    number: AtomicU64,
    rings: Shards<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// The last second in which the maximum number of exchanges was kept, since the Unix epoch.
    full_second: AtomicU64,
    kept: Mutex<KeptExchanges>,
}

#[derive(Debug, Default)]
struct KeptExchanges {
    exchanges: VecDeque<(u64, EndedExchange)>,
    second: u64,
    /// In this second.
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

    /// True while somebody watches and this worker may keep another exchange in this second. Otherwise the data that describes a request
    /// need not be noted.
    pub fn keeps_more(&self, worker: usize) -> bool {
        self.is_open()
            && self.rings.of(worker).full_second.load(Relaxed) != kit::clock::wall().as_secs()
    }

    /// Keeps an exchange of a worker that ends at `time`, replacing the oldest one if necessary. `describe` runs only if the exchange is
    /// kept. If it returns nothing, the exchange is counted as left out.
    pub fn keep(
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
        let described = if kept.count < A_SECOND_MAX { describe() } else { None };
        let Some(exchange) = described else {
            kept.left_out = kept.left_out.saturating_add(1);
            return;
        };
        kept.count += 1;
        if kept.count >= A_SECOND_MAX {
            ring.full_second.store(second, Relaxed);
        }
        if kept.exchanges.len() >= KEPT_MAX {
            kept.exchanges.pop_front();
        }
        let number = self.number.fetch_add(1, Relaxed) + 1;
        kept.exchanges.push_back((number, exchange));
    }

    /// The exchanges after the one with this number. Without a number there are none, and the page has the number to continue from.
    /// From now on exchanges are kept for a while.
    pub fn look(&self, after: Option<u64>, now: Duration) -> TailPage {
        self.until.store(millis(now.saturating_add(OPEN_FOR)), Relaxed);
        if !self.is_open.swap(true, Relaxed) {
            for ring in self.rings.all() {
                *ring.lock() = KeptExchanges::default();
            }
        }
        let mut page = TailPage { next: self.number.load(Relaxed), ..TailPage::default() };
        let Some(after) = after else { return page };
        for ring in self.rings.all() {
            let kept = ring.lock();
            page.left_out = page.left_out.saturating_add(kept.left_out);
            let newer = kept.exchanges.iter().filter(|(number, _)| *number > after);
            page.exchanges.extend(newer.cloned());
        }
        page.exchanges.sort_unstable_by_key(|(number, _)| *number);
        page.next = page.exchanges.last().map_or(page.next.min(after), |(number, _)| *number);
        page
    }
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, KeptExchanges> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
    fn exchanges_are_kept_while_somebody_looks() {
        let tail = Tail::new(2);
        assert!(!tail.is_open());
        let first = tail.look(None, Duration::from_secs(1));
        assert!(first.exchanges.is_empty() && tail.is_open());
        tail.keep(0, Duration::from_secs(2), || Some(ended(2, "a")));
        tail.keep(1, Duration::from_secs(2), || Some(ended(2, "b")));
        let page = tail.look(Some(first.next), Duration::from_secs(2));
        assert_eq!(ids(&page), ["a", "b"]);
        tail.keep(0, Duration::from_secs(3), || Some(ended(3, "c")));
        let page = tail.look(Some(page.next), Duration::from_secs(3));
        assert_eq!(ids(&page), ["c"]);
        assert_eq!(tail.look(Some(page.next), Duration::from_secs(3)).next, page.next);
        tail.keep(0, Duration::from_secs(99), || Some(ended(99, "late")));
        assert!(!tail.is_open());
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let tail = Tail::new(1);
        let first = tail.look(None, Duration::from_secs(1));
        for _ in 0..A_SECOND_MAX + 7 {
            tail.keep(0, Duration::from_secs(1), || Some(ended(1, "a")));
        }
        let page = tail.look(Some(first.next), Duration::from_secs(1));
        assert_eq!((page.exchanges.len(), page.left_out), (A_SECOND_MAX as usize, 7));
        // An unknown number finds nothing, and the next request starts at the newest exchange.
        assert_eq!(tail.look(Some(u64::MAX), Duration::from_secs(1)).next, page.next);
    }
}
