//! Text to compiled expressions and patterns: tokens, grammar, names resolved, steps put into their cheapest form.

mod ast;
mod functions;
mod lexer;
mod optimise;
mod parser;
mod pattern;
mod steps;

pub(crate) use ast::{
    Arithmetic, Axis, Comparison, Op, Path, PatternStart, PatternStep, Predicate, Start, Step, Test,
};
pub(crate) use functions::Core;
pub(crate) use parser::compile_expr;
pub(crate) use pattern::{compile_name_test, compile_pattern};

/// Bytes of an expression or pattern. Offsets fit 32 bits, and nobody writes expressions of this length by hand.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Parentheses, predicates and calls inside each other. A level costs up to two kilobytes of stack here and in evaluation.
const DEPTH_MAX: u32 = 100;
