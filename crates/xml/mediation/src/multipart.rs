//! Multipart messages (RFC 2046, 5.1): the positions of the parts, and which part is the root (RFC 2387).
//!
//! Parses boundary delimiters, the header lines of parts, and transfer encodings. Parts refer to ranges of the message, so that an
//! unchanged part is forwarded byte for byte. Each delimiter line must follow a CRLF or begin the message, and must end with CRLF, except
//! the closing one. A message that two readers could split differently is refused as malformed.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::charset;

/// Maximum number of parts. Messages with attachments have tens of parts, and the largest forms some hundreds.
const PARTS_MAX: usize = 1_000;

/// Maximum number of header lines of one part. A part needs three.
const LINES_MAX: usize = 100;

/// Maximum size of the header lines of one part.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header lines that may occur only once in a part. If one occurred twice, some readers would use the first and others the last.
const ONCE: [&[u8]; 4] =
    [b"content-disposition", b"content-type", b"content-transfer-encoding", b"content-id"];

/// Maximum length of a boundary (RFC 2046, 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// The reason why a message cannot be split into parts.
pub type MultipartError = &'static str;

/// The positions of the parts of a message.
#[derive(Debug)]
pub struct Multipart {
    parts: Vec<Part>,
    /// Two hyphens and the boundary.
    delimiter: Box<[u8]>,
}

/// The position of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The header lines, each with its line end.
    pub head: Range<usize>,
    pub body: Range<usize>,
}

impl Multipart {
    /// Parses a message with a multipart content type.
    pub fn read(content_type: &[u8], message: &[u8]) -> Result<Multipart, MultipartError> {
        let delimiter = delimiter(content_type)?;
        let mut parts = Vec::new();
        let mut line =
            next_line(message, &delimiter, 0).ok_or("no part begins with the boundary")?;
        while !line.is_last {
            if parts.len() >= PARTS_MAX {
                return Err("there are over 1,000 parts");
            }
            // The line end of a delimiter line may also begin the next one.
            let from = line.end.saturating_sub(2);
            let next =
                next_line(message, &delimiter, from).ok_or("the last boundary is missing")?;
            parts.push(Part::read(message, line.end, next.start)?);
            line = next;
        }
        let behind = message.get(line.end..).unwrap_or_default();
        if parts.is_empty() {
            Err("there is no part")
        } else if memmem::find(behind, &delimiter).is_some() {
            // Some readers stop at the closing boundary, and others continue.
            Err("a boundary follows the closing one")
        } else {
            Ok(Multipart { parts, delimiter })
        }
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part that the parameter `start` names, or the first part if there is no `start`.
    pub fn root(&self, content_type: &[u8], message: &[u8]) -> Result<&Part, MultipartError> {
        let Some(start) = parameter(content_type, "start") else {
            return self.parts.first().ok_or("there is no part");
        };
        let is_meant = |part: &&Part| {
            let id = part.line(message, "content-id");
            id.is_some_and(|id| unbracketed(&id) == unbracketed(&start))
        };
        self.parts.iter().find(is_meant).ok_or("no part has the Content-ID that `start` names")
    }

    /// Returns the delimiter: two hyphens and the boundary.
    pub fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }

    /// Returns true if `content` cannot be the content of a part because one of its lines begins with the delimiter.
    pub fn is_cut_by(&self, content: &[u8]) -> bool {
        let at_line = |at: usize| at == 0 || content.get(at - 1) == Some(&b'\n');
        memmem::find_iter(content, &*self.delimiter).any(at_line)
    }
}

