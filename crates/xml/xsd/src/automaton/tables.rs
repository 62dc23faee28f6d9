//! Converts positions to states, and checks that a content model is deterministic (cos-nonambig).

use std::collections::HashMap;

use super::build::{Leaf, ListId, Position, Positions, TooMany};
use super::{Accept, All, Automaton, Edge, Op, Span, State, States, WildcardEdge};
use crate::arena::Id;
use crate::model::{Components, Content, Element, ModelKind, Particle, Term, Type};
use crate::names::Sym;
use crate::read::Builder;

/// Maximum number of copies of an expanded particle. With more, the particle is counted, which costs a little at every step.
const WRITTEN_MAX: u64 = 12;

/// Builds the automata of all types, indexed by the type's number.
pub(crate) fn compile_all(builder: &mut Builder<'_>) -> Vec<Automaton> {
    let mut automata = Vec::with_capacity(builder.components.types.len());
    for id in builder.components.types.ids() {
        automata.push(compile(builder, id));
    }
    automata
}

fn compile(builder: &mut Builder<'_>, id: Id<Type>) -> Automaton {
    let all = &builder.components;
    let place = all.types[id].place;
    let particle = match all.complex(id).map(|complex| complex.content) {
        Some(Content::Children { particle, .. }) => particle,
        Some(Content::Empty | Content::Simple(_)) | None => return Automaton::Nothing,
    };
    let limit = builder.limits.states_max;
    let of = |written_max| states(all, particle, written_max, builder.limits.as_libxml, limit);
    let mut preferred = None;
    let made = match all_group(all, particle) {
        Some(result) => result.map(Automaton::All),
        None => of(WRITTEN_MAX)
            .or_else(|why| match why {
                // If counters make the particles ambiguous, expanding them may help.
                TableError::Counters => of(u64::MAX),
                why @ (TableError::Ambiguous(_) | TableError::TooLarge) => Err(why),
            })
            .map(|(states, also)| {
                preferred = also;
                Automaton::States(states)
            }),
    };
    if let Some(sym) = preferred {
        let name = builder.components.names.text(sym);
        let message =
            format!("the element {name} and a wildcard both match {name} at the same position");
        builder.complain_unless_libxml("cos-nonambig", place, message);
    }
    match made {
        Ok(automaton) => automaton,
        Err(TableError::Ambiguous(sym)) => {
            let what = match sym {
                Some(sym) => builder.components.names.text(sym),
                None => "an element of a wildcard".to_owned(),
            };
            let message =
                format!("two particles of the content model match {what} at the same position");
            builder.complain("cos-nonambig", place, message);
            Automaton::Nothing
        }
        Err(TableError::Counters | TableError::TooLarge) => {
            let message = format!("the content model needs more than {limit} states");
            builder.complain("limit", place, message);
            Automaton::Nothing
        }
    }
}

enum TableError {
    /// Two particles match the same child.
    Ambiguous(Option<Sym>),
    /// The counters cannot express the model: a state would need the operations of several positions.
    Counters,
    TooLarge,
}

impl From<TooMany> for TableError {
    fn from(_: TooMany) -> TableError {
        TableError::TooLarge
    }
}

fn all_group(all: &Components, particle: Id<Particle>) -> Option<Result<All, TableError>> {
    let outer = all.particles[particle];
    let model = &all.models[all.model_of(outer.term)?];
    if model.kind != ModelKind::All {
        return None;
    }
    let mut names: Vec<(Sym, u32, Id<Element>)> = Vec::new();
    let mut required = vec![0_u64; model.particles.len().div_ceil(64)];
    for (index, &member) in model.particles.iter().enumerate() {
        let particle = all.particles[member];
        let Term::Element(element) = particle.term else { continue };
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let members = all.substitutes.get(&element).map_or(&[][..], Vec::as_slice);
        for &id in std::iter::once(&element).chain(members) {
            names.push((all.elements[id].name, number, id));
        }
        if let Some(word) = required.get_mut(index / 64).filter(|_| particle.min > 0) {
            *word |= 1 << (index % 64);
        }
    }
    let in_order = names.iter().map(|&(sym, number, _)| (sym, number)).collect();
    names.sort_unstable_by_key(|&(sym, _, _)| sym);
    let twice = names.windows(2).find_map(|pair| match pair {
        [(one, _, _), (other, _, _)] if one == other => Some(*one),
        _ => None,
    });
    Some(match twice {
        Some(sym) => Err(TableError::Ambiguous(Some(sym))),
        None => {
            let optional = outer.min == 0;
            Ok(All { names: names.into(), in_order, required: required.into(), optional })
        }
    })
}

