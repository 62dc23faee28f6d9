//! CEL numbers that behave as in JSON: `5` and `5.0` are the same number, and ints, uints and doubles can be mixed.
//!
//! Owns what `+ - * / % < <= > >= == != in` do with numbers. Comparisons are exact. Integers are computed with 64 bits, and an overflow is
//! an error. If an operand is a double, so is the result. For other values the operators of the library apply.

use std::borrow::Cow;
use std::cmp::Ordering;

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};

use super::meter;
use super::wide::WideNumber;
use crate::Number;

/// The result of an operator.
type Computed<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// 2^64 as a double, larger than all integers of CEL.
const ABOVE_WHOLE: f64 = 18_446_744_073_709_551_616.0;

/// A number of CEL.
#[derive(Clone, Copy)]
enum Numeric<'n> {
    Int(i64),
    UInt(u64),
    Double(f64),
    Wide(&'n WideNumber),
}

/// An arithmetic operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Integer division, for operands that are known to be integers when the expression is compiled.
    Quotient,
    Remainder,
}

impl<'n> Numeric<'n> {
    fn of(value: &'n (dyn Val + '_)) -> Option<Numeric<'n>> {
        None.or_else(|| Some(Numeric::Int(*value.downcast_ref::<CelInt>()?.inner())))
            .or_else(|| Some(Numeric::Double(*value.downcast_ref::<CelDouble>()?.inner())))
            .or_else(|| Some(Numeric::UInt(*value.downcast_ref::<CelUInt>()?.inner())))
            .or_else(|| Some(Numeric::Wide(value.downcast_ref::<WideNumber>()?)))
    }

    fn whole(self) -> Option<i128> {
        match self {
            Numeric::Int(number) => Some(number.into()),
            Numeric::UInt(number) => Some(number.into()),
            Numeric::Double(_) | Numeric::Wide(_) => None,
        }
    }

    /// Returns the nearest double, or `None` for a [`WideNumber`], which only keeps its digits.
    fn double(self) -> Option<f64> {
        match self {
            Numeric::Int(number) => Some(number as f64),
            Numeric::UInt(number) => Some(number as f64),
            Numeric::Double(number) => Some(number),
            Numeric::Wide(_) => None,
        }
    }

    /// Compares two numbers by their exact values. Returns `None` if one of them is NaN.
    fn compare(self, other: Numeric<'_>) -> Option<Ordering> {
        match (self, other) {
            (Numeric::Double(a), Numeric::Double(b)) => a.partial_cmp(&b),
            (Numeric::Wide(a), Numeric::Wide(b)) => Some(a.compare(b.text())),
            (Numeric::Wide(a), Numeric::Double(b)) => a.compare_double(b),
            (Numeric::Double(a), Numeric::Wide(b)) => b.compare_double(a).map(Ordering::reverse),
            (Numeric::Wide(a), Numeric::Int(_) | Numeric::UInt(_)) => {
                Some(a.compare(&other.whole()?.to_string()))
            }
            (Numeric::Int(_) | Numeric::UInt(_), Numeric::Wide(b)) => {
                Some(b.compare(&self.whole()?.to_string()).reverse())
            }
            (Numeric::Int(_) | Numeric::UInt(_), Numeric::Double(b)) => {
                compare_whole(self.whole()?, b)
            }
            (Numeric::Double(a), Numeric::Int(_) | Numeric::UInt(_)) => {
                compare_whole(other.whole()?, a).map(Ordering::reverse)
            }
            (Numeric::Int(_) | Numeric::UInt(_), Numeric::Int(_) | Numeric::UInt(_)) => {
                Some(self.whole()?.cmp(&other.whole()?))
            }
        }
    }
}

