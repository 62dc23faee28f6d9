//! Balancing: the choice of a target for a request. Only available targets are considered. An attempt avoids targets that have
//! failed in this call, and those with a recent connection failure, if there is another one. A target to which the client is
//! pinned has priority.

use std::hash::Hasher;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::percent;
use message::{ReplyHead, RequestHead};

use crate::roster::{Roster, WorkerTarget};
use crate::settings::{Balance, HashKey};
use crate::sticky::Pins;
use crate::target::Target;
use crate::target_set::Knowledge;
use crate::{Upstream, sticky};

/// The reasons for which a target gets no requests: those of `Target::is_available`, and its weight.
const NONE_AVAILABLE: &str =
    "every target is unhealthy, ejected, suspended or drained, or has the weight 0";

/// What a request requires of its target.
#[derive(Default)]
pub(crate) struct TargetPreference {
    /// The hash of its key.
    pub(crate) key: Option<u64>,
    /// The target to which the client's cookie pins it.
    pub(crate) pinned: Option<Arc<Target>>,
    /// A cookie with the key, which the client gets: `NAME=VALUE` with its attributes.
    given: Option<Box<str>>,
}

/// The hash of a request's key.
#[derive(Debug)]
pub(crate) struct ChosenKey {
    hash: u64,
    /// The cookie that gives the client this key.
    given: Option<Box<str>>,
}

impl TargetPreference {
    pub(crate) fn of(key: Option<ChosenKey>, pinned: Option<Arc<Target>>) -> TargetPreference {
        let (key, given) = key.map_or((None, None), |key| (Some(key.hash), key.given));
        TargetPreference { key, pinned, given }
    }

    /// Sets the cookies by which later requests of the client go to the target that replied, unless it has them.
    pub(crate) fn tell(&self, pins: Option<&Pins>, target: &Arc<Target>, head: &mut ReplyHead) {
        let is_pinned = self.pinned.as_ref().is_some_and(|to| Arc::ptr_eq(to, target));
        if let (Some(pins), Some(pin), false) = (pins, target.pin(), is_pinned) {
            pins.give(&mut head.headers, pin);
        }
        if let Some(given) = &self.given {
            sticky::give(&mut head.headers, given);
        }
    }
}

impl ChosenKey {
    /// A random key, which the client gets as a cookie.
    fn given(name: &str, path: &str) -> ChosenKey {
        let value = format!("{:032x}", fastrand::u128(..));
        let line = format!("{name}={value}; Path={path}");
        ChosenKey { hash: hash(&[value.as_bytes()]), given: Some(line.into()) }
    }
}

impl Roster {
    /// Chooses a target. `tried` contains the targets that have failed in this call.
    pub(crate) fn choose(
        &self,
        balance: &Balance,
        preference: &TargetPreference,
        tried: &[Arc<Target>],
    ) -> Option<Rc<WorkerTarget>> {
        if let [only] = self.places.as_slice() {
            return (self.has_weight(0) && only.target.is_available()).then(|| only.clone());
        }
        let target = |at: usize| self.places.get(at).map(|place| &place.target);
        let was_tried = |target: &Arc<Target>| tried.iter().any(|tried| Arc::ptr_eq(tried, target));
        let available = |at: &usize| target(*at).is_some_and(|target| target.is_available());
        let fresh = |at: &usize| target(*at).is_some_and(|of| !was_tried(of) && of.is_available());
        let reachable =
            |at: &usize| fresh(at) && target(*at).is_some_and(|target| !target.is_unreachable());
        let pinned = preference.pinned.as_ref().and_then(|pinned| self.find(pinned));
        let chosen = pinned
            .filter(reachable)
            .or_else(|| self.choose_among(balance, preference.key, reachable))
            .or_else(|| self.choose_among(balance, preference.key, fresh))
            .or_else(|| self.choose_among(balance, preference.key, available))?;
        self.places.get(chosen).inspect(|place| place.target.extend_unreachable()).cloned()
    }

    /// Returns true if targets with at least `percent` percent of the total weight are available.
    pub(crate) fn has_available(&self, percent: u32) -> bool {
        if percent == 0 {
            return true;
        }
        let (mut available, mut total) = (0, 0);
        // Harmless: each place has a member.
        for (weight, place) in (0..self.places.len()).filter_map(|at| self.share(at)) {
            total += u64::from(weight);
            available += if place.target.is_available() { u64::from(weight) } else { 0 };
        }
        available * 100 >= total * u64::from(percent)
    }

    /// True if at least one target may get requests.
    pub(crate) fn has_any_available(&self) -> bool {
        // Harmless: each place has a member.
        let mut shares = (0..self.places.len()).filter_map(|at| self.share(at));
        shares.any(|(weight, place)| weight > 0 && place.target.is_available())
    }

