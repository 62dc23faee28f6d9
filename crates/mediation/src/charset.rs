//! The encoding of XML where the content type says it: RFC 7303, section 3, has it stand above the declaration, and below a byte
//! order mark.
//!
//! Owns the rare message in another encoding than it declares or seems. All others are read as they stand.

/// The declaration has to end within so many bytes, as where the parser looks for it.
const DECLARATION_BYTES_MAX: usize = 1024;

/// True if a message with this beginning may be in another encoding than it seems.
pub fn may_differ(content_type: Option<&[u8]>, so_far: &[u8]) -> bool {
    match content_type.and_then(charset) {
        Some(told) if is_utf8(told) => declares_another(so_far),
        Some(told) => is_latin1(told),
        None => false,
    }
}

fn is_utf8(told: &[u8]) -> bool {
    told.eq_ignore_ascii_case(b"utf-8") || told.eq_ignore_ascii_case(b"utf8")
}

/// The characters of windows-1252 from 0x80 to 0x9F (WHATWG Encoding, 8.1); all others are those of ISO 8859-1.
const WINDOWS: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2C6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}',
];

/// A text in windows-1252; nothing for another charset.
pub fn windows(told: &[u8], text: &[u8]) -> Option<String> {
    let is_it = [&b"windows-1252"[..], b"cp1252", b"x-cp1252"]
        .iter()
        .any(|name| told.eq_ignore_ascii_case(name));
    let character = |byte: &u8| match byte {
        0x80..=0x9F => WINDOWS.get(usize::from(*byte - 0x80)).copied().unwrap_or('\u{FFFD}'),
        byte => char::from(*byte),
    };
    is_it.then(|| text.iter().map(character).collect())
}

/// XML in windows-1252, which its content type says, or else its declaration, in UTF-8 without the declaration.
pub fn single_byte(content_type: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let text = match charset(content_type) {
        Some(told) => windows(told, message)?,
        None if !declares_another(message) => return None,
        None => {
            let name = declared(message)?.split(|byte| matches!(byte, b'"' | b'\'')).next()?;
            windows(name, message)?
        }
    };
    Some(undeclared(&text))
}

pub fn is_latin1(told: &[u8]) -> bool {
    [&b"iso-8859-1"[..], b"iso_8859-1", b"latin1"]
        .iter()
        .any(|name| told.eq_ignore_ascii_case(name))
}

/// A text whose content type says UTF-16, without its byte order mark; nothing for another charset, and for what is no UTF-16.
/// Without a mark the high byte comes first (RFC 2781, 4.3).
pub fn utf16(told: &[u8], text: &[u8]) -> Option<String> {
    const MARK: char = '\u{FEFF}';
    let is = |name: &str| told.eq_ignore_ascii_case(name.as_bytes());
    let low_first = is("utf-16le") || is("utf-16") && text.starts_with(&[0xFF, 0xFE]);
    if !low_first && !is("utf-16be") && !is("utf-16") {
        return None;
    }
    let (pairs, rest) = text.as_chunks::<2>();
    let units = pairs.iter().map(|pair| match low_first {
        true => u16::from_le_bytes(*pair),
        false => u16::from_be_bytes(*pair),
    });
    let decoded = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
    if !rest.is_empty() {
        return None;
    }
    Some(match decoded.strip_prefix(MARK) {
        Some(behind) => behind.to_owned(),
        None => decoded,
    })
}

/// The message in UTF-8 without its declaration, which would be wrong about it; nothing where it can be read as it stands.
pub fn settled(content_type: Option<&[u8]>, message: &[u8]) -> Option<Vec<u8>> {
    let told = charset(content_type?)?;
    if is_utf8(told) {
        return match declares_another(message) {
            // Harmless: the parser refuses what is not UTF-8.
            true => std::str::from_utf8(message).ok().map(undeclared),
            false => None,
        };
    }
    // Some software labels everything so. Valid UTF-8 counts as UTF-8: a text in Latin-1 hardly ever looks like it.
    let latin = is_latin1(told) && !has_mark(message) && std::str::from_utf8(message).is_err();
    let text = || message.iter().map(|byte| char::from(*byte)).collect::<String>();
    latin.then(|| undeclared(&text()))
}

/// True behind a byte order mark of UTF-8 or UTF-16, and for UTF-16 by its shape.
fn has_mark(message: &[u8]) -> bool {
    matches!(message, [0xEF, 0xBB, 0xBF, ..] | [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..])
        || matches!(message, [b'<', 0, ..] | [0, b'<', ..])
}

