//! `format-number()` and `xsl:decimal-format` (XSLT 1.0, 12.3): the patterns of the JDK 1.1's DecimalFormat.

/// The characters of an `xsl:decimal-format`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecimalFormat {
    pub(crate) decimal_separator: char,
    pub(crate) grouping_separator: char,
    pub(crate) infinity: Box<str>,
    pub(crate) minus_sign: char,
    pub(crate) nan: Box<str>,
    pub(crate) percent: char,
    pub(crate) per_mille: char,
    pub(crate) zero_digit: char,
    pub(crate) digit: char,
    pub(crate) pattern_separator: char,
}

impl Default for DecimalFormat {
    fn default() -> DecimalFormat {
        DecimalFormat {
            decimal_separator: '.',
            grouping_separator: ',',
            infinity: "Infinity".into(),
            minus_sign: '-',
            nan: "NaN".into(),
            percent: '%',
            per_mille: '\u{2030}',
            zero_digit: '0',
            digit: '#',
            pattern_separator: ';',
        }
    }
}

/// How `format-number()` rounds halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest even digit, as in the JDK.
    ToEven,
    /// Up, with the arithmetic of libxslt.
    Up,
}

/// Rounds to a number of fraction digits with the same steps as libxslt.
fn halves_up(number: f64, digits: usize) -> f64 {
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    let rounded = (scale * number + 0.5).floor() / scale;
    if rounded.is_finite() { rounded } else { number }
}

/// Maximum number of digits. Digits beyond those of a double are zeros, and the limit keeps long patterns from taking memory.
const DIGITS_MAX: usize = 400;

/// The subpattern for positive or for negative numbers.
#[derive(Debug, Default)]
struct Subpattern {
    prefix: String,
    suffix: String,
    integer_least: usize,
    fraction_least: usize,
    fraction_most: usize,
    /// Whether there are optional digits before the separator.
    integer_optional: bool,
    /// Number of digits between grouping separators, or `None` without grouping.
    group: Option<usize>,
    scale: Scale,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Scale {
    #[default]
    One,
    Percent,
    PerMille,
}

/// Part of a subpattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Prefix,
    Integer,
    Fraction,
    Suffix,
}

impl DecimalFormat {
    /// Formats a number by a pattern. The error is a sentence about the pattern.
    pub(crate) fn format(
        &self,
        number: f64,
        pattern: &str,
        rounding: Rounding,
    ) -> Result<String, String> {
        let (positive, negative) = match pattern.split_once(self.pattern_separator) {
            Some((positive, negative)) => (positive, Some(negative)),
            None => (pattern, None),
        };
        let half = self.half(positive)?;
        let negative = negative.map(|text| self.half(text)).transpose()?;
        if number.is_nan() {
            return Ok(self.nan.to_string());
        }
        let signed = number < 0.0;
        let mut body = if number.is_infinite() {
            self.infinity.to_string()
        } else {
            self.digits(number.abs(), &half, rounding)
        };
        Ok(match (signed, negative) {
            (true, Some(other)) => format!("{}{body}{}", other.prefix, other.suffix),
            (true, None) => format!("{}{}{body}{}", self.minus_sign, half.prefix, half.suffix),
            (false, _) => {
                body.insert_str(0, &half.prefix);
                body.push_str(&half.suffix);
                body
            }
        })
    }

    fn half(&self, text: &str) -> Result<Subpattern, String> {
        let mut half = Subpattern::default();
        let mut part = Part::Prefix;
        let mut quoted = false;
        for c in text.chars() {
            if c == '\'' {
                quoted = !quoted;
                continue;
            }
            let active = !quoted
                && (c == self.digit
                    || c == self.zero_digit
                    || c == self.grouping_separator
                    || c == self.decimal_separator);
            if active && part == Part::Prefix {
                part = Part::Integer;
            }
            if !active && matches!(part, Part::Integer | Part::Fraction) {
                part = Part::Suffix;
            }
            match (active, part) {
                (true, Part::Suffix) => {
                    return Err(format!("`{text}` is not a pattern: `{c}` after the suffix"));
                }
                (true, _) => self.active(c, &mut part, &mut half, text)?,
                (false, Part::Prefix) => self.literal(c, quoted, &mut half.scale, &mut half.prefix),
                (false, _) => self.literal(c, quoted, &mut half.scale, &mut half.suffix),
            }
        }
        // If all digits are optional and some of them are fraction digits, the JDK requires the last one before the separator. An empty
        // pattern requires one digit.
        let has_least = half.integer_least > 0 || half.fraction_least > 0;
        let is_empty = part == Part::Prefix && half.scale == Scale::One && text.is_empty();
        if is_empty || half.integer_optional && half.fraction_most > 0 && !has_least {
            half.integer_least = 1;
        }
        Ok(half)
    }

