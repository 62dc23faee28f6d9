//! Numbers in a message that fit no int, uint or double: integers of more than 64 bits, and numbers out of the range of a double.
//!
//! They keep their digits, so that they are compared and passed on exactly. No arithmetic is possible with them.

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::{CelDouble, CelString, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Env, ExecutionError};

use crate::number;

const WIDE: Type = Type::new_unspecified_type("number");

static WIDE_TYPE: Type = WIDE;

/// A number by its digits, as in JSON.
#[derive(Debug, Clone)]
pub(super) struct WideNumber(Box<str>);

impl WideNumber {
    /// Returns the number if the library has no type for it, or `None` if a double represents what was meant.
    pub(super) fn of(text: &str) -> Option<WideNumber> {
        // A number computed by XPath may be NaN or an infinity.
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
            // An integral double is compared by all its digits. The fraction of a smaller one does not matter.
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

/// Declares the conversions. Returns false if one of the names exists already.
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