impl Part {
    /// Parses the part between two delimiter lines.
    fn read(message: &[u8], start: usize, end: usize) -> Result<Part, MultipartError> {
        // A part without header lines begins with the empty line, so its first CRLF is that of the delimiter line.
        let from = start.saturating_sub(2);
        let region = message.get(from..end + 2).unwrap_or_default();
        let empty = memmem::find(region, b"\r\n\r\n").ok_or("a part has no empty line")? + from;
        let part = Part { head: start..(empty + 2).max(start), body: (empty + 4).min(end)..end };
        let head = message.get(part.head.clone()).unwrap_or(b"");
        if head.len() > HEAD_BYTES_MAX {
            return Err("the header lines of a part are over 16 KiB");
        }
        let (mut count, mut seen) = (0, [false; ONCE.len()]);
        for line in lines(head) {
            count += 1;
            let (name, _) = halves(line).ok_or("a header line of a part has no name")?;
            if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace()) {
                return Err("a header line of a part has no name");
            }
            // Harmless: `seen` has one flag for each name.
            let known = ONCE.iter().zip(&mut seen);
            for (_, seen) in known.filter(|(known, _)| name.eq_ignore_ascii_case(known)) {
                if std::mem::replace(seen, true) {
                    return Err("a header line of a part occurs twice");
                }
            }
        }
        if count > LINES_MAX { Err("a part has over 100 header lines") } else { Ok(part) }
    }

    /// Returns the value of a header line, unfolded to one line.
    pub fn line<'m>(&self, message: &'m [u8], name: &str) -> Option<Cow<'m, [u8]>> {
        let head = message.get(self.head.clone())?;
        let value = lines(head).find_map(|line| {
            let (known, value) = halves(line)?;
            known.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
        })?;
        Some(unfolded(value))
    }

    /// Returns the content, with the transfer encoding removed.
    pub fn content<'m>(&self, message: &'m [u8]) -> Result<Cow<'m, [u8]>, MultipartError> {
        let body = message.get(self.body.clone()).unwrap_or(b"");
        let encoding =
            self.line(message, "content-transfer-encoding").unwrap_or(Cow::Borrowed(b""));
        match &*encoding.to_ascii_lowercase() {
            b"" | b"7bit" | b"8bit" | b"binary" => Ok(Cow::Borrowed(body)),
            b"base64" => base64(body).map(Cow::Owned),
            b"quoted-printable" => quoted_printable(body).map(Cow::Owned),
            _ => Err("a part has an unknown Content-Transfer-Encoding"),
        }
    }

    /// Returns the header lines, each with its line end. The line with this name gets the new value.
    pub fn head_with(&self, message: &[u8], name: &str, value: &[u8]) -> Vec<u8> {
        let head = message.get(self.head.clone()).unwrap_or(b"");
        let mut out = Vec::with_capacity(head.len());
        for line in lines(head) {
            match halves(line) {
                Some((known, _)) if known.eq_ignore_ascii_case(name.as_bytes()) => {
                    out.extend_from_slice(known);
                    out.extend_from_slice(b": ");
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
                Some(_) | None => out.extend_from_slice(line),
            }
        }
        out
    }

    /// Returns the header lines for a new content, each with its line end. Lines that describe the old content are replaced or left out.
    pub fn head_for(&self, message: &[u8], content_type: &[u8]) -> Vec<u8> {
        let head = message.get(self.head.clone()).unwrap_or(b"");
        let mut out = Vec::with_capacity(head.len());
        for line in lines(head) {
            let Some((name, value)) = halves(line) else { continue };
            let value = value.trim_ascii();
            let is_plain = |value: &[u8]| {
                value.eq_ignore_ascii_case(b"binary") || value.eq_ignore_ascii_case(b"8bit")
            };
            match &*name.to_ascii_lowercase() {
                b"content-length" | b"content-md5" => {}
                b"content-transfer-encoding" if !is_plain(value) => {
                    out.extend_from_slice(b"Content-Transfer-Encoding: 8bit\r\n");
                }
                b"content-type" if unfolded(value) != content_type => {
                    out.extend_from_slice(b"Content-Type: ");
                    out.extend_from_slice(content_type);
                    out.extend_from_slice(b"\r\n");
                }
                _ => out.extend_from_slice(line),
            }
        }
        out
    }
}

/// A delimiter line.
struct DelimiterLine {
    /// The end of the content before the line.
    start: usize,
    /// The offset after the line end.
    end: usize,
    /// Whether this is the closing delimiter, after the last part.
    is_last: bool,
}

/// Returns the first delimiter line that begins at `from` or later.
fn next_line(message: &[u8], delimiter: &[u8], from: usize) -> Option<DelimiterLine> {
    let rest = message.get(from..)?;
    for at in memmem::find_iter(rest, delimiter) {
        let at = at + from;
        let before = message.get(..at)?;
        let start = match at {
            0 => 0,
            _ if before.ends_with(b"\r\n") && at >= from + 2 => at - 2,
            _ => continue,
        };
        let behind = message.get(at + delimiter.len()..)?;
        if behind.starts_with(b"--") {
            let end = at + delimiter.len() + b"--".len();
            return Some(DelimiterLine { start, end, is_last: true });
        }
        let blanks = behind.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if behind.get(blanks..).is_some_and(|behind| behind.starts_with(b"\r\n")) {
            let end = at + delimiter.len() + blanks + 2;
            return Some(DelimiterLine { start, end, is_last: false });
        }
    }
    None
}

