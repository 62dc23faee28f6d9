//! Writes JSON strings.

/// Appends a string in quotes, escaped (RFC 8259, 7).
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// Like [`push_string`], without the quotes.
pub fn push_escaped(out: &mut String, text: &str) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(text.get(from..at).unwrap_or_default());
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => {
                out.push_str("\\u00");
                for digit in [other >> 4, other & 15] {
                    out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
                }
            }
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    #[test]
    fn strings_are_read_back_as_written() {
        let all: String =
            (0..0x300).filter_map(char::from_u32).chain("\u{2028}😀".chars()).collect();
        let mut out = String::new();
        super::push_string(&mut out, &all);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), all);
    }
}
