//! Lexical forms of the string types and of binaries: names, tokens, languages, URIs, base64 and hexadecimal.

/// Characters with which a name of XML 1.0 (fifth edition) may begin.
pub(crate) const NAME_START: [(u32, u32); 16] = [
    (0x3A, 0x3A),
    (0x41, 0x5A),
    (0x5F, 0x5F),
    (0x61, 0x7A),
    (0xC0, 0xD6),
    (0xD8, 0xF6),
    (0xF8, 0x2FF),
    (0x370, 0x37D),
    (0x37F, 0x1FFF),
    (0x200C, 0x200D),
    (0x2070, 0x218F),
    (0x2C00, 0x2FEF),
    (0x3001, 0xD7FF),
    (0xF900, 0xFDCF),
    (0xFDF0, 0xFFFD),
    (0x10000, 0xEFFFF),
];

/// Further characters that a name may contain.
pub(crate) const NAME_REST: [(u32, u32); 5] =
    [(0x2D, 0x2E), (0x30, 0x39), (0xB7, 0xB7), (0x300, 0x36F), (0x203F, 0x2040)];

pub(crate) fn is_name_start(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '_' | ':' => true,
        '\0'..='\x7F' => false,
        _ => within(&NAME_START, c),
    }
}

pub(crate) fn is_name_char(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ':' | '-' | '.' => true,
        '\0'..='\x7F' => false,
        _ => within(&NAME_START, c) || within(&NAME_REST, c),
    }
}

fn within(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    ranges.iter().any(|&(first, last)| first <= code && code <= last)
}

pub(crate) fn is_nmtoken(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_name_char)
}

pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_name_start) && chars.all(is_name_char)
}

pub(crate) fn is_ncname(text: &str) -> bool {
    is_name(text) && !text.contains(':')
}

/// `[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*`
pub(crate) fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let sized = |part: &str| (1..=8).contains(&part.len());
    parts.next().is_some_and(|first| sized(first) && first.bytes().all(|b| b.is_ascii_alphabetic()))
        && parts.all(|part| sized(part) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Splits a QName into prefix and local name; the prefix is empty if there is none.
pub(crate) fn split_qname(text: &str) -> Option<(&str, &str)> {
    match text.split_once(':') {
        None => is_ncname(text).then_some(("", text)),
        Some((prefix, local)) => (is_ncname(prefix) && is_ncname(local)).then_some((prefix, local)),
    }
}

/// Checks a URI reference as if its forbidden characters were escaped (XLink 5.4, RFC 2396 with 2732). What can still be wrong is invalid
/// escapes, a second fragment, and an invalid scheme. Brackets are not checked.
pub(crate) fn is_any_uri(text: &str) -> bool {
    let escapes = text.as_bytes().windows(3).all(|window| match window {
        [b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        _ => true,
    });
    let cut = matches!(text.as_bytes(), [.., b'%'] | [.., b'%', _]);
    let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
    if !escapes || cut || fragment.contains('#') {
        return false;
    }
    let path_start = address.find(['/', '?']).unwrap_or(address.len());
    match address.get(..path_start).and_then(|first| first.split_once(':')) {
        None => true,
        Some((scheme, rest)) => {
            let mut bytes = scheme.bytes();
            bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
                && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
                && (!rest.is_empty() || path_start < address.len())
        }
    }
}

/// Returns the number of bytes that a base64 text encodes, or `None` if it is invalid. White space is allowed anywhere.
pub(crate) fn base64_len(text: &str) -> Option<u64> {
    let mut sextets = 0u64;
    let mut padding = 0u64;
    let mut last = 0;
    for b in text.bytes().filter(|b| !is_space(*b)) {
        if b == b'=' {
            padding += 1;
            continue;
        }
        if padding > 0 {
            return None;
        }
        last = sextet(b)?;
        sextets += 1;
    }
    // The unused bits of the last digit have to be zero.
    let sound = match (sextets % 4, padding) {
        (0, 0) => true,
        (3, 1) => last & 0b11 == 0,
        (2, 2) => last & 0b1111 == 0,
        _ => false,
    };
    sound.then_some(sextets * 6 / 8)
}

/// Decodes a text that [`base64_len`] accepts.
pub(crate) fn base64_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut held = 0u32;
    let mut bits = 0;
    // Harmless: blanks and padding encode no bits.
    for digit in text.bytes().filter_map(sextet) {
        held = held << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xFF).unwrap_or(0));
        }
    }
    bytes
}

fn sextet(b: u8) -> Option<u8> {
    Some(match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

pub(crate) fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `-?INF`, `NaN`, or a decimal with an optional exponent.
pub(crate) fn is_float(text: &str) -> bool {
    if matches!(text, "INF" | "-INF" | "NaN") {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    super::decimal::DecimalRef::parse(mantissa).is_some()
        && exponent.is_none_or(|e| super::decimal::DecimalRef::parse_integer(e).is_some())
}

/// Returns whether a byte is white space of XML.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}
