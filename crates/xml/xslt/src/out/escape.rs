//! Escaping: markup characters, and characters that the encoding lacks, are written as references.

use std::io::Write as _;

/// The escaping rules for one kind of text.
#[derive(Debug)]
pub(crate) struct EscapeRules {
    references: &'static [(u8, &'static str)],
    /// Bytes that have a reference.
    marked: [bool; 256],
    /// The same, and lead bytes of characters that the encoding may lack.
    marked_or_wide: [bool; 256],
    /// Whether the text is within quotes.
    quoted: bool,
}

/// Content of an element.
pub(crate) static TEXT: EscapeRules =
    EscapeRules::new(&[(b'<', "&lt;"), (b'>', "&gt;"), (b'&', "&amp;"), (b'\r', "&#13;")], false);

/// Attribute value in double quotes.
pub(crate) static ATTRIBUTE: EscapeRules = EscapeRules::new(
    &[
        (b'<', "&lt;"),
        (b'>', "&gt;"),
        (b'&', "&amp;"),
        (b'"', "&quot;"),
        (b'\t', "&#9;"),
        (b'\n', "&#10;"),
        (b'\r', "&#13;"),
    ],
    true,
);

/// Content of an element in canonical form (Canonical XML 1.0, 2.3).
pub(crate) static CANONICAL_TEXT: EscapeRules =
    EscapeRules::new(&[(b'<', "&lt;"), (b'>', "&gt;"), (b'&', "&amp;"), (b'\r', "&#xD;")], false);

/// Attribute value in canonical form.
pub(crate) static CANONICAL_ATTRIBUTE: EscapeRules = EscapeRules::new(
    &[
        (b'<', "&lt;"),
        (b'&', "&amp;"),
        (b'"', "&quot;"),
        (b'\t', "&#x9;"),
        (b'\n', "&#xA;"),
        (b'\r', "&#xD;"),
    ],
    true,
);

/// Content of an HTML element.
pub(crate) static HTML_TEXT: EscapeRules =
    EscapeRules::new(&[(b'<', "&lt;"), (b'>', "&gt;"), (b'&', "&amp;")], false);

/// Number of bytes checked together.
const BLOCK: usize = 16;

impl EscapeRules {
    const fn new(references: &'static [(u8, &'static str)], quoted: bool) -> EscapeRules {
        let (mut marked, mut marked_or_wide) = ([false; 256], [false; 256]);
        let mut at = 0xc0;
        while at < 256 {
            #[allow(clippy::indexing_slicing, reason = "const, and at is below the length")]
            {
                marked_or_wide[at] = true;
            }
            at += 1;
        }
        at = 0;
        while at < references.len() {
            #[allow(clippy::indexing_slicing, reason = "const, and at is below the length")]
            let (byte, _) = references[at];
            #[allow(clippy::indexing_slicing, reason = "const, and a byte is below 256")]
            {
                marked[byte as usize] = true;
                marked_or_wide[byte as usize] = true;
            }
            at += 1;
        }
        EscapeRules { references, marked, marked_or_wide, quoted }
    }

    /// Writes a text. Characters above `last` become references.
    #[inline]
    pub(crate) fn write(&self, text: &str, last: char, out: &mut Vec<u8>) {
        // Fast path: most text consists of blanks, words and numbers. It is checked by blocks and copied unchanged.
        let bytes = text.as_bytes();
        let plain = last == char::MAX
            && match (bytes.last_chunk::<BLOCK>(), self.quoted) {
                (Some(end), true) => !any_block(bytes, end, is_suspect_value),
                (Some(end), false) => !any_block(bytes, end, is_suspect_text),
                (None, _) => !bytes.iter().any(|byte| is_marked(&self.marked, *byte)),
            };
        if plain {
            out.extend_from_slice(text.as_bytes())
        } else {
            self.write_escaped(text, last, out)
        }
    }

    fn write_escaped(&self, text: &str, last: char, out: &mut Vec<u8>) {
        let marked = match last {
            char::MAX => &self.marked,
            _ => &self.marked_or_wide,
        };
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| is_marked(marked, byte)) {
            let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
            out.extend_from_slice(before.as_bytes());
            let mut chars = from.chars();
            let Some(c) = chars.next() else { break };
            let is = |known: &&(u8, &str)| char::from(known.0) == c;
            match self.references.iter().find(is) {
                Some((_, reference)) => out.extend_from_slice(reference.as_bytes()),
                None if c > last => character(Some(c), out),
                None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            rest = chars.as_str();
        }
        out.extend_from_slice(rest.as_bytes());
    }
}