fn declaration(message: &[u8]) -> Option<&[u8]> {
    let head = message.get(..DECLARATION_BYTES_MAX).unwrap_or(message);
    let end = memchr::memmem::find(head.strip_prefix(b"<?xml")?, b"?>")?;
    head.get(..end + b"<?xml?>".len())
}

/// True if the declaration names another encoding than UTF-8.
fn declares_another(message: &[u8]) -> bool {
    // Nearly all declarations.
    if let Some(rest) = message.strip_prefix(b"<?xml version=\"1.0\" encoding=\"")
        && is_utf8(rest.get(..5).unwrap_or(rest))
    {
        return false;
    }
    let Some(name) = declared(message) else { return false };
    let utf8 = |text: &str| {
        name.get(..text.len()).is_some_and(|name| name.eq_ignore_ascii_case(text.as_bytes()))
    };
    !utf8("utf-8") && !utf8("utf8")
}

/// The declaration from the encoding's name on, behind its quote.
fn declared(message: &[u8]) -> Option<&[u8]> {
    let declaration = declaration(message)?;
    let at = memchr::memmem::find(declaration, b"encoding")?;
    let rest = declaration.get(at + b"encoding".len()..).unwrap_or_default();
    let value = rest.trim_ascii_start().strip_prefix(b"=").unwrap_or(b"").trim_ascii_start();
    Some(value.get(1..).unwrap_or_default())
}

/// The charset of a content type, if it is not what a message was read in ([`settled`], and the parser of the rest): one that
/// nobody here reads, or another one that makes another text of it. The message was found to be XML. Each line of the content
/// type is looked at.
pub fn contradicted<'h>(
    content_types: impl Iterator<Item = &'h [u8]>,
    message: &[u8],
) -> Option<String> {
    for content_type in content_types {
        // Harmless: the others have other names.
        let told = parameters(content_type).filter_map(|written| value_of(written, "charset"));
        for told in told.map(plain) {
            if !is_read_as(told, message) {
                // Harmless: this tells of the refusal.
                return Some(String::from_utf8_lossy(told).into_owned());
            }
        }
    }
    None
}

fn is_read_as(told: &[u8], message: &[u8]) -> bool {
    let is_one_of =
        |names: &[&str]| names.iter().any(|name| told.eq_ignore_ascii_case(name.as_bytes()));
    match message {
        // Without a mark one reader begins with the high byte and another with the low one.
        [0xFE, 0xFF, ..] => return is_one_of(&["utf-16", "utf-16be"]),
        [0xFF, 0xFE, ..] => return is_one_of(&["utf-16", "utf-16le"]),
        [0, b'<', ..] => return is_one_of(&["utf-16be"]),
        [b'<', 0, ..] => return is_one_of(&["utf-16le"]),
        // Harmless: the charset is looked at below.
        _ => {}
    }
    if is_utf8(told) {
        return !declares_another(message) || std::str::from_utf8(message).is_ok();
    }
    if is_latin1(told) {
        let name = declared(message)
            .and_then(|rest| rest.split(|byte| matches!(byte, b'"' | b'\'')).next());
        return message.is_ascii()
            || name.is_some_and(is_latin1)
            || std::str::from_utf8(message).is_err();
    }
    is_one_of(&["us-ascii", "ascii"]) && message.is_ascii()
}

/// Blanks in the place of the declaration, so that everything else stays where it is.
fn undeclared(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let len = declaration(&bytes).map_or(0, <[u8]>::len);
    // Harmless: only the declaration goes.
    for byte in bytes.iter_mut().take(len).filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
    bytes
}

/// The content type with another charset, where it says one and that is no longer true.
pub fn recoded(written: &[u8], name: &str) -> Option<String> {
    // Nearly all content types, and rightly.
    let end = written.len().saturating_sub(name.len());
    let (front, value) = written.split_at_checked(end)?;
    if value.eq_ignore_ascii_case(name.as_bytes())
        && matches!(front, b"text/xml;charset=" | b"text/xml; charset=")
    {
        return None;
    }
    let media = message::media_type(written);
    let is_charset = |parameter: &&[u8]| value_of(parameter, "charset").is_some();
    let told = charset(written)?;
    if told.eq_ignore_ascii_case(name.as_bytes()) {
        return None;
    }
    let mut label = [media, b"; charset=", name.as_bytes()].concat();
    for other in parameters(written).filter(|parameter| !is_charset(parameter)) {
        label.extend_from_slice(b"; ");
        label.extend_from_slice(other);
    }
    // Harmless: a content type with other bytes stays as it is.
    String::from_utf8(label).ok()
}