fn delimiter(content_type: &[u8]) -> Result<Box<[u8]>, MultipartError> {
    let boundary =
        single_parameter(content_type, "boundary")?.ok_or("the boundary is not named")?;
    let fits = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && boundary.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && !boundary.ends_with(b" ");
    if fits {
        Ok([b"--", &*boundary].concat().into())
    } else {
        Err("the boundary is not one of 1 to 70 printable characters")
    }
}

/// Returns a parameter of a content type or disposition, without quotes.
pub fn parameter(value: &[u8], name: &str) -> Option<Vec<u8>> {
    let written =
        charset::parameters(value).find_map(|parameter| charset::value_of(parameter, name))?;
    let quoted = written.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let Some(quoted) = quoted else { return Some(written.to_vec()) };
    let mut escaped = false;
    let plain = quoted.iter().copied().filter(|byte| {
        escaped = *byte == b'\\' && !escaped;
        !escaped
    });
    Some(plain.collect())
}

/// Returns a parameter, and fails if it occurs more than once.
pub fn single_parameter(value: &[u8], name: &str) -> Result<Option<Vec<u8>>, MultipartError> {
    // Harmless: parameters with other names are irrelevant.
    let all = charset::parameters(value).filter_map(|written| charset::value_of(written, name));
    match all.count() {
        0 | 1 => Ok(parameter(value, name)),
        _ => Err("a parameter occurs twice"),
    }
}

fn unbracketed(id: &[u8]) -> &[u8] {
    let id = id.trim_ascii();
    id.strip_prefix(b"<").and_then(|id| id.strip_suffix(b">")).unwrap_or(id)
}

/// Returns the header lines, each with its line end. A line that begins with a blank continues the previous one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            let more = rest.get(end..)?;
            match memmem::find(more, b"\r\n") {
                Some(at) => end += at + 2,
                None => end = rest.len(),
            }
            if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (line, behind) = rest.split_at_checked(end).filter(|(line, _)| !line.is_empty())?;
        rest = behind;
        Some(line)
    })
}

/// Joins a folded value into one line.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if value.contains(&b'\n') {
        Cow::Owned(value.iter().copied().filter(|b| !b"\r\n".contains(b)).collect())
    } else {
        Cow::Borrowed(value)
    }
}

fn halves(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b':', line)?;
    Some((line.get(..at)?, line.get(at + 1..)?))
}

fn base64(body: &[u8]) -> Result<Vec<u8>, MultipartError> {
    use base64::Engine as _;
    let digits: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(digits).map_err(|_| "a part is not coded as base64")
}

