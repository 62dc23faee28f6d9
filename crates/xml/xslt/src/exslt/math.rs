//! `math:*` (<http://exslt.org/math>).

use xpath::{Call, ErrorKind, Node, Value, text_number};

use super::arguments::{nodes, number, text};
use super::{Code, Function, FunctionInputs};

const fn row(local: &'static str, least: usize, code: Code) -> Function {
    Function { uri: "http://exslt.org/math", local, least, most: least, code }
}

pub(super) const FUNCTIONS: &[Function] = &[
    row("min", 1, |a, c, _| {
        extreme(a, c, |value, best| value < best).map(|found| Value::Number(found.0))
    }),
    row("max", 1, |a, c, _| {
        extreme(a, c, |value, best| value > best).map(|found| Value::Number(found.0))
    }),
    row("lowest", 1, |a, c, _| {
        extreme(a, c, |value, best| value < best).map(|found| Value::Nodes(found.1.into()))
    }),
    row("highest", 1, |a, c, _| {
        extreme(a, c, |value, best| value > best).map(|found| Value::Nodes(found.1.into()))
    }),
    row("abs", 1, |a, c, _| one(a, c, f64::abs)),
    row("sqrt", 1, |a, c, _| one(a, c, f64::sqrt)),
    row("log", 1, |a, c, _| one(a, c, f64::ln)),
    row("exp", 1, |a, c, _| one(a, c, f64::exp)),
    row("sin", 1, |a, c, _| one(a, c, f64::sin)),
    row("cos", 1, |a, c, _| one(a, c, f64::cos)),
    row("tan", 1, |a, c, _| one(a, c, f64::tan)),
    row("asin", 1, |a, c, _| one(a, c, f64::asin)),
    row("acos", 1, |a, c, _| one(a, c, f64::acos)),
    row("atan", 1, |a, c, _| one(a, c, f64::atan)),
    row("atan2", 2, |a, c, _| two(a, c, f64::atan2)),
    row("power", 2, |a, c, _| two(a, c, f64::powf)),
    row("constant", 2, constant),
    row("random", 0, random),
];

type Outcome = Result<Value, ErrorKind>;

fn one(arguments: &[Value], call: &Call<'_>, function: impl Fn(f64) -> f64) -> Outcome {
    Ok(Value::Number(function(number(arguments, 0, call))))
}

fn two(arguments: &[Value], call: &Call<'_>, function: impl Fn(f64, f64) -> f64) -> Outcome {
    Ok(Value::Number(function(number(arguments, 0, call), number(arguments, 1, call))))
}

/// Returns the best number in a node-set and the nodes that have it. Returns NaN and no nodes if the set is empty or contains a non-number.
fn extreme(
    arguments: &[Value],
    call: &mut Call<'_>,
    better: impl Fn(f64, f64) -> bool,
) -> Result<(f64, Vec<Node>), ErrorKind> {
    let mut best = f64::NAN;
    let mut holders = Vec::new();
    for &node in nodes(arguments, 0)? {
        let text = call.documents.string_value(node);
        call.budget.charge(1 + text.len() as u64 / 8)?;
        let value = text_number(&text);
        if value.is_nan() {
            return Ok((f64::NAN, Vec::new()));
        }
        if holders.is_empty() || better(value, best) {
            best = value;
            holders.clear();
        }
        if value == best {
            holders.push(node);
        }
    }
    Ok((best, holders))
}

/// Returns a constant by its name, cut to a number of characters.
fn constant(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let digits = match text(arguments, 0, call).as_str() {
        "PI" => "3.1415926535897932384626433832795028841971693993751",
        "E" => "2.71828182845904523536028747135266249775724709369996",
        // This is how the specification spells it.
        "SQRRT2" | "SQRT2" => "1.41421356237309504880168872420969807856967187537694",
        "LN2" => "0.69314718055994530941723212145817656807550013436025",
        "LN10" => "2.302585092994045684017991454684364207601101488628772",
        "LOG2E" => "1.4426950408889634073599246810018921374266459541529859",
        "SQRT1_2" => "0.70710678118654752440084436210484903928483593768847",
        _ => return Ok(Value::Number(f64::NAN)),
    };
    let precision = number(arguments, 1, call);
    let kept = digits
        .char_indices()
        .zip(1_u32..)
        .take_while(|(_, place)| f64::from(*place) <= precision)
        .last();
    let kept = kept.and_then(|((at, _), _)| digits.get(..=at));
    Ok(Value::Number(kept.map_or(f64::NAN, text_number)))
}

/// Returns a number that is at least 0 and less than 1. The sequence depends on the caller's seed, so that a transformation can be
/// repeated.
fn random(_: &[Value], _: &mut Call<'_>, inputs: &mut FunctionInputs) -> Outcome {
    inputs.seed = inputs.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = inputs.seed;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    // 53 bits, the precision of a double.
    let (high, low) = ((bits >> 38) & 0x3FF_FFFF, (bits >> 11) & 0x7FF_FFFF);
    let (high, low) = (u32::try_from(high).unwrap_or(0), u32::try_from(low).unwrap_or(0));
    Ok(Value::Number((f64::from(high) * 134_217_728.0 + f64::from(low)) / 9_007_199_254_740_992.0))
}
