//! Maps content models to the members of an object.
//!
//! Decides which elements become members of their own and which become items of an array, because their order matters. Groups members as
//! the content model does.

use xsd::walk::{ElementView, ParticleView, TermView};

use super::TablesBuilder;
use crate::typed::model::{Children, Leaf, Member, MemberOf, Order, Slot};

/// Converts the content of a type.
pub(super) fn children<'s>(
    building: &mut TablesBuilder<'s>,
    mixed: bool,
    particle: ParticleView<'s>,
) -> Children {
    let flat = if mixed { None } else { Flat::read(building, particle) };
    let mut children = flat.unwrap_or_else(|| in_order(building, particle, mixed));
    for (index, member) in children.members.iter().enumerate() {
        children.keys.push((member.key.clone(), index));
    }
    children.keys.sort_unstable();
    let local = |leaf: &Leaf| building.elements.get(leaf.element).map(|element| &element.local);
    let mut names: Vec<usize> = (0..children.leaves.len()).collect();
    names.sort_by_key(|leaf| children.leaves.get(*leaf).and_then(local));
    children.names = names;
    children
}

/// Converts all content to items of a single array.
fn in_order<'s>(
    building: &mut TablesBuilder<'s>,
    particle: ParticleView<'s>,
    mixed: bool,
) -> Children {
    let mut flat = Flat { children: Children { mixed, ..Children::default() } };
    let slot = flat.items(building, particle);
    Children { model: slot, ..flat.children }
}

/// Members under construction.
struct Flat {
    children: Children,
}

impl Flat {
    /// Converts a content model to members. Returns `None` if an element could belong to two members.
    fn read<'s>(building: &mut TablesBuilder<'s>, particle: ParticleView<'s>) -> Option<Children> {
        let mut flat = Flat { children: Children::default() };
        let model = flat.slot(building, particle)?;
        flat.children.model = model;
        let mut wild = flat.children.members.iter().filter(|member| takes_any(member));
        (wild.next().is_none() || wild.next().is_none()).then_some(flat.children)
    }

    fn slot<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        particle: ParticleView<'s>,
    ) -> Option<Slot> {
        if particle.max() == Some(0) {
            return Some(Slot::default());
        }
        let optional = particle.min() == 0;
        match particle.term() {
            TermView::Element(element) => self.element(building, particle, element),
            TermView::Wildcard { strict } => {
                let of = MemberOf::Any { example: building.example(particle, strict) };
                Some(self.push("$any".into(), of, true, particle.min(), particle.max()))
            }
            TermView::Sequence(inner) | TermView::All(inner) if particle.max() == Some(1) => {
                let slots = inner.into_iter().map(|inner| self.slot(building, inner));
                Some(Slot::Sequence { slots: slots.collect::<Option<_>>()?, optional })
            }
            TermView::Choice(inner) if particle.max() == Some(1) => {
                let slots = inner.into_iter().map(|inner| self.slot(building, inner));
                Some(Slot::Choice { slots: slots.collect::<Option<_>>()?, optional })
            }
            TermView::Sequence(_) | TermView::All(_) | TermView::Choice(_) => {
                match single(particle) {
                    Some((element, min, max)) if alternatives(element).len() == 1 => {
                        self.leaf(building, element, min, max)
                    }
                    Some(_) | None => self.repeated(building, particle),
                }
            }
        }
    }

    fn element<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        particle: ParticleView<'s>,
        element: ElementView<'s>,
    ) -> Option<Slot> {
        let all = alternatives(element);
        match (all.as_slice(), particle.max()) {
            ([only], max) => self.leaf(building, *only, particle.min(), max),
            (_, Some(1)) => {
                let optional = particle.min() == 0;
                let slots = all.into_iter().map(|one| self.leaf(building, one, 1, Some(1)));
                Some(Slot::Choice { slots: slots.collect::<Option<_>>()?, optional })
            }
            _ => self.repeated(building, particle),
        }
    }

    /// Adds a member for an element. Returns `None` if the element belongs to another member already.
    fn leaf<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        element: ElementView<'s>,
        min: u64,
        max: Option<u64>,
    ) -> Option<Slot> {
        let (uri, local) = element.name();
        let at = building.element(element);
        if self.has(building, uri, local) {
            return None;
        }
        let taken = self.children.members.iter().any(|member| *member.key == *local);
        let key = if taken { format!("{{{uri}}}{local}") } else { local.to_owned() };
        let member = self.children.members.len();
        self.children.leaves.push(Leaf { element: at, member, key: key.as_str().into() });
        Some(self.push(key, MemberOf::Element(at), max != Some(1), min, max))
    }

    fn has(&self, building: &TablesBuilder<'_>, uri: &str, local: &str) -> bool {
        self.children.leaves.iter().any(|leaf| {
            building
                .elements
                .get(leaf.element)
                .is_some_and(|known| *known.uri == *uri && *known.local == *local)
        })
    }

    fn push(&mut self, key: String, of: MemberOf, many: bool, min: u64, max: Option<u64>) -> Slot {
        let index = self.children.members.len();
        let quoted = crate::typed::scalar::quoted_key(&key).into();
        let member = Member { key: key.into(), quoted, of, many, min, max };
        if takes_any(&member) {
            self.children.wild = Some(index);
        }
        self.children.members.push(member);
        Slot::Member(index)
    }

    /// Converts a repeated group to an array of items. Returns `None` if one of its elements belongs to another member already.
    fn repeated<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        particle: ParticleView<'s>,
    ) -> Option<Slot> {
        let before = self.children.leaves.len();
        let slot = self.items(building, particle);
        let known = self.children.leaves.get(..before).unwrap_or_default();
        let fresh = self.children.leaves.get(before..).unwrap_or_default();
        let twice = fresh.iter().any(|leaf| known.iter().any(|known| building.same(known, leaf)));
        (!twice).then_some(slot)
    }

    fn items<'s>(&mut self, building: &mut TablesBuilder<'s>, particle: ParticleView<'s>) -> Slot {
        let member = self.children.members.len();
        let order = self.order(building, particle, member);
        let number = self.children.members.iter().filter(|member| takes_items(member)).count();
        let key = if number == 0 { "$items".to_owned() } else { format!("$items{}", number + 1) };
        let min = u64::from(!is_emptiable(particle));
        self.push(key, MemberOf::Items { order }, true, min, None)
    }

    fn order<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        particle: ParticleView<'s>,
        member: usize,
    ) -> Order {
        let min = particle.min();
        let inner = |flat: &mut Flat,
                     building: &mut TablesBuilder<'s>,
                     inner: Vec<ParticleView<'s>>| {
            inner.into_iter().map(|inner| flat.order(building, inner, member)).collect::<Vec<_>>()
        };
        match particle.term() {
            _ if particle.max() == Some(0) => Order::Sequence { inner: Vec::new(), min: 0 },
            TermView::Wildcard { strict } => {
                Order::Any { example: building.example(particle, strict), min }
            }
            TermView::Element(element) => {
                let all = alternatives(element);
                let mut leaves: Vec<Order> =
                    all.into_iter().map(|one| self.item(building, one, member)).collect();
                match leaves.len() {
                    1 => match leaves.pop() {
                        Some(Order::Leaf { element, .. }) => Order::Leaf { element, min },
                        Some(_) | None => Order::Sequence { inner: Vec::new(), min: 0 },
                    },
                    _ => Order::Choice { inner: leaves, min },
                }
            }
            TermView::Sequence(all) | TermView::All(all) => {
                Order::Sequence { inner: inner(self, building, all), min }
            }
            TermView::Choice(all) => Order::Choice { inner: inner(self, building, all), min },
        }
    }

    fn item<'s>(
        &mut self,
        building: &mut TablesBuilder<'s>,
        element: ElementView<'s>,
        member: usize,
    ) -> Order {
        let (uri, local) = element.name();
        let at = building.element(element);
        let fresh = Leaf { element: at, member, key: local.into() };
        let mut of_member = self.children.leaves.iter().filter(|leaf| leaf.member == member);
        if !of_member.clone().any(|leaf| building.same(leaf, &fresh)) {
            let taken = of_member.any(|leaf| *leaf.key == *local);
            let key = if taken { format!("{{{uri}}}{local}").into() } else { fresh.key };
            self.children.leaves.push(Leaf { key, ..fresh });
        }
        Order::Leaf { element: at, min: 1 }
    }
}

