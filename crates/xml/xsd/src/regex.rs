//! Regular expressions of XML Schema 1.0 (Part 2, appendix F), matched in linear time.
//!
//! Owns the grammar, the character sets of escapes, and the automata. [`Regex::compile`] turns an expression into a DFA table if that stays
//! small, otherwise into an NFA that is simulated. Neither ever backtracks. It knows nothing of facets and does not search: a match covers
//! the whole text.

mod category;
mod classes;
mod dfa;
mod nfa;
mod parse;
mod sample;
mod set;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;

use classes::Classes;
use dfa::Dfa;
use nfa::Nfa;
use parse::Node;
pub(crate) use sample::sample;

/// Maximum length of a pattern. Hand-written ones have at most a few hundred bytes.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Maximum nesting of groups. The parser and the tree walks recurse; the limit is far above real patterns and far below a worker's stack.
const NESTING_MAX: u32 = 128;
/// Maximum number of NFA instructions, of 12 bytes each. `.{0,100000}` is possible, but not its square.
const INSTRUCTIONS_MAX: u64 = 250_000;
/// Maximum work for computing classes, in sets times intervals; takes some milliseconds.
const CLASS_WORK_MAX: usize = 8 << 20;
/// Maximum number of DFA cells, of 4 bytes each. A table takes at most half a MiB, and some ten milliseconds to build.
const CELLS_MAX: usize = 128 << 10;
/// Number of steps after which building a DFA is abandoned; takes some milliseconds.
const DFA_WORK_MAX: usize = 1 << 19;
/// Number of NFA steps granted to every document, some 8 ns each.
const STEPS_MIN: u64 = 8_000_000;
/// Further steps for each byte matched by an NFA, because even a cheap text takes more than one instruction per byte.
const STEPS_A_BYTE: u64 = 8;
/// Maximum number of steps for one document. Some 5 MB of texts matched by NFAs earn it, and it takes less than half a second.
const STEPS_MAX: u64 = 50_000_000;

/// A compiled regular expression. It matches whole texts.
#[derive(Debug)]
pub struct Regex {
    classes: Classes,
    program: Program,
}

/// Error of an invalid or too costly expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexError {
    /// Byte offset in the expression.
    pub offset: usize,
    pub message: String,
}

/// The remaining NFA steps. All texts of one document share this budget.
#[derive(Debug)]
pub struct Steps(Cell<StepsLeft>);

/// State of that budget.
#[derive(Debug, Clone, Copy)]
pub struct StepsLeft {
    now: u64,
    /// Number of steps that further texts may still add.
    more: u64,
}

/// The texts took more steps than the limit `regex_steps_max` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooCostly;

#[derive(Debug)]
enum Program {
    Table(Dfa),
    Abreast(Nfa),
}

impl Regex {
    /// Compiles an expression.
    pub fn compile(pattern: &str) -> Result<Regex, RegexError> {
        Regex::build(&parse::parse(pattern)?)
    }

    /// Compiles alternatives, one of which has to match. The error contains the index of its pattern, or 0 if all of them together are too
    /// large.
    pub fn any(patterns: &[&str]) -> Result<Regex, (usize, RegexError)> {
        let parsed: Result<Vec<Node>, _> = patterns
            .iter()
            .enumerate()
            .map(|(at, pattern)| parse::parse(pattern).map_err(|error| (at, error)))
            .collect();
        Regex::build(&Node::Choice(parsed?)).map_err(|error| (0, error))
    }

    fn build(node: &Node) -> Result<Regex, RegexError> {
        let nfa = Nfa::build(node)?;
        let classes = Classes::build(&nfa.sets)?;
        let program = match Dfa::build(&nfa, &classes) {
            Some(table) => Program::Table(table),
            None => Program::Abreast(nfa),
        };
        Ok(Regex { classes, program })
    }

    /// Returns whether the whole text matches. An NFA run is charged to `steps`.
    pub fn matches(&self, text: &str, steps: &Steps) -> Result<bool, TooCostly> {
        match &self.program {
            Program::Table(dfa) => Ok(dfa.run(&self.classes, text)),
            Program::Abreast(nfa) => {
                steps.earn(text);
                nfa.run(&self.classes, text, steps)
            }
        }
    }
}

impl StepsLeft {
    const ALL: StepsLeft = StepsLeft { now: STEPS_MIN, more: STEPS_MAX - STEPS_MIN };
}

impl Steps {
    /// Returns the remaining budget, for [`Steps::set`].
    pub fn left(&self) -> StepsLeft {
        self.0.get()
    }

    pub fn set(&self, left: StepsLeft) {
        self.0.set(left);
    }

    /// Resets the budget to that of one document.
    pub fn refill(&self) {
        self.0.set(StepsLeft::ALL);
    }

    /// Adds the steps that a text grants.
    fn earn(&self, text: &str) {
        let StepsLeft { now, more } = self.0.get();
        let earned = (text.len() as u64).saturating_mul(STEPS_A_BYTE).min(more);
        self.0.set(StepsLeft { now: now.saturating_add(earned), more: more - earned });
    }

    /// Spends steps. If too few are left, the budget drops to zero.
    #[inline]
    fn spend(&self, steps: u64) -> Result<(), TooCostly> {
        let before = self.0.get();
        match before.now.checked_sub(steps) {
            Some(now) => {
                self.0.set(StepsLeft { now, ..before });
                Ok(())
            }
            None => {
                self.0.set(StepsLeft { now: 0, more: 0 });
                Err(TooCostly)
            }
        }
    }
}

impl Default for Steps {
    fn default() -> Steps {
        Steps(Cell::new(StepsLeft::ALL))
    }
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.message)
    }
}

impl std::error::Error for RegexError {}
