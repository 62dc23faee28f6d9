//! Names of members as names of elements, and back. Two members never get the same element name: a character that an XML name cannot have
//! becomes `_xHHHH_`, as in SQL/XML (ISO/IEC 9075-14, 9.1) and .NET.

use std::borrow::Cow;

/// The element name for a member with an empty name.
const EMPTY: &str = "_x_";

/// Encodes a member's name as the name of an element or an attribute.
pub(crate) fn encoded(name: &str) -> Cow<'_, str> {
    let is_plain = |(at, c): (usize, char)| is_allowed(c, at == 0) && !is_escape(name.get(at..));
    if !name.is_empty() && name.char_indices().all(is_plain) {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Borrowed(EMPTY);
    }
    let mut out = String::with_capacity(name.len() + 8);
    for (at, c) in name.char_indices() {
        if is_plain((at, c)) {
            out.push(c);
        } else {
            out.push_str(&format!("_x{:04X}_", u32::from(c)));
        }
    }
    Cow::Owned(out)
}

/// Decodes the name of an element to that of a member. Names that [`encoded`] cannot have made, and those that would have another meaning
/// in JSON, are left unchanged.
pub(crate) fn decoded(name: &str) -> Cow<'_, str> {
    if !name.contains("_x") {
        return Cow::Borrowed(name);
    }
    if name == EMPTY {
        return Cow::Borrowed("");
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (c, width) = escaped(rest).unwrap_or((c, c.len_utf8()));
        out.push(c);
        rest = rest.get(width..).unwrap_or_default();
    }
    let is_special = out.starts_with('@') || out == "#text";
    if is_special || encoded(&out) != name {
        return Cow::Borrowed(name);
    }
    Cow::Owned(out)
}

fn is_allowed(c: char, is_first: bool) -> bool {
    xml::is_name_start(c) || (!is_first && xml::is_name_char(c))
}

/// True if a text begins with what would be read as an escape.
fn is_escape(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.starts_with(EMPTY) || escaped(text).is_some())
}

/// The character of an escape at the beginning of a text, and the escape's length.
fn escaped(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("_x")?;
    let (digits, _) = digits.split_once('_')?;
    let is_number = (4..=6).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    if !is_number {
        return None;
    }
    // Harmless: other texts are not escapes.
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((c, "_x_".len() + digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_members_become_one_element() {
        for (member, element) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a b", "a_x0020_b"),
            ("a:b", "a_x003A_b"),
            ("a/b", "a_x002F_b"),
            ("1", "_x0031_"),
            ("12", "_x0031_2"),
            ("-a", "_x002D_a"),
            ("a-1.b", "a-1.b"),
            ("größe", "größe"),
            ("\u{b2}", "_x00B2_"),
            ("a\u{10fffd}", "a_x10FFFD_"),
            ("", "_x_"),
            ("_x_", "_x005F_x_"),
            ("a_x0020_b", "a_x005F_x0020_b"),
            ("a_x00g0_b", "a_x00g0_b"),
            ("_xab_", "_xab_"),
            ("a\nb", "a_x000A_b"),
        ] {
            assert_eq!(encoded(member), element);
            assert_eq!(decoded(element), member);
        }
    }

    #[test]
    fn elements_that_were_never_members_keep_their_names() {
        for name in ["_x0061_", "_x0040_a", "_x0023_text", "_xD800_", "a_x0020", "_x00_", "a_x_b"] {
            assert_eq!(decoded(name), name);
        }
    }
}