fn takes_items(member: &Member) -> bool {
    matches!(member.of, MemberOf::Items { .. })
}

fn takes_any(member: &Member) -> bool {
    match &member.of {
        MemberOf::Element(_) => false,
        MemberOf::Any { .. } => true,
        MemberOf::Items { order } => has_wildcard(order),
    }
}

fn has_wildcard(order: &Order) -> bool {
    match order {
        Order::Leaf { .. } => false,
        Order::Any { .. } => true,
        Order::Sequence { inner, .. } | Order::Choice { inner, .. } => {
            inner.iter().any(has_wildcard)
        }
    }
}

/// Returns the element and its substitutes, except abstract ones.
fn alternatives(element: ElementView<'_>) -> Vec<ElementView<'_>> {
    let all = std::iter::once(element).chain(element.substitutes());
    let concrete: Vec<ElementView<'_>> = all.filter(|one| !one.is_abstract()).collect();
    // An abstract element without substitutes cannot be written. It is kept so that an error can name it.
    if concrete.is_empty() { vec![element] } else { concrete }
}

/// Returns the only element of a group, with its minimum and maximum number of occurrences.
fn single<'s>(particle: ParticleView<'s>) -> Option<(ElementView<'s>, u64, Option<u64>)> {
    let (min, max) = (particle.min(), particle.max());
    let times = |inner: Option<u64>| Some(max?.saturating_mul(inner?));
    match particle.term() {
        TermView::Element(element) => Some((element, min, max)),
        TermView::Wildcard { .. } => None,
        TermView::Sequence(inner) | TermView::All(inner) | TermView::Choice(inner) => {
            let [only] = inner.as_slice() else { return None };
            let (element, low, high) = single(*only)?;
            Some((element, min.saturating_mul(low), times(high)))
        }
    }
}

fn is_emptiable(particle: ParticleView<'_>) -> bool {
    particle.min() == 0
        || match particle.term() {
            TermView::Element(_) | TermView::Wildcard { .. } => false,
            TermView::Sequence(inner) | TermView::All(inner) => inner.into_iter().all(is_emptiable),
            TermView::Choice(inner) => inner.is_empty() || inner.into_iter().any(is_emptiable),
        }
}