/// Compares a 64-bit integer with a double.
fn compare_whole(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() > ABOVE_WHOLE {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let cut = whole.cmp(&without_fraction(double));
    Some(cut.then(0.0_f64.partial_cmp(&double.fract())?))
}

/// Returns the integer part of a double up to 2^64.
#[allow(clippy::cast_possible_truncation, reason = "the fraction is dropped, and 2^64 fits")]
fn without_fraction(double: f64) -> i128 {
    double as i128
}

impl Arithmetic {
    fn sign(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide | Arithmetic::Quotient => "/",
            Arithmetic::Remainder => "%",
        }
    }

    fn numbers<'b, 'v>(self, a: Numeric<'_>, b: Numeric<'_>) -> Computed<'b, 'v> {
        if let (Some(x), Some(y)) = (a.whole(), b.whole()) {
            let both_unsigned = matches!((a, b), (Numeric::UInt(_), Numeric::UInt(_)));
            let mixed =
                !both_unsigned && matches!((a, b), (Numeric::UInt(_), _) | (_, Numeric::UInt(_)));
            return match self.whole(x, y)? {
                Some(number) => whole_value(number, both_unsigned, mixed)
                    .ok_or_else(|| self.wrong("the result does not fit into 64 bits")),
                None => Ok(CowVal::owned(CelDouble::from(x as f64 / y as f64))),
            };
        }
        let too_wide = || self.wrong("a number of the message has more than 64 bits");
        let (x, y) = (a.double().ok_or_else(too_wide)?, b.double().ok_or_else(too_wide)?);
        let result = match self {
            Arithmetic::Divide | Arithmetic::Quotient | Arithmetic::Remainder if y == 0.0 => {
                return Err(self.by_zero());
            }
            Arithmetic::Remainder => remainder(a, b).unwrap_or(x % y),
            Arithmetic::Add => x + y,
            Arithmetic::Subtract => x - y,
            Arithmetic::Multiply => x * y,
            Arithmetic::Divide | Arithmetic::Quotient => x / y,
        };
        // An overflow is an error, because JSON cannot represent infinity.
        if x.is_finite() && y.is_finite() && !result.is_finite() {
            return Err(self.wrong("the result is larger than any double"));
        }
        Ok(CowVal::owned(CelDouble::from(result)))
    }

    /// Computes with integers. Returns `None` if the quotient has a fraction.
    fn whole(self, x: i128, y: i128) -> Result<Option<i128>, ExecutionError> {
        let result = match self {
            Arithmetic::Add => x.checked_add(y),
            Arithmetic::Subtract => x.checked_sub(y),
            Arithmetic::Multiply => x.checked_mul(y),
            Arithmetic::Divide | Arithmetic::Quotient | Arithmetic::Remainder if y == 0 => {
                return Err(self.by_zero());
            }
            Arithmetic::Divide if x % y != 0 => return Ok(None),
            Arithmetic::Divide | Arithmetic::Quotient => x.checked_div(y),
            Arithmetic::Remainder => x.checked_rem(y),
        };
        let result = result.ok_or_else(|| self.wrong("the result does not fit into 64 bits"));
        result.map(Some)
    }

    fn by_zero(self) -> ExecutionError {
        self.wrong("division by zero")
    }

    fn wrong(self, what: &str) -> ExecutionError {
        ExecutionError::function_error(self.sign(), what)
    }

    /// Applies the library's operator to values that are not both numbers.
    fn others<'b, 'v>(self, a: &CowVal<'b, 'v>, b: &CowVal<'b, 'v>) -> Computed<'b, 'v> {
        let made = match self {
            Arithmetic::Add => a.as_adder().map(|a| a.add(b.as_ref())),
            Arithmetic::Subtract => a.as_subtractor().map(|a| a.sub(b.as_ref())),
            Arithmetic::Multiply => a.as_multiplier().map(|a| a.mul(b.as_ref())),
            Arithmetic::Divide | Arithmetic::Quotient => a.as_divider().map(|a| a.div(b.as_ref())),
            Arithmetic::Remainder => a.as_modder().map(|a| a.modulo(b.as_ref())),
        };
        match made {
            Some(Ok(value)) => Ok(CowVal::Owned(value.into_owned())),
            Some(Err(error @ ExecutionError::Overflow(..))) => Err(error),
            Some(Err(_)) | None => Err(mismatch(self.sign(), a.as_ref(), b.as_ref())),
        }
    }
}