/// Decodes quoted-printable text (RFC 2045, 6.7).
fn quoted_printable(body: &[u8]) -> Result<Vec<u8>, MultipartError> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'=' {
            out.push(*first);
            continue;
        }
        if let Some(behind) = rest.strip_prefix(b"\r\n") {
            rest = behind;
            continue;
        }
        let Some((byte, behind)) = kit::percent::byte(rest) else {
            return Err("a part is not coded as quoted-printable");
        };
        out.push(byte);
        rest = behind;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &[u8] = b"multipart/related; boundary=\"b b\"; start=\"<r@x>\"";

    fn parts(content_type: &[u8], message: &[u8]) -> Result<Vec<String>, MultipartError> {
        let read = Multipart::read(content_type, message)?;
        let shown = read.parts.iter().map(|part| {
            let content = part.content(message)?;
            let kind = part.line(message, "Content-Type").unwrap_or_default();
            Ok(format!("{}|{}", String::from_utf8_lossy(&kind), String::from_utf8_lossy(&content)))
        });
        shown.collect()
    }

    #[test]
    fn parts_stand_between_delimiter_lines() {
        for (message, expected) in [
            (&b"--b b\r\n\r\nx\r\n--b b--"[..], Ok(&["|x"][..])),
            (b"before\r\n--b b \t\r\nContent-Type: a\r\n\r\n\r\nx\r\n\r\n--b b--behind", Ok(&["a|\r\nx\r\n"])),
            (b"--b b\r\nContent-type:\r\n a/b;\r\n\tc=d\r\n\r\nx--b b\r\n\r\n--b b--\r\n", Ok(&["a/b;\tc=d|x--b b\r\n"])),
            (b"--b b\r\n\r\n1\r\n--b bc\r\n\r\n--b b\r\nA: b\r\n\r\n--b b--", Ok(&["|1\r\n--b bc\r\n", "|"])),
            (b"--b b\r\nContent-Transfer-Encoding: Base64\r\n\r\neA\r\n==\r\n--b b--", Ok(&["|x"])),
            (b"--b b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=3Ca=\r\nb=C3=A9\r\n--b b--", Ok(&["|<ab\u{e9}"])),
            (b"--b b--", Err("there is no part")),
            (b"", Err("no part begins with the boundary")),
            (b"x--b b\r\n\r\nx\r\n--b b--", Err("there is no part")),
            (b"--b b\n\nx\n--b b--", Err("no part begins with the boundary")),
            (b"--b b\r\n\r\nx", Err("the last boundary is missing")),
            (b"--b b\r\n\r\nx\r\n--b", Err("the last boundary is missing")),
            (b"--b b\r\nA: b\r\n--b b--", Err("a part has no empty line")),
            (b"--b b\r\nA b\r\n\r\nx\r\n--b b--", Err("a header line of a part has no name")),
            (b"--b b\r\nA : b\r\n\r\nx\r\n--b b--", Err("a header line of a part has no name")),
            (b"--b b\r\nContent-Transfer-Encoding: x\r\n\r\nx\r\n--b b--", Err("a part has an unknown Content-Transfer-Encoding")),
            (b"--b b\r\nContent-Transfer-Encoding: base64\r\n\r\n*\r\n--b b--", Err("a part is not coded as base64")),
            (b"--b b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=x\r\n--b b--", Err("a part is not coded as quoted-printable")),
        ] {
            let expected = expected.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect());
            assert_eq!(parts(TYPE, message), expected, "{}", String::from_utf8_lossy(message));
        }
    }

    #[test]
    fn boundaries_parts_and_lines_are_bounded() {
        let with = |boundary: &str| format!("multipart/related; boundary={boundary}").into_bytes();
        for boundary in ["\"\"", &"b".repeat(71), "\"b \"", "\"b\u{1}\""] {
            assert!(parts(&with(boundary), b"").unwrap_err().contains("1 to 70"), "{boundary}");
        }
        assert_eq!(parts(b"multipart/related", b""), Err("the boundary is not named"));
        let many = "--b\r\n\r\nx\r\n".repeat(1_001) + "--b--";
        assert_eq!(parts(&with("b"), many.as_bytes()), Err("there are over 1,000 parts"));
        let lines = format!("--b\r\n{}\r\n\r\n--b--", "A: b\r\n".repeat(101));
        assert_eq!(parts(&with("b"), lines.as_bytes()), Err("a part has over 100 header lines"));
        let long = format!("--b\r\nA: {}\r\n\r\n\r\n--b--", "x".repeat(HEAD_BYTES_MAX));
        let told = "the header lines of a part are over 16 KiB";
        assert_eq!(parts(&with("b"), long.as_bytes()), Err(told));
    }

    #[test]
    fn the_root_is_the_part_that_start_names() {
        let message = b"--b b\r\n\r\n1\r\n--b b\r\nContent-ID: <r@x>\r\n\r\n2\r\n--b b--";
        let read = Multipart::read(TYPE, message).unwrap();
        assert_eq!(read.root(TYPE, message), Ok(&read.parts[1]));
        assert_eq!(read.root(b"multipart/related; boundary=x", message), Ok(&read.parts[0]));
        assert!(read.root(b"multipart/related; boundary=x; start=r", message).is_err());
        for (content, is_cut) in
            [("--b b", true), ("x\r\n--b b--", true), ("x\n--b bx", true), ("x--b b", false)]
        {
            assert_eq!(read.is_cut_by(content.as_bytes()), is_cut, "{content}");
        }
    }

    #[test]
    fn header_lines_for_new_content_describe_it() {
        let message = b"--b b\r\nContent-Type: text/xml;\r\n charset=iso-8859-1; a=b\r\nContent-ID: <x>\r\nContent-Length: 1\r\nContent-Transfer-Encoding: base64\r\n\r\neA==\r\n--b b--";
        let read = Multipart::read(TYPE, message).unwrap();
        let part = &read.parts[0];
        let content_type = charset::recoded(&part.line(message, "content-type").unwrap(), "utf-8");
        let head = part.head_for(message, content_type.unwrap().as_bytes());
        let head = String::from_utf8(head).unwrap();
        assert_eq!(
            head,
            "Content-Type: text/xml; charset=utf-8; a=b\r\nContent-ID: <x>\r\nContent-Transfer-Encoding: 8bit\r\n"
        );
        let message = b"--b b\r\nContent-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\ncontent-transfer-encoding: binary\r\n\r\n<a/>\r\n--b b--";
        let read = Multipart::read(TYPE, message).unwrap();
        let part = &read.parts[0];
        let content_type = part.line(message, "Content-Type").unwrap();
        assert_eq!(part.head_for(message, &content_type), message[part.head.clone()]);
    }
}
