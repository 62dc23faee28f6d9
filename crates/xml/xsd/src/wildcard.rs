//! Wildcards: the namespaces they match, and the algebra of such sets (Part 1, 3.10.6).
//!
//! Owns subset, union and intersection. How matching elements are treated is decided elsewhere.

use crate::location::ComponentLocation;
use crate::names::NsId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wildcard {
    pub(crate) namespaces: Namespaces,
    pub(crate) process: Process,
    pub(crate) place: ComponentLocation,
}

/// The namespaces that a wildcard matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespaces {
    Any,
    /// Any namespace except this one and the absent one.
    Not(NsId),
    /// Sorted.
    Of(Vec<NsId>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Process {
    Skip,
    Lax,
    Strict,
}

impl Namespaces {
    pub(crate) fn allows(&self, namespace: NsId) -> bool {
        match self {
            Namespaces::Any => true,
            Namespaces::Not(not) => namespace != *not && namespace != NsId::ABSENT,
            Namespaces::Of(list) => list.contains(&namespace),
        }
    }

    /// Returns whether every namespace of this set is in the other (cos-ns-subset).
    pub(crate) fn is_subset(&self, other: &Namespaces) -> bool {
        match (self, other) {
            (_, Namespaces::Any) => true,
            (Namespaces::Not(a), Namespaces::Not(b)) => a == b,
            (Namespaces::Of(list), _) => list.iter().all(|&namespace| other.allows(namespace)),
            (Namespaces::Any | Namespaces::Not(_), Namespaces::Not(_) | Namespaces::Of(_)) => false,
        }
    }

    /// Returns whether some namespace is in both sets.
    pub(crate) fn overlaps(&self, other: &Namespaces) -> bool {
        match (self, other) {
            (Namespaces::Of(list), other) | (other, Namespaces::Of(list)) => {
                list.iter().any(|&namespace| other.allows(namespace))
            }
            // No schema can name all namespaces, so these sets always overlap.
            (Namespaces::Any | Namespaces::Not(_), Namespaces::Any | Namespaces::Not(_)) => true,
        }
    }

    /// Returns the intersection (cos-aw-intersect), or `None` if it cannot be expressed.
    pub(crate) fn intersection(&self, other: &Namespaces) -> Option<Namespaces> {
        Some(match (self, other) {
            (Namespaces::Any, rest) | (rest, Namespaces::Any) => rest.clone(),
            (Namespaces::Of(list), rest) | (rest, Namespaces::Of(list)) => {
                Namespaces::Of(list.iter().copied().filter(|&ns| rest.allows(ns)).collect())
            }
            (Namespaces::Not(a), Namespaces::Not(b)) => match (*a, *b) {
                (a, b) if a == b || b == NsId::ABSENT => Namespaces::Not(a),
                (NsId::ABSENT, b) => Namespaces::Not(b),
                _ => return None,
            },
        })
    }

    /// Returns the union (cos-aw-union), or `None` if it cannot be expressed.
    pub(crate) fn union(&self, other: &Namespaces) -> Option<Namespaces> {
        Some(match (self, other) {
            (Namespaces::Any, _) | (_, Namespaces::Any) => Namespaces::Any,
            (Namespaces::Of(a), Namespaces::Of(b)) => {
                let mut both: Vec<NsId> = a.iter().chain(b).copied().collect();
                both.sort_unstable();
                both.dedup();
                Namespaces::Of(both)
            }
            (Namespaces::Not(a), Namespaces::Not(b)) if a == b => Namespaces::Not(*a),
            (Namespaces::Not(_), Namespaces::Not(_)) => Namespaces::Not(NsId::ABSENT),
            (Namespaces::Not(not), Namespaces::Of(list))
            | (Namespaces::Of(list), Namespaces::Not(not)) => {
                let absent = list.contains(&NsId::ABSENT);
                match (*not, list.contains(not)) {
                    (NsId::ABSENT, true) => Namespaces::Any,
                    (NsId::ABSENT, false) => Namespaces::Not(NsId::ABSENT),
                    (_, true) if absent => Namespaces::Any,
                    (_, true) => Namespaces::Not(NsId::ABSENT),
                    (_, false) if absent => return None,
                    (not, false) => Namespaces::Not(not),
                }
            }
        })
    }
}
