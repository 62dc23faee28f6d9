//! The targets of an upstream at one time. A set never changes: it is replaced by another one, and workers notice this between
//! two requests.
//!
//! Targets in both sets are the same objects and keep their state.

use std::sync::Arc;

use crate::sticky::PinTable;
use crate::target::Target;

/// The targets, the best priority first.
pub struct TargetSet {
    /// Increases with each set of an upstream.
    pub(crate) version: u64,
    members: Vec<Member>,
    /// The end of each priority's range of members.
    ends: Vec<usize>,
    pub(crate) pins: PinTable,
    knowledge: Knowledge,
}

/// A target with the settings that may change while it stays.
#[derive(Clone)]
pub struct Member {
    pub target: Arc<Target>,
    /// Its share of requests, relative to others of its priority. At least 1.
    pub weight: u32,
    /// A target gets requests only if none with a smaller number is available.
    pub priority: u16,
}

/// Whether the targets are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knowledge {
    /// They are those of the configuration or of the last successful look-up.
    Known,
    /// The first look-up has not ended.
    Unknown,
    /// No look-up has succeeded yet, for this reason.
    Unresolved(String),
    /// DNS says that the service is not available: its only target is `.` (RFC 2782).
    NotAvailable,
}

impl TargetSet {
    /// A set of these members. Members of the same priority keep their order.
    pub(crate) fn new(version: u64, mut members: Vec<Member>, knowledge: Knowledge) -> TargetSet {
        members.sort_by_key(|member| member.priority);
        let ends = members.chunk_by(|a, b| a.priority == b.priority).scan(0, |end, group| {
            *end += group.len();
            Some(*end)
        });
        let ends = ends.collect();
        let pins = PinTable::new(members.iter().map(|member| member.target.pin()));
        TargetSet { version, members, ends, pins, knowledge }
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// The places of the members of each priority, the best first.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        // Harmless: the last start is the end of all members, so no range begins there.
        starts.zip(self.ends.iter().copied()).map(|(start, end)| start..end)
    }

    /// True if requests have to wait for the first look-up.
    pub(crate) fn is_unknown(&self) -> bool {
        self.knowledge == Knowledge::Unknown
    }

    pub(crate) fn contains(&self, target: &Arc<Target>) -> bool {
        self.members.iter().any(|member| Arc::ptr_eq(&member.target, target))
    }

    /// True if targets, weights, priorities and knowledge are the same.
    pub(crate) fn is_same(&self, members: &[Member], knowledge: &Knowledge) -> bool {
        let is_same = |(a, b): (&Member, &Member)| {
            Arc::ptr_eq(&a.target, &b.target) && a.weight == b.weight && a.priority == b.priority
        };
        // Harmless: the lengths are compared.
        self.knowledge == *knowledge
            && self.members.len() == members.len()
            && self.members.iter().zip(members).all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    fn members(priorities: &[u16]) -> Vec<Member> {
        let targets = crate::tests::upstream(settings(priorities.len())).targets();
        let members = targets.members().iter().zip(priorities);
        members.map(|(of, priority)| Member { priority: *priority, ..of.clone() }).collect()
    }

    #[test]
    fn each_priority_is_a_range_of_members_the_best_first() {
        for (priorities, expected, ports) in [
            (&[][..], vec![], &[][..]),
            (&[7], vec![(0, 1)], &[1000]),
            (&[0, 0, 0], vec![(0, 3)], &[1000, 1001, 1002]),
            (&[20, 10, 20, 10, 30], vec![(0, 2), (2, 4), (4, 5)], &[1001, 1003, 1000, 1002, 1004]),
        ] {
            let set = TargetSet::new(1, members(priorities), Knowledge::Known);
            let ranges = set.priorities().map(|range| (range.start, range.end));
            assert_eq!(ranges.collect::<Vec<_>>(), expected, "{priorities:?}");
            let of = set.members().iter().map(|member| member.target.settings().port);
            assert_eq!(of.collect::<Vec<_>>(), ports, "those of a priority keep their order");
        }
    }

    #[test]
    fn any_difference_makes_another_set() {
        let all = members(&[0, 0]);
        let set = TargetSet::new(1, all.clone(), Knowledge::Known);
        assert!(set.is_same(&all, &Knowledge::Known));
        assert!(!set.is_same(&all, &Knowledge::NotAvailable));
        assert!(!set.is_same(&all[..1], &Knowledge::Known));
        assert!(!set.is_same(&members(&[0, 0]), &Knowledge::Known), "equal, but not the same");
        for changed in [
            Member { weight: 2, ..all[1].clone() },
            Member { priority: 1, ..all[1].clone() },
            all[0].clone(),
        ] {
            assert!(!set.is_same(&[all[0].clone(), changed], &Knowledge::Known));
        }
    }
}
