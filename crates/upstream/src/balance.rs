//! Balancing: the choice of a target for a request. Only available targets count. An attempt avoids targets that failed in this
//! call, and those to which a connection just failed, as long as there is another. The target to which a client is pinned comes
//! first.

use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use message::RequestHead;

use crate::settings::{Balance, HashKey};
use crate::target::Target;
use crate::{Upstream, sticky};

/// A worker's state between two choices.
#[derive(Default)]
pub(crate) struct BalanceState {
    /// Smooth weighted round robin: the credit of each target.
    credit: Vec<i64>,
}

/// The request's wishes about its target.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish {
    /// The hash of its key.
    pub(crate) key: Option<u64>,
    /// The target to which its cookie pins it.
    pub(crate) pinned: Option<usize>,
}

impl Upstream {
    /// Chooses a target by index. `tried` are those that have already failed in this call.
    pub(crate) fn choose(
        &self,
        turn: &mut BalanceState,
        wish: Wish,
        tried: &[usize],
    ) -> Option<usize> {
        let Wish { key, pinned } = wish;
        if let [only] = self.targets.as_slice() {
            return only.is_available().then_some(0);
        }
        let available = |at: &usize| self.targets.get(*at).is_some_and(|t| t.is_available());
        let fresh = |at: &usize| !tried.contains(at) && available(at);
        let reachable =
            |at: &usize| fresh(at) && self.targets.get(*at).is_some_and(|t| !t.is_unreachable());
        let chosen = pinned
            .filter(reachable)
            .or_else(|| self.choose_among(turn, key, reachable))
            .or_else(|| self.choose_among(turn, key, fresh))
            .or_else(|| self.choose_among(turn, key, available))?;
        self.targets.get(chosen).inspect(|target| target.asked_again());
        Some(chosen)
    }

    fn choose_among(
        &self,
        turn: &mut BalanceState,
        key: Option<u64>,
        may: impl Fn(&usize) -> bool,
    ) -> Option<usize> {
        let mut candidates = (0..self.targets.len()).filter(may);
        match (&self.settings.balance, key) {
            (Balance::Failover, _) => candidates.next(),
            (Balance::LeastRequests, _) => self.least_busy(candidates),
            (Balance::Hash(_), Some(key)) => self.nearest(candidates, key),
            (Balance::RoundRobin | Balance::Hash(_), _) => self.next_in_turn(turn, candidates),
        }
    }

    /// Smooth weighted round robin: each candidate earns its weight; the one with most credit is chosen and pays the sum of
    /// what all earned.
    fn next_in_turn(
        &self,
        turn: &mut BalanceState,
        candidates: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        turn.credit.resize(self.targets.len(), 0);
        let (mut total, mut richest) = (0, None);
        for at in candidates {
            let (Some(credit), Some(target)) = (turn.credit.get_mut(at), self.targets.get(at))
            else {
                continue;
            };
            let weight = i64::from(target.settings().weight);
            *credit += weight;
            total += weight;
            if richest.is_none_or(|(_, most)| *credit > most) {
                richest = Some((at, *credit));
            }
        }
        let (at, _) = richest?;
        *turn.credit.get_mut(at)? -= total;
        Some(at)
    }

    /// The candidate with the fewest requests for its weight. Ties are broken at random, so that workers do not all choose the
    /// same one.
    fn least_busy(&self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        let load = |target: &Target| {
            let busy = (u64::from(target.active()) + 1) << 20;
            (busy / u64::from(target.settings().weight.max(1)), fastrand::u32(..))
        };
        candidates.min_by_key(|at| self.targets.get(*at).map(|t| load(t)))
    }

    /// Weighted rendezvous hashing: every target draws a number for the key, and the highest wins. Removing a target moves only
    /// its own keys.
    fn nearest(&self, candidates: impl Iterator<Item = usize>, key: u64) -> Option<usize> {
        let draw = |target: &Arc<Target>| {
            let drawn = hash(&[&key.to_le_bytes(), target.url().as_bytes()]);
            // A uniform number in (0, 1]; -weight / ln(u) makes the chance of the maximum proportional to the weight.
            let uniform = ((drawn >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            -f64::from(target.settings().weight) / uniform.ln()
        };
        // Harmless: candidates are targets.
        candidates
            .filter_map(|at| self.targets.get(at).map(|t| (at, draw(t))))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
    }

    /// The hash of a request's key, if this upstream balances by hash and the request has the key.
    pub(crate) fn hash_key(&self, head: &RequestHead, client: IpAddr) -> Option<u64> {
        let Balance::Hash(key) = &self.settings.balance else { return None };
        match key {
            HashKey::Client => match client {
                IpAddr::V4(ip) => Some(hash(&[&ip.octets()])),
                IpAddr::V6(ip) => Some(hash(&[&ip.octets()])),
            },
            HashKey::Path => Some(hash(&[head.path()])),
            HashKey::Header(name) => head.headers.get(name).map(|value| hash(&[value])),
            HashKey::Cookie(name) => cookie(head, name).map(|value| hash(&[value])),
        }
    }
}

fn cookie<'a>(head: &'a RequestHead, name: &str) -> Option<&'a [u8]> {
    sticky::cookies(&head.headers)
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The same on every worker and after every restart: `DefaultHasher::new` has fixed keys.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    fn upstream(balance: Balance, weights: &[u32]) -> Arc<Upstream> {
        let mut settings = settings(weights.len());
        settings.balance = balance;
        settings.targets.iter_mut().zip(weights).for_each(|(t, w)| t.weight = *w);
        Upstream::new(settings, telemetry::Telemetry::new(1).upstream("u"))
    }

