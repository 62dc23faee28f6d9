//! The NFA of an expression: a list of instructions, simulated in parallel on a text.
//!
//! Owns the limit on size. Repetitions are expanded, so that no counters are needed at run time.

use std::collections::HashMap;

use super::classes::Classes;
use super::parse::Node;
use super::set::CharSet;
use super::{INSTRUCTIONS_MAX, RegexError, Steps, TooCostly};

/// Number of words of memory that can be cleared at the cost of one instruction.
const WORDS_A_STEP: u64 = 64;

/// One instruction. The numbers are indexes of other instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Matches a character of the set with this index, then continues at `next`.
    Char {
        set: u32,
        next: u32,
    },
    Split(u32, u32),
    Match,
}

/// A program. Execution begins at `start`.
#[derive(Debug)]
pub(crate) struct Nfa {
    pub(crate) steps: Vec<Step>,
    pub(crate) start: u32,
    /// The distinct sets of the expression.
    pub(crate) sets: Vec<CharSet>,
}

/// The active instructions, as a sparse set that can be cleared at no cost.
pub(crate) struct Active {
    list: Vec<u32>,
    /// The round in which each instruction was last added.
    seen: Vec<u32>,
    round: u32,
    stack: Vec<u32>,
    /// Number of instructions visited in this round, including those that match no character.
    walked: u64,
}

impl Nfa {
    pub(crate) fn build(node: &Node) -> Result<Nfa, RegexError> {
        let size = size(node);
        if size > INSTRUCTIONS_MAX {
            return Err(RegexError {
                offset: 0,
                message: format!(
                    "repetitions written out come to {size} instructions, over the limit regex_instructions_max of {INSTRUCTIONS_MAX}"
                ),
            });
        }
        let mut builder =
            Builder { steps: vec![Step::Match], sets: Vec::new(), known: HashMap::new() };
        let start = builder.add(node, 0);
        Ok(Nfa { steps: builder.steps, start, sets: builder.sets })
    }

    /// Runs the program on a text, with all alternatives in parallel.
    pub(crate) fn run(
        &self,
        classes: &Classes,
        text: &str,
        steps: &Steps,
    ) -> Result<bool, TooCostly> {
        // The cost of allocating memory and following empty transitions before the first character.
        steps.spend(self.steps.len() as u64 / WORDS_A_STEP)?;
        let mut now = Active::new(self.steps.len());
        let mut then = Active::new(self.steps.len());
        now.add(self, self.start);
        steps.spend(now.walked)?;
        for c in text.chars() {
            let class = classes.of(c);
            steps.spend(now.walked.max(1))?;
            then.clear();
            for &at in &now.list {
                if let Some(&Step::Char { set, next }) = self.steps.get(at as usize)
                    && classes.holds(set, class)
                {
                    then.add(self, next);
                }
            }
            if then.list.is_empty() {
                return Ok(false);
            }
            std::mem::swap(&mut now, &mut then);
        }
        Ok(now.list.iter().any(|&at| self.is_match(at)))
    }

    pub(crate) fn is_match(&self, at: u32) -> bool {
        matches!(self.steps.get(at as usize), Some(Step::Match))
    }
}

impl Active {
    pub(crate) fn new(steps: usize) -> Active {
        Active { list: Vec::new(), seen: vec![0; steps], round: 1, stack: Vec::new(), walked: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.walked = 0;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.seen.fill(0);
            self.round = 1;
        }
    }

    /// Adds an instruction and follows empty transitions. Only character instructions and the match are put into the list.
    pub(crate) fn add(&mut self, nfa: &Nfa, at: u32) {
        self.stack.push(at);
        while let Some(at) = self.stack.pop() {
            let (Some(seen), Some(step)) =
                (self.seen.get_mut(at as usize), nfa.steps.get(at as usize))
            else {
                continue;
            };
            if std::mem::replace(seen, self.round) == self.round {
                continue;
            }
            self.walked += 1;
            match *step {
                Step::Split(one, other) => self.stack.extend([other, one]),
                Step::Char { .. } | Step::Match => self.list.push(at),
            }
        }
    }

    pub(crate) fn list(&self) -> &[u32] {
        &self.list
    }
}

/// Returns the number of instructions of a part.
fn size(node: &Node) -> u64 {
    match node {
        Node::Empty => 0,
        Node::Set(_) => 1,
        Node::Sequence(parts) => parts.iter().map(size).fold(0, u64::saturating_add),
        Node::Choice(parts) => parts.iter().map(size).fold(parts.len() as u64, u64::saturating_add),
        Node::Repeat { what, min, max } => {
            let one = size(what).saturating_add(1);
            one.saturating_mul(u64::from(max.unwrap_or(min.saturating_add(1)).max(1)))
        }
    }
}

/// Builds the program from its end to its start, so that each instruction knows the next one.
struct Builder<'a> {
    steps: Vec<Step>,
    sets: Vec<CharSet>,
    known: HashMap<&'a CharSet, u32>,
}

impl<'a> Builder<'a> {
    fn push(&mut self, step: Step) -> u32 {
        self.steps.push(step);
        // The size has been checked, so the conversion cannot overflow.
        u32::try_from(self.steps.len() - 1).unwrap_or(u32::MAX)
    }

    /// Adds a part that continues at `next`. Returns its start.
    fn add(&mut self, node: &'a Node, next: u32) -> u32 {
        match node {
            Node::Empty => next,
            Node::Set(set) => {
                let set = self.set(set);
                self.push(Step::Char { set, next })
            }
            Node::Sequence(parts) => {
                parts.iter().rev().fold(next, |next, part| self.add(part, next))
            }
            Node::Choice(parts) => {
                let mut starts = parts
                    .iter()
                    .rev()
                    .map(|part| self.add(part, next))
                    .collect::<Vec<_>>()
                    .into_iter();
                let last = starts.next().unwrap_or(next);
                starts.fold(last, |rest, start| self.push(Step::Split(start, rest)))
            }
            Node::Repeat { what, min, max } => self.repeat(what, *min, *max, next),
        }
    }

    fn repeat(&mut self, what: &'a Node, min: u32, max: Option<u32>, next: u32) -> u32 {
        let mut at = next;
        let mut left = min;
        match max {
            None => {
                let split = self.push(Step::Split(next, next));
                let inside = self.add(what, split);
                if let Some(step) = self.steps.get_mut(split as usize) {
                    *step = Step::Split(inside, next);
                }
                // `x+` needs no second copy, because the loop can be entered in its body.
                at = match min {
                    0 => split,
                    _ => inside,
                };
                left = left.saturating_sub(1);
            }
            Some(max) => {
                for _ in min..max {
                    let inside = self.add(what, at);
                    at = self.push(Step::Split(inside, next));
                }
            }
        }
        for _ in 0..left {
            at = self.add(what, at);
        }
        at
    }

    fn set(&mut self, set: &'a CharSet) -> u32 {
        let fresh = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        let sets = &mut self.sets;
        *self.known.entry(set).or_insert_with(|| {
            sets.push(set.clone());
            fresh
        })
    }
}