    fn find(&self, target: &Arc<Target>) -> Option<usize> {
        self.places.iter().position(|place| Arc::ptr_eq(&place.target, target))
    }

    /// Chooses a target that `may` accepts, from the best priority that has such a target (RFC 2782).
    fn choose_among(
        &self,
        balance: &Balance,
        key: Option<u64>,
        may: impl Fn(&usize) -> bool,
    ) -> Option<usize> {
        self.set.priorities().find_map(|places| {
            // A target without a weight takes no new requests.
            let mut candidates = places.filter(&may).filter(|at| self.has_weight(*at));
            match (balance, key) {
                (Balance::Failover, _) => candidates.next(),
                (Balance::LeastRequests, _) => self.least_busy(candidates),
                (Balance::Hash(_), Some(key)) => self.nearest(candidates, key),
                (Balance::RoundRobin | Balance::Hash(_), _) => self.next_in_turn(candidates),
            }
        })
    }

    fn has_weight(&self, at: usize) -> bool {
        self.share(at).is_some_and(|(weight, _)| weight > 0)
    }

    /// The weight of a target, and its place.
    fn share(&self, at: usize) -> Option<(u32, &WorkerTarget)> {
        let place = self.places.get(at)?;
        let weight = place.target.weight_set();
        Some((weight.unwrap_or(self.set.members().get(at)?.weight), place))
    }

    /// Smooth weighted round robin: each candidate earns its weight; the one with most credit is chosen and pays the sum of
    /// what all earned.
    fn next_in_turn(&self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        let (mut total, mut richest) = (0, None);
        for at in candidates {
            let Some((weight, place)) = self.share(at) else { continue };
            let weight = i64::from(weight);
            let credit = place.credit.get() + weight;
            place.credit.set(credit);
            total += weight;
            if richest.is_none_or(|(_, most)| credit > most) {
                richest = Some((at, credit));
            }
        }
        let (at, credit) = richest?;
        self.places.get(at)?.credit.set(credit - total);
        Some(at)
    }

    /// The candidate with the fewest requests for its weight. Ties are broken at random, so that workers do not all choose the
    /// same one.
    fn least_busy(&self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        let load = |(weight, place): (u32, &WorkerTarget)| {
            let busy = (u64::from(place.target.active()) + 1) << 32;
            (busy / u64::from(weight.max(1)), fastrand::u32(..))
        };
        candidates.min_by_key(|at| self.share(*at).map(load))
    }

    /// Weighted rendezvous hashing: every target draws a number for the key, and the highest wins. Removing a target moves only
    /// its own keys.
    fn nearest(&self, candidates: impl Iterator<Item = usize>, key: u64) -> Option<usize> {
        let draw = |(weight, place): (u32, &WorkerTarget)| {
            let drawn = hash(&[&key.to_le_bytes(), place.target.url().as_bytes()]);
            // A uniform number in (0, 1]; -weight / ln(u) makes the chance of the maximum proportional to the weight.
            let uniform = ((drawn >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            -f64::from(weight) / uniform.ln()
        };
        // Harmless: each place has a member.
        candidates
            .filter_map(|at| self.share(at).map(|share| (at, draw(share))))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
    }
}

impl Upstream {
    /// Returns the fault for a request when no target can take it.
    pub(crate) fn no_target(&self, roster: &Roster) -> Fault {
        let name = &self.settings.name;
        let (kind, why) = match (roster.set.knowledge(), roster.places.as_slice()) {
            (Knowledge::Known, [only]) if only.target.suspended_until().is_some() => {
                (Kind::TargetSuspended, "its only target is suspended")
            }
            (Knowledge::Known, _) if roster.has_any_available() => {
                (Kind::NoTarget, "fewer targets are available than `available_min_percent`")
            }
            (Knowledge::Known, _) => (Kind::NoTarget, NONE_AVAILABLE),
            (Knowledge::NotAvailable, _) => (
                Kind::NoTarget,
                "according to DNS, the service is not available (its target is `.`)",
            ),
            (Knowledge::Unresolved(why), _) => (Kind::Unresolved, why.as_str()),
            (Knowledge::Unknown, _) => (Kind::Unresolved, "the first look-up has not ended yet"),
        };
        Fault::new(kind, format!("upstream {name}: {why}"))
    }

    /// The hash of a request's key, if this upstream balances by hash and the request has the key or gets it.
    pub(crate) fn hash_key(
        &self,
        head: &RequestHead,
        call: &policy::Call<'_>,
    ) -> Option<ChosenKey> {
        let Balance::Hash(keys) = &self.settings.balance else { return None };
        keys.iter().find_map(|key| {
            if let Some(hash) = hash_of(key, head, call) {
                return Some(ChosenKey { hash, given: None });
            }
            let HashKey::Cookie { name, set_path: Some(path) } = key else { return None };
            Some(ChosenKey::given(name, path))
        })
    }
}

fn hash_of(key: &HashKey, head: &RequestHead, call: &policy::Call<'_>) -> Option<u64> {
    match key {
        HashKey::Client => match call.client {
            IpAddr::V4(ip) => Some(hash(&[&ip.octets()])),
            IpAddr::V6(ip) => Some(hash(&[&ip.octets()])),
        },
        HashKey::Subject => call.subject,
        HashKey::Path => Some(hash(&[head.path()])),
        HashKey::Header(name) => head.headers.get(name).map(|value| hash(&[value])),
        HashKey::Cookie { name, .. } => cookie(head, name).map(|value| hash(&[value])),
        HashKey::Query(name) => {
            let mut values = percent::values(head.query()?, name.as_bytes());
            values.next().map(|value| hash(&[&value]))
        }
        HashKey::Capture(_) => call.captured,
    }
}

/// The hash of what a route captured, for [`policy::Call::captured`].
pub fn hash_of_capture(value: &[u8]) -> u64 {
    hash(&[value])
}

fn cookie<'a>(head: &'a RequestHead, name: &str) -> Option<&'a [u8]> {
    sticky::cookies(&head.headers).find_map(|pair| sticky::value(pair, name))
}