fn states(
    all: &Components,
    particle: Id<Particle>,
    written_max: u64,
    as_libxml: bool,
    limit: usize,
) -> Result<(States, Option<Sym>), TableError> {
    let positions = Positions::of(all, particle, written_max, limit)?;
    let mut tables = Tables {
        all,
        positions: &positions,
        limit,
        states: Vec::new(),
        edges: Vec::new(),
        wild: Vec::new(),
        ranks: (Vec::new(), Vec::new()),
        ops: Vec::new(),
        known: HashMap::new(),
        open: Vec::new(),
        budget: limit * EDGES_PER_STATE,
        as_libxml,
        preferred: None,
    };
    let start =
        Key { lists: vec![(positions.start, Vec::new())], ends: positions.empty.then(Vec::new) };
    tables.state(start)?;
    while let Some((number, key)) = tables.open.pop() {
        tables.fill(number, &key)?;
    }
    let preferred = tables.preferred;
    let states = States {
        states: tables.states.into(),
        edges: tables.edges.into(),
        wild: tables.wild.into(),
        ranks: (tables.ranks.0.into(), tables.ranks.1.into()),
        ops: tables.ops.into(),
        counters: positions.counters,
    };
    Ok((states, preferred))
}

/// Identifies a state: the positions that may follow, and whether the content may end. Positions with the same future share a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    lists: Vec<(ListId, Vec<Op>)>,
    ends: Option<Vec<Op>>,
}

struct Tables<'p> {
    all: &'p Components,
    positions: &'p Positions<'p>,
    limit: usize,
    states: Vec<State>,
    edges: Vec<Edge>,
    wild: Vec<WildcardEdge>,
    ranks: (Vec<u32>, Vec<u32>),
    ops: Vec<Op>,
    known: HashMap<Key, u32>,
    open: Vec<(u32, Key)>,
    /// Remaining number of positions to visit, over all states.
    budget: usize,
    /// Whether an element takes precedence over a wildcard that also matches.
    as_libxml: bool,
    /// The first element that took precedence over a wildcard.
    preferred: Option<Sym>,
}

/// A transition of a state: the positions of one particle, with the operations on the way.
#[derive(Debug, Clone)]
struct Step {
    source: u32,
    leaf: Leaf,
    positions: Vec<u32>,
    ops: Vec<Op>,
}

/// Maximum average number of edges per state.
const EDGES_PER_STATE: usize = 64;

