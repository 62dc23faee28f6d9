//! Durations, sizes and limits on memory, each with a unit; percentages, fractions and factors.

use std::time::Duration;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::{SchemaBuilder, bare, text_like};
use crate::sources::quote;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A part of a whole, in ten thousandths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u32);

/// A share from 0 to 1, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u32);

/// A bound on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A share of the memory of the machine or the cgroup.
    Share(Percent),
    Bytes(Size),
}

/// A duration that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeout(pub Duration);

/// A factor of at least 1, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u32);

/// The maximum duration: ten years. Durations are added to the current time, and this is far from an overflow.
const MILLISECONDS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;
/// The maximum size: one pebibyte, which is more than any body, and far from an overflow.
const BYTES_MAX: u64 = 1 << 50;

/// The units of durations, in the order in which `encode` tries them, largest first.
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

/// The lowest limit on memory for messages. A single message may already need more.
const MEMORY_MIN: Size = Size(1 << 20);

/// The maximum number of decimal places of a percentage.
const DECIMALS: usize = 4;
/// The maximum number of decimal places of a share.
const FRACTION_DECIMALS: usize = 6;
/// The maximum number of decimal places of a factor.
const FACTOR_DECIMALS: usize = 3;

const DURATION_HELP: &str = "write a whole number and its unit: `250ms`, `1s`, `5m`, `2h` or `10d`";
const SIZE_HELP: &str =
    "write a whole number and its unit: `512B`, `64KiB`, `1MiB`, `10MB` or `1GiB`";

/// Parses a duration in the format of the configuration. The error is a text.
pub fn duration(text: &str) -> Result<Duration, String> {
    quantity(text, DURATION_UNITS, MILLISECONDS_MAX, "duration").map(Duration::from_millis)
}

impl Decode for Duration {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        decoder.parse(node, "a duration", DURATION_HELP, duration)
    }

    fn encode(&self) -> Json {
        // The largest unit that divides the duration evenly.
        write(kit::clock::millis(*self), DURATION_UNITS, "0s")
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[0-9]+(ms|s|m|h|d)$")
    }
}

