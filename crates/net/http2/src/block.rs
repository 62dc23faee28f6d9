//! The header lines of one message, decompressed to HTTP/1 form (RFC 9113, 8.2 and 8.3).

use http1::{Line, Span};

/// The overhead that is added to the size of each line (RFC 9113, 6.5.2).
const LINE_BYTES: usize = 32;

/// Lines in HTTP/1 form, `Name: value\r\n`, and their offsets.
#[derive(Debug, Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    pub lines: Vec<Line>,
}

/// The pseudo-headers of a request or a reply, and its content length. The spans refer to the block's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub method: Span,
    /// `:path`. Empty for CONNECT without `:protocol`.
    pub target: Span,
    /// `:protocol`, if the request asks for a tunnel by extended CONNECT (RFC 8441). The method is then GET, as in the equivalent HTTP/1
    /// request.
    pub protocol: Option<Span>,
    /// `:authority`, and the default port of `:scheme`. If the message has no Host line, the block contains one with this value.
    pub authority: Option<(Span, &'static str)>,
    /// `:status` of a reply, 100 to 999, or 0 for requests.
    pub status: u16,
    pub content_length: Option<u64>,
    /// Whether the lines exceed the limit. In that case, the block is incomplete.
    pub is_too_large: bool,
}

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Reply,
    /// Trailers, which have no pseudo-headers.
    Trailers,
}

/// Takes lines from the decoder, checks the form of each (RFC 9113), and stores it. Checks across lines are left to
/// [`http1::check_request`], whose rules apply to HTTP/1 as well.
pub(crate) struct BlockReader<'a> {
    block: &'a mut Block,
    part: Part,
    bytes_left: usize,
    seen: SeenLines,
    head: Head,
    cookie: Vec<u8>,
    /// Whether `:scheme` is `http`.
    is_plain: bool,
    /// The reason why the message is malformed.
    wrong: Option<&'static str>,
}

