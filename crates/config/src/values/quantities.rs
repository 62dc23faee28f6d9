//! Durations and sizes: a whole number and its unit.

use std::time::Duration;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::report::quote;
use crate::schema::{SchemaBuilder, text_like};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A duration that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeout(pub Duration);

/// Ten years. Clocks add durations to the present, and this is far from where that overflows.
const MILLISECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;
/// One pebibyte: more than any body, less than any overflow.
const BYTES_MAX: u64 = 1 << 50;

/// In the order `encode` tries them, largest first.
const DURATION_UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZE_UNITS: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

const DURATION_HELP: &str = "write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`";
const SIZE_HELP: &str =
    "write a whole number and its unit: `512B`, `64KiB`, `1MiB`, `10MB` or `1GiB`";

impl Decode for Duration {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let read = |text: &str| quantity(text, DURATION_UNITS, MILLISECONDS_MAX, "duration");
        decoder.parse(node, "a duration", DURATION_HELP, read).map(Duration::from_millis)
    }

    fn encode(&self) -> Json {
        let milliseconds = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        // A day reads better as 24h, but 36h better than as 1.5 days: the largest unit that divides.
        write(milliseconds, DURATION_UNITS, "0s")
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[0-9]+(ms|s|m|h|d)$")
    }
}

impl Decode for Timeout {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let duration = Duration::decode(node, decoder)?;
        if duration.is_zero() {
            let help = "write at least `1ms`; a very long wait is written as such: `10d`";
            decoder.error(node.at, "a wait of zero would refuse everything", help);
            return None;
        }
        Some(Self(duration))
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        Duration::schema(schema)
    }
}

impl Decode for Size {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let read = |text: &str| quantity(text, SIZE_UNITS, BYTES_MAX, "size");
        decoder.parse(node, "a size", SIZE_HELP, read).map(Self)
    }

    fn encode(&self) -> Json {
        write(self.0, SIZE_UNITS, "0B")
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[0-9]+(B|KB|KiB|MB|MiB|GB|GiB)$")
    }
}

fn quantity(text: &str, units: &[(&str, u64)], max: u64, noun: &str) -> Result<u64, String> {
    let unit_start = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_start);
    if digits.is_empty() {
        return Err(format!("{} is not a {noun}", quote(text)));
    }
    if unit.is_empty() {
        return Err(format!("the {noun} {} has no unit", quote(text)));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("the {noun} {} has the unknown unit {}", quote(text), quote(unit)));
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    number
        .filter(|number| *number <= max)
        .ok_or_else(|| format!("the {noun} {} is too large", quote(text)))
}

fn write(number: u64, units: &[(&str, u64)], zero: &str) -> Json {
    if number == 0 {
        return zero.into();
    }
    let unit = units.iter().find(|(_, factor)| number.is_multiple_of(*factor));
    unit.map_or(Json::Null, |(name, factor)| format!("{}{name}", number / factor).into())
}