#[inline]
fn is_marked(marked: &[bool; 256], byte: u8) -> bool {
    marked.get(usize::from(byte)).copied().unwrap_or(true)
}

/// Returns whether any block of a text passes the test. The last block may overlap the previous one.
#[inline]
fn any_block(bytes: &[u8], end: &[u8; BLOCK], is: impl Fn(&[u8; BLOCK]) -> bool) -> bool {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    blocks.iter().any(&is) || is(end)
}

/// Returns whether a block may contain a character that has a reference.
#[inline]
fn is_suspect_text(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |found, byte| {
        found | (*byte == b'<') | (*byte == b'>') | (*byte == b'&') | (*byte == b'\r')
    })
}

#[inline]
fn is_suspect_value(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(false, |found, byte| {
        found
            | (*byte == b'<')
            | (*byte == b'>')
            | (*byte == b'&')
            | (*byte == b'"')
            | (*byte < 0x20)
    })
}

/// Writes a character as a decimal reference.
fn character(c: Option<char>, out: &mut Vec<u8>) {
    if let Some(c) = c {
        // Harmless: writing to a vector cannot fail.
        write!(out, "&#{};", u32::from(c)).ok();
    }
}

/// Writes CDATA sections. `]]>` is split, and characters above `last` are written as references between sections.
pub(crate) fn cdata(text: &str, last: char, out: &mut Vec<u8>) {
    let mut open = false;
    let mut run = 0usize;
    for c in text.chars() {
        if c > last {
            if open {
                out.extend_from_slice(b"]]>");
                open = false;
            }
            character(Some(c), out);
            run = 0;
            continue;
        }
        let splits = c == '>' && run >= 2;
        if splits {
            out.extend_from_slice(b"]]>");
            open = false;
        }
        if !open {
            out.extend_from_slice(b"<![CDATA[");
            open = true;
        }
        let mut utf8 = [0; 4];
        out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
        run = match c {
            ']' => run + 1,
            _ => 0,
        };
    }
    if open {
        out.extend_from_slice(b"]]>");
    }
}

/// Writes the value of an HTML attribute: `<` is kept, and so is `&` before `{` (XSLT 1.0, 16.2). In a `uri`, characters beyond ASCII are
/// percent-encoded as UTF-8.
pub(crate) fn html_attribute(value: &str, uri: bool, last: char, out: &mut Vec<u8>) {
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '&' if chars.peek() == Some(&'{') => out.push(b'&'),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' => out.extend_from_slice(b"&quot;"),
            c if !c.is_ascii() && uri => {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    // Harmless: writing to a vector cannot fail.
                    write!(out, "%{byte:02X}").ok();
                }
            }
            '\u{a0}' => out.extend_from_slice(b"&nbsp;"),
            c if c > last => character(Some(c), out),
            c => {
                let mut utf8 = [0; 4];
                out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_and_attributes() {
        let cases = [
            ("a<b>&\"\r\n\t", "a&lt;b&gt;&amp;\"&#13;\n\t", "a&lt;b&gt;&amp;&quot;&#13;&#10;&#9;"),
            ("é€😀", "é&#8364;&#128512;", "é&#8364;&#128512;"),
            ("", "", ""),
        ];
        for (text, content, attribute) in cases {
            assert_eq!(written(|out| TEXT.write(text, '\u{ff}', out)), content);
            assert_eq!(written(|out| ATTRIBUTE.write(text, '\u{ff}', out)), attribute);
        }
        assert_eq!(written(|out| TEXT.write("é€😀<", char::MAX, out)), "é€😀&lt;");
    }

    #[test]
    fn cdata_sections() {
        let cases = [
            ("a<b", "<![CDATA[a<b]]>"),
            ("a]]>b", "<![CDATA[a]]]]><![CDATA[>b]]>"),
            ("a€b", "<![CDATA[a]]>&#8364;<![CDATA[b]]>"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(written(|out| cdata(text, '\u{ff}', out)), expected);
        }
    }

    #[test]
    fn html_values() {
        let cases = [
            ("a<b & \"c\" &{d}", false, "a<b &amp; &quot;c&quot; &{d}"),
            ("/é?a=b&c", true, "/%C3%A9?a=b&amp;c"),
            ("€\u{a0}", false, "&#8364;&nbsp;"),
        ];
        for (value, uri, expected) in cases {
            assert_eq!(written(|out| html_attribute(value, uri, '\u{7f}', out)), expected);
        }
    }
}
