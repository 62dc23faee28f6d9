//! A DFA built in advance, if it stays small. It takes one table look-up for each character.

use std::collections::HashMap;

use super::classes::Classes;
use super::nfa::{Active, Nfa, Step};
use super::{CELLS_MAX, DFA_WORK_MAX};

/// Transition table: states by classes. State 0 is the dead state.
#[derive(Debug)]
pub(crate) struct Dfa {
    next: Vec<u32>,
    width: usize,
    start: u32,
    accepts: Vec<bool>,
}

impl Dfa {
    /// Builds the table, or returns `None` if it would be too large.
    pub(crate) fn build(nfa: &Nfa, classes: &Classes) -> Option<Dfa> {
        let width = classes.count();
        let mut states = States { of: HashMap::new(), list: Vec::new() };
        let mut dfa = Dfa { next: vec![0; width], width, start: 0, accepts: vec![false] };
        let mut active = Active::new(nfa.steps.len());
        states.number(Box::default());
        active.add(nfa, nfa.start);
        dfa.start = states.number(sorted(&active));
        let mut work = 0usize;
        let mut at = 1;
        while let Some(state) = states.list.get(at).cloned() {
            at += 1;
            work = work.saturating_add(state.len().saturating_mul(width));
            if at.saturating_mul(width) > CELLS_MAX || work > DFA_WORK_MAX {
                return None;
            }
            dfa.accepts.push(state.iter().any(|&step| nfa.is_match(step)));
            for class in 0..u16::try_from(width).ok()? {
                active.clear();
                for &step in &state {
                    if let Some(&Step::Char { set, next }) = nfa.steps.get(step as usize)
                        && classes.holds(set, class)
                    {
                        active.add(nfa, next);
                    }
                }
                work = work.saturating_add(active.list().len());
                dfa.next.push(states.number(sorted(&active)));
            }
        }
        Some(dfa)
    }

    pub(crate) fn run(&self, classes: &Classes, text: &str) -> bool {
        let mut state = self.start;
        for c in text.chars() {
            let cell = state as usize * self.width + usize::from(classes.of(c));
            state = self.next.get(cell).copied().unwrap_or(0);
            if state == 0 {
                return false;
            }
        }
        self.accepts.get(state as usize).copied().unwrap_or(false)
    }
}

struct States {
    of: HashMap<Box<[u32]>, u32>,
    list: Vec<Box<[u32]>>,
}

impl States {
    fn number(&mut self, state: Box<[u32]>) -> u32 {
        if let Some(&known) = self.of.get(&state) {
            return known;
        }
        let fresh = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.of.insert(state.clone(), fresh);
        self.list.push(state);
        fresh
    }
}

fn sorted(active: &Active) -> Box<[u32]> {
    let mut steps: Box<[u32]> = active.list().into();
    steps.sort_unstable();
    steps
}
