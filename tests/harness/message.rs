//! One message as sent over the wire.

use std::fmt;

/// A request or a reply, head and body, byte for byte.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Message {
    /// The first line, without its end.
    pub(crate) start: String,
    /// Header lines in order, with names as they were written.
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// True if the body was complete according to its framing.
    pub(crate) whole: bool,
}

impl Message {
    /// Parses a head that ends in an empty line.
    #[track_caller]
    pub(crate) fn parse(head: &[u8]) -> Message {
        let text = String::from_utf8_lossy(head).into_owned();
        let (start, lines) = text.split_once("\r\n").expect("a first line");
        Message { start: start.to_owned(), headers: headers(lines), ..Message::default() }
    }

    /// Returns the status of a reply.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        let status = self.start.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        status
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no status: {self:?}"))
    }

    /// Returns the method of a request.
    pub(crate) fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// Returns the target of a request.
    pub(crate) fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns all values of a header, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let same = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the value of a header, which must not occur twice.
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} more than once: {self:?}");
        all.first().copied()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns true if a list header such as `Connection` contains a word.
    pub(crate) fn lists(&self, name: &str, word: &str) -> bool {
        let words = self.all(name).join(",");
        words.split(',').any(|w| w.trim().eq_ignore_ascii_case(word))
    }

    /// Returns the value of `Content-Length`.
    pub(crate) fn length(&self) -> Option<usize> {
        self.get("content-length").map(|length| length.parse().expect("a length"))
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.lists("transfer-encoding", "chunked")
    }
}

/// Parses header or trailer lines, up to the first empty one.
pub(crate) fn headers(lines: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {line:?}"));
        (name.to_owned(), value.trim().to_owned())
    };
    lines.split("\r\n").take_while(|l| !l.is_empty()).map(line).collect()
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n  {}", self.start)?;
        self.headers.iter().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))?;
        let shown = &self.body[..self.body.len().min(500)];
        writeln!(
            f,
            "  {} bytes, whole: {}: {}",
            self.body.len(),
            self.whole,
            shown.escape_ascii()
        )?;
        self.trailers.iter().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))
    }
}
