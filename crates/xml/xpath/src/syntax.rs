//! Compiles text to expressions and patterns: tokenizing, parsing, resolving names, and optimising steps.

mod ast;
mod functions;
mod lexer;
mod optimise;
mod parser;
mod pattern;
mod steps;

pub use ast::{Alternative, Shape};
pub(crate) use ast::{
    Arithmetic, Axis, Comparison, Op, Path, PatternStart, PatternStep, Predicate, Start, Step, Test,
};
pub(crate) use functions::Core;
pub use functions::{core_arity, is_core_function};
pub(crate) use parser::compile_expr;
pub(crate) use pattern::compile_pattern;

/// Maximum length of an expression or pattern. Offsets fit 32 bits, and nobody writes longer expressions by hand.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Maximum nesting of parentheses, predicates and calls. Each level takes up to two kilobytes of stack, in the parser and in the evaluator.
const DEPTH_MAX: u32 = 100;
