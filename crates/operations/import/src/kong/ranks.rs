//! The priorities that give routes here the winners that they have in Kong.
//!
//! Owns the pairs of routes that may match the same request, and the lowest priorities by which Kong's winner of each pair also wins here.
//! A pair that does not really overlap can only make a priority higher than needed.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use super::order::{Atom, HostWant, Overlaps, PathCondition, by_us, kong_order, meets};
use super::overlap;

/// The most pairs that are kept. Files with more have routes that nearly all overlap.
const PAIRS_MAX: usize = 4_000_000;

/// The limit of pairs that are examined.
const LOOKS_MAX: usize = 60_000_000;

/// The most pairs of expressions that are compared by their automata; the rest counts as overlapping.
const AUTOMATA_MAX: usize = 2_000;

/// The limit of priorities. Each one costs requests another search.
const PRIORITIES_MAX: usize = 100;

/// All pairs of atoms that may match the same request and of which one wins in Kong.
pub(super) fn overlaps(atoms: &[Atom]) -> Overlaps {
    let index = Index::of(atoms);
    let mut search = Search { atoms, found: Vec::new(), looks: 0, automata: 0 };
    let is_complete = atoms.iter().enumerate().all(|(at, atom)| search.with(&index, at, atom));
    Overlaps { pairs: search.found, is_complete }
}

/// The priority of each atom, or `None` if that would take too many priorities, or if not all pairs are known.
pub(super) fn priorities(atoms: &[Atom], overlaps: &Overlaps) -> Option<Vec<i32>> {
    if !overlaps.is_complete {
        return None;
    }
    let mut beaten: HashMap<usize, Vec<usize>> = HashMap::new();
    for (winner, loser) in &overlaps.pairs {
        beaten.entry(*winner).or_default().push(*loser);
    }
    let mut order: Vec<usize> = (0..atoms.len()).collect();
    // Losers come before winners, whose priorities depend on theirs.
    let age = |atom: &Atom| atom.created_at.map(Reverse);
    order.sort_by_key(|at| atoms.get(*at).map(|atom| (atom.kong, age(atom))));
    let mut all = vec![0_i32; atoms.len()];
    for at in order {
        let (Some(losers), Some(atom)) = (beaten.get(&at), atoms.get(at)) else { continue };
        // Harmless: each loser is an atom.
        let needed = losers.iter().filter_map(|loser| {
            let wins = by_us(atom, atoms.get(*loser)?) == Ordering::Less;
            Some(all.get(*loser)? + i32::from(!wins))
        });
        let needed = needed.max().unwrap_or(0);
        if let Some(own) = all.get_mut(at) {
            *own = needed.max(0);
        }
    }
    let most = all.iter().max().map_or(0, |most| usize::try_from(*most).unwrap_or(usize::MAX));
    (most < PRIORITIES_MAX).then_some(all)
}

/// The atoms of one path, by their hosts.
#[derive(Default)]
struct ByHost<'a> {
    exact: HashMap<&'a str, Vec<usize>>,
    below: HashMap<&'a str, Vec<usize>>,
    others: Vec<usize>,
    all: Vec<usize>,
}

impl<'a> ByHost<'a> {
    fn add(&mut self, atom: &'a Atom, at: usize) {
        match &atom.host {
            HostWant::Exact(name) => self.exact.entry(name).or_default().push(at),
            HostWant::Below(parent) => self.below.entry(parent).or_default().push(at),
            HostWant::Any | HostWant::Begins(_) => self.others.push(at),
        }
        self.all.push(at);
    }

    /// The atoms that may have a host in common with this one.
    fn each(&self, host: &HostWant, see: &mut dyn FnMut(usize) -> bool) -> bool {
        let HostWant::Exact(name) = host else { return self.all.iter().all(|at| see(*at)) };
        let none: &[usize] = &[];
        let exact = self.exact.get(name.as_str()).map_or(none, Vec::as_slice);
        // Harmless: the text after a dot always exists, though it may be empty.
        let parents = name.match_indices('.').filter_map(|(at, _)| name.get(at + 1..));
        // Harmless: a parent that no atom names has no atoms.
        let below = parents.filter_map(|parent| self.below.get(parent)).flatten();
        exact.iter().chain(below).chain(&self.others).all(|at| see(*at))
    }
}

