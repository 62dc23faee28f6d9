//! Numbers of a message that no int, uint or double holds: whole numbers of more than 64 bits, and those beyond all doubles.
//!
//! They keep their digits: they are compared and passed on exactly. Nothing computes with them.

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::{CelDouble, CelString, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Env, ExecutionError};

use crate::number;

const WIDE: Type = Type::new_unspecified_type("number");

static WIDE_TYPE: Type = WIDE;

/// A number by its digits, as JSON writes them.
#[derive(Debug, Clone)]
pub(super) struct WideNumber(Box<str>);

impl WideNumber {
    /// A number that is none of the library's. None: a double is what its author means.
    pub(super) fn of(text: &str) -> Option<WideNumber> {
        // What XPath computed may be NaN or an infinity.
        let is_written = text.ends_with(|last: char| last.is_ascii_digit());
        let is_whole = !text.contains(['.', 'e', 'E']);
        let is_wide = is_written && (is_whole || !number::value(text).is_finite());
        is_wide.then(|| WideNumber(text.into()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn compare(&self, other: &str) -> Ordering {
        number::compare(&self.0, other)
    }

    pub(super) fn compare_double(&self, other: f64) -> Option<Ordering> {
        match other {
            _ if other.is_nan() => None,
            f64::INFINITY => Some(Ordering::Less),
            f64::NEG_INFINITY => Some(Ordering::Greater),
            // All digits of a double that is whole; the fraction of a smaller one decides nothing.
            _ => Some(self.compare(&format!("{other:.0}"))),
        }
    }
}

impl Val for WideNumber {
    fn get_type(&self) -> &Type {
        &WIDE_TYPE
    }

    fn cel_type() -> &'static Type {
        &WIDE_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<WideNumber>().is_some_and(|other| self.compare(&other.0).is_eq())
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for WideNumber {}

/// Declares its conversions. False: one of them is there already.
pub(super) fn declare(env: &mut Env) -> bool {
    env.add_overload("string", "wide_to_string", vec![WIDE], string).is_ok()
        && env.add_overload("double", "wide_to_double", vec![WIDE], double).is_ok()
}

fn string<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = one(&arguments)?.text().to_owned();
    Ok(CowVal::owned(CelString::from(text)))
}

fn double<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(CelDouble::from(number::value(one(&arguments)?.text()))))
}

fn one<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<&'a WideNumber, ExecutionError> {
    let number = arguments.first().and_then(|number| number.downcast_ref::<WideNumber>());
    number.ok_or_else(|| ExecutionError::invalid_argument_count(1, arguments.len()))
}
