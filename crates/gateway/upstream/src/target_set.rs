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