/// The pseudo-headers that were seen, and whether a regular line and a Host line were.
#[derive(Default)]
struct SeenLines {
    method: bool,
    scheme: bool,
    path: bool,
    authority: bool,
    protocol: bool,
    status: bool,
    line: bool,
    host: bool,
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(block: &'a mut Block, part: Part, bytes_max: usize) -> BlockReader<'a> {
        block.bytes.clear();
        block.lines.clear();
        let nothing = Span { start: 0, end: 0 };
        let head = Head {
            method: nothing,
            target: nothing,
            protocol: None,
            authority: None,
            status: 0,
            content_length: None,
            is_too_large: false,
        };
        BlockReader {
            block,
            part,
            bytes_left: bytes_max,
            seen: SeenLines::default(),
            head,
            cookie: Vec::new(),
            is_plain: false,
            wrong: None,
        }
    }

    pub(crate) fn line(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + LINE_BYTES;
        match self.bytes_left.checked_sub(size) {
            Some(left) if !self.head.is_too_large => self.bytes_left = left,
            _ => return self.head.is_too_large = true,
        }
        let taken = match name {
            [b':', name @ ..] => self.pseudo(name, value),
            _ => self.regular(name, value),
        };
        if let Err(wrong) = taken {
            self.wrong = Some(wrong);
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        match self.part {
            Part::Request if !self.seen.line => {}
            Part::Reply if !self.seen.line && name == b"status" => return self.status(value),
            Part::Request | Part::Reply | Part::Trailers => {
                return Err("a pseudo-header where none is allowed");
            }
        }
        let seen = match name {
            b"method" => &mut self.seen.method,
            b"scheme" => &mut self.seen.scheme,
            b"path" => &mut self.seen.path,
            b"authority" => &mut self.seen.authority,
            b"protocol" => &mut self.seen.protocol,
            _ => return Err("an unknown pseudo-header"),
        };
        if std::mem::replace(seen, true) {
            return Err("a duplicate pseudo-header");
        }
        match name {
            b"method" if !http1::is_token(value) => return Err("a method that is not a token"),
            b"method" => self.head.method = self.loose(value),
            b"path" if value.is_empty() => return Err("an empty path"),
            b"path" => self.head.target = self.loose(value),
            b"protocol" if !http1::is_token(value) => return Err("a protocol that is not a token"),
            b"protocol" => self.head.protocol = Some(self.loose(value)),
            b"authority" => {
                // With an invalid value, the request has no host, and is answered accordingly.
                let value = if http1::is_header_value(value) {
                    self.put(b"Host", value)
                } else {
                    self.loose(value)
                };
                self.head.authority = Some((value, "443"));
            }
            _ if value.eq_ignore_ascii_case(b"https") => {}
            _ if value.eq_ignore_ascii_case(b"http") => self.is_plain = true,
            _ => return Err("a scheme other than http and https"),
        }
        Ok(())
    }

    fn status(&mut self, value: &[u8]) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.seen.status, true) {
            return Err("a duplicate pseudo-header");
        }
        let digits = value.as_array::<3>().filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number = digits.map(|d| d.iter().fold(0, |n, d| 10 * n + u16::from(d - b'0')));
        let status = number.filter(|status| *status >= 100);
        self.head.status = status.ok_or("a status that is not a number from 100 to 999")?;
        Ok(())
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        self.seen.line = true;
        if !http1::is_lower_case_token(name) {
            return Err("a header name that is not a token in lower case");
        }
        if !http1::is_header_value(value) || value.trim_ascii().len() != value.len() {
            return Err("a header value with surrounding white space or control characters");
        }
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return Err("a header of an HTTP/1 connection"),
            b"te" if value != b"trailers" => return Err("a header of an HTTP/1 connection"),
            b"content-length" => self.length(value)?,
            b"host" => self.seen.host = true,
            b"cookie" => {
                self.crumb(value);
                return Ok(());
            }
            // Harmless: other fields need no check.
            _ => {}
        }
        self.put(name, value);
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<(), &'static str> {
        const WRONG: &str = "a content-length that is invalid, duplicated or in trailers";
        let length = http1::parse_content_length(value)
            .filter(|_| self.part != Part::Trailers)
            .ok_or(WRONG)?;
        match self.head.content_length.replace(length) {
            None => Ok(()),
            Some(_) => Err(WRONG),
        }
    }

    /// Joins cookies from several lines (crumbs) to the single line of HTTP/1 (RFC 9113, 8.2.3).
    fn crumb(&mut self, value: &[u8]) {
        if !self.cookie.is_empty() {
            self.cookie.extend_from_slice(b"; ");
        }
        self.cookie.extend_from_slice(value);
    }

    /// Ends the block and returns its head. An error means that the message is malformed (8.1.1).
    pub(crate) fn finish(mut self) -> Result<Head, &'static str> {
        if self.head.is_too_large {
            return Ok(self.head);
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if !self.cookie.is_empty() {
            let cookie = std::mem::take(&mut self.cookie);
            self.put(b"Cookie", &cookie);
        }
        if let Some((_, port)) = self.head.authority.as_mut().filter(|_| self.is_plain) {
            *port = "80";
        }
        let authority = self.head.authority.map(|(value, _)| value);
        if self.seen.host {
            // Only the client's own Host lines are kept. `http1::check_request` compares them with the authority.
            self.block.lines.retain(|line| Some(line.value) != authority);
        }
        if self.part == Part::Reply && !self.seen.status {
            return Err("a reply without a status");
        }
        let is_connect = self.head.method.of(&self.block.bytes) == b"CONNECT";
        let SeenLines { method, scheme, path, authority, protocol, .. } = self.seen;
        let whole = match (is_connect, protocol) {
            (true, true) => authority && scheme && path,
            (true, false) => authority && !scheme && !path,
            (false, true) => return Err("a protocol without CONNECT"),
            (false, false) => method && scheme && path,
        };
        if self.part == Part::Request && !whole {
            return Err("pseudo-headers are missing");
        }
        if protocol && self.head.content_length.is_some() {
            return Err("a tunnel with a length");
        }
        if protocol {
            self.head.method = self.loose(b"GET");
        }
        Ok(self.head)
    }

    /// Stores a line, and returns the span of its value.
    fn put(&mut self, name: &[u8], value: &[u8]) -> Span {
        let bytes = &mut self.block.bytes;
        let start = at(bytes);
        bytes.extend_from_slice(name);
        let name = Span { start, end: at(bytes) };
        bytes.extend_from_slice(b": ");
        let value_start = at(bytes);
        bytes.extend_from_slice(value);
        let value = Span { start: value_start, end: at(bytes) };
        bytes.extend_from_slice(b"\r\n");
        self.block.lines.push(Line { line: Span { start, end: at(bytes) }, name, value });
        value
    }

    /// Stores bytes that are not part of a line.
    fn loose(&mut self, text: &[u8]) -> Span {
        let start = at(&self.block.bytes);
        self.block.bytes.extend_from_slice(text);
        Span { start, end: at(&self.block.bytes) }
    }
}

