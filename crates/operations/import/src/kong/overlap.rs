//! Finds a path whose beginning matches two regular expressions.

use std::collections::{HashMap, VecDeque};

use regex_automata::nfa::thompson::{NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

/// The most pairs of states that are visited.
const PAIRS_MAX: usize = 50_000;

/// The largest automaton of an expression.
const NFA_BYTES_MAX: usize = 512 * 1024;

/// True unless it is certain that no path has a beginning that matches both.
pub(super) fn may_meet(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (automaton(one), automaton(other)) else { return true };
    let mut search = Search::new(&one, &other);
    search.run().is_some() || search.from.len() >= PAIRS_MAX
}

/// The shortest path that both match at its beginning.
pub(super) fn example(one: &str, other: &str) -> Option<String> {
    let (one, other) = (automaton(one)?, automaton(other)?);
    let mut search = Search::new(&one, &other);
    let end = search.run()?;
    search.text(end)
}

/// The automaton of a regular expression that has to match the beginning of a path.
fn automaton(text: &str) -> Option<NFA> {
    let config = NFA::config()
        .utf8(false)
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .which_captures(WhichCaptures::None);
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let pattern = format!("(?:{text})(?s:.)*");
    // Harmless: the check of the result refuses an invalid expression.
    NFA::compiler().configure(config).syntax(syntax).build(&pattern).ok()
}

type Pair = (StateID, StateID);

/// A walk through both automata at once.
struct Search<'n> {
    one: &'n NFA,
    other: &'n NFA,
    /// The predecessor of each pair, and the byte between them.
    from: HashMap<Pair, Option<(Pair, Option<u8>)>>,
    next: VecDeque<Pair>,
}

impl<'n> Search<'n> {
    fn new(one: &'n NFA, other: &'n NFA) -> Search<'n> {
        let mut search = Search { one, other, from: HashMap::new(), next: VecDeque::new() };
        search.reach((one.start_anchored(), other.start_anchored()), None);
        search
    }

    /// The first pair of states in which both match.
    fn run(&mut self) -> Option<Pair> {
        while let Some(pair) = self.next.pop_front() {
            let states = (self.one.state(pair.0), self.other.state(pair.1));
            if let (State::Match { .. }, State::Match { .. }) = states {
                return Some(pair);
            }
            self.step(pair);
        }
        None
    }

    fn reach(&mut self, pair: Pair, from: Option<(Pair, Option<u8>)>) {
        if self.from.len() < PAIRS_MAX && !self.from.contains_key(&pair) {
            self.from.insert(pair, from);
            // Transitions without a byte come first, so that the first text found is a shortest one.
            match from {
                Some((_, None)) => self.next.push_front(pair),
                Some((_, Some(_))) | None => self.next.push_back(pair),
            }
        }
    }

    fn step(&mut self, pair: Pair) {
        let (a, b) = pair;
        if let Some(empty) = without_byte(self.one.state(a)) {
            empty.into_iter().for_each(|next| self.reach((next, b), Some((pair, None))));
            return;
        }
        if let Some(empty) = without_byte(self.other.state(b)) {
            empty.into_iter().for_each(|next| self.reach((a, next), Some((pair, None))));
            return;
        }
        let (ours, theirs) = (ranges(self.one.state(a)), ranges(self.other.state(b)));
        for (from, to, next) in &ours {
            for (low, high, beside) in &theirs {
                let (low, high) = ((*from).max(*low), (*to).min(*high));
                if low <= high {
                    self.reach((*next, *beside), Some((pair, Some(nice(low, high)))));
                }
            }
        }
    }

    /// The bytes that lead to a pair.
    fn text(&self, end: Pair) -> Option<String> {
        let mut bytes = Vec::new();
        let mut at = end;
        while let Some(Some((before, byte))) = self.from.get(&at).copied() {
            bytes.extend(byte);
            at = before;
        }
        bytes.reverse();
        // Harmless: the text is only shown.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.starts_with('/').then_some(text)
    }
}

/// The states that are reached without a byte, or `None` if a byte is needed or nothing follows.
fn without_byte(state: &State) -> Option<Vec<StateID>> {
    match state {
        // Assertions are assumed to hold, so that no overlap is missed.
        State::Look { next, .. } | State::Capture { next, .. } => Some(vec![*next]),
        State::Union { alternates } => Some(alternates.to_vec()),
        State::BinaryUnion { alt1, alt2 } => Some(vec![*alt1, *alt2]),
        State::ByteRange { .. }
        | State::Sparse(_)
        | State::Dense(_)
        | State::Fail
        | State::Match { .. } => None,
    }
}

fn ranges(state: &State) -> Vec<(u8, u8, StateID)> {
    match state {
        State::ByteRange { trans } => vec![(trans.start, trans.end, trans.next)],
        State::Sparse(sparse) => {
            sparse.transitions.iter().map(|trans| (trans.start, trans.end, trans.next)).collect()
        }
        State::Dense(dense) => {
            // Harmless: a dense state has one transition for each byte.
            let all = dense.transitions.iter().zip(0_u8..=255);
            all.filter(|(next, _)| **next != StateID::ZERO)
                .map(|(next, byte)| (byte, byte, *next))
                .collect()
        }
        State::Look { .. }
        | State::Union { .. }
        | State::BinaryUnion { .. }
        | State::Capture { .. }
        | State::Fail
        | State::Match { .. } => Vec::new(),
    }
}

/// A byte of the range, if possible one that is easy to read in an example.
fn nice(low: u8, high: u8) -> u8 {
    let within = |byte: &&u8| (low..=high).contains(*byte);
    b"/a1-b_".iter().find(within).copied().unwrap_or(low.max(b'!').min(high))
}