/// Converts an integer result to an int, or to a uint if both operands are uints, or if one is and the result does not fit an int. Returns
/// `None` if the result fits neither.
fn whole_value<'b, 'v>(number: i128, unsigned: bool, mixed: bool) -> Option<CowVal<'b, 'v>> {
    // Harmless: if neither type fits, the caller reports it.
    let int = i64::try_from(number).ok().filter(|_| !unsigned);
    // Harmless: if neither type fits, the caller reports it.
    let uint = u64::try_from(number).ok().filter(|_| unsigned || mixed);
    match (int, uint) {
        (Some(int), _) => Some(CowVal::owned(CelInt::from(int))),
        (None, Some(uint)) => Some(CowVal::owned(CelUInt::from(uint))),
        (None, None) => None,
    }
}

/// Returns the exact remainder of two integral values, one of which is a double.
fn remainder(a: Numeric<'_>, b: Numeric<'_>) -> Option<f64> {
    let exact = |number: Numeric<'_>| match number {
        Numeric::Double(double) if double.fract() == 0.0 && double.abs() <= ABOVE_WHOLE => {
            Some(without_fraction(double))
        }
        Numeric::Double(_) | Numeric::Int(_) | Numeric::UInt(_) | Numeric::Wide(_) => {
            number.whole()
        }
    };
    Some(exact(a)?.checked_rem(exact(b)?)? as f64)
}

/// Returns the error that names the types of the operands.
fn mismatch(sign: &str, a: &dyn Val, b: &dyn Val) -> ExecutionError {
    let (a, b) = (a.get_type().name(), b.get_type().name());
    let what = format!(
        "it cannot be applied to a value of the type {a} and one of the type {b}; convert one of them, for example with `double(...)` or `string(...)`"
    );
    ExecutionError::function_error(sign, what)
}

fn two<'b, 'v>(
    arguments: Vec<CowVal<'b, 'v>>,
) -> Result<(CowVal<'b, 'v>, CowVal<'b, 'v>), ExecutionError> {
    let count = arguments.len();
    let wrong = || ExecutionError::invalid_argument_count(2, count);
    let mut all = arguments.into_iter();
    Ok((all.next().ok_or_else(wrong)?, all.next().ok_or_else(wrong)?))
}

fn computed<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>, by: Arithmetic) -> Computed<'b, 'v> {
    let (a, b) = two(arguments)?;
    match (Numeric::of(a.as_ref()), Numeric::of(b.as_ref())) {
        (Some(x), Some(y)) => by.numbers(x, y),
        _ => by.others(&a, &b),
    }
}

pub(super) fn add<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Add)
}

pub(super) fn subtract<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Subtract)
}

pub(super) fn multiply<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Multiply)
}

pub(super) fn divide<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Divide)
}

pub(super) fn quotient<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Quotient)
}

pub(super) fn modulo<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    computed(arguments, Arithmetic::Remainder)
}

fn ordered<'b, 'v>(
    arguments: Vec<CowVal<'b, 'v>>,
    sign: &str,
    holds: fn(Ordering) -> bool,
) -> Computed<'b, 'v> {
    let (a, b) = two(arguments)?;
    let order = match (Numeric::of(a.as_ref()), Numeric::of(b.as_ref())) {
        (Some(x), Some(y)) => x
            .compare(y)
            .ok_or_else(|| ExecutionError::function_error(sign, "NaN cannot be ordered"))?,
        // Harmless: any failure means that the types are incompatible.
        _ => a
            .as_comparer()
            .and_then(|a| a.compare(b.as_ref()).ok())
            .ok_or_else(|| mismatch(sign, a.as_ref(), b.as_ref()))?,
    };
    Ok(truth(holds(order)))
}

pub(super) fn less<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    ordered(arguments, "<", Ordering::is_lt)
}

pub(super) fn less_equals<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    ordered(arguments, "<=", Ordering::is_le)
}

pub(super) fn greater<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    ordered(arguments, ">", Ordering::is_gt)
}

pub(super) fn greater_equals<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    ordered(arguments, ">=", Ordering::is_ge)
}

pub(super) fn equals<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    let (a, b) = two(arguments)?;
    are_equal(a.as_ref(), b.as_ref()).map(truth)
}

pub(super) fn differs<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    let (a, b) = two(arguments)?;
    are_equal(a.as_ref(), b.as_ref()).map(|equal| truth(!equal))
}

