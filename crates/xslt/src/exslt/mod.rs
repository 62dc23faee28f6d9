//! Functions beyond XSLT 1.0, by namespace and local part.
//!
//! Owns the registry. Each family of EXSLT has a module beside this one with a table of its functions; none of them
//! loads anything or reads a clock: the time is what the caller of the transformation says it is.

mod arguments;
mod common;
mod dates;
mod math;
mod sets;
mod strings;

use xpath::{Call, ErrorKind, Value};

/// What a function may know beside its arguments and the documents.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Surroundings {
    /// Seconds since 1970 in UTC, as the caller gave it; none where it gave none.
    pub(crate) now: Option<i64>,
    /// A number that the caller chose, for functions that give random ones.
    pub(crate) seed: u64,
}

/// A function's code. The number of arguments has been checked.
pub(crate) type Code = fn(&[Value], &mut Call<'_>, &mut Surroundings) -> Result<Value, ErrorKind>;

/// A row of the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    /// Its namespace.
    pub(crate) uri: &'static str,
    /// Its name there.
    pub(crate) local: &'static str,
    /// Fewest arguments.
    pub(crate) least: usize,
    /// Most arguments.
    pub(crate) most: usize,
    /// What it does.
    pub(crate) code: Code,
}

/// All families.
const FAMILIES: &[&[Function]] =
    &[common::FUNCTIONS, strings::FUNCTIONS, sets::FUNCTIONS, math::FUNCTIONS, dates::FUNCTIONS];

/// The function of that name.
pub(crate) fn find(uri: &str, local: &str) -> Option<Function> {
    let all = FAMILIES.iter().flat_map(|family| family.iter());
    all.copied().find(|function| function.local == local && function.uri == uri)
}
