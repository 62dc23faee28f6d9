//! Extension functions beyond XSLT 1.0, by namespace and local name.
//!
//! Owns the registry. Each family of EXSLT has a module with a table of its functions. None of them loads anything or reads a clock: the
//! caller of the transformation supplies the current time.

mod arguments;
mod common;
mod dates;
mod math;
mod sets;
mod strings;

use xpath::{Call, ErrorKind, Value};

/// The environment of a function, besides its arguments and the documents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FunctionInputs {
    /// Seconds since 1970 (UTC), if supplied by the caller.
    pub(crate) now: Option<i64>,
    /// Seed of random numbers, chosen by the caller.
    pub(crate) seed: u64,
}

/// The implementation of a function. The number of arguments has been checked.
pub(crate) type Code = fn(&[Value], &mut Call<'_>, &mut FunctionInputs) -> Result<Value, ErrorKind>;

/// A row of the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its namespace.
    pub(crate) uri: &'static str,
    /// Its name there.
    pub(crate) local: &'static str,
    /// Smallest number of arguments.
    pub(crate) least: usize,
    /// Largest number of arguments.
    pub(crate) most: usize,
    /// The implementation.
    pub(crate) code: Code,
}

/// All families.
const FAMILIES: &[&[Function]] =
    &[common::FUNCTIONS, strings::FUNCTIONS, sets::FUNCTIONS, math::FUNCTIONS, dates::FUNCTIONS];

/// Returns the function with a name.
pub(crate) fn find(uri: &str, local: &str) -> Option<Function> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    all.copied().find(|function| function.local == local && function.uri == uri)
}
