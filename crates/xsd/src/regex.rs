//! Regular expressions of XML Schema 1.0 (Part 2, appendix F), matched in linear time.
//!
//! Owns the grammar, the sets of characters behind its escapes, and the automata. An expression enters [`Regex::compile`]
//! and becomes a table where that stays small, else a list of instructions that are run abreast; neither ever goes back in
//! a text. It knows nothing of facets, and it never searches: a match is of the whole text.

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

/// Patterns people write stay below a few hundred bytes.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// The parser and what walks its tree recurse once a group: far above real patterns, far below a worker's stack.
const NESTING_MAX: u32 = 128;
/// 16 bytes each: `.{0,100000}` is possible, its square is not.
const INSTRUCTIONS_MAX: u64 = 250_000;
/// Sets by intervals; some milliseconds.
const CLASS_WORK_MAX: usize = 8 << 20;
/// 4 bytes each: a table takes at most half a MiB, and some ten milliseconds to make.
const CELLS_MAX: usize = 128 << 10;
/// Steps spent on determinising before it is given up; some milliseconds.
const DFA_WORK_MAX: usize = 1 << 19;
/// Instructions that may be run for any document where there is no table, of some 8 ns each.
const STEPS_MIN: u64 = 8_000_000;
/// As many more for each byte that is matched so, since a text is read by more than one instruction even where it costs little.
const STEPS_A_BYTE: u64 = 8;
/// What they add up to: that of 5 MB of such texts, less than half a second.
const STEPS_MAX: u64 = 50_000_000;

/// A compiled regular expression. It matches whole texts.
#[derive(Debug)]
pub struct Regex {
    classes: Classes,
    program: Program,
}

/// Why an expression is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexError {
    /// In bytes of the expression.
    pub offset: usize,
    pub message: String,
}

/// What the expressions without a table may still cost, in instructions run: all texts of one document draw on one.
#[derive(Debug)]
pub struct Steps(Cell<StepsLeft>);

/// How much of that there is at some time.
#[derive(Debug, Clone, Copy)]
pub struct StepsLeft {
    now: u64,
    /// What texts that are still to come may add.
    more: u64,
}

/// The texts so far took more steps than the limit `regex_steps_max` allows.
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

    /// Compiles expressions of which one has to match. Gives with an error the index of the one to blame.
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

    /// Whether the whole text matches. `steps` pays for it where there is no table.
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
    /// What is left, to go on from later with [`Steps::set`].
    pub fn left(&self) -> StepsLeft {
        self.0.get()
    }

    pub fn set(&self, left: StepsLeft) {
        self.0.set(left);
    }

    /// What one document may cost.
    pub fn refill(&self) {
        self.0.set(StepsLeft::ALL);
    }

    /// A text adds to what may be spent.
    fn earn(&self, text: &str) {
        let StepsLeft { now, more } = self.0.get();
        let earned = (text.len() as u64).saturating_mul(STEPS_A_BYTE).min(more);
        self.0.set(StepsLeft { now: now.saturating_add(earned), more: more - earned });
    }

    /// Takes so many steps. Where they are not there, nothing is left for anybody.
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
