//! Escaping. The rules of Canonical XML are used for all forms, because they are valid for the others too.

/// Appends text with `&`, `<`, `>` and carriage returns escaped.
pub fn escape_text(text: &str, out: &mut String) {
    escape(text, out, |byte| match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'\r' => Some("&#xD;"),
        _ => None,
    });
}

/// Appends an attribute's value for double quotes: `&`, `<`, `"` and white space other than blanks are escaped.
pub fn escape_attribute(value: &str, out: &mut String) {
    escape(value, out, |byte| match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'"' => Some("&quot;"),
        b'\t' => Some("&#x9;"),
        b'\n' => Some("&#xA;"),
        b'\r' => Some("&#xD;"),
        _ => None,
    });
}

#[inline]
fn escape(text: &str, out: &mut String, replace: impl Fn(u8) -> Option<&'static str>) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(reference) = replace(byte) {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push_str(reference);
            from = at + 1;
        }
    }
    out.push_str(text.get(from..).unwrap_or_default());
}
