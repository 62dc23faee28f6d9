//! Compiles text to expressions and patterns: tokens, grammar, resolution of names, and optimisation of steps.

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
pub use functions::is_core_function;
pub(crate) use parser::compile_expr;
pub(crate) use pattern::{compile_name_test, compile_pattern};

/// Length of an expression or pattern. Offsets fit 32 bits, and nobody writes longer expressions by hand.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Nesting depth of parentheses, predicates and calls. A level takes up to two kilobytes of stack here and in evaluation.
const DEPTH_MAX: u32 = 100;