impl Tables<'_> {
    fn state(&mut self, key: Key) -> Result<u32, TableError> {
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        if self.states.len() >= self.limit || self.edges.len() > self.limit * EDGES_PER_STATE {
            return Err(TableError::TooLarge);
        }
        let number = u32::try_from(self.states.len()).map_err(|_| TableError::TooLarge)?;
        let accept = match &key.ends {
            None => Accept::Never,
            Some(ops) if ops.is_empty() => Accept::Always,
            Some(ops) => Accept::If(self.span_of(ops)),
        };
        self.states.push(State { edges: Span::EMPTY, wild: Span::EMPTY, accept });
        self.known.insert(key.clone(), number);
        self.open.push((number, key));
        Ok(number)
    }

    fn span_of(&mut self, ops: &[Op]) -> Span {
        if ops.is_empty() {
            return Span::EMPTY;
        }
        let start = self.ops.len();
        self.ops.extend_from_slice(ops);
        Span::of_range(start, self.ops.len())
    }

    fn position(&self, number: u32) -> Option<&Position> {
        self.positions.positions.get(number as usize)
    }

    /// Collects everything that can follow, one step per particle.
    fn steps(&mut self, key: &Key) -> Result<Vec<Step>, TableError> {
        let mut steps: Vec<Step> = Vec::new();
        // Maps particle and operations to a step; only positions of the same particle are merged.
        let mut by_source: HashMap<u32, usize> = HashMap::new();
        let mut open: Vec<(ListId, Vec<Op>)> = key.lists.iter().rev().cloned().collect();
        while let Some((list, ops)) = open.pop() {
            let Some(list) = self.positions.lists.get(list.0 as usize) else { continue };
            for (inner, more) in list.lists.iter().rev() {
                let ops = ops.iter().chain(more).copied().collect();
                open.push((*inner, ops));
            }
            for &number in &list.positions {
                self.budget = self.budget.checked_sub(1).ok_or(TableError::TooLarge)?;
                let Some(position) = self.position(number) else { continue };
                let at = by_source.get(&position.source).copied();
                match at.and_then(|at| steps.get_mut(at)) {
                    Some(step) if step.ops == ops => {
                        if !step.positions.contains(&number) {
                            step.positions.push(number);
                        }
                    }
                    Some(step) if exclusive(&step.ops, &ops) => {
                        steps.push(Step {
                            source: position.source,
                            leaf: position.leaf,
                            positions: vec![number],
                            ops: ops.clone(),
                        });
                    }
                    // A repetition of the inner particle is preferred, because it does not use up occurrences of the outer one.
                    Some(step) if step.ops.is_empty() && self.only_repeats_free(&ops) => {}
                    Some(step) if ops.is_empty() && self.only_repeats_free(&step.ops) => {
                        step.ops.clear();
                        step.positions = vec![number];
                    }
                    Some(_) => return Err(TableError::Counters),
                    None => {
                        by_source.insert(position.source, steps.len());
                        steps.push(Step {
                            source: position.source,
                            leaf: position.leaf,
                            positions: vec![number],
                            ops: ops.clone(),
                        });
                    }
                }
            }
        }
        Ok(steps)
    }

    /// Returns whether the operations only start another occurrence of particles that may be left after their first one.
    fn only_repeats_free(&self, ops: &[Op]) -> bool {
        ops.iter().all(|op| match *op {
            Op::Again { counter, .. } => self.positions.free.contains(&counter),
            Op::Enter { .. } | Op::Leave { .. } => false,
        })
    }

    fn fill(&mut self, number: u32, key: &Key) -> Result<(), TableError> {
        let mut steps = self.steps(key)?;
        // In the order of the content model.
        steps.sort_by_key(|step| step.source);
        let mut edges: Vec<(usize, Edge, u32)> = Vec::new();
        let mut wild: Vec<(usize, WildcardEdge)> = Vec::new();
        let mut rank = 0;
        for (index, step) in steps.iter().enumerate() {
            let next = self.state(self.after(step)?)?;
            let ops = self.span_of(&step.ops);
            match step.leaf {
                Leaf::Wildcard(wildcard) => {
                    wild.push((index, WildcardEdge { wildcard, next, ops }));
                    self.ranks.1.push(rank);
                    rank += 1;
                }
                Leaf::Element(element) => {
                    let members = self.all.substitutes.get(&element).map_or(&[][..], Vec::as_slice);
                    for &id in std::iter::once(&element).chain(members) {
                        let sym = self.all.elements[id].name;
                        edges.push((index, Edge { sym, next, element: id, ops }, rank));
                        rank += 1;
                    }
                }
            }
        }
        edges.sort_by_key(|(_, edge, _)| edge.sym);
        self.ranks.0.extend(edges.iter().map(|(_, _, rank)| rank));
        let edges: Vec<(usize, Edge)> =
            edges.into_iter().map(|(index, edge, _)| (index, edge)).collect();
        self.check(&steps, &edges, &wild)?;
        let (from, from_wild) = (self.edges.len(), self.wild.len());
        self.edges.extend(edges.into_iter().map(|(_, edge)| edge));
        self.wild.extend(wild.into_iter().map(|(_, wild)| wild));
        let (edges, wild) =
            (Span::of_range(from, self.edges.len()), Span::of_range(from_wild, self.wild.len()));
        if let Some(state) = self.states.get_mut(number as usize) {
            (state.edges, state.wild) = (edges, wild);
        }
        Ok(())
    }

    /// Returns the state after a step.
    fn after(&self, step: &Step) -> Result<Key, TableError> {
        let mut key = Key { lists: Vec::new(), ends: None };
        for &number in &step.positions {
            let Some(position) = self.position(number) else { continue };
            key.lists.extend(position.follow.iter().cloned());
            match (&key.ends, &position.ends) {
                (None, Some(ends)) => key.ends = Some(ends.clone()),
                (Some(known), Some(ends)) if known == ends => {}
                (Some(_), Some(_)) => return Err(TableError::Counters),
                (_, None) => {}
            }
        }
        let counted = key.lists.iter().any(|(_, ops)| !ops.is_empty())
            || key.ends.as_ref().is_some_and(|ops| !ops.is_empty());
        if counted && step.positions.len() > 1 {
            return Err(TableError::Counters);
        }
        key.lists.sort_unstable_by_key(|&(list, _)| list);
        key.lists.dedup();
        Ok(key)
    }

    /// Checks that no child matches two particles (cos-nonambig).
    fn check(
        &mut self,
        steps: &[Step],
        edges: &[(usize, Edge)],
        wild: &[(usize, WildcardEdge)],
    ) -> Result<(), TableError> {
        let apart = |one: usize, other: usize| match (steps.get(one), steps.get(other)) {
            (Some(one), Some(other)) => {
                one.source == other.source || exclusive(&one.ops, &other.ops)
            }
            _ => true,
        };
        for pair in edges.windows(2) {
            if let [(one, first), (other, second)] = pair
                && first.sym == second.sym
                && !apart(*one, *other)
            {
                return Err(TableError::Ambiguous(Some(first.sym)));
            }
        }
        for (at, (one, first)) in wild.iter().enumerate() {
            let namespaces = &self.all.wildcards[first.wildcard].namespaces;
            for (other, edge) in edges {
                let namespace = self.all.names.namespace_of(edge.sym);
                if namespaces.allows(namespace) && !apart(*one, *other) {
                    if !self.as_libxml {
                        return Err(TableError::Ambiguous(Some(edge.sym)));
                    }
                    self.preferred.get_or_insert(edge.sym);
                }
            }
            for (other, second) in wild.iter().skip(at + 1) {
                let overlap = namespaces.overlaps(&self.all.wildcards[second.wildcard].namespaces);
                if overlap && !apart(*one, *other) {
                    return Err(TableError::Ambiguous(None));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two steps exclude each other: one repeats a particle that the other leaves, and the particle occurs an exact number of
/// times.
fn exclusive(one: &[Op], other: &[Op]) -> bool {
    let pair = |again: &[Op], leave: &[Op]| {
        again.iter().any(|op| match *op {
            Op::Again { counter, max, .. } => leave.contains(&Op::Leave { counter, min: max }),
            Op::Enter { .. } | Op::Leave { .. } => false,
        })
    };
    pair(one, other) || pair(other, one)
}