/// Returns a hash that is the same on every worker and after every restart: `DefaultHasher::new` has fixed keys.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Targets;
    use crate::settings::tests::settings;
    use crate::target_set::{Member, TargetSet};

    /// The roster of a worker, with the rule for it.
    struct Choice {
        roster: Roster,
        balance: Balance,
    }

    impl Choice {
        /// Targets with these weights, all of one priority.
        fn new(balance: Balance, weights: &[u32]) -> Choice {
            let shares: Vec<(u16, u32)> = weights.iter().map(|weight| (0, *weight)).collect();
            Choice::by_priority(balance, &shares)
        }

        fn by_priority(balance: Balance, shares: &[(u16, u32)]) -> Choice {
            let settings = settings(shares.len());
            let Targets::Fixed(targets) = settings.targets.clone() else { unreachable!() };
            let upstream = crate::tests::upstream(settings);
            let members = targets.iter().zip(shares).map(|(target, (priority, weight))| Member {
                target: upstream.target(target, None),
                weight: *weight,
                priority: *priority,
            });
            let set = TargetSet::new(0, members.collect(), Knowledge::Known);
            Choice { roster: Roster::new(Arc::new(set), &[]), balance }
        }

        fn target(&self, at: usize) -> &Arc<Target> {
            &self.roster.places[at].target
        }

        fn choose(&self, preference: &TargetPreference, tried: &[usize]) -> Option<usize> {
            let tried: Vec<_> = tried.iter().map(|at| self.target(*at).clone()).collect();
            let chosen = self.roster.choose(&self.balance, preference, &tried)?;
            self.roster.find(&chosen.target)
        }

        fn shares(&self, keys: impl Iterator<Item = Option<u64>>) -> Vec<usize> {
            let mut counts = vec![0; self.roster.places.len()];
            keys.for_each(|key| counts[self.choose(&by(key), &[]).unwrap()] += 1);
            counts
        }
    }

    fn by(key: Option<u64>) -> TargetPreference {
        TargetPreference { key, ..TargetPreference::default() }
    }

    #[test]
    fn a_share_of_the_weight_must_be_available() {
        let choice = Choice::new(Balance::RoundRobin, &[1, 2, 3]);
        assert!(choice.roster.has_available(100));
        choice.target(2).set_healthy(false);
        let has = [0, 50, 51, 100].map(|percent| choice.roster.has_available(percent));
        assert_eq!(has, [true, true, false, false]);
    }

    /// With 1 of 1001, less than one percent of the weight is available.
    #[test]
    fn any_available_target_counts_however_light() {
        let choice = Choice::new(Balance::RoundRobin, &[1, 1000, 0]);
        choice.target(1).set_healthy(false);
        assert!(choice.roster.has_any_available() && !choice.roster.has_available(1));
        choice.target(0).set_healthy(false);
        assert!(!choice.roster.has_any_available(), "the other one has no weight");
    }

    #[test]
    fn round_robin_follows_the_weights_exactly() {
        let choice = Choice::new(Balance::RoundRobin, &[1, 2, 3]);
        assert_eq!(choice.shares((0..600).map(|_| None)), [100, 200, 300]);
    }

    #[test]
    fn the_same_key_stays_and_losing_a_target_moves_only_its_keys() {
        let choice = Choice::new(Balance::Hash([HashKey::Client].into()), &[1, 1, 2]);
        let place = |key| choice.choose(&by(Some(key)), &[]).unwrap();
        let before: Vec<usize> = (0..1000).map(place).collect();
        assert_eq!(before, (0..1000).map(place).collect::<Vec<_>>());
        choice.target(1).set_healthy(false);
        for (key, was) in before.iter().enumerate() {
            let now = place(key as u64);
            assert!(now != 1 && (*was == 1 || now == *was));
        }
        let third = before.iter().filter(|at| **at == 2).count();
        assert!((420..580).contains(&third), "weight 2 of 4 got {third} of 1000");
    }

    #[test]
    fn least_requests_chooses_the_least_busy_target() {
        let choice = Choice::new(Balance::LeastRequests, &[1, 1, 1]);
        let _busy = [0, 0, 1].map(|at: usize| choice.target(at).begin());
        assert_eq!(choice.shares((0..10).map(|_| None)), [0, 0, 10]);
    }

    /// This includes large weights: SRV weights are up to 65,535, and are multiplied if other records have zero.
    #[test]
    fn least_requests_follows_large_weights() {
        let choice = Choice::new(Balance::LeastRequests, &[6_000_000, 3_000_000]);
        let _busy = [0, 1].map(|at: usize| choice.target(at).begin());
        assert_eq!(choice.shares((0..10).map(|_| None)), [10, 0]);
    }

    #[test]
    fn unavailable_and_tried_targets_are_avoided() {
        let choice = Choice::new(Balance::RoundRobin, &[1, 1]);
        assert_eq!(choice.choose(&TargetPreference::default(), &[0]), Some(1));
        assert!(
            choice.choose(&TargetPreference::default(), &[0, 1]).is_some(),
            "a failed target is better than none"
        );
        [0, 1].iter().for_each(|at| choice.target(*at).set_healthy(false));
        assert_eq!(choice.choose(&TargetPreference::default(), &[]), None);
    }

    #[test]
    fn failover_takes_the_first_that_is_ready_and_retries_go_down_the_list() {
        let choice = Choice::new(Balance::Failover, &[1, 1, 1]);
        let choose = |tried: &[usize]| choice.choose(&TargetPreference::default(), tried);
        assert_eq!([choose(&[]), choose(&[])], [Some(0), Some(0)]);
        assert_eq!(
            [choose(&[0]), choose(&[0, 1]), choose(&[0, 1, 2])],
            [Some(1), Some(2), Some(0)]
        );
        choice.target(0).set_healthy(false);
        assert_eq!([choose(&[]), choose(&[1])], [Some(1), Some(2)]);
        choice.target(0).set_healthy(true);
        assert_eq!(choose(&[]), Some(0));
    }

    /// This holds even if the targets of the better priority have little weight.
    #[test]
    fn a_priority_is_used_when_no_better_one_is_ready() {
        for balance in
            [Balance::RoundRobin, Balance::LeastRequests, Balance::Hash([HashKey::Client].into())]
        {
            let shares = [(20, 1000), (10, 1), (10, 3), (30, 1000)];
            let choice = Choice::by_priority(balance, &shares);
            // The set orders them by priority.
            let keys = || (0..4000).map(Some);
            let counts = choice.shares(keys());
            assert_eq!(counts[0] + counts[1], 4000, "{:?}: {counts:?}", choice.balance);
            choice.target(0).set_unreachable();
            assert_eq!(choice.shares(keys()), [0, 4000, 0, 0]);
            choice.target(1).set_healthy(false);
            // A connection to the first has failed just now, so the others come first.
            assert_eq!(choice.shares(keys()), [0, 0, 4000, 0]);
            choice.target(2).set_healthy(false);
            assert_eq!(
                choice.choose(&by(Some(1)), &[3]),
                Some(0),
                "an unreachable target is better than a tried one"
            );
            choice.target(0).set_healthy(false);
            assert_eq!(choice.shares(keys()), [0, 0, 0, 4000]);
        }
    }

    #[test]
    fn a_pin_holds_as_long_as_its_target_is_ready() {
        let choice = Choice::new(Balance::Failover, &[1, 1, 1]);
        let preference = TargetPreference::of(None, Some(choice.target(1).clone()));
        let choose = |tried: &[usize]| choice.choose(&preference, tried);
        assert_eq!([choose(&[]), choose(&[0]), choose(&[1])], [Some(1), Some(1), Some(0)]);
        choice.target(1).set_healthy(false);
        assert_eq!(choose(&[]), Some(0));
        choice.target(1).set_healthy(true);
        choice.target(1).set_unreachable();
        assert_eq!(choose(&[]), Some(0), "a connection to it has just failed");
    }
}
