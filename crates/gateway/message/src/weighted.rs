//! Items with weights, as in `Accept` and `Accept-Encoding` (RFC 9110, 12.4.2).

/// Parses an item of a header such as `Accept`: a name, and its weight in thousandths. Returns `None` for an invalid item.
pub fn weighted(item: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = item.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts.find_map(|part| {
        let value = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="))?;
        Some(thousandths(value))
    });
    Some((name, weight.unwrap_or(Some(1000))?))
}

fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, rest) = text.split_first()?;
    let digits = match rest.split_first() {
        None => &[],
        Some((b'.', digits)) if digits.len() <= 3 => digits,
        Some(_) => return None,
    };
    let place = |at: usize| match digits.get(at) {
        None => Some(0),
        Some(digit) => digit.is_ascii_digit().then(|| u16::from(digit - b'0')),
    };
    let part = place(0)? * 100 + place(1)? * 10 + place(2)?;
    match whole {
        b'0' => Some(part),
        b'1' if part == 0 => Some(1000),
        _ => None,
    }
}
