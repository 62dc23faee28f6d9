//! Characters that markup would misread, or an encoding lacks, written as references.

use std::io::Write as _;

/// What a byte of UTF-8 needs in a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Reference(&'static str),
    /// It begins a character that the encoding may lack.
    Wide,
}

/// Where text stands, which says what must be escaped.
pub(crate) struct Place {
    needs: [Need; 256],
}

/// Content of an element.
pub(crate) static TEXT: Place =
    Place::new(&[(b'<', "&lt;"), (b'>', "&gt;"), (b'&', "&amp;"), (b'\r', "&#13;")]);

/// A value between double quotes.
pub(crate) static ATTRIBUTE: Place = Place::new(&[
    (b'<', "&lt;"),
    (b'>', "&gt;"),
    (b'&', "&amp;"),
    (b'"', "&quot;"),
    (b'\t', "&#9;"),
    (b'\n', "&#10;"),
    (b'\r', "&#13;"),
]);

/// Content of an HTML element.
pub(crate) static HTML_TEXT: Place = Place::new(&[(b'<', "&lt;"), (b'>', "&gt;"), (b'&', "&amp;")]);

impl Place {
    const fn new(references: &[(u8, &'static str)]) -> Place {
        let mut needs = [Need::Nothing; 256];
        let mut at = 0;
        while at < 256 {
            #[allow(clippy::indexing_slicing, reason = "const, and at is below the length")]
            if at >= 0xc0 {
                needs[at] = Need::Wide;
            }
            at += 1;
        }
        at = 0;
        while at < references.len() {
            #[allow(clippy::indexing_slicing, reason = "const, and at is below the length")]
            let (byte, reference) = references[at];
            #[allow(clippy::indexing_slicing, reason = "const, and a byte is below 256")]
            {
                needs[byte as usize] = Need::Reference(reference);
            }
            at += 1;
        }
        Place { needs }
    }

    fn need(&self, byte: u8) -> Need {
        self.needs.get(usize::from(byte)).copied().unwrap_or(Need::Nothing)
    }

    /// Writes `text`; characters after `last` become references.
    pub(crate) fn write(&self, text: &str, last: char, out: &mut Vec<u8>) {
        let bytes = text.as_bytes();
        let (mut done, mut at) = (0, 0);
        while let Some(byte) = bytes.get(at) {
            let (reference, width) = match self.need(*byte) {
                Need::Nothing => {
                    at += 1;
                    continue;
                }
                Need::Wide if last == char::MAX => {
                    at += 1;
                    continue;
                }
                Need::Reference(reference) => (Some(reference), 1),
                Need::Wide => match text.get(at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if c > last => (None, c.len_utf8()),
                    _ => {
                        at += 1;
                        continue;
                    }
                },
            };
            out.extend_from_slice(bytes.get(done..at).unwrap_or_default());
            match reference {
                Some(reference) => out.extend_from_slice(reference.as_bytes()),
                None => {
                    character(text.get(at..).and_then(|rest| rest.chars().next()), out);
                }
            }
            at += width;
            done = at;
        }
        out.extend_from_slice(bytes.get(done..).unwrap_or_default());
    }
}

/// Writes a character as a decimal reference.
fn character(c: Option<char>, out: &mut Vec<u8>) {
    if let Some(c) = c {
        // Writing to a vector cannot fail.
        write!(out, "&#{};", u32::from(c)).ok();
    }
}

/// Writes CDATA sections: `]]>` is cut in two, characters after `last` stand between sections as references.
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

/// Writes an HTML attribute's value: `<` stays, and `&` before `{` does (XSLT 1.0, 16.2). A `uri` has what is not ASCII
/// as the percent-encoded bytes of its UTF-8.
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
