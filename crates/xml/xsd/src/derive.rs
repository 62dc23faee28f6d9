//! Derivation between types, and particles that can be empty.
//!
//! Computes the relations that both the rules and the validator need. It reports no complaints.

use std::collections::HashMap;

use crate::arena::Id;
use crate::model::{
    ANY_TYPE, Components, DerivationSet, Element, Max, Model, ModelKind, Particle, SimpleSource,
    Type, TypeKind,
};

impl Components {
    /// Returns whether `derived` is `base` or derives from it without the excluded methods (cos-ct-derived-ok,
    /// cos-st-derived-ok).
    pub(crate) fn derives(
        &self,
        derived: Id<Type>,
        base: Id<Type>,
        excluded: DerivationSet,
    ) -> bool {
        let mut at = derived;
        // No chain is longer than the number of types.
        for _ in 0..=self.types.len() {
            if at == base {
                return true;
            }
            let definition = &self.types[at];
            match &definition.kind {
                TypeKind::Complex(complex) => {
                    if at == ANY_TYPE || excluded.has(complex.way.as_ways()) {
                        return false;
                    }
                }
                TypeKind::Simple(_) => {
                    let finals = self.types[definition.base].finals;
                    if excluded.has(DerivationSet::RESTRICTION)
                        || finals.has(DerivationSet::RESTRICTION)
                    {
                        return false;
                    }
                    if self.is_member(at, base, excluded) {
                        return true;
                    }
                }
            }
            at = definition.base;
        }
        false
    }

    /// Returns whether a type derives from a member of the union `base`.
    fn is_member(&self, derived: Id<Type>, base: Id<Type>, excluded: DerivationSet) -> bool {
        let TypeKind::Simple(simple) = &self.types[base].kind else { return false };
        match &simple.source {
            SimpleSource::Union { members } => {
                members.iter().any(|&member| self.derives(derived, member, excluded))
            }
            SimpleSource::BuiltIn
            | SimpleSource::Restriction { .. }
            | SimpleSource::List { .. } => false,
        }
    }

    /// Returns all methods used between a type and its ancestor, and those that the types in between block. Returns `None` if `base` is not
    /// an ancestor.
    fn ways_between(
        &self,
        derived: Id<Type>,
        base: Id<Type>,
    ) -> Option<(DerivationSet, DerivationSet)> {
        let (mut used, mut blocked) = (DerivationSet::NONE, DerivationSet::NONE);
        let mut at = derived;
        for _ in 0..=self.types.len() {
            if at == base {
                return Some((used, blocked));
            }
            if at == ANY_TYPE {
                break;
            }
            match &self.types[at].kind {
                TypeKind::Complex(complex) => {
                    used = used.with(complex.way.as_ways());
                    if at != derived {
                        blocked = blocked.with(complex.block);
                    }
                }
                TypeKind::Simple(_) => used = used.with(DerivationSet::RESTRICTION),
            }
            at = self.types[at].base;
        }
        // A type that derives from a member of a union may replace the union.
        self.derives(derived, base, DerivationSet::NONE)
            .then_some((DerivationSet::RESTRICTION, blocked))
    }

    /// Checks cos-equiv-derived-ok-rec for an element whose chain of heads leads to `head`.
    pub(crate) fn substitutes(&self, element: Id<Element>, head: Id<Element>) -> bool {
        let (member, head) = (&self.elements[element], &self.elements[head]);
        if head.block.has(DerivationSet::SUBSTITUTION) {
            return false;
        }
        let Some((used, between)) = self.ways_between(member.type_id, head.type_id) else {
            return false;
        };
        let of_type =
            self.complex(head.type_id).map_or(DerivationSet::NONE, |complex| complex.block);
        !used.has(head.block.with(of_type).with(between))
    }

    /// Returns whether a type may replace the declared one by `xsi:type` (cvc-elt.4.3).
    pub(crate) fn can_replace(
        &self,
        found: Id<Type>,
        declared: Id<Type>,
        block: DerivationSet,
    ) -> bool {
        let of_type = self.complex(declared).map_or(DerivationSet::NONE, |complex| complex.block);
        self.derives(found, declared, block.with(of_type))
    }

    /// cos-group-emptiable.
    pub(crate) fn is_emptiable(&self, particle: Id<Particle>) -> bool {
        self.range(particle).0 == 0
    }

    /// Returns the effective total range of a particle (cos-seq-range, cos-choice-range).
    pub(crate) fn range(&self, particle: Id<Particle>) -> (u64, Max) {
        self.range_of(&self.particles[particle], &mut HashMap::new())
    }

    /// Computes the range with a cache, because models may be shared many times. The reader limits their nesting.
    pub(crate) fn range_of(&self, particle: &Particle, known: &mut Ranges) -> (u64, Max) {
        let (min, max) = match self.model_of(particle.term) {
            None => (1, Max::Times(1)),
            Some(model) => match known.get(&model) {
                Some(&range) => range,
                None => {
                    let range = self.model_range(model, known);
                    known.insert(model, range);
                    range
                }
            },
        };
        (min.saturating_mul(particle.min), max.times(particle.max))
    }

    pub(crate) fn model_range(&self, model: Id<Model>, known: &mut Ranges) -> (u64, Max) {
        let model = &self.models[model];
        let ranges =
            model.particles.iter().map(|&particle| self.range_of(&self.particles[particle], known));
        match model.kind {
            ModelKind::Sequence | ModelKind::All => ranges
                .fold((0, Max::Times(0)), |(min, max), (low, high)| {
                    (low.saturating_add(min), max.plus(high))
                }),
            ModelKind::Choice => ranges
                .reduce(|(min, max), (low, high)| (min.min(low), max.max(high)))
                .unwrap_or((0, Max::Times(0))),
        }
    }
}

/// Cache of the ranges of models.
pub(crate) type Ranges = HashMap<Id<Model>, (u64, Max)>;
