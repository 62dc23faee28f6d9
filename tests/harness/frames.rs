//! The target's side of an HTTP/2 connection, frame by frame: a test decides which frames are sent and sees those received.

use super::{Message, Peer};

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// The flags END_STREAM and END_HEADERS.
pub(crate) const END: u8 = 1;
pub(crate) const HEAD: u8 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn is_end(&self) -> bool {
        self.flags & END != 0
    }

    /// Returns the number at the beginning of the payload: an error code or a window.
    #[track_caller]
    pub(crate) fn number(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }

    /// Returns the error code of a GOAWAY.
    #[track_caller]
    pub(crate) fn code(&self) -> u32 {
        u32::from_be_bytes(self.payload[4..8].try_into().unwrap())
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Returns a SETTINGS frame. Each setting is an id and a value.
pub(crate) fn settings(all: &[(u16, u32)]) -> Vec<u8> {
    let values = all
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(kind::SETTINGS, 0, 0, &values.collect::<Vec<_>>())
}

/// Returns a field block with literal names and values, which must be short.
pub(crate) fn block(lines: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    lines.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

pub(crate) fn head(stream: u32, flags: u8, lines: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, HEAD | flags, stream, &block(lines))
}

pub(crate) fn data(stream: u32, flags: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    frame(kind::DATA, flags, stream, bytes.as_ref())
}

pub(crate) fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Returns a complete reply: 200 with a body.
pub(crate) fn reply(stream: u32, body: &str) -> Vec<u8> {
    [head(stream, 0, &[(":status", "200")]), data(stream, END, body)].concat()
}

impl Peer {
    /// Reads the preface and sends settings.
    #[track_caller]
    pub(crate) fn greet(&mut self, ours: &[(u16, u32)]) {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(self.read_exact(PREFACE.len()).as_deref(), Some(PREFACE));
        self.send(settings(ours));
    }

    /// Reads the next frame. Returns `None` if the gateway closed the connection.
    pub(crate) fn any_frame(&mut self) -> Option<Frame> {
        let head = self.read_exact(9)?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = self.read_exact(len)?;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads the next frame of a stream, or GOAWAY. Answers SETTINGS and PING, and skips WINDOW_UPDATE.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        loop {
            let next = self.any_frame()?;
            match next.kind {
                kind::SETTINGS if next.flags & 1 == 0 => {
                    self.try_send(frame(kind::SETTINGS, 1, 0, &[]));
                }
                kind::PING if next.flags & 1 == 0 => {
                    self.try_send(frame(kind::PING, 1, 0, &next.payload));
                }
                kind::SETTINGS | kind::PING | kind::WINDOW_UPDATE => {}
                _ => return Some(next),
            }
        }
    }

    /// Reads the head of the next request and records it. Returns its stream, the request, and whether it has ended.
    pub(crate) fn stream(&mut self) -> Option<(u32, Message, bool)> {
        loop {
            let first = self.frame()?;
            if first.kind == kind::HEADERS {
                let request = message(&lines(&first.payload));
                self.note(&request);
                return Some((first.stream, request, first.is_end()));
            }
        }
    }

    /// Reads a whole request. Frames of other streams must not arrive meanwhile.
    pub(crate) fn whole_stream(&mut self) -> Option<(u32, Message)> {
        let (stream, mut request, mut is_end) = self.stream()?;
        while !is_end {
            let next = self.frame()?;
            is_end = next.is_end();
            match next.kind {
                kind::DATA => {
                    request.body.extend_from_slice(&next.payload);
                    let more = u32::try_from(next.payload.len()).unwrap();
                    if more > 0 {
                        self.try_send([window(0, more), window(stream, more)].concat());
                    }
                }
                kind::HEADERS => request.trailers = lines(&next.payload),
                _ => return None,
            }
        }
        request.whole = true;
        Some((stream, request))
    }
}

/// Returns the head as an HTTP/1 message.
fn message(lines: &[(String, String)]) -> Message {
    let pseudo = |name: &str| {
        let found = lines.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let start = format!("{} {} {}", pseudo(":method"), pseudo(":path"), pseudo(":scheme"));
    let mut headers = vec![("host".to_owned(), pseudo(":authority").to_owned())];
    headers.extend(lines.iter().filter(|(name, _)| !name.starts_with(':')).cloned());
    Message { start, headers, ..Message::default() }
}

/// Parses a field block as the gateway writes it: entries of the static table, and literals without Huffman coding.
fn lines(mut block: &[u8]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    while let Some(&first) = block.first() {
        match first {
            0x80.. => {
                let (name, value) = PSEUDO[usize::from(first & 0x7f) - 1];
                lines.push((name.to_owned(), value.to_owned()));
                block = &block[1..];
            }
            0x20..0x40 => block = &block[1..],
            _ => {
                let name = match integer(&mut block, 0x0f) {
                    0 => text(&mut block),
                    index @ ..=14 => PSEUDO[index - 1].0.to_owned(),
                    index => NAMES.split(' ').nth(index - 15).expect("a name").to_owned(),
                };
                lines.push((name, text(&mut block)));
            }
        }
    }
    lines
}

fn text(block: &mut &[u8]) -> String {
    assert_eq!(block[0] & 0x80, 0, "Huffman's code");
    let length = integer(block, 0x7f);
    let (text, rest) = block.split_at(length);
    *block = rest;
    String::from_utf8(text.to_vec()).expect("text")
}

fn integer(block: &mut &[u8], most: u8) -> usize {
    let mut value = usize::from(block[0] & most);
    *block = &block[1..];
    if value == usize::from(most) {
        for shift in (0..).step_by(7) {
            let byte = block[0];
            *block = &block[1..];
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    value
}

/// The static table (RFC 7541, appendix A): the first 14 entries, and the names of the others.
const PSEUDO: [(&str, &str); 14] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
];
const NAMES: &str = "accept-charset accept-encoding accept-language accept-ranges accept \
    access-control-allow-origin age allow authorization cache-control content-disposition \
    content-encoding content-language content-length content-location content-range content-type \
    cookie date etag expect expires from host if-match if-modified-since if-none-match if-range \
    if-unmodified-since last-modified link location max-forwards proxy-authenticate \
    proxy-authorization range referer refresh retry-after server set-cookie \
    strict-transport-security transfer-encoding user-agent vary via www-authenticate";
