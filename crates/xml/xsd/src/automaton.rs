//! Content models as automata, which determine the children allowed next and whether the content may end.
//!
//! Owns the compiled tables and the step function. Large occurrence bounds are counted instead of expanded; all-groups are bit sets.
//! [`build`] turns particles into positions, and [`tables`] turns positions into states.

mod build;
mod tables;

use crate::arena::Id;
use crate::model::{Element, Namespaces, Wildcard};
use crate::names::{NsId, Sym};
pub(crate) use tables::compile_all;

/// A compiled content model.
#[derive(Debug)]
pub(crate) enum Automaton {
    /// No children at all.
    Nothing,
    States(States),
    All(All),
}

/// States and the transitions between them.
#[derive(Debug)]
pub(crate) struct States {
    states: Box<[State]>,
    edges: Box<[Edge]>,
    wild: Box<[WildcardEdge]>,
    /// Rank of each edge and each wildcard in the order of the content model, for error messages.
    ranks: (Box<[u32]>, Box<[u32]>),
    ops: Box<[Op]>,
    /// Number of counters.
    pub(crate) counters: u32,
}

#[derive(Debug, Clone, Copy)]
struct State {
    edges: Span,
    wild: Span,
    accept: Accept,
}

/// A range of one of the tables.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy)]
enum Accept {
    Never,
    Always,
    /// If the counters allow these operations.
    If(Span),
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    sym: Sym,
    next: u32,
    element: Id<Element>,
    ops: Span,
}

#[derive(Debug, Clone, Copy)]
struct WildcardEdge {
    wildcard: Id<Wildcard>,
    next: u32,
    ops: Span,
}

/// The effect of a step on the counter of a repeated particle, with the condition for the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// First occurrence.
    Enter { counter: u32 },
    /// Another occurrence, allowed while the count is below `max`. The count stops at `stop`, because higher counts make no difference.
    Again { counter: u32, max: u64, stop: u64 },
    /// End of the repetition, allowed from `min` occurrences on.
    Leave { counter: u32, min: u64 },
}

/// An all-group.
#[derive(Debug)]
pub(crate) struct All {
    /// Sorted by name. Substitutes have entries of their own, with the same member number as their heads.
    names: Box<[(Sym, u32, Id<Element>)]>,
    /// The same, in the order of the group.
    in_order: Box<[(Sym, u32)]>,
    required: Box<[u64]>,
    /// Whether the whole group is optional.
    optional: bool,
}

/// The particle that matched a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchedParticle {
    Element(Id<Element>),
    Wildcard(Id<Wildcard>),
}

/// A particle that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Element(Sym),
    Wildcard(Id<Wildcard>),
}

/// Lists up to this length are searched linearly.
const SCANNED_MAX: usize = 8;

impl Automaton {
    /// Returns the number of words of memory that a run needs in addition to its state.
    pub(crate) fn words(&self) -> usize {
        match self {
            Automaton::Nothing => 0,
            Automaton::States(states) => usize::try_from(states.counters).unwrap_or(usize::MAX),
            Automaton::All(all) => all.required.len(),
        }
    }

    /// Processes a child. Returns the new state and the matching particle, or `None` if the child is not allowed.
    #[inline(always)]
    pub(crate) fn step(
        &self,
        state: u32,
        words: &mut [u64],
        sym: Sym,
        namespace: NsId,
        wildcards: &crate::arena::Arena<Wildcard>,
    ) -> Option<(u32, MatchedParticle)> {
        match self {
            Automaton::Nothing => None,
            Automaton::States(states) => states.step(state, words, sym, namespace, wildcards),
            Automaton::All(all) => all.step(words, sym),
        }
    }

    /// Returns whether the content may end here.
    #[inline]
    pub(crate) fn accepts(&self, state: u32, words: &[u64]) -> bool {
        match self {
            Automaton::Nothing => true,
            Automaton::States(states) => states.accepts(state, words),
            Automaton::All(all) => all.accepts(words),
        }
    }

    /// Returns whether this is an all-group that may end here.
    pub(crate) fn is_complete_all(&self, words: &[u64]) -> bool {
        match self {
            Automaton::All(all) => all.accepts(words),
            Automaton::Nothing | Automaton::States(_) => false,
        }
    }

    /// Returns the particles that may come next, in the order of the content model, for an error message. Counters are ignored, so the list
    /// may contain a particle that must not occur again.
    #[cold]
    pub(crate) fn expected(&self, state: u32, words: &[u64]) -> Vec<Next> {
        match self {
            Automaton::Nothing => Vec::new(),
            Automaton::States(states) => states.expected(state),
            Automaton::All(all) => {
                let free = all.in_order.iter().filter(|(_, member)| !has_bit(words, *member));
                free.map(|&(sym, _)| Next::Element(sym)).collect()
            }
        }
    }
}

impl Span {
    const EMPTY: Span = Span { start: 0, end: 0 };