impl Decode for Timeout {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let duration = Duration::decode(node, decoder)?;
        if duration.is_zero() {
            let help =
                "write at least `1ms`; for no practical limit, write a long time such as `10d`";
            decoder.error(node.at, "the time must not be zero", help);
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

impl Percent {
    /// The whole.
    pub const ALL: Percent = Percent(1_000_000);

    /// Nothing.
    pub const NONE: Percent = Percent(0);

    /// Creates a whole number of percent.
    pub(crate) const fn of(percent: u32) -> Percent {
        Percent(percent * 10_000)
    }

    /// Returns the share in millionths.
    pub fn of_million(self) -> u32 {
        self.0
    }

    fn read(text: &str) -> Option<Self> {
        Self::number(text.strip_suffix('%').unwrap_or(text))
    }

    fn number(text: &str) -> Option<Self> {
        decimal(text, DECIMALS).map(Self).filter(|percent| *percent <= Self::ALL)
    }
}

impl Decode for Percent {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let read = node.bare_text().and_then(Self::read);
        if read.is_none() {
            let help = "write a number such as `5`, `0.25` or `20%`, without quotes";
            decoder.expected(node, "a number from 0 to 100", help);
        }
        read
    }

    fn encode(&self) -> Json {
        if self.0.is_multiple_of(10_000) {
            (self.0 / 10_000).into()
        } else {
            (f64::from(self.0) / 10_000.0).into()
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        let mut schema = number_between(0, 100);
        if let Some(keys) = schema.as_object_mut() {
            keys.insert("pattern".to_owned(), r"^[0-9]+(\.[0-9]+)?%$|\$\{".into());
        }
        schema
    }
}

impl Fraction {
    /// The whole.
    pub const ALL: Fraction = Fraction(1_000_000);

    /// Returns the share in millionths.
    pub fn of_million(self) -> u32 {
        self.0
    }

    fn read(text: &str) -> Option<Self> {
        decimal(text, FRACTION_DECIMALS).map(Self).filter(|share| *share <= Self::ALL)
    }
}

impl Decode for Fraction {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let read = node.bare_text().and_then(Self::read);
        if read.is_none() {
            let help = "write a number such as `1`, `0.01` or `0`, without quotes";
            decoder.expected(node, "a number from 0 to 1", help);
        }
        read
    }

    fn encode(&self) -> Json {
        if self.0.is_multiple_of(1_000_000) {
            (self.0 / 1_000_000).into()
        } else {
            (f64::from(self.0) / 1_000_000.0).into()
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        number_between(0, 1)
    }
}

impl MemoryLimit {
    fn read(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('%') {
            Some(number) => Percent::number(number).map(Self::Share).ok_or_else(|| {
                format!("{} must be a number from 0 to 100 followed by `%`", quote(text))
            })?,
            None => Self::Bytes(Size(quantity(text, SIZE_UNITS, BYTES_MAX, "size")?)),
        };
        match limit {
            Self::Share(Percent(0)) => Err("0 % leaves no memory for messages".to_owned()),
            Self::Bytes(bytes) if bytes < MEMORY_MIN => {
                Err(format!("{} leaves too little memory for messages", quote(text)))
            }
            Self::Share(_) | Self::Bytes(_) => Ok(limit),
        }
    }
}

impl Decode for MemoryLimit {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write a share such as `60%`, or a size of at least `1MiB` such as `2GiB`";
        decoder.parse(node, "a share or a size", help, Self::read)
    }

    fn encode(&self) -> Json {
        match self {
            Self::Share(percent) => format!("{}%", percent.encode()).into(),
            Self::Bytes(bytes) => bytes.encode(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^([0-9]+(\\.[0-9]{1,4})?%|[0-9]+(B|KB|KiB|MB|MiB|GB|GiB))$")
    }
}

impl Factor {
    /// The minimum factor, 1.
    pub const ONE: Factor = Factor(1000);
    /// The factor 2.
    pub const TWO: Factor = Factor(2000);
    /// The maximum factor, 100.
    const MAX: Factor = Factor(100_000);

    /// Returns the factor in thousandths.
    pub fn permille(self) -> u32 {
        self.0
    }

    fn read(text: &str) -> Option<Self> {
        let factor = decimal(text, FACTOR_DECIMALS).map(Self);
        factor.filter(|factor| (Self::ONE..=Self::MAX).contains(factor))
    }
}

impl Decode for Factor {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let read = node.bare_text().and_then(Self::read);
        if read.is_none() {
            let help = "write a number such as `2` or `1.5`, without quotes";
            decoder.expected(node, "a number from 1 to 100", help);
        }
        read
    }

    fn encode(&self) -> Json {
        if self.0.is_multiple_of(1000) {
            (self.0 / 1000).into()
        } else {
            (f64::from(self.0) / 1000.0).into()
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        number_between(1, 100)
    }
}

fn number_between(min: u32, max: u32) -> Json {
    let mut schema = bare("number");
    if let Some(keys) = schema.as_object_mut() {
        keys.insert("minimum".to_owned(), min.into());
        keys.insert("maximum".to_owned(), max.into());
    }
    schema
}

/// Parses a number with at most `decimals` decimal places. Returns it in units of the last decimal place.
fn decimal(text: &str, decimals: usize) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let fits = is_number(whole) && is_number(part) && part.len() <= decimals;
    // Harmless: the caller reports an invalid decimal.
    fits.then(|| format!("{whole}{part:0<decimals$}").parse().ok())?
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
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_memory_has_one_sign() {
        assert_eq!(MemoryLimit::read("60%"), Ok(MemoryLimit::Share(Percent::of(60))));
        for text in ["60%%", "101%", "%", "6 0%"] {
            let why = MemoryLimit::read(text).unwrap_err();
            assert!(why.ends_with("must be a number from 0 to 100 followed by `%`"), "{why}");
        }
    }
}
