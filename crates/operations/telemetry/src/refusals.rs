//! The last refused exchanges of each worker, for operators.
//!
//! Each worker writes to its own ring, so that workers do not wait for one another. Readers merge the rings.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::shards::Shards;

/// The limit of refusals kept for each worker, and returned in total.
pub const REFUSALS_MAX: usize = 1_000;

/// The longest text in a refusal.
const TEXT_BYTES_MAX: usize = 512;

/// An exchange that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedExchange {
    /// Since the Unix epoch.
    pub time: Duration,
    pub request_id: Box<str>,
    /// None if no route matched.
    pub route: Option<Box<str>>,
    /// The policy that refused it, if one did.
    pub policy: Option<&'static str>,
    pub status: u16,
    /// The label of the fault.
    pub fault: &'static str,
    /// What happened, without values of queries.
    pub cause: Box<str>,
    pub client: IpAddr,
    /// The client identity, if it was known.
    pub subject: Option<Box<str>>,
}

/// The rings of all workers.
#[derive(Debug)]
pub struct Refusals(Shards<Ring>);

#[derive(Debug, Default)]
struct Ring(Mutex<VecDeque<RefusedExchange>>);

impl Refusals {
    pub(crate) fn new(workers: usize) -> Refusals {
        Refusals(Shards::new(workers))
    }

    /// Keeps a refusal of a worker, replacing the oldest one if necessary.
    pub fn keep(&self, worker: usize, refusal: RefusedExchange) {
        let ring = &self.0.of(worker).0;
        let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= REFUSALS_MAX {
            ring.pop_front();
        }
        ring.push_back(refusal);
    }

    /// The newest refusals of all workers, newest first.
    pub fn newest(&self, max: usize) -> Vec<RefusedExchange> {
        let mut all: Vec<RefusedExchange> = Vec::new();
        for ring in self.0.all() {
            let ring = ring.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Harmless: this is the limit of shown refusals.
            all.extend(ring.iter().rev().take(max).cloned());
        }
        all.sort_by_key(|refusal| std::cmp::Reverse(refusal.time));
        // Harmless: this is the requested number.
        all.truncate(max.min(REFUSALS_MAX));
        all
    }
}

/// A cause for display: truncated, and without the values of queries.
pub fn cause_shown(cause: &str) -> Box<str> {
    let (mut shown, mut rest) = (String::new(), cause);
    while let Some((before, query)) = rest.split_once('?') {
        let is_end = |c: char| c.is_whitespace() || "`\"'<>".contains(c);
        let end = query.find(is_end).unwrap_or(query.len());
        let (query, behind) = query.split_at_checked(end).unwrap_or((query, ""));
        let pair = |pair: &str| match pair.split_once('=') {
            Some((name, _)) => format!("{name}=***"),
            None => pair.to_owned(),
        };
        let pairs: Vec<String> = query.split('&').map(pair).collect();
        shown.push_str(before);
        shown.push('?');
        shown.push_str(&pairs.join("&"));
        rest = behind;
    }
    shown.push_str(rest);
    if shown.len() > TEXT_BYTES_MAX {
        // Harmless: `...` marks it as truncated, and the log has the whole text.
        let ends = shown.char_indices().map(|(at, _)| at);
        let end = ends.take_while(|at| *at <= TEXT_BYTES_MAX).last();
        // Harmless: `...` marks it as truncated, and the log has the whole text.
        shown.truncate(end.unwrap_or(0));
        shown.push_str("...");
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_all_workers_come_first() {
        let refusals = Refusals::new(2);
        for (worker, second) in [(0, 1), (1, 2), (0, 3)] {
            refusals.keep(
                worker,
                RefusedExchange {
                    time: Duration::from_secs(second),
                    request_id: "a".into(),
                    route: None,
                    policy: Some("jwt"),
                    status: 401,
                    fault: "unauthenticated",
                    cause: "why".into(),
                    client: IpAddr::from([127, 0, 0, 1]),
                    subject: None,
                },
            );
        }
        let times = |max| -> Vec<u64> {
            refusals.newest(max).iter().map(|one| one.time.as_secs()).collect()
        };
        assert_eq!((times(9), times(2)), (vec![3, 2, 1], vec![3, 2]));
    }

    #[test]
    fn values_of_queries_are_masked() {
        for (cause, shown) in [
            ("no route for /a?b=c&d `x`", "no route for /a?b=***&d `x`"),
            ("what? why", "what? why"),
            ("plain", "plain"),
        ] {
            assert_eq!(&*cause_shown(cause), shown);
        }
    }
}