/// All atoms by the text that their paths begin with, and those with an expression.
struct Index<'a> {
    prefixes: HashMap<&'a str, ByHost<'a>>,
    regexes: ByHost<'a>,
}

impl<'a> Index<'a> {
    fn of(atoms: &'a [Atom]) -> Index<'a> {
        let mut index = Index { prefixes: HashMap::new(), regexes: ByHost::default() };
        for (at, atom) in atoms.iter().enumerate() {
            match &atom.path {
                PathCondition::Regex(_) => index.regexes.add(atom, at),
                // A common beginning counts as an overlap.
                PathCondition::Exact(text) | PathCondition::Prefix(text) => {
                    index.prefixes.entry(text).or_default().add(atom, at);
                }
                PathCondition::Any => index.prefixes.entry("").or_default().add(atom, at),
            }
        }
        index
    }
}

struct Search<'a> {
    atoms: &'a [Atom],
    found: Vec<(usize, usize)>,
    looks: usize,
    automata: usize,
}

impl Search<'_> {
    /// Finds the atoms that overlap with one, each pair once. False if there are too many.
    fn with(&mut self, index: &Index<'_>, at: usize, atom: &Atom) -> bool {
        let text = match &atom.path {
            PathCondition::Regex(_) => {
                // Prefixes find their overlaps with expressions, so an expression only looks for later expressions.
                return index
                    .regexes
                    .each(&atom.host, &mut |other| other <= at || self.see(at, other));
            }
            PathCondition::Exact(text) | PathCondition::Prefix(text) => text.as_str(),
            PathCondition::Any => "",
        };
        let ends = text.char_indices().map(|(end, _)| end).chain([text.len()]);
        for end in ends {
            let Some(shorter) = text.get(..end).and_then(|shorter| index.prefixes.get(shorter))
            else {
                continue;
            };
            let is_own = end == text.len();
            if !shorter
                .each(&atom.host, &mut |other| (is_own && other <= at) || self.see(at, other))
            {
                return false;
            }
        }
        index.regexes.each(&atom.host, &mut |other| self.see(at, other))
    }

    fn see(&mut self, at: usize, other: usize) -> bool {
        self.looks += 1;
        if self.looks > LOOKS_MAX || self.found.len() >= PAIRS_MAX {
            return false;
        }
        let (Some(atom), Some(beside)) = (self.atoms.get(at), self.atoms.get(other)) else {
            return true;
        };
        if atom.route == beside.route || !meets(atom, beside) {
            return true;
        }
        match kong_order(atom, beside) {
            Ordering::Equal => {}
            order if self.paths_meet(&atom.path, &beside.path) => {
                self.found.push(if order == Ordering::Less { (at, other) } else { (other, at) });
            }
            Ordering::Less | Ordering::Greater => {}
        }
        true
    }

    fn paths_meet(&mut self, one: &PathCondition, other: &PathCondition) -> bool {
        match (one, other) {
            (PathCondition::Regex(one), PathCondition::Regex(other)) => {
                let (first, second) = (literal_start(one), literal_start(other));
                if !(first.starts_with(&second) || second.starts_with(&first)) {
                    return false;
                }
                self.automata += 1;
                self.automata > AUTOMATA_MAX || overlap::may_meet(one, other)
            }
            (
                PathCondition::Regex(regex),
                PathCondition::Prefix(text) | PathCondition::Exact(text),
            )
            | (
                PathCondition::Prefix(text) | PathCondition::Exact(text),
                PathCondition::Regex(regex),
            ) => {
                let start = literal_start(regex);
                text.starts_with(&start) || start.starts_with(text)
            }
            // The index has found these by their texts.
            _ => true,
        }
    }
}

/// A text with which all matches of an expression begin. It may be shorter than the longest such text.
pub(super) fn literal_start(regex: &str) -> String {
    let regex = regex.trim_start_matches('^');
    let end = regex.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_%".contains(c)));
    let start = regex.get(..end.unwrap_or(regex.len())).unwrap_or("/");
    // A character before a quantifier may be absent.
    let quantified = end
        .is_some_and(|end| regex.get(end..).is_some_and(|rest| rest.starts_with(['?', '*', '{'])));
    let start =
        if quantified { start.get(..start.len().saturating_sub(1)).unwrap_or("/") } else { start };
    if start.starts_with('/') && !regex.contains('|') { start.to_owned() } else { "/".to_owned() }
}
