//! The character encoding of XML messages. By RFC 7303, section 3, a byte order mark overrides the content type, and the content type
//! overrides the XML declaration.
//!
//! This module handles messages whose encoding differs from the one they declare or appear to have. Such a message is converted to UTF-8,
//! or refused with the name of the unsupported encoding. All other messages are left unchanged.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::Rejection;

/// The declaration must end within this many bytes. The parser has the same limit.
const DECLARATION_BYTES_MAX: usize = 1024;

/// Returns true if a message that begins with `so_far` may be in another encoding than its bytes suggest.
pub fn may_differ(content_type: Option<&[u8]>, so_far: &[u8]) -> bool {
    match content_type.and_then(charset) {
        Some(told) => !is_utf8(told) || declares_another(so_far),
        None => declares_another(so_far),
    }
}

fn is_utf8(told: &[u8]) -> bool {
    told.eq_ignore_ascii_case(b"utf-8") || told.eq_ignore_ascii_case(b"utf8")
}

fn is_ascii(told: &[u8]) -> bool {
    told.eq_ignore_ascii_case(b"us-ascii") || told.eq_ignore_ascii_case(b"ascii")
}

/// Decodes a text by `encoding_rs`. UTF-8, UTF-16, ASCII and ISO 8859-1 have their own rules elsewhere in this module.
fn decoded(told: &[u8], text: &[u8]) -> Result<String, String> {
    let Some(encoding) = Encoding::for_label_no_replacement(told) else {
        return Err(format!("The charset '{}' is not supported", told.escape_ascii()));
    };
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(text);
    let decoded = decoded.map(std::borrow::Cow::into_owned);
    decoded.ok_or_else(|| format!("The message is not in the charset '{}'", told.escape_ascii()))
}

/// Decodes a text in the charset that its content type declares. Returns `None` if the bytes are not valid in that charset, or if the
/// charset is unknown.
pub fn text<'t>(told: Option<&[u8]>, text: &'t [u8]) -> Option<std::borrow::Cow<'t, str>> {
    use std::borrow::Cow;
    // Harmless: the caller reports that the bytes are not text.
    let as_utf8 = std::str::from_utf8(text).ok();
    let Some(told) = told else { return as_utf8.map(Cow::Borrowed) };
    if is_utf8(told) || is_ascii(told) {
        return as_utf8.map(Cow::Borrowed);
    }
    // Some software labels every message ISO 8859-1; see `to_utf8`.
    if is_latin1(told) {
        let latin = || text.iter().map(|byte| char::from(*byte)).collect();
        return Some(as_utf8.map_or_else(|| Cow::Owned(latin()), Cow::Borrowed));
    }
    if is_utf16(told) {
        utf16(told, text).map(Cow::Owned)
    } else {
        // Harmless: the caller reports that the bytes are not text.
        decoded(told, text).map(Cow::Owned).ok()
    }
}

/// Returns the reason why a text cannot be decoded in the charset of its content type. Returns `None` for bytes that are not text at all:
/// invalid UTF-8 where the charset is UTF-8, and images, audio and the like, whose content types have no use for a charset.
pub fn misread(content_type: &[u8], text: &[u8]) -> Option<String> {
    let told = charset(content_type)?;
    let media = message::media_type(content_type);
    let kind = media.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_no_text = [&b"image"[..], b"audio", b"video", b"font"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known));
    if is_no_text || told.eq_ignore_ascii_case(b"binary") || is_utf8(told) || is_ascii(told) {
        return None;
    }
    if is_utf16(told) {
        Some(format!("The message is not in the charset '{}'", told.escape_ascii()))
    } else {
        decoded(told, text).err()
    }
}

fn is_utf16(told: &[u8]) -> bool {
    ["utf-16", "utf-16le", "utf-16be"].iter().any(|name| told.eq_ignore_ascii_case(name.as_bytes()))
}

fn is_latin1(told: &[u8]) -> bool {
    [&b"iso-8859-1"[..], b"iso_8859-1", b"latin1"]
        .iter()
        .any(|name| told.eq_ignore_ascii_case(name))
}

/// Decodes a text whose content type declares UTF-16, and removes its byte order mark. Returns `None` for any other charset, and for
/// bytes that are not valid UTF-16. Without a mark, the text is big-endian (RFC 2781, 4.3).
fn utf16(told: &[u8], text: &[u8]) -> Option<String> {
    const MARK: char = '\u{FEFF}';
    let is = |name: &str| told.eq_ignore_ascii_case(name.as_bytes());
    let low_first = is("utf-16le") || is("utf-16") && text.starts_with(&[0xFF, 0xFE]);
    if !low_first && !is("utf-16be") && !is("utf-16") {
        return None;
    }
    let (pairs, rest) = text.as_chunks::<2>();
    let units = pairs
        .iter()
        .map(|pair| if low_first { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) });
    let decoded = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
    if !rest.is_empty() {
        return None;
    }
    Some(match decoded.strip_prefix(MARK) {
        Some(behind) => behind.to_owned(),
        None => decoded,
    })
}

