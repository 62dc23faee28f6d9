//! Number formatting of `xsl:number` (XSLT 1.0, 7.7.1): format tokens, letters, Roman numerals, grouping.

/// Separator and size of groups of digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub(crate) separator: String,
    pub(crate) size: usize,
}

/// One token of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Digits from this zero on, with a minimum width.
    Decimal {
        zero: char,
        width: usize,
    },
    /// Letters from this one on, `count` in all.
    Letters {
        first: char,
        count: u32,
    },
    Roman {
        upper: bool,
    },
}

/// Maximum width that a format can request, in digits, to bound memory.
const WIDTH_MAX: usize = 100;

/// From this number on, digits are written instead of Roman numerals.
const ROMAN_MAX: u64 = 100_000;

/// Formats a list of numbers, such as `1.2.3`.
pub(crate) fn format(numbers: &[f64], format: &str, grouping: Option<&Grouping>) -> String {
    let pieces = pieces(format);
    let is_token = |piece: &&str| piece.chars().next().is_some_and(char::is_alphanumeric);
    let tokens: Vec<&str> = pieces.iter().copied().filter(is_token).collect();
    let first_is_token = pieces.first().is_none_or(is_token);
    let separators: Vec<&str> = pieces.iter().copied().filter(|piece| !is_token(piece)).collect();
    let (prefix, between) = if first_is_token {
        ("", separators.as_slice())
    } else {
        match separators.split_first() {
            Some((prefix, between)) => (*prefix, between),
            None => ("", separators.as_slice()),
        }
    };
    let ends_apart = tokens.is_empty() || !pieces.last().is_some_and(is_token);
    let (between, suffix) = match between.split_last() {
        Some((suffix, between)) if ends_apart => (between, *suffix),
        _ => (between, ""),
    };
    let mut out = String::from(prefix);
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            let separator = between.get(at - 1).or(between.last()).copied().unwrap_or(".");
            out.push_str(separator);
        }
        let token = tokens.get(at).or(tokens.last()).map_or(DECIMAL, |text| token(text));
        one(*number, token, grouping, &mut out);
    }
    out.push_str(suffix);
    out
}

const DECIMAL: Token = Token::Decimal { zero: '0', width: 1 };

/// Splits a format into runs of letters and digits, and runs of other characters.
fn pieces(format: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        let kind = first.is_alphanumeric();
        let end = rest.find(|c: char| c.is_alphanumeric() != kind).unwrap_or(rest.len());
        let Some((piece, after)) = rest.split_at_checked(end) else { break };
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn token(text: &str) -> Token {
    let last = text.chars().next_back().unwrap_or('1');
    let width = text.chars().count().min(WIDTH_MAX);
    if let Some(zero) = zero_of(last) {
        let all = text.chars().rev().skip(1).all(|c| c == zero);
        let one = u32::from(last) == u32::from(zero) + 1;
        return if all && one { Token::Decimal { zero, width } } else { DECIMAL };
    }
    match text {
        "A" => Token::Letters { first: 'A', count: 26 },
        "a" => Token::Letters { first: 'a', count: 26 },
        "I" => Token::Roman { upper: true },
        "i" => Token::Roman { upper: false },
        // Greek and Cyrillic letters, as far as their code points are consecutive.
        "\u{391}" => Token::Letters { first: '\u{391}', count: 17 },
        "\u{3b1}" => Token::Letters { first: '\u{3b1}', count: 17 },
        "\u{410}" => Token::Letters { first: '\u{410}', count: 32 },
        "\u{430}" => Token::Letters { first: '\u{430}', count: 32 },
        _ => DECIMAL,
    }
}

/// Code points of the digit zero in Unicode (general category Nd) in the basic plane, and a few beyond.
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x11066, 0x1d7ce,
];

fn zero_of(digit: char) -> Option<char> {
    let code = u32::from(digit);
    let zero = ZEROS.iter().copied().find(|zero| (*zero..zero + 10).contains(&code));
    zero.and_then(char::from_u32)
}

fn one(number: f64, token: Token, grouping: Option<&Grouping>, out: &mut String) {
    let rounded = (number + 0.5).floor();
    if !rounded.is_finite() || rounded.abs() >= 1e18 {
        out.push_str(&xpath::number_text(number));
        return;
    }
    if rounded < 0.0 {
        out.push('-');
    }
    // The number is an integer below 10^18, so the text of the double is exactly its digits.
    let whole: u64 = format!("{:.0}", rounded.abs()).parse().unwrap_or(0);
    match token {
        Token::Letters { first, count } if whole > 0 => letters(whole, first, count, out),
        Token::Roman { upper } if (1..ROMAN_MAX).contains(&whole) => roman(whole, upper, out),
        Token::Decimal { zero, width } => decimal(whole, zero, width, grouping, out),
        Token::Letters { .. } | Token::Roman { .. } => decimal(whole, '0', 1, grouping, out),
    }
}

fn decimal(whole: u64, zero: char, width: usize, grouping: Option<&Grouping>, out: &mut String) {
    let digits = format!("{whole:0>width$}");
    for (at, c) in digits.char_indices() {
        let left = digits.len() - at;
        if let Some(grouping) = grouping
            && at > 0
            && grouping.size > 0
            && left % grouping.size == 0
        {
            out.push_str(&grouping.separator);
        }
        let code = u32::from(zero) + c.to_digit(10).unwrap_or(0);
        out.push(char::from_u32(code).unwrap_or(c));
    }
}

fn letters(whole: u64, first: char, count: u32, out: &mut String) {
    let mut rest = whole;
    let mut backwards = Vec::new();
    while rest > 0 {
        rest -= 1;
        let letter = u32::try_from(rest % u64::from(count)).unwrap_or(0);
        backwards.push(char::from_u32(u32::from(first) + letter).unwrap_or(first));
        rest /= u64::from(count);
    }
    out.extend(backwards.iter().rev());
}

const ROMAN: &[(u64, &str)] = &[
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
];

fn roman(whole: u64, upper: bool, out: &mut String) {
    let mut rest = whole;
    for (value, numeral) in ROMAN {
        while rest >= *value {
            rest -= value;
            if upper { out.push_str(&numeral.to_ascii_uppercase()) } else { out.push_str(numeral) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let cases: [(&[f64], &str, &str); 17] = [
            (&[5.0], "1", "5"),
            (&[5.0], "001", "005"),
            (&[28.0], "a", "ab"),
            (&[26.0], "A", "Z"),
            (&[1994.0], "I", "MCMXCIV"),
            (&[4.0], "i", "iv"),
            (&[1.0, 2.0, 3.0], "1.A.i", "1.B.iii"),
            (&[1.0, 2.0, 3.0], "(1-a)", "(1-b-c)"),
            (&[1.0, 2.0], "1", "1.2"),
            (&[1.0, 2.0], "1) ", "1.2) "),
            (&[7.0], "\u{661}", "\u{667}"),
            (&[0.0], "i", "0"),
            (&[2.5], "1", "3"),
            (&[f64::NAN], "1", "NaN"),
            (&[], "[1]", "[]"),
            (&[3.0], "", "3"),
            (&[3.0], "-", "-3"),
        ];
        for (numbers, format, expected) in cases {
            assert_eq!(super::format(numbers, format, None), expected, "{numbers:?} {format}");
        }
        let grouping = Grouping { separator: ",".to_owned(), size: 3 };
        assert_eq!(super::format(&[1_234_567.0], "1", Some(&grouping)), "1,234,567");
    }
}