/// The parameter `charset`, without quotes.
pub fn charset(content_type: &[u8]) -> Option<&[u8]> {
    // Nearly all content types.
    if let Some(rest) = content_type.strip_prefix(b"text/xml;")
        && let Some(value) = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"charset=")
        && value.eq_ignore_ascii_case(b"utf-8")
    {
        return Some(value);
    }
    let value = parameters(content_type).find_map(|parameter| value_of(parameter, "charset"))?;
    Some(plain(value))
}

/// Without the quotes around it.
fn plain(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// The value of a parameter, if it is the one of this name.
pub fn value_of<'p>(parameter: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let at = parameter.iter().position(|byte| *byte == b'=')?;
    let (written, value) = (parameter.get(..at)?, parameter.get(at + 1..)?);
    written.trim_ascii().eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
}

/// The parameters of a content type as they are written: the parts between semicolons outside quotes.
pub fn parameters(content_type: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let pieces = content_type.split(move |byte| {
        let plain = !std::mem::take(&mut escaped);
        match byte {
            b'"' if plain => quoted = !quoted,
            b'\\' if plain => escaped = quoted,
            // Harmless: the others quote nothing.
            _ => {}
        }
        *byte == b';' && !quoted
    });
    pieces.skip(1).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, message: &[u8]) -> Option<String> {
        settled(Some(content_type.as_bytes()), message)
            .map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_text_in_utf_16_is_read_by_its_mark_or_its_name() {
        for (told, text, expected) in [
            ("utf-16", &b"\xFE\xFF\0a\x20\xAC"[..], Some("a€")),
            ("UTF-16", b"\xFF\xFEa\0\xAC\x20", Some("a€")),
            ("utf-16", b"\0a\0b", Some("ab")),
            ("utf-16le", b"a\0b\0", Some("ab")),
            ("utf-16be", b"\xFE\xFF\xD8\x3D\xDE\x00", Some("😀")),
            ("utf-16", b"", Some("")),
            ("utf-16", b"\0a\0", None),
            ("utf-16", b"\xD8\x3D\0a", None),
            ("utf-8", b"\0a", None),
        ] {
            assert_eq!(utf16(told.as_bytes(), text).as_deref(), expected, "{told} {text:?}");
        }
    }

    #[test]
    fn the_content_type_stands_above_the_declaration_and_below_a_mark() {
        let latin: &[u8] = b"<a>\xE9</a>";
        for (content_type, message, text) in [
            ("text/xml; charset=iso-8859-1", latin, Some("<a>é</a>")),
            ("text/xml; charset=\"ISO-8859-1\"; a=b", latin, Some("<a>é</a>")),
            ("text/xml; a=\"; charset=utf-8\"; charset=latin1", latin, Some("<a>é</a>")),
            ("text/xml; charset=iso-8859-1", b"<a>e</a>", None),
            ("text/xml; charset=iso-8859-1", "<a>é</a>".as_bytes(), None),
            ("text/xml; charset=iso-8859-1", b"\xEF\xBB\xBF<a>\xC3\xA9</a>", None),
            ("text/xml; charset=iso-8859-1", b"<\0a\0/\0>\0", None),
            (
                "text/xml; charset=iso-8859-1",
                b"<?xml version='1.0'?>\n<a>\xE9</a>",
                Some("                     \n<a>é</a>"),
            ),
            ("text/xml", latin, None),
            ("text/xml; charset=utf-8", latin, None),
            ("text/xml; charset=windows-1252", latin, None),
            ("text/xml; charset=utf-8", "<?xml version='1.0'?><a>é</a>".as_bytes(), None),
            (
                "text/xml; charset=utf-8",
                "<?xml version='1.0' encoding = 'Utf-8'?><a>é</a>".as_bytes(),
                None,
            ),
            (
                "application/soap+xml; charset=UTF-8",
                "<?xml encoding='latin1'?><a>é</a>".as_bytes(),
                Some("                         <a>é</a>"),
            ),
        ] {
            assert_eq!(read(content_type, message).as_deref(), text, "{content_type}");
        }
    }
}