/// Returns the message in UTF-8, with its XML declaration blanked because it would name the old encoding. Returns `None` if the message
/// can be parsed unchanged. Fails if the charset is unknown, or if the bytes are not valid in it.
pub fn to_utf8(content_type: Option<&[u8]>, message: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let Some(told) = content_type.and_then(charset) else { return by_declaration(message) };
    if is_utf8(told) {
        return Ok(if declares_another(message) {
            // Harmless: the parser refuses what is not UTF-8.
            std::str::from_utf8(message).ok().map(undeclared)
        } else {
            None
        });
    }
    // A byte order mark overrides the content type. A message labelled ASCII that contains UTF-8 is meant as UTF-8.
    if has_mark(message) || is_ascii(told) {
        return Ok(None);
    }
    // Some software labels every message ISO 8859-1, so valid UTF-8 is read as UTF-8. Text in Latin-1 is almost never valid UTF-8.
    if is_latin1(told) {
        let latin = std::str::from_utf8(message).is_err();
        let text = || message.iter().map(|byte| char::from(*byte)).collect::<String>();
        return Ok(latin.then(|| undeclared(&text())));
    }
    if is_utf16(told) {
        Err(format!("The message is not in the charset '{}'", told.escape_ascii()))
    } else {
        decoded(told, message).map(|text| Some(undeclared(&text)))
    }
}

/// Like [`to_utf8`], but returns a refusal if the message cannot be decoded.
pub(crate) fn to_utf8_or_refuse(
    content_type: Option<&[u8]>,
    message: &[u8],
) -> Result<Option<Vec<u8>>, Rejection> {
    to_utf8(content_type, message)
        .map_err(|why| Rejection::client(format!("Invalid XML input. {why}")))
}

/// Like [`to_utf8`], but only by the XML declaration, for encodings that the parser does not decode itself.
fn by_declaration(message: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if !declares_another(message) {
        return Ok(None);
    }
    let name = declared(message).and_then(|rest| rest.split(|b| matches!(b, b'"' | b'\'')).next());
    let Some(name) = name else { return Ok(None) };
    let is_windows = [&b"windows-1252"[..], b"cp1252", b"x-cp1252"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known));
    match Encoding::for_label_no_replacement(name) {
        // The other labels of windows-1252 are names of ISO 8859-1 and ASCII, which are left to the parser.
        Some(encoding) if encoding == WINDOWS_1252 && !is_windows => Ok(None),
        Some(encoding) if [UTF_8, UTF_16BE, UTF_16LE].contains(&encoding) => Ok(None),
        Some(_) => decoded(name, message).map(|text| Some(undeclared(&text))),
        // The parser refuses an unknown encoding and reports its position.
        None => Ok(None),
    }
}

/// Returns true if the message begins with a byte order mark of UTF-8 or UTF-16, or is visibly UTF-16 without a mark.
fn has_mark(message: &[u8]) -> bool {
    matches!(message, [0xEF, 0xBB, 0xBF, ..] | [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..])
        || matches!(message, [b'<', 0, ..] | [0, b'<', ..])
}

fn declaration(message: &[u8]) -> Option<&[u8]> {
    let head = message.get(..DECLARATION_BYTES_MAX).unwrap_or(message);
    let end = memchr::memmem::find(head.strip_prefix(b"<?xml")?, b"?>")?;
    head.get(..end + b"<?xml?>".len())
}