    fn by(key: Option<u64>) -> Wish {
        Wish { key, pinned: None }
    }

    fn shares(upstream: &Upstream, keys: impl Iterator<Item = Option<u64>>) -> Vec<usize> {
        let mut turn = BalanceState::default();
        let mut counts = vec![0; upstream.targets.len()];
        keys.for_each(|key| counts[upstream.choose(&mut turn, by(key), &[]).unwrap()] += 1);
        counts
    }

    #[test]
    fn round_robin_follows_the_weights_exactly() {
        let upstream = upstream(Balance::RoundRobin, &[1, 2, 3]);
        assert_eq!(shares(&upstream, (0..600).map(|_| None)), [100, 200, 300]);
    }

    #[test]
    fn the_same_key_stays_and_losing_a_target_moves_only_its_keys() {
        let upstream = upstream(Balance::Hash(HashKey::Client), &[1, 1, 2]);
        let mut turn = BalanceState::default();
        let mut place = |key| upstream.choose(&mut turn, by(Some(key)), &[]).unwrap();
        let before: Vec<usize> = (0..1000).map(&mut place).collect();
        assert_eq!(before, (0..1000).map(&mut place).collect::<Vec<_>>());
        upstream.targets[1].set_healthy(false);
        for (key, was) in before.iter().enumerate() {
            let now = place(key as u64);
            assert!(now != 1 && (*was == 1 || now == *was));
        }
        let third = before.iter().filter(|at| **at == 2).count();
        assert!((420..580).contains(&third), "weight 2 of 4 got {third} of 1000");
    }

    #[test]
    fn least_requests_goes_where_the_least_is_going_on() {
        let upstream = upstream(Balance::LeastRequests, &[1, 1, 1]);
        let _busy = [0, 0, 1].map(|at: usize| upstream.targets[at].begin());
        assert_eq!(shares(&upstream, (0..10).map(|_| None)), [0, 0, 10]);
    }

    #[test]
    fn unavailable_and_tried_targets_are_avoided() {
        let upstream = upstream(Balance::RoundRobin, &[1, 1]);
        let mut turn = BalanceState::default();
        assert_eq!(upstream.choose(&mut turn, Wish::default(), &[0]), Some(1));
        assert!(
            upstream.choose(&mut turn, Wish::default(), &[0, 1]).is_some(),
            "a failed one beats none"
        );
        upstream.targets.iter().for_each(|t| t.set_healthy(false));
        assert_eq!(upstream.choose(&mut turn, Wish::default(), &[]), None);
    }

    #[test]
    fn failover_takes_the_first_that_is_ready_and_retries_go_down_the_list() {
        let upstream = upstream(Balance::Failover, &[1, 1, 1]);
        let mut turn = BalanceState::default();
        let mut choose = |tried: &[usize]| upstream.choose(&mut turn, Wish::default(), tried);
        assert_eq!([choose(&[]), choose(&[])], [Some(0), Some(0)]);
        assert_eq!(
            [choose(&[0]), choose(&[0, 1]), choose(&[0, 1, 2])],
            [Some(1), Some(2), Some(0)]
        );
        upstream.targets[0].set_healthy(false);
        assert_eq!([choose(&[]), choose(&[1])], [Some(1), Some(2)]);
        upstream.targets[0].set_healthy(true);
        assert_eq!(choose(&[]), Some(0));
    }

    #[test]
    fn a_pin_holds_as_long_as_its_target_is_ready() {
        let upstream = upstream(Balance::Failover, &[1, 1, 1]);
        let mut turn = BalanceState::default();
        let wish = Wish { key: None, pinned: Some(1) };
        let mut choose = |tried: &[usize]| upstream.choose(&mut turn, wish, tried);
        assert_eq!([choose(&[]), choose(&[0]), choose(&[1])], [Some(1), Some(1), Some(0)]);
        upstream.targets[1].set_healthy(false);
        assert_eq!(choose(&[]), Some(0));
        upstream.targets[1].set_healthy(true);
        upstream.targets[1].set_unreachable();
        assert_eq!(choose(&[]), Some(0), "a connection to it has just failed");
    }
}
