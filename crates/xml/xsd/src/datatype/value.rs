//! Values with equality and order: an owned [`Value`], and an [`Atom`] borrowed from a text without allocation.

use std::cmp::Ordering;
use std::fmt;

use super::Builtin;
use super::date_time::DateTime;
use super::decimal::{Decimal, DecimalRef};
use super::duration::Duration;
use super::text;

/// A value of a simple type, usable as a key in a hash table. Equal values of the same primitive type compare equal, whatever their lexical
/// form. Values of different primitive types never do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A `string`, `anyURI` or `anySimpleType`.
    Text {
        primitive: Builtin,
        text: Box<str>,
    },
    Boolean(bool),
    Decimal(Decimal),
    /// The bits, with one zero and one NaN.
    Float(u32),
    /// The bits, with one zero and one NaN.
    Double(u64),
    Duration(Duration),
    DateTime(DateTime),
    /// A `hexBinary` or `base64Binary`.
    Bytes {
        primitive: Builtin,
        bytes: Box<[u8]>,
    },
    /// A `QName` or `NOTATION`.
    Name {
        primitive: Builtin,
        uri: Box<str>,
        local: Box<str>,
    },
    List(Box<[Value]>),
}

/// An atomic value, borrowed from its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Atom<'a> {
    Text { primitive: Builtin, text: &'a str },
    Boolean(bool),
    Decimal(DecimalRef<'a>),
    Float(f32),
    Double(f64),
    Duration(Duration),
    DateTime(DateTime),
    Hex(&'a str),
    Base64 { text: &'a str, len: u64 },
    Name { primitive: Builtin, uri: &'a str, local: &'a str },
}

impl Value {
    /// Compares by the order of the value space. Returns `None` if the two are not comparable. Only numbers, durations, dates and times are
    /// ordered.
    pub fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Decimal(one), Value::Decimal(two)) => Some(one.borrow().order(&two.borrow())),
            (Value::Float(one), Value::Float(two)) => {
                float_order(f32::from_bits(*one).into(), f32::from_bits(*two).into())
            }
            (Value::Double(one), Value::Double(two)) => {
                float_order(f64::from_bits(*one), f64::from_bits(*two))
            }
            (Value::Duration(one), Value::Duration(two)) => one.order(two),
            (Value::DateTime(one), Value::DateTime(two)) => one.order(two),
            (one, two) => (one == two).then_some(Ordering::Equal),
        }
    }
}

/// A readable form for messages, which may not be parsable.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text { text, .. } => f.write_str(&super::fail::quote(text)),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Decimal(value) => write!(f, "{value}"),
            Value::Float(bits) => write!(f, "{}", f32::from_bits(*bits)),
            Value::Double(bits) => write!(f, "{}", f64::from_bits(*bits)),
            Value::Duration(_) => f.write_str("a duration"),
            Value::DateTime(_) => f.write_str("a date or time"),
            Value::Bytes { bytes, .. } => write!(f, "{} bytes", bytes.len()),
            Value::Name { uri, local, .. } => write!(f, "{{{uri}}}{local}"),
            Value::List(items) => write!(f, "a list of {}", items.len()),
        }
    }
}

impl Atom<'_> {
    pub(crate) fn to_value(self) -> Value {
        match self {
            Atom::Text { primitive, text } => Value::Text { primitive, text: text.into() },
            Atom::Boolean(value) => Value::Boolean(value),
            Atom::Decimal(value) => Value::Decimal(value.to_owned()),
            Atom::Float(value) if value.is_nan() => Value::Float(f32::NAN.to_bits()),
            // Adding zero turns -0 into +0.
            Atom::Float(value) => Value::Float((value + 0.0).to_bits()),
            Atom::Double(value) if value.is_nan() => Value::Double(f64::NAN.to_bits()),
            Atom::Double(value) => Value::Double((value + 0.0).to_bits()),
            Atom::Duration(value) => Value::Duration(value),
            Atom::DateTime(value) => Value::DateTime(value),
            Atom::Hex(text) => {
                // Harmless: the text was checked by `text::is_hex`.
                let bytes = kit::hex::decoded(text.as_bytes()).unwrap_or_default();
                Value::Bytes { primitive: Builtin::HexBinary, bytes: bytes.into() }
            }
            Atom::Base64 { text, .. } => Value::Bytes {
                primitive: Builtin::Base64Binary,
                bytes: text::base64_bytes(text).into(),
            },
            Atom::Name { primitive, uri, local } => {
                Value::Name { primitive, uri: uri.into(), local: local.into() }
            }
        }
    }

    /// Compares like [`Value::order`]. Only called for types with an order, because other types have no bounds.
    pub(crate) fn order(&self, bound: &Value) -> Option<Ordering> {
        match (self, bound) {
            (Atom::Decimal(one), Value::Decimal(two)) => Some(one.order(&two.borrow())),
            (Atom::Float(one), Value::Float(two)) => {
                float_order((*one).into(), f32::from_bits(*two).into())
            }
            (Atom::Double(one), Value::Double(two)) => float_order(*one, f64::from_bits(*two)),
            (Atom::Duration(one), Value::Duration(two)) => one.order(two),
            (Atom::DateTime(one), Value::DateTime(two)) => one.order(two),
            (one, two) => (one.to_value() == *two).then_some(Ordering::Equal),
        }
    }

    /// Returns the length for the facets `length`, `minLength` and `maxLength`: characters or bytes. Names have none.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Atom::Text { text, .. } => Some(text.chars().count() as u64),
            Atom::Hex(text) => Some(text.len() as u64 / 2),
            Atom::Base64 { len, .. } => Some(*len),
            Atom::Boolean(_)
            | Atom::Decimal(_)
            | Atom::Float(_)
            | Atom::Double(_)
            | Atom::Duration(_)
            | Atom::DateTime(_)
            | Atom::Name { .. } => None,
        }
    }
}

/// Compares floats. NaN is equal to itself and not comparable with anything else.
fn float_order(one: f64, two: f64) -> Option<Ordering> {
    if one.is_nan() && two.is_nan() { Some(Ordering::Equal) } else { one.partial_cmp(&two) }
}
