//! Restriction of particles: Particle Valid (Restriction), Part 1, 3.9.6, the rules rcase-*.

use std::sync::Arc;

use super::values;
use crate::arena::Id;
use crate::model::{
    ComponentLocation, DerivationSet, Element, Max, ModelKind, Namespaces, Particle, Process, Term,
    Wildcard,
};
use crate::read::Builder;

type BrokenRule = (&'static str, String);

/// Checks that a content model restricts another.
pub(super) fn restriction(
    builder: &mut Builder<'_>,
    derived: Id<Particle>,
    base: Id<Particle>,
) -> Result<(), BrokenRule> {
    let mut comparison = Comparison { steps: builder.limits.restriction_steps_max, builder };
    let derived = comparison.top(derived);
    let base = comparison.top(base);
    comparison.compare(&derived, &base)
}

/// Checks src-redefine.6.2.2: a redefined group that does not refer to its original restricts it.
pub(super) fn redefined_groups(builder: &mut Builder<'_>) {
    for (derived, original) in std::mem::take(&mut builder.redefined_groups) {
        let Some(derived) = derived else { continue };
        let place = builder.components.groups[derived].place;
        let particle =
            |group| Particle { place, min: 1, max: Max::Times(1), term: Term::Group(group) };
        let derived = builder.components.particles.push(particle(derived));
        let original = builder.components.particles.push(particle(original));
        if let Err((code, message)) = restriction(builder, derived, original) {
            builder.complain(code, place, message);
        }
    }
    super::attributes::redefined(builder);
}

/// A particle prepared for comparison: pointless groups are removed, and heads of substitution groups become choices.
#[derive(Debug, Clone)]
struct Part {
    min: u64,
    max: Max,
    kind: Kind,
    place: ComponentLocation,
    /// The effective total range.
    range: (u64, Max),
}

impl Part {
    fn new(min: u64, max: Max, kind: Kind, place: ComponentLocation) -> Part {
        let (least, most) = match &kind {
            Kind::Element(_) | Kind::Wildcard(_) => (1, Max::Times(1)),
            Kind::Model { kind, parts, .. } => {
                let ranges = parts.iter().map(|part| part.range);
                match kind {
                    ModelKind::Choice => ranges
                        .reduce(|(a, b), (low, high)| (a.min(low), b.max(high)))
                        .unwrap_or((0, Max::Times(0))),
                    ModelKind::Sequence | ModelKind::All => ranges
                        .fold((0, Max::Times(0)), |(a, b), (low, high)| {
                            (low.saturating_add(a), b.plus(high))
                        }),
                }
            }
        };
        let range = (least.saturating_mul(min), most.times(max));
        Part { min, max, kind, place, range }
    }

    fn once(kind: Kind, place: ComponentLocation) -> Part {
        Part::new(1, Max::Times(1), kind, place)
    }
}

fn is_emptiable(part: &Part) -> bool {
    part.range.0 == 0
}

#[derive(Debug, Clone)]
enum Kind {
    Element(Id<Element>),
    Wildcard(Id<Wildcard>),
    /// `ordered` is false for the members of a substitution group, which have no order.
    Model {
        kind: ModelKind,
        parts: Arc<[Part]>,
        ordered: bool,
    },
}

struct Comparison<'b, 'd> {
    builder: &'b mut Builder<'d>,
    steps: usize,
}

fn broken(code: &'static str, message: impl Into<String>) -> Result<(), BrokenRule> {
    Err((code, message.into()))
}

impl Comparison<'_, '_> {
    fn top(&mut self, particle: Id<Particle>) -> Part {
        let mut parts = Vec::new();
        self.parts(particle, None, &mut parts);
        match <[Part; 1]>::try_from(parts) {
            Ok([part]) => part,
            Err(parts) => {
                let place = self.builder.components.particles[particle].place;
                let kind =
                    Kind::Model { kind: ModelKind::Sequence, parts: parts.into(), ordered: true };
                Part::once(kind, place)
            }
        }
    }

    /// Adds the parts of a particle, without pointless groups (3.9.6).
    fn parts(&mut self, id: Id<Particle>, parent: Option<ModelKind>, out: &mut Vec<Part>) {
        // Shared groups multiply when they are expanded, so the steps are limited.
        let Some(left) = self.steps.checked_sub(1) else { return };
        self.steps = left;
        let Particle { place, min, max, term } = self.builder.components.particles[id];
        let all = &self.builder.components;
        let kind = match term {
            Term::Element(element) => match all.substitutes.get(&element) {
                Some(members) if all.elements[element].global && !members.is_empty() => {
                    let once = |&id: &Id<Element>| Part::once(Kind::Element(id), place);
                    let parts = std::iter::once(&element).chain(members).map(once).collect();
                    Kind::Model { kind: ModelKind::Choice, parts, ordered: false }
                }
                Some(_) | None => Kind::Element(element),
            },
            Term::Wildcard(wildcard) => Kind::Wildcard(wildcard),
            Term::Model(_) | Term::Group(_) => {
                let Some(model) = all.model_of(term) else { return };
                let kind = all.models[model].kind;
                let once = min == 1 && max == Max::Times(1);
                let mut inner = Vec::new();
                let particles = all.models[model].particles.clone();
                let own = if once && parent == Some(kind) { parent } else { Some(kind) };
                for particle in particles {
                    self.parts(particle, own, &mut inner);
                }
                let emptied = inner.is_empty() && (kind != ModelKind::Choice || min == 0);
                let merged = once && parent == Some(kind) && kind != ModelKind::All;
                if emptied || merged || once && inner.len() == 1 {
                    out.append(&mut inner);
                    return;
                }
                Kind::Model { kind, parts: inner.into(), ordered: true }
            }
        };
        out.push(Part::new(min, max, kind, place));
    }

    fn compare(&mut self, derived: &Part, base: &Part) -> Result<(), BrokenRule> {
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => return broken("limit", "the comparison with the base takes too many steps"),
        }
        use ModelKind::{All, Choice, Sequence};
        match (&derived.kind, &base.kind) {
            (Kind::Element(one), Kind::Element(other)) => {
                self.name_and_type(derived, *one, base, *other)
            }
            (Kind::Element(element), Kind::Wildcard(wildcard)) => {
                let all = &self.builder.components;
                let namespace = all.names.namespace_of(all.elements[*element].name);
                if !all.wildcards[*wildcard].namespaces.allows(namespace) {
                    return broken("rcase-NSCompat.1", self.unmatched(derived));
                }
                within(derived, base, "rcase-NSCompat.2")
            }
            (Kind::Element(_), Kind::Model { kind, .. }) => {
                let parts = Arc::from([derived.clone()]);
                let group = Kind::Model { kind: *kind, parts, ordered: true };
                let group = Part::once(group, derived.place);
                self.compare(&group, base)
            }
            (Kind::Wildcard(one), Kind::Wildcard(other)) => {
                self.namespaces(derived, *one, base, *other)
            }
            (Kind::Model { parts, .. }, Kind::Wildcard(_)) => {
                let any_number = Part::new(0, Max::Unbounded, base.kind.clone(), base.place);
                for part in parts.iter() {
                    self.compare(part, &any_number)?;
                }
                let (min, max) = derived.range;
                if min >= base.min && max <= base.max {
                    return Ok(());
                }
                broken(
                    "rcase-NSRecurseCheckCardinality.2",
                    "the group occurs more or less often than the wildcard",
                )
            }
            (
                Kind::Model { kind: mine, parts, ordered },
                Kind::Model { kind: theirs, parts: wider, ordered: other_ordered },
            ) => match (mine, theirs) {
                (All, All) | (Sequence, Sequence) => {
                    within(derived, base, "rcase-Recurse.1")?;
                    self.in_order(parts, wider)
                }
                (Choice, Choice) => {
                    within(derived, base, "rcase-RecurseLax.1")?;
                    self.in_lax_order(parts, wider, *ordered && *other_ordered)
                }
                (Sequence, All) => {
                    within(derived, base, "rcase-RecurseUnordered.1")?;
                    self.unordered(parts, wider)
                }
                (Sequence, Choice) => self.map_and_sum(derived, parts, base, wider),
                (All, Choice | Sequence) | (Choice, All | Sequence) => broken(
                    "cos-particle-restrict.2",
                    "a group of this kind cannot restrict one of that kind",
                ),
            },
            (Kind::Wildcard(_) | Kind::Model { .. }, Kind::Element(_))
            | (Kind::Wildcard(_), Kind::Model { .. }) => broken(
                "cos-particle-restrict.2",
                "the base allows less than this wildcard or group",
            ),
        }
    }

    fn unmatched(&self, part: &Part) -> String {
        match &part.kind {
            Kind::Element(id) => {
                let all = &self.builder.components;
                format!("the base has no place for {}", all.names.text(all.elements[*id].name))
            }
            Kind::Wildcard(_) => "the base has no place for the wildcard".to_owned(),
            Kind::Model { .. } => "the base has no place for the group".to_owned(),
        }
    }

    /// Checks rcase-NameAndTypeOK.
    fn name_and_type(
        &self,
        derived: &Part,
        one: Id<Element>,
        base: &Part,
        other: Id<Element>,
    ) -> Result<(), BrokenRule> {
        let all = &self.builder.components;
        let (mine, theirs) = (&all.elements[one], &all.elements[other]);
        if mine.name != theirs.name {
            return broken("rcase-NameAndTypeOK.1", self.unmatched(derived));
        }
        within(derived, base, "rcase-NameAndTypeOK.3")?;
        if one == other {
            return Ok(());
        }
        let text = all.names.text(mine.name);
        if mine.nillable && !theirs.nillable {
            return broken("rcase-NameAndTypeOK.2", format!("{text} is not nillable in the base"));
        }
        if let Some(fixed) = theirs.constraint.as_ref().filter(|value| value.fixed) {
            let same = mine.constraint.as_ref().is_some_and(|value| {
                value.fixed
                    && values::same(self.builder, mine.type_id, value, theirs.type_id, fixed)
            });
            if !same {
                let message = format!("the base fixes {text} to {:?}", fixed.text);
                return broken("rcase-NameAndTypeOK.4", message);
            }
        }
        let known = mine.constraints.iter().all(|mine| {
            theirs.constraints.iter().any(|c| c.uri == mine.uri && c.local == mine.local)
        });
        if !known {
            let message = format!("{text} has identity constraints that the base does not have");
            return broken("rcase-NameAndTypeOK.5", message);
        }
        if theirs.block.0 & !mine.block.0 != 0 {
            return broken("rcase-NameAndTypeOK.6", format!("{text} blocks less than in the base"));
        }
        let excluded =
            DerivationSet::EXTENSION.with(DerivationSet::LIST).with(DerivationSet::UNION);
        if all.derives(mine.type_id, theirs.type_id, excluded) {
            Ok(())
        } else {
            broken(
                "rcase-NameAndTypeOK.7",
                format!("the type of {text} does not restrict that of the base"),
            )
        }
    }

    /// Checks rcase-NSSubset.
    fn namespaces(
        &self,
        derived: &Part,
        one: Id<Wildcard>,
        base: &Part,
        other: Id<Wildcard>,
    ) -> Result<(), BrokenRule> {
        within(derived, base, "rcase-NSSubset.1")?;
        let all = &self.builder.components;
        let (mine, theirs) = (&all.wildcards[one], &all.wildcards[other]);
        if !mine.namespaces.is_subset(&theirs.namespaces) {
            return broken("rcase-NSSubset.2", "the wildcard allows more than that of the base");
        }
        let ur_type = theirs.place == ComponentLocation::BUILT_IN
            && theirs.namespaces == Namespaces::Any
            && theirs.process == Process::Lax;
        if ur_type || mine.process >= theirs.process {
            Ok(())
        } else {
            broken("rcase-NSSubset.3", "the wildcard is less strict than that of the base")
        }
    }

    /// Checks rcase-Recurse.2: each particle restricts one of the base, in order; the others may be empty.
    fn in_order(&mut self, parts: &[Part], wider: &[Part]) -> Result<(), BrokenRule> {
        let mut rest = wider.iter();
        'parts: for part in parts {
            let mut why = None;
            for candidate in rest.by_ref() {
                match self.compare(part, candidate) {
                    Ok(()) => continue 'parts,
                    Err(broken) if broken.0 == "limit" => return Err(broken),
                    Err(_) if is_emptiable(candidate) => {}
                    Err(broken) => {
                        why = Some(broken);
                        break;
                    }
                }
            }
            return Err(why.unwrap_or_else(|| ("rcase-Recurse.2", self.unmatched(part))));
        }
        if rest.all(is_emptiable) {
            Ok(())
        } else {
            broken("rcase-Recurse.2", "something the base requires is left out")
        }
    }

    /// Checks rcase-RecurseLax.2.
    fn in_lax_order(
        &mut self,
        parts: &[Part],
        wider: &[Part],
        ordered: bool,
    ) -> Result<(), BrokenRule> {
        let mut from = 0;
        for part in parts {
            let mut found = None;
            for (index, candidate) in wider.iter().enumerate().skip(from) {
                match self.compare(part, candidate) {
                    Ok(()) => {
                        found = Some(index);
                        break;
                    }
                    Err(broken) if broken.0 == "limit" => return Err(broken),
                    Err(_) => {}
                }
            }
            match found {
                Some(index) if ordered => from = index + 1,
                Some(_) => {}
                None => return broken("rcase-RecurseLax.2", self.unmatched(part)),
            }
        }
        Ok(())
    }

    /// Checks rcase-RecurseUnordered.2.
    fn unordered(&mut self, parts: &[Part], wider: &[Part]) -> Result<(), BrokenRule> {
        let mut used = vec![false; wider.len()];
        for part in parts {
            let mut found = false;
            // Harmless: there is one flag for each part.
            for (candidate, used) in wider.iter().zip(&mut used).filter(|(_, used)| !**used) {
                match self.compare(part, candidate) {
                    Ok(()) => {
                        (found, *used) = (true, true);
                        break;
                    }
                    Err(broken) if broken.0 == "limit" => return Err(broken),
                    Err(_) => {}
                }
            }
            if !found {
                return broken("rcase-RecurseUnordered.2", self.unmatched(part));
            }
        }
        // Harmless: there is one flag for each part.
        let left = wider.iter().zip(&used).filter(|(_, used)| !**used);
        if left.into_iter().all(|(part, _)| is_emptiable(part)) {
            Ok(())
        } else {
            broken("rcase-RecurseUnordered.2", "something the base requires is left out")
        }
    }

    /// Checks rcase-MapAndSum.
    fn map_and_sum(
        &mut self,
        derived: &Part,
        parts: &[Part],
        base: &Part,
        wider: &[Part],
    ) -> Result<(), BrokenRule> {
        self.in_lax_order_of_any(parts, wider)?;
        let count = u64::try_from(parts.len()).unwrap_or(u64::MAX);
        let min = derived.min.saturating_mul(count);
        let max = derived.max.times(Max::Times(count));
        if min >= base.min && max <= base.max {
            Ok(())
        } else {
            broken(
                "rcase-MapAndSum.2",
                "the sequence has more or fewer particles than the choice allows",
            )
        }
    }

    fn in_lax_order_of_any(&mut self, parts: &[Part], wider: &[Part]) -> Result<(), BrokenRule> {
        self.in_lax_order(parts, wider, false).map_err(|(code, message)| match code {
            "limit" => (code, message),
            _ => ("rcase-MapAndSum.1", message),
        })
    }
}

/// Checks range-ok: the occurrences are within those of the base.
fn within(derived: &Part, base: &Part, code: &'static str) -> Result<(), BrokenRule> {
    if derived.min >= base.min && derived.max <= base.max {
        Ok(())
    } else {
        broken(code, "it occurs more or less often than in the base")
    }
}
