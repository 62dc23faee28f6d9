//! Parses the bytes written to a wire into messages, with the gateway's own strict codec.

use std::fmt;

use http1::{Decoder, Limits, MethodKind, parse_request, parse_response};

/// The expected kind of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind<'a> {
    Requests,
    /// Replies; true for each that answers HEAD. Replies beyond the end of the list do not.
    Replies(&'a [bool]),
}

/// One message as written.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The method of a request, the status of a reply.
    pub method_or_status: String,
    /// The target of a request, empty for a reply.
    pub target: String,
    /// Header names (in lower case) and values, in the order they were written.
    pub lines: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// Trailer lines, raw.
    pub trailers: Vec<u8>,
    /// True if the message is complete.
    pub whole: bool,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken = if self.whole { "" } else { " (not whole)" };
        write!(f, "{}{broken}", self.text())
    }
}

impl Message {
    /// Returns the values of the lines with this name, which is in lower case.
    pub fn values<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m [u8]> {
        self.lines.iter().filter(move |(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// Returns the whole message as one text to search: start, lines, body, trailers.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}\n", self.method_or_status, self.target);
        for (name, value) in &self.lines {
            // Harmless: the text is only shown.
            text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value)));
        }
        // Harmless: the text is only shown.
        text.push_str(&format!("\n{}\n", String::from_utf8_lossy(&self.body)));
        // Harmless: the text is only shown.
        text.push_str(&String::from_utf8_lossy(&self.trailers));
        text
    }
}

/// Parses all messages, and returns the bytes after them. Interim replies are left out. `ended` is true if no more bytes will come.
pub fn read_messages<'b>(
    mut bytes: &'b [u8],
    side: MessageKind<'_>,
    ended: bool,
) -> Result<(Vec<Message>, &'b [u8]), String> {
    let mut messages = Vec::new();
    loop {
        let to_head = match side {
            MessageKind::Requests => None,
            MessageKind::Replies(heads) => {
                Some(heads.get(messages.len()).copied().unwrap_or(false))
            }
        };
        let Some((message, len)) = read_one(bytes, to_head, ended)? else {
            return Ok((messages, bytes));
        };
        bytes = bytes.get(len..).unwrap_or_default();
        if !message.method_or_status.starts_with('1') {
            messages.push(message);
        }
    }
}

/// Parses one message. `to_head` is set for a reply, and true if it answers HEAD.
fn read_one(
    bytes: &[u8],
    to_head: Option<bool>,
    ended: bool,
) -> Result<Option<(Message, usize)>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut lines, limits) = (Vec::new(), Limits::default());
    let broken = |e: http1::Error| format!("{e}: {}", bytes.escape_ascii());
    // Harmless: names and targets of tests are ASCII.
    let text = |span: http1::Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
    let (method_or_status, target, framing, head_len) = match to_head {
        None => {
            let head = parse_request(bytes, &limits, &mut lines).map_err(broken)?;
            let Some(head) = head else { return Ok(None) };
            (text(head.method), text(head.target), head.framing, head.head_len)
        }
        Some(head) => {
            let asked = MethodKind { head, connect: false };
            let head = parse_response(bytes, &limits, asked, &mut lines).map_err(broken)?;
            let Some(head) = head else { return Ok(None) };
            (head.status.to_string(), String::new(), head.framing, head.head_len)
        }
    };
    let lines =
        lines.iter().map(|line| (text(line.name).to_lowercase(), line.value.of(bytes).to_vec()));
    let lines = lines.collect();
    let (mut decoder, mut body) = (Decoder::new(framing), Vec::new());
    let rest = bytes.get(head_len..).unwrap_or_default();
    let taken = decoder.decode(rest, &mut body).map_err(broken)?;
    let whole = decoder.is_done() || (ended && framing == http1::Framing::UntilClose);
    let trailers = decoder.trailers().to_vec();
    Ok(Some((Message { method_or_status, target, lines, body, trailers, whole }, head_len + taken)))
}
