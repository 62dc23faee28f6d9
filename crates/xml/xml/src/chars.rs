//! Character classes, and searches for the few bytes that end a run. Long runs are searched many bytes at a time.
//!
//! Knows only characters and runs of bytes, not tokens.

use crate::byte_search::{self, LANES};

/// Space, tab, line feed, carriage return.
const SPACE: u8 = 1;
/// May begin a name. The colon is not included: code that reads qualified names handles it.
const NAME_START: u8 = 2;
/// May stand in a name, except the colon.
const NAME: u8 = 4;

const CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0u8;
    loop {
        let class = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME_START | NAME,
            b'0'..=b'9' | b'-' | b'.' => NAME,
            _ => 0,
        };
        #[allow(
            clippy::indexing_slicing,
            reason = "a byte is within 256, and this runs when compiled"
        )]
        {
            table[byte as usize] = class;
        }
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

#[inline]
fn class(byte: u8) -> u8 {
    #[allow(clippy::indexing_slicing, reason = "a byte is within the 256 of the table")]
    CLASS[usize::from(byte)]
}

#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    class(byte) & SPACE != 0
}

/// `Char` of XML 1.0.
pub(crate) fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// `NameStartChar` without the colon.
pub fn is_name_start(c: char) -> bool {
    matches!(c,
        'a'..='z' | 'A'..='Z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

/// `NameChar` without the colon.
pub fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '0'..='9' | '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Returns the offset after the white space at `at`.
#[inline]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
        at += 1;
    }
    at
}

/// Returns the offset after the ASCII part of a name at `at`, without colons, or `None` if no ASCII name begins there.
#[inline]
pub(crate) fn skip_ascii_name(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at) {
        Some(first) if class(*first) & NAME_START != 0 => {
            Some(skip_ascii_name_chars(bytes, at + 1))
        }
        _ => None,
    }
}

/// Returns the offset after the ASCII name characters at `at`, without colons.
#[inline]
fn skip_ascii_name_chars(bytes: &[u8], mut at: usize) -> usize {
    // Eight bytes at a time, so that the bounds are checked only once for each eight.
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        for (passed, byte) in chunk.iter().enumerate() {
            if class(*byte) & NAME == 0 {
                return at + passed;
            }
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| class(*byte) & NAME != 0) {
        at += 1;
    }
    at
}

/// Returns the offset after the name at `at`, without colons, or `at` itself if there is no name.
#[inline]
pub(crate) fn skip_ncname(text: &str, at: usize) -> usize {
    match text.as_bytes().get(at) {
        Some(byte) if class(*byte) & NAME_START != 0 => skip_name_chars(text, at + 1),
        Some(0x80..) => match char_at(text, at) {
            Some(c) if is_name_start(c) => skip_name_chars(text, at + c.len_utf8()),
            _ => at,
        },
        _ => at,
    }
}

/// Returns the offset after the name characters at `at`, without colons.
#[inline]
pub(crate) fn skip_name_chars(text: &str, at: usize) -> usize {
    let end = skip_ascii_name_chars(text.as_bytes(), at);
    match text.as_bytes().get(end) {
        Some(0x80..) => skip_wide_name_chars(text, end),
        _ => end,
    }
}

/// Like `skip_name_chars`, for text beyond ASCII.
fn skip_wide_name_chars(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.find(|c| !is_name_char(c)).unwrap_or(rest.len())
}

/// Returns the character at `at`.
pub(crate) fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

/// Runs up to this length are searched by words or lanes. Longer runs use the vectorised search, whose call costs more than a short run.
const SHORT: usize = 48;

/// Returns the offset of the first `<`, `&`, `]` or carriage return of character data.
#[inline]
pub(crate) fn text_end(bytes: &[u8], at: usize) -> usize {
    let mut passed = at;
    while let Some(found) = byte_search::first(bytes, passed, ends_text) {
        if let Some(passes) = found {
            return passed + passes;
        }
        passed += LANES;
        if passed >= at + SHORT {
            return far_text_end(bytes, passed);
        }
    }
    let rest = bytes.get(passed..).unwrap_or_default();
    passed + rest.iter().position(|byte| ends_text(*byte)).unwrap_or(rest.len())
}