/// Returns true if the declaration names an encoding other than UTF-8.
fn declares_another(message: &[u8]) -> bool {
    // The most common declaration, checked first for speed.
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

/// Returns the declaration from the encoding's name on, after the opening quote.
fn declared(message: &[u8]) -> Option<&[u8]> {
    let declaration = declaration(message)?;
    let at = memchr::memmem::find(declaration, b"encoding")?;
    let rest = declaration.get(at + b"encoding".len()..).unwrap_or_default();
    let value = rest.trim_ascii_start().strip_prefix(b"=").unwrap_or(b"").trim_ascii_start();
    Some(value.get(1..).unwrap_or_default())
}

/// Returns the charset of a content type if it contradicts how the message was read by [`to_utf8`] and the parser: a charset that this
/// module does not know, or one in which the bytes would be a different text. The message must have been parsed as XML already. All
/// `Content-Type` lines are checked.
pub fn contradicted<'h>(
    content_types: impl Iterator<Item = &'h [u8]>,
    message: &[u8],
) -> Option<String> {
    for content_type in content_types {
        // Harmless: parameters with other names are irrelevant.
        let told = parameters(content_type).filter_map(|written| value_of(written, "charset"));
        for told in told.map(plain) {
            if !is_read_as(told, message) {
                // Harmless: the name is only quoted in a refusal.
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
        // Without a byte order mark, some readers assume big-endian and others little-endian, so the label has to say which.
        [0xFE, 0xFF, ..] => return is_one_of(&["utf-16", "utf-16be"]),
        [0xFF, 0xFE, ..] => return is_one_of(&["utf-16", "utf-16le"]),
        [0, b'<', ..] => return is_one_of(&["utf-16be"]),
        [b'<', 0, ..] => return is_one_of(&["utf-16le"]),
        // Harmless: the charset is checked below.
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
    if is_ascii(told) {
        return message.is_ascii();
    }
    // `to_utf8` has already refused messages that are not valid in this charset.
    !is_utf16(told) && Encoding::for_label_no_replacement(told).is_some()
}

/// Overwrites the declaration with blanks, so that all other positions stay the same.
fn undeclared(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let len = declaration(&bytes).map_or(0, <[u8]>::len);
    // Harmless: only the declaration is overwritten.
    for byte in bytes.iter_mut().take(len).filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
    bytes
}

/// Returns the content type with its charset replaced, if it names a charset that is no longer correct.
pub fn recoded(written: &[u8], name: &str) -> Option<String> {
    // Fast path: most content types name the right charset already.
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
    // Harmless: a content type that is not UTF-8 stays unchanged.
    String::from_utf8(label).ok()
}

/// Returns the parameter `charset`, without quotes.
pub fn charset(content_type: &[u8]) -> Option<&[u8]> {
    // Fast path for the most common content types.
    if let Some(rest) = content_type.strip_prefix(b"text/xml;")
        && let Some(value) = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"charset=")
        && value.eq_ignore_ascii_case(b"utf-8")
    {
        return Some(value);
    }
    let value = parameters(content_type).find_map(|parameter| value_of(parameter, "charset"))?;
    Some(plain(value))
}

/// Removes the surrounding quotes, if there are any.
fn plain(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// Returns the value of a parameter if the parameter has this name.
pub fn value_of<'p>(parameter: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let at = parameter.iter().position(|byte| *byte == b'=')?;
    let (written, value) = (parameter.get(..at)?, parameter.get(at + 1..)?);
    written.trim_ascii().eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
}

/// Returns the parameters of a content type as written: the parts between semicolons that are outside quotes.
pub fn parameters(content_type: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let pieces = content_type.split(move |byte| {
        let plain = !std::mem::take(&mut escaped);
        match byte {
            b'"' if plain => quoted = !quoted,
            b'\\' if plain => escaped = quoted,
            // Harmless: no other byte affects quoting.
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
        let converted = to_utf8(Some(content_type.as_bytes()), message).unwrap();
        converted.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn charsets_that_are_not_known_are_refused() {
        let fails = |told: &str, message: &[u8]| {
            to_utf8(Some(format!("text/xml; charset={told}").as_bytes()), message).unwrap_err()
        };
        for told in ["x-unknown", "utf-7", "utf-32", "iso-2022-kr", "\"x\""] {
            let name = told.trim_matches('"');
            let why = format!("The charset '{name}' is not supported");
            assert_eq!(fails(told, b"<a/>"), why);
            assert!(
                contradicted([format!("a/b;charset={told}").as_bytes()].into_iter(), b"<a/>")
                    .is_some()
            );
        }
        for (told, message) in
            [("shift_jis", &b"<a>\x81</a>"[..]), ("utf-16", b"<a/>"), ("euc-kr", b"<a>\xff</a>")]
        {
            assert_eq!(fails(told, message), format!("The message is not in the charset '{told}'"));
        }
        let unknown = b"<?xml version='1.0' encoding='x-unknown'?><a/>";
        assert_eq!(to_utf8(None, unknown), Ok(None), "the parser refuses it");
        assert!(may_differ(None, unknown) && may_differ(Some(b"a/b; charset=x"), b"<a/>"));
    }

    #[test]
    fn texts_are_read_in_their_charset() {
        for (told, bytes, expected) in [
            (None, &b"\xc3\xa9"[..], Some("é")),
            (None, b"\xe9", None),
            (Some("koi8-r"), b"\xd0", Some("п")),
            (Some("windows-1251"), b"\xef", Some("п")),
            (Some("Shift_JIS"), b"\x82\xa0", Some("あ")),
            (Some("windows-1252"), b"\x80", Some("€")),
            (Some("iso-8859-1"), b"\xe9", Some("é")),
            (Some("us-ascii"), b"\xe9", None),
            (Some("x-unknown"), b"a", None),
        ] {
            let read = text(told.map(str::as_bytes), bytes);
            assert_eq!(read.as_deref(), expected, "{told:?}");
        }
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
    fn the_content_type_overrides_the_declaration_but_not_a_mark() {
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
            ("text/xml; charset=windows-1252", latin, Some("<a>é</a>")),
            (
                "text/xml; charset=koi8-r",
                b"<?xml version='1.0' encoding='koi8-r'?><a>\xd0</a>",
                Some("                                       <a>п</a>"),
            ),
            (
                "text/xml",
                b"<?xml version='1.0' encoding='windows-1251'?><a>\xef</a>",
                Some("                                             <a>п</a>"),
            ),
            ("text/xml", b"<?xml version='1.0' encoding='latin1'?><a>\xef</a>", None),
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
