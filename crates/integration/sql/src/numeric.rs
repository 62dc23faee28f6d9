//! PostgreSQL's type `numeric`, decoded digit by digit.

use crate::binary::Reader;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITE: u16 = 0xD000;
const MINUS_INFINITE: u16 = 0xF000;

/// Appends a number as JSON with all its digits, or as a string if JSON has no such number. Returns `None` if it is malformed.
pub(crate) fn push(out: &mut String, raw: &[u8]) -> Option<()> {
    let mut reader = Reader(raw);
    let count = usize::from(reader.u16()?);
    let weight = i64::from(reader.i16()?);
    let sign = reader.u16()?;
    let scale = usize::from(reader.u16()?);
    match sign {
        NAN => out.push_str("\"NaN\""),
        INFINITE => out.push_str("\"Infinity\""),
        MINUS_INFINITE => out.push_str("\"-Infinity\""),
        sign => {
            let digits: Option<Vec<u16>> = (0..count).map(|_| reader.u16()).collect();
            let digits = digits?;
            if sign == NEGATIVE {
                out.push('-');
            }
            push_whole(out, &digits, weight);
            push_fraction(out, &digits, weight, scale);
        }
    }
    Some(())
}

/// Returns the group of four digits for this power of 10,000.
fn group(digits: &[u16], weight: i64, power: i64) -> u16 {
    match usize::try_from(weight - power) {
        Ok(at) => digits.get(at).copied().unwrap_or(0),
        // The power is higher than that of the first group.
        Err(_) => 0,
    }
}

fn push_whole(out: &mut String, digits: &[u16], weight: i64) {
    if weight < 0 {
        out.push('0');
        return;
    }
    for power in (0..=weight).rev() {
        let group = group(digits, weight, power);
        if power == weight {
            out.push_str(&group.to_string())
        } else {
            out.push_str(&format!("{group:04}"))
        }
    }
}

fn push_fraction(out: &mut String, digits: &[u16], weight: i64, scale: usize) {
    if scale == 0 {
        return;
    }
    out.push('.');
    let mut left = scale;
    let mut power = -1;
    while left > 0 {
        let text = format!("{:04}", group(digits, weight, power));
        let taken = left.min(4);
        out.push_str(text.get(..taken).unwrap_or("0"));
        left -= taken;
        power -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(groups: &[u16], weight: i16, sign: u16, scale: u16) -> String {
        let mut raw = Vec::new();
        raw.extend_from_slice(&u16::try_from(groups.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(&weight.to_be_bytes());
        raw.extend_from_slice(&sign.to_be_bytes());
        raw.extend_from_slice(&scale.to_be_bytes());
        groups.iter().for_each(|group| raw.extend_from_slice(&group.to_be_bytes()));
        let mut out = String::new();
        push(&mut out, &raw).unwrap();
        for end in 0..raw.len() {
            assert_eq!(push(&mut String::new(), &raw[..end]), None);
        }
        out
    }

    #[test]
    fn numbers_keep_their_digits() {
        for (groups, weight, sign, scale, said) in [
            (&[][..], 0, 0, 0, "0"),
            (&[], 0, 0, 2, "0.00"),
            (&[1], 0, 0, 0, "1"),
            (&[1], 1, NEGATIVE, 0, "-10000"),
            (&[12, 3400], 0, 0, 2, "12.34"),
            (&[1000], -1, 0, 1, "0.1"),
            (&[1], -2, 0, 8, "0.00000001"),
            (&[12, 3456, 7890, 1200], 2, 0, 3, "1234567890.120"),
        ] {
            assert_eq!(text(groups, weight, sign, scale), said);
        }
    }
}