/// Returns the end of a short run of character data that ends with `<`. Returns `at` if the run is longer, contains anything that needs
/// processing, or is cut off by the end of the text.
#[inline(always)]
pub(crate) fn short_text_end(bytes: &[u8], at: usize) -> usize {
    match byte_search::first(bytes, at, ends_text) {
        Some(Some(len)) if bytes.get(at + len) == Some(&b'<') => at + len,
        Some(_) | None => at,
    }
}

/// Returns the offset of the next `<`, or the end.
#[inline(always)]
pub(crate) fn plain_text_end(bytes: &[u8], at: usize) -> usize {
    let mut passed = at;
    while let Some(word) = bytes.get(passed..).and_then(|rest| rest.first_chunk()) {
        if let Some(passes) = first_of(has(u64::from_le_bytes(*word), b'<')) {
            return passed + passes;
        }
        passed += 8;
        if passed >= at + 24 {
            break;
        }
    }
    let rest = bytes.get(passed..).unwrap_or_default();
    passed + memchr::memchr(b'<', rest).unwrap_or(rest.len())
}

/// Returns the word with all bytes after the first occurrence of `byte` set to zero, and the index of that occurrence. Returns `None` if
/// the byte does not occur.
#[inline(always)]
pub(crate) fn cut_after(word: u64, byte: u8) -> Option<(u64, usize)> {
    match has(word, byte) & (EACH << 7) {
        0 => None,
        marks => {
            let kept = marks ^ (marks - 1);
            Some((word & kept, (marks.trailing_zeros() / 8) as usize))
        }
    }
}

#[inline(always)]
fn ends_text(byte: u8) -> bool {
    (byte == b'<') | (byte == b'&') | (byte == b']') | (byte == b'\r')
}

fn far_text_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let end = memchr::memchr3(b'<', b'&', b']', rest).unwrap_or(rest.len());
    at + memchr::memchr(b'\r', rest.get(..end).unwrap_or_default()).unwrap_or(end)
}

/// Returns the offset of the first quote, `<`, `&`, or white space other than a blank in an attribute's value.
#[inline]
pub(crate) fn value_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    // Both quotes differ from `&` in one bit. With that bit cleared (or set), one comparison finds both characters.
    let (kept, added) = match quote {
        b'"' => (!(EACH * u64::from(b'"' ^ b'&')), 0),
        _ => (!0, EACH * u64::from(b'\'' ^ b'&')),
    };
    let mut passed = at;
    while let Some(word) = bytes.get(passed..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(EACH * u64::from(b' ')) & !word;
        let ends = has(word & kept | added, quote) | has(word, b'<') | control;
        if let Some(passes) = first_of(ends) {
            return passed + passes;
        }
        passed += 8;
        if passed >= at + SHORT {
            passed = pass_plain_blocks(bytes, passed, quote);
        }
    }
    let rest = bytes.get(passed..).unwrap_or_default();
    passed + rest.iter().position(|byte| ends_value(*byte, quote)).unwrap_or(rest.len())
}

#[inline]
fn ends_value(byte: u8, quote: u8) -> bool {
    (byte < b' ') | (byte == quote) | (byte == b'<') | (byte == b'&')
}

/// Returns the offset of the first 16-byte block of a long value that contains an end. Only the existence of an end is tested per block, so
/// that the compiler emits vector instructions.
fn pass_plain_blocks(bytes: &[u8], at: usize, quote: u8) -> usize {
    let (blocks, _) = bytes.get(at..).unwrap_or_default().as_chunks::<16>();
    let ends =
        |block: &[u8; 16]| block.iter().fold(false, |found, byte| found | ends_value(*byte, quote));
    at + 16 * blocks.iter().position(ends).unwrap_or(blocks.len())
}

const EACH: u64 = 0x0101_0101_0101_0101;

/// Marks the bytes of a word that equal `byte` in their top bits. Only the lowest mark is reliable.
#[inline]
fn has(word: u64, byte: u8) -> u64 {
    let differs = word ^ (EACH * u64::from(byte));
    differs.wrapping_sub(EACH) & !differs
}