    /// The conversion cannot overflow, because tables have far fewer than 2^32 entries.
    fn of_range(start: usize, end: usize) -> Span {
        let number = |place| u32::try_from(place).unwrap_or(u32::MAX);
        Span { start: number(start), end: number(end) }
    }

    #[inline]
    fn of<T>(self, table: &[T]) -> &[T] {
        table.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl States {
    #[inline]
    fn state(&self, state: u32) -> Option<&State> {
        self.states.get(state as usize)
    }

    #[inline(always)]
    fn step(
        &self,
        state: u32,
        words: &mut [u64],
        sym: Sym,
        namespace: NsId,
        wildcards: &crate::arena::Arena<Wildcard>,
    ) -> Option<(u32, MatchedParticle)> {
        let state = self.state(state)?;
        let edges = state.edges.of(&self.edges);
        let candidates = if edges.len() > SCANNED_MAX { among(edges, sym) } else { edges };
        for edge in candidates {
            if edge.sym == sym && self.take(edge.ops, words) {
                return Some((edge.next, MatchedParticle::Element(edge.element)));
            }
        }
        for wild in state.wild.of(&self.wild) {
            if takes(&wildcards[wild.wildcard].namespaces, namespace) && self.take(wild.ops, words)
            {
                return Some((wild.next, MatchedParticle::Wildcard(wild.wildcard)));
            }
        }
        None
    }

    fn expected(&self, state: u32) -> Vec<Next> {
        let Some(state) = self.state(state) else { return Vec::new() };
        let edges = state.edges.of(&self.edges).iter().map(|edge| Next::Element(edge.sym));
        let wild = state.wild.of(&self.wild).iter().map(|wild| Next::Wildcard(wild.wildcard));
        let ranks = state.edges.of(&self.ranks.0).iter().chain(state.wild.of(&self.ranks.1));
        // Harmless: each edge has a rank.
        let mut ranked: Vec<(u32, Next)> = ranks.copied().zip(edges.chain(wild)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.dedup_by_key(|(_, next)| *next);
        ranked.into_iter().map(|(_, next)| next).collect()
    }

    /// Executes the operations if all their conditions hold.
    #[inline]
    fn take(&self, ops: Span, words: &mut [u64]) -> bool {
        if ops.start == ops.end {
            return true;
        }
        let ops = ops.of(&self.ops);
        if !may(ops, words) {
            return false;
        }
        for &op in ops {
            match op {
                Op::Enter { counter } => set(words, counter, 1),
                Op::Again { counter, stop, .. } => {
                    set(words, counter, (get(words, counter) + 1).min(stop));
                }
                Op::Leave { .. } => {}
            }
        }
        true
    }

    #[inline]
    fn accepts(&self, state: u32, words: &[u64]) -> bool {
        match self.state(state).map(|state| state.accept) {
            Some(Accept::Always) => true,
            Some(Accept::If(ops)) => may(ops.of(&self.ops), words),
            Some(Accept::Never) | None => false,
        }
    }
}

/// Returns the edges of a name in a sorted list.
fn among(edges: &[Edge], sym: Sym) -> &[Edge] {
    let from = edges.partition_point(|edge| edge.sym < sym);
    let to = edges.partition_point(|edge| edge.sym <= sym);
    edges.get(from..to).unwrap_or_default()
}

/// Returns whether the conditions of all operations hold. No operation depends on a counter that an earlier one enters.
fn may(ops: &[Op], words: &[u64]) -> bool {
    ops.iter().all(|&op| match op {
        Op::Enter { .. } => true,
        Op::Again { counter, max, .. } => get(words, counter) < max,
        Op::Leave { counter, min } => get(words, counter) >= min,
    })
}

fn get(words: &[u64], counter: u32) -> u64 {
    words.get(counter as usize).copied().unwrap_or(0)
}

fn set(words: &mut [u64], counter: u32, value: u64) {
    if let Some(word) = words.get_mut(counter as usize) {
        *word = value;
    }
}

fn takes(namespaces: &Namespaces, namespace: NsId) -> bool {
    namespaces.allows(namespace)
}

fn has_bit(words: &[u64], bit: u32) -> bool {
    words.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

impl All {
    fn step(&self, words: &mut [u64], sym: Sym) -> Option<(u32, MatchedParticle)> {
        let at = self.names.binary_search_by_key(&sym, |&(name, _, _)| name).ok()?;
        let &(_, member, element) = self.names.get(at)?;
        let word = words.get_mut((member / 64) as usize)?;
        let bit = 1 << (member % 64);
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        Some((0, MatchedParticle::Element(element)))
    }

    fn accepts(&self, words: &[u64]) -> bool {
        let nothing = words.iter().all(|&word| word == 0);
        // Harmless: both arrays have the same number of words.
        let complete = words.iter().zip(&self.required).all(|(have, need)| have & need == *need);
        complete || self.optional && nothing
    }
}