    fn active(
        &self,
        c: char,
        part: &mut Part,
        half: &mut Subpattern,
        text: &str,
    ) -> Result<(), String> {
        let bad = |what: &str| Err(format!("`{text}` is not a pattern: {what}"));
        let fraction = *part == Part::Fraction;
        if c == self.decimal_separator {
            if fraction {
                return bad("two decimal separators");
            }
            *part = Part::Fraction;
        } else if c == self.grouping_separator {
            if fraction {
                return Ok(());
            }
            half.group = Some(0);
        } else if fraction {
            half.fraction_most = (half.fraction_most + 1).min(DIGITS_MAX);
            if c == self.zero_digit {
                half.fraction_least = half.fraction_most;
            }
        } else {
            if c == self.zero_digit {
                half.integer_least = (half.integer_least + 1).min(DIGITS_MAX);
            } else if half.integer_least > 0 {
                return bad("an optional digit after a required one");
            } else {
                half.integer_optional = true;
            }
            if let Some(group) = &mut half.group {
                *group += 1;
            }
        }
        Ok(())
    }

    fn literal(&self, c: char, quoted: bool, scale: &mut Scale, out: &mut String) {
        if !quoted && c == self.percent {
            *scale = Scale::Percent;
        }
        if !quoted && c == self.per_mille {
            *scale = Scale::PerMille;
        }
        out.push(c);
    }

    fn digits(&self, number: f64, half: &Subpattern, rounding: Rounding) -> String {
        let scaled = match half.scale {
            Scale::One => number,
            Scale::Percent => number * 100.0,
            Scale::PerMille => number * 1000.0,
        };
        let scaled = match rounding {
            Rounding::ToEven => scaled,
            Rounding::Up => halves_up(scaled, half.fraction_most),
        };
        let plain = if scaled.is_finite() {
            format!("{scaled:.*}", half.fraction_most)
        } else {
            format!("{number:.*}", half.fraction_most)
        };
        let (integer, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let fraction = fraction.trim_end_matches('0');
        let integer = integer.trim_start_matches('0');
        let integer = format!("{integer:0>width$}", width = half.integer_least);
        let mut out = String::new();
        for (at, c) in integer.char_indices() {
            let left = integer.len() - at;
            if at > 0 && half.group.is_some_and(|size| size > 0 && left % size == 0) {
                out.push(self.grouping_separator);
            }
            out.push(self.localised(c));
        }
        let fraction = format!("{fraction:0<width$}", width = half.fraction_least);
        if integer.is_empty() && fraction.is_empty() {
            out.push(self.zero_digit);
        }
        if !fraction.is_empty() {
            out.push(self.decimal_separator);
            out.extend(fraction.chars().map(|c| self.localised(c)));
        }
        out
    }

    fn localised(&self, c: char) -> char {
        let digit = c.to_digit(10).unwrap_or(0);
        char::from_u32(u32::from(self.zero_digit) + digit).unwrap_or(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let cases = [
            (1234.567, "#,##0.00", "1,234.57"),
            (0.5, "#.#", "0.5"),
            (0.5, "#,###.##", "0.5"),
            (0.5, ".##", ".5"),
            (0.5, "#.00", ".50"),
            (0.0, "#.##", "0"),
            (-0.001, "#.##", "-0"),
            (-0.001, "0.00;(0.00)", "(0.00)"),
            (-0.0, "0.0", "0.0"),
            (0.5, "0.#", "0.5"),
            (0.0, "#", "0"),
            (0.0, "#.00", ".00"),
            (-3.0, "0", "-3"),
            (-3.0, "0;(0)", "(3)"),
            (-0.001, "0.0", "-0.0"),
            (0.256, "0%", "26%"),
            (0.256, "0.0\u{2030}", "256.0\u{2030}"),
            (2.5, "0", "2"),
            (3.5, "0", "4"),
            (f64::NAN, "0", "NaN"),
            (f64::INFINITY, "0", "Infinity"),
            (f64::NEG_INFINITY, "(0)", "-(Infinity)"),
            (1e15, "#,####", "1000,0000,0000,0000"),
            (5.0, "000", "005"),
            (12.0, "'#'0", "#12"),
        ];
        for (number, pattern, expected) in cases {
            let found = DecimalFormat::default().format(number, pattern, Rounding::ToEven);
            assert_eq!(found.as_deref(), Ok(expected), "{number} {pattern}");
        }
        for bad in ["0.0.0", "0x0", "0#"] {
            assert!(DecimalFormat::default().format(1.0, bad, Rounding::ToEven).is_err(), "{bad}");
        }
    }

    #[test]
    fn other_characters() {
        let format = DecimalFormat {
            decimal_separator: ',',
            grouping_separator: '.',
            zero_digit: '\u{660}',
            ..DecimalFormat::default()
        };
        let found = format.format(1234.5, "#.##\u{660},\u{660}", Rounding::ToEven);
        assert_eq!(found.as_deref(), Ok("\u{661}.\u{662}\u{663}\u{664},\u{665}"));
    }
}