/// Returns the number of bytes before the first one that is marked in its top bit.
#[inline]
fn first_of(marks: u64) -> Option<usize> {
    match marks & (EACH << 7) {
        0 => None,
        marks => Some((marks.trailing_zeros() / 8) as usize),
    }
}

/// Returns whether two byte strings are equal. Names are short, so a call of `memcmp` would cost more than the comparison.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        // The last word may overlap the previous one.
        (Some(a_last), Some(b_last)) => a_last == b_last && same_words(a, b),
        _ => same_short(a, b),
    }
}

#[inline]
fn same_words(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (a, b);
    while let (Some((a_word, a_rest)), Some((b_word, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if a_word != b_word {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    true
}

/// Compares strings shorter than a word, of equal length.
#[inline]
fn same_short(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<4>(), b.first_chunk::<4>()) {
        (Some(a_first), Some(b_first)) => {
            a_first == b_first && a.last_chunk::<4>() == b.last_chunk::<4>()
        }
        // Harmless: both have the same length.
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

/// Number of bytes checked together.
const BLOCK: usize = 32;

/// Number of bytes that are tested together before the first unusual one is located.
const SPAN: usize = 4096;

/// Returns the offset of the first character that XML forbids.
pub(crate) fn first_forbidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut spans = (0..bytes.len()).step_by(SPAN).map(|from| (from, bytes.len().min(from + SPAN)));
    spans.find_map(|(from, to)| {
        if is_usual(bytes.get(from..to).unwrap_or_default()) {
            None
        } else {
            first_forbidden_between(bytes, from, to)
        }
    })
}

/// Returns whether all bytes are printable ASCII or line feeds. Works by words and without an early exit: a loop over single bytes took
/// three instructions per byte in the release build.
fn is_usual(bytes: &[u8]) -> bool {
    // The last word may overlap the previous one, which is faster than handling single bytes.
    let Some(last) = bytes.last_chunk() else {
        return !bytes.iter().any(|byte| (byte.cast_signed() < 0x20) & (*byte != b'\n'));
    };
    let (words, _) = bytes.as_chunks::<8>();
    let odd = words.iter().fold(odd_bytes(*last), |odd, word| odd | odd_bytes(*word));
    odd & (EACH << 7) == 0
}

/// Marks, in their top bits, the bytes of a word that are not ASCII or are control characters other than a line feed.
#[inline(always)]
fn odd_bytes(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    // No subtraction borrows from, and no addition carries into, the neighbouring byte.
    let printable = (word | EACH << 7) - EACH * u64::from(b' ');
    let differs = word ^ (EACH * u64::from(b'\n'));
    let no_feed = (differs & !(EACH << 7)) + !(EACH << 7);
    word | !printable & no_feed
}

/// Returns the length of the name at the beginning of eight bytes, if it consists of ASCII letters and `>` follows.
#[inline(always)]
pub(crate) fn short_name(word: u64) -> Option<usize> {
    const TOP: u64 = EACH << 7;
    // Converts letters to lower case. The top bit, which marks bytes beyond ASCII, is masked out of the sums.
    let small = (word | (EACH * 0x20)) & !TOP;
    let from_a = small + EACH * u64::from(0x80 - b'a');
    let behind_z = small + EACH * u64::from(0x80 - b'z' - 1);
    let others = (word | !from_a | behind_z) & TOP;
    let len = (others.trailing_zeros() / 8) as usize;
    let next = word.checked_shr(others.trailing_zeros() & !7)? & 0xFF;
    (len > 0 && next == u64::from(b'>')).then_some(len)
}

/// Returns the offset of the first character in a range that XML forbids.
fn first_forbidden_between(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let (blocks, rest) = bytes.get(from..to).unwrap_or_default().as_chunks::<BLOCK>();
    // Harmless: each offset belongs to the block at the same index.
    let mut suspects = (from..).step_by(BLOCK).zip(blocks).filter(|(_, block)| is_suspect(block));
    let found = suspects.find_map(|(at, _)| forbidden_between(bytes, at, at + BLOCK));
    found.or_else(|| forbidden_between(bytes, to - rest.len(), to))
}

/// Returns whether a block may contain a forbidden character.
fn is_suspect(block: &[u8; BLOCK]) -> bool {
    let mut found = 0u8;
    for byte in block {
        let control = (*byte < 0x20) & (*byte != b'\n') & (*byte != b'\t') & (*byte != b'\r');
        found |= u8::from(control | (*byte == 0xEF));
    }
    found != 0
}

fn forbidden_between(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let block = bytes.get(from..to).unwrap_or_default();
    let found = block.iter().enumerate().find(|(at, byte)| match byte {
        b'\t' | b'\n' | b'\r' => false,
        0..0x20 => true,
        // U+FFFE and U+FFFF.
        0xEF => matches!(bytes.get(from + at + 1..from + at + 3), Some([0xBF, 0xBE | 0xBF])),
        _ => false,
    });
    found.map(|(at, _)| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests positions at the ends of lanes, blocks and spans, and across them.
    #[test]
    fn forbidden_characters_are_found_where_they_stand() {
        let near = |length: usize| length.saturating_sub(3)..length + 3;
        let lengths = [3, 16, BLOCK, 2 * BLOCK, SPAN, SPAN + BLOCK, 2 * SPAN].into_iter();
        for length in lengths.flat_map(near) {
            for behind in [0, 1, 15, 40, SPAN] {
                let text =
                    |odd: &str| ["a".repeat(length), odd.to_owned(), "b".repeat(behind)].concat();
                for odd in ["\u{1}", "\0", "\u{1f}", "\u{FFFE}", "\u{FFFF}"] {
                    assert_eq!(first_forbidden(&text(odd)), Some(length), "{odd:?} {behind}");
                }
                for usual in ["", "\t", "\r\n", "é", "\u{7f}", "\u{FFFD}", "\u{F000}"] {
                    assert_eq!(first_forbidden(&text(usual)), None, "{usual:?} {length} {behind}");
                }
            }
        }
    }

    #[test]
    fn short_names_are_those_of_letters() {
        for byte in 0..=u8::MAX {
            for len in 0..8 {
                for end in [b'>', b' ', b'/', b'a', 0xBE] {
                    let mut bytes = [b'q'; 8];
                    bytes[0] = byte;
                    bytes[len] = end;
                    let slow = bytes.iter().position(|byte| !byte.is_ascii_alphabetic());
                    let slow = slow.filter(|at| *at > 0 && bytes[*at] == b'>');
                    assert_eq!(short_name(u64::from_le_bytes(bytes)), slow, "{bytes:?}");
                }
            }
        }
    }

    /// Tests each byte at each position, next to bytes that word-wise arithmetic could confuse with it.
    #[test]
    fn runs_end_where_a_look_at_each_byte_ends_them() {
        let texts = (0..=u8::MAX).flat_map(|byte| {
            [0, 1, 7, 8, 9, 15, 16, 17, 40, 55, 70, 90].into_iter().flat_map(move |at| {
                [b'a', byte ^ 1, byte.wrapping_add(1), 0x80].into_iter().flat_map(move |other| {
                    let mut text = [b'a'; 95];
                    text[at] = byte;
                    text[at + 1] = other;
                    [text.to_vec(), text[..at + 1].to_vec(), text[..(at + 9).min(95)].to_vec()]
                })
            })
        });
        for text in texts {
            for from in [0, 1, 5] {
                let rest = text.get(from..).unwrap_or_default();
                let place = |ends: &dyn Fn(u8) -> bool| {
                    from + rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len())
                };
                let of_text = place(&|byte| b"<&]\r".contains(&byte));
                assert_eq!(text_end(&text, from.min(text.len())), of_text.min(text.len()));
                for quote in [b'"', b'\''] {
                    let of_value =
                        place(&|byte| byte < b' ' || [quote, b'<', b'&'].contains(&byte));
                    let end = value_end(&text, from.min(text.len()), quote);
                    assert_eq!(end, of_value.min(text.len()), "{text:?}");
                }
            }
        }
    }
}