/// Returns the offset of the next byte. Blocks are limited far below 4 GiB.
fn at(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(part: Part, lines: &[(&str, &str)]) -> Result<(String, Head), &'static str> {
        let mut block = Block::default();
        let mut reading = BlockReader::new(&mut block, part, 1000);
        lines.iter().for_each(|(name, value)| reading.line(name.as_bytes(), value.as_bytes()));
        let head = reading.finish()?;
        let lines = block.lines.iter().map(|line| line.line.of(&block.bytes));
        let method = head.method.of(&block.bytes);
        let target = head.target.of(&block.bytes);
        let all = [method, b" ", target, b"\r\n", &lines.collect::<Vec<_>>().concat()].concat();
        Ok((String::from_utf8(all).unwrap(), head))
    }

    const GET: [(&str, &str); 3] = [(":method", "GET"), (":path", "/a?b"), (":scheme", "https")];

    fn get(more: &[(&str, &str)]) -> Result<(String, Head), &'static str> {
        read(Part::Request, &[&GET, more].concat())
    }

    #[test]
    fn a_request_is_converted_to_http_1() {
        let more = [
            (":authority", "a.test:81"),
            ("cookie", "a=b"),
            ("host", "A.test:81"),
            ("content-length", "12"),
            ("cookie", "c=d"),
            ("te", "trailers"),
        ];
        let (text, head) = get(&more).unwrap();
        let lines = "host: A.test:81\r\ncontent-length: 12\r\nte: trailers\r\nCookie: a=b; c=d\r\n";
        assert_eq!(text, format!("GET /a?b\r\n{lines}"));
        assert_eq!((head.content_length, head.is_too_large), (Some(12), false));
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let cases: [&[(&str, &str)]; 23] = [
            &[(":method", "PUT")],
            &[(":status", "200")],
            &[(":scheme", "https")],
            &[(":protocol", "websocket")],
            &[(":authority", "x"), (":protocol", "websocket")],
            &[("a", "b"), (":authority", "x")],
            &[("A", "b")],
            &[("", "b")],
            &[("a b", "c")],
            &[("a", " b")],
            &[("a", "b\t")],
            &[("a", "b\r\nc: d")],
            &[("a", "b\0")],
            &[("connection", "close")],
            &[("keep-alive", "1")],
            &[("proxy-connection", "close")],
            &[("transfer-encoding", "chunked")],
            &[("upgrade", "h2c")],
            &[("te", "gzip")],
            &[("content-length", "+1")],
            &[("content-length", "1"), ("content-length", "1")],
            &[("content-length", "99999999999999999999")],
            &[("content-length", "9223372036854775808")],
        ];
        for case in cases {
            assert!(get(case).is_err(), "{case:?}");
        }
        for missing in 0..3 {
            let mut lines = GET.to_vec();
            lines.remove(missing);
            assert!(read(Part::Request, &lines).is_err(), "{lines:?}");
        }
        for scheme in ["ftp", "http\r\nx: y", "http://b/", ""] {
            let lines = [(":method", "GET"), (":path", "/"), (":scheme", scheme)];
            assert!(read(Part::Request, &lines).is_err(), "{scheme:?}");
        }
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert!(read(Part::Request, &connect).is_ok());
        assert!(read(Part::Request, &[&connect[..], &[(":path", "/")]].concat()).is_err());
        assert!(read(Part::Trailers, &[(":path", "/")]).is_err());
        assert!(read(Part::Trailers, &[("content-length", "1")]).is_err());
    }

    #[test]
    fn extended_connect_becomes_a_get_of_http_1() {
        const CONNECT: [(&str, &str); 5] = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", "/chat?a"),
            (":authority", "a.test"),
        ];
        let (text, head) = read(Part::Request, &[&CONNECT[..], &[("a", "b")]].concat()).unwrap();
        assert_eq!(text, "GET /chat?a\r\nHost: a.test\r\na: b\r\n");
        assert!(head.protocol.is_some());
        assert_eq!(get(&[]).unwrap().1.protocol, None);
        for wrong in
            [("content-length", "1"), (":protocol", "websocket"), ("connection", "upgrade")]
        {
            assert!(read(Part::Request, &[&CONNECT[..], &[wrong]].concat()).is_err(), "{wrong:?}");
        }
        for missing in [0, 2, 3, 4] {
            let mut lines = CONNECT.to_vec();
            lines.remove(missing);
            assert!(read(Part::Request, &lines).is_err(), "{lines:?}");
        }
        let mut lines = CONNECT;
        lines[1].1 = "web socket";
        assert!(read(Part::Request, &lines).is_err());
    }

    #[test]
    fn the_authority_becomes_the_host_unless_there_is_a_host_line() {
        let authority = |more: &[(&str, &str)]| {
            let mut block = Block::default();
            let mut reading = BlockReader::new(&mut block, Part::Request, 1000);
            let lines = GET.iter().chain(more);
            lines.for_each(|(name, value)| reading.line(name.as_bytes(), value.as_bytes()));
            let authority = reading.finish().unwrap().authority;
            authority.map(|(span, port)| {
                (String::from_utf8(span.of(&block.bytes).to_vec()).unwrap(), port)
            })
        };
        assert_eq!(authority(&[("host", "a")]), None);
        let (text, _) = get(&[(":authority", "a\r\nx: y")]).unwrap();
        assert!(text.ends_with("/a?b\r\n"), "no line is made of it: {text:?}");
        assert_eq!(authority(&[(":authority", "a")]), Some(("a".to_owned(), "443")));
        let (text, _) = get(&[(":authority", "a"), ("b", "c")]).unwrap();
        assert_eq!(text, "GET /a?b\r\nHost: a\r\nb: c\r\n");
        let both = [(":authority", "a"), ("host", "b"), ("host", "c")];
        assert_eq!(authority(&both), Some(("a".to_owned(), "443")));
        assert_eq!(get(&both).unwrap().0, "GET /a?b\r\nhost: b\r\nhost: c\r\n");
    }

    #[test]
    fn a_block_that_is_too_large_has_a_head() {
        let (_, head) = get(&[("a", &"b".repeat(1000))]).unwrap();
        assert!(head.is_too_large);
        // Lines beyond the limit are not checked.
        assert!(get(&[("a", &"b".repeat(1000)), ("A", "")]).unwrap().1.is_too_large);
    }
}
