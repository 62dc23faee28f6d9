//! `str:*` (<http://exslt.org/strings>).

use kit::percent;
use xpath::{Call, ErrorKind, Value};

use super::arguments::{nodes, number, text, texts, tokens};
use super::{Code, Function, FunctionInputs};

const fn row(local: &'static str, least: usize, most: usize, code: Code) -> Function {
    Function { uri: "http://exslt.org/strings", local, least, most, code }
}

pub(super) const FUNCTIONS: &[Function] = &[
    row("tokenize", 1, 2, tokenize),
    row("split", 1, 2, split),
    row("replace", 3, 3, replace),
    row("padding", 1, 2, padding),
    row("align", 2, 3, align),
    row("concat", 1, 1, concat),
    row("encode-uri", 2, 3, encode_uri),
    row("decode-uri", 1, 2, decode_uri),
];

type Outcome = Result<Value, ErrorKind>;

/// Splits at any of the given characters, by default white space. An empty argument splits into single characters.
fn tokenize(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let whole = text(arguments, 0, call);
    let between = match arguments.len() {
        1 => "\t\r\n ".to_owned(),
        _ => text(arguments, 1, call),
    };
    call.budget.charge(whole.len() as u64)?;
    if between.is_empty() {
        return tokens(characters(&whole), call);
    }
    tokens(whole.split(|c| between.contains(c)).filter(|piece| !piece.is_empty()), call)
}

/// Splits at a string, by default a space. An empty argument splits into single characters.
fn split(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let whole = text(arguments, 0, call);
    let between = match arguments.len() {
        1 => " ".to_owned(),
        _ => text(arguments, 1, call),
    };
    call.budget.charge(whole.len() as u64)?;
    if between.is_empty() {
        return tokens(characters(&whole), call);
    }
    tokens(whole.split(between.as_str()).filter(|piece| !piece.is_empty()), call)
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.split("").filter(|character| !character.is_empty())
}

/// Replaces several strings at once, longer ones first. Each is replaced by the string at the same index of the other list, or by nothing
/// if that list is shorter. An empty string matches between any two characters that no other string replaces.
fn replace(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let whole = text(arguments, 0, call);
    let mut by = texts(arguments, 2, call).into_iter();
    let pairs =
        // Harmless: EXSLT specifies an empty string for a missing replacement.
        texts(arguments, 1, call).into_iter().map(|search| (search, by.next().unwrap_or_default()));
    let (empty, mut pairs): (Vec<_>, Vec<_>) = pairs.partition(|(search, _)| search.is_empty());
    let between = empty.first().map_or("", |(_, by)| by.as_str());
    // Among equal strings the first one counts, because the sort is stable.
    pairs.sort_by_key(|(search, _)| std::cmp::Reverse(search.len()));
    call.budget.charge(whole.len() as u64 * (1 + pairs.len() as u64))?;
    let mut out = String::with_capacity(whole.len());
    let mut rest = whole.as_str();
    while let Some(first) = rest.chars().next() {
        match pairs.iter().find_map(|(search, by)| Some((rest.strip_prefix(search.as_str())?, by)))
        {
            Some((after, by)) => {
                out.push_str(by);
                rest = after;
                call.budget.text(by.len())?;
            }
            None => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                if !rest.is_empty() && !between.is_empty() {
                    call.budget.text(between.len())?;
                    out.push_str(between);
                }
            }
        }
        too_long(&out, call)?;
    }
    Ok(Value::text(out))
}

/// Fails if a text is longer than the limit.
fn too_long(text: &str, call: &Call<'_>) -> Result<(), ErrorKind> {
    let max = call.budget.limits().text_bytes_max;
    if text.len() as u64 > u64::from(max) {
        Err(ErrorKind::Limit { name: "text_bytes_max", max: u64::from(max) })
    } else {
        Ok(())
    }
}

/// Returns a string with this many characters by repeating another one.
fn padding(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let wanted = number(arguments, 0, call);
    let unit = match arguments.len() {
        1 => " ".to_owned(),
        _ => text(arguments, 1, call),
    };
    if unit.is_empty() || wanted.is_nan() {
        return Ok(Value::text(""));
    }
    let max = f64::from(call.budget.limits().text_bytes_max);
    let wanted = wanted.floor().max(0.0);
    if wanted > max {
        return Err(ErrorKind::Limit {
            name: "text_bytes_max",
            max: u64::from(call.budget.limits().text_bytes_max),
        });
    }
    let mut out = String::new();
    let mut made = 0.0;
    for c in unit.chars().cycle() {
        if made >= wanted {
            break;
        }
        made += 1.0;
        out.push(c);
    }
    call.budget.text(out.len())?;
    Ok(Value::text(out))
}

/// Aligns a string within another one: left, right or centred. The result is as long as the other one.
fn align(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let given: Vec<char> = text(arguments, 0, call).chars().collect();
    let ground: Vec<char> = text(arguments, 1, call).chars().collect();
    call.budget.charge((given.len() + ground.len()) as u64)?;
    let Some(room) = ground.len().checked_sub(given.len()) else {
        // Harmless: EXSLT specifies that a longer string is cut.
        return Ok(Value::text(given.into_iter().take(ground.len()).collect::<String>()));
    };
    let before = match text(arguments, 2, call).as_str() {
        "right" => room,
        "center" => room / 2,
        _ => 0,
    };
    let after = ground.iter().skip(before + given.len());
    // Harmless: this takes the beginning; `after` supplies the rest.
    let out: String = ground.iter().take(before).chain(&given).chain(after).collect();
    Ok(Value::text(out))
}

fn concat(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let mut out = String::new();
    for &node in nodes(arguments, 0)? {
        let text = call.documents.string_value(node);
        call.budget.text(text.len())?;
        out.push_str(&text);
        too_long(&out, call)?;
    }
    Ok(Value::text(out))
}

/// Escapes a URI by RFC 2396, section 2. Unreserved characters are kept, reserved ones are escaped if requested, and all others always. The
/// percent sign is always escaped, even at the start of an escape, as in libxslt.
fn encode_uri(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let whole = text(arguments, 0, call);
    let escape_reserved = arguments.get(1).is_some_and(Value::to_boolean);
    if !is_utf8(arguments, 2, call) {
        return Ok(Value::text(""));
    }
    call.budget.text(whole.len().saturating_mul(3))?;
    let kept: &[u8] = if escape_reserved { b"!*'()" } else { b"!*'();/?:@&=+$,[]" };
    Ok(Value::text(percent::encoded(whole.as_bytes(), kept)))
}

/// Unescapes a URI. The result is empty if it is not UTF-8.
fn decode_uri(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let whole = text(arguments, 0, call);
    if !is_utf8(arguments, 1, call) {
        return Ok(Value::text(""));
    }
    call.budget.text(whole.len())?;
    let bytes = percent::decoded(whole.as_bytes(), false).into_owned();
    // Harmless: EXSLT specifies an empty string for text that cannot be decoded.
    Ok(Value::text(String::from_utf8(bytes).unwrap_or_default()))
}

/// Returns whether the encoding is UTF-8, which is the default. Other encodings are not supported.
fn is_utf8(arguments: &[Value], place: usize, call: &Call<'_>) -> bool {
    arguments.len() <= place || text(arguments, place, call).eq_ignore_ascii_case("utf-8")
}