/// Evaluates `member in list` and `key in map`.
pub(super) fn contained<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    let (member, of) = two(arguments)?;
    let member = member.as_ref();
    if let Some(list) = of.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            meter::charge(1)?;
            if are_equal(&**item, member)? {
                return Ok(truth(true));
            }
        }
        return Ok(truth(false));
    }
    // Harmless: any failure means that the types are incompatible.
    let found = of.as_container().and_then(|of| of.contains(member).ok());
    found.map(truth).ok_or_else(|| mismatch("in", member, of.as_ref()))
}

fn truth<'b, 'v>(yes: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(yes))
}

/// Compares values deeply. Values of different types are not equal; all numbers are one type.
fn are_equal(a: &dyn Val, b: &dyn Val) -> Result<bool, ExecutionError> {
    if !is_deep(a) {
        return Ok(are_equal_scalars(a, b));
    }
    let mut waiting = vec![(a, b)];
    while let Some((a, b)) = waiting.pop() {
        // Lets other tasks run.
        meter::charge(1)?;
        let equal = if let (Some(x), Some(y)) =
            (a.downcast_ref::<CelList<'_>>(), b.downcast_ref::<CelList<'_>>())
        {
            let (x, y) = (x.inner(), y.inner());
            let same_len = x.len() == y.len();
            if same_len {
                // Harmless: both lists have the same length, so `zip` drops no item.
                waiting.extend(x.iter().zip(y).map(|(a, b)| (&**a, &**b)));
            }
            same_len
        } else if let (Some(x), Some(y)) =
            (a.downcast_ref::<CelMap<'_>>(), b.downcast_ref::<CelMap<'_>>())
        {
            let members = x.inner().iter().map(|(key, a)| Some((&**a, member(y, key)?)));
            match members.collect::<Option<Vec<(&dyn Val, &dyn Val)>>>() {
                Some(members) if x.inner().len() == y.inner().len() => {
                    waiting.extend(members);
                    true
                }
                Some(_) | None => false,
            }
        } else {
            are_equal_scalars(a, b)
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_deep(value: &dyn Val) -> bool {
    value.downcast_ref::<CelList<'_>>().is_some() || value.downcast_ref::<CelMap<'_>>().is_some()
}

fn are_equal_scalars(a: &dyn Val, b: &dyn Val) -> bool {
    match (Numeric::of(a), Numeric::of(b)) {
        (Some(x), Some(y)) => x.compare(y) == Some(Ordering::Equal),
        _ => a.equals(b),
    }
}

/// Returns the member of a map. A numeric key is found by its value.
fn member<'m>(map: &'m CelMap<'m>, key: &'m CelMapKey<'m>) -> Option<&'m dyn Val> {
    let other = match key {
        // Harmless: a number that does not fit the other type is not a key of that type.
        CelMapKey::Int(int) => u64::try_from(*int.inner()).ok().map(|n| CelMapKey::UInt(n.into())),
        CelMapKey::UInt(uint) => {
            // Harmless: a number that does not fit the other type is not a key of that type.
            i64::try_from(*uint.inner()).ok().map(|n| CelMapKey::Int(n.into()))
        }
        CelMapKey::Bool(_) | CelMapKey::String(_) => None,
    };
    let found = map.inner().get(key).or_else(|| map.inner().get(&other?));
    found.map(|value| &**value)
}

/// Evaluates `sameText(a, b)`: compares texts, numbers and booleans as texts, and all other values like `==`.
pub(super) fn same_text<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Computed<'b, 'v> {
    let (a, b) = two(arguments)?;
    let same = match (text_of(a.as_ref()), text_of(b.as_ref())) {
        (Some(x), Some(y)) => x == y,
        _ => are_equal(a.as_ref(), b.as_ref())?,
    };
    Ok(truth(same))
}

/// Returns a text, number or boolean as text, or `None` for any other value.
fn text_of(value: &dyn Val) -> Option<Cow<'_, str>> {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return Some(text.inner().into());
    }
    if let Some(truth) = value.downcast_ref::<CelBool>() {
        return Some(truth.inner().to_string().into());
    }
    Some(match Numeric::of(value)? {
        Numeric::Int(number) => number.to_string().into(),
        Numeric::UInt(number) => number.to_string().into(),
        Numeric::Double(number) => Number::of(number).text().to_owned().into(),
        Numeric::Wide(number) => number.text().into(),
    })
}
