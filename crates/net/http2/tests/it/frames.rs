//! Frames as bytes, for both directions.

use std::fmt::Write as _;
use std::task::{Context, Waker};

use http2::{Block, Config, Error, Event, PREFACE, Session};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// `GET https://a/`, by the static table.
pub(crate) const GET: &[u8] = &[0x82, 0x84, 0x87, 0x41, 1, b'a'];

/// `POST https://a/` with `content-length: 5`.
pub(crate) const POST_FIVE: &[u8] = &[0x83, 0x84, 0x87, 0x41, 1, b'a', 0x0f, 0x0d, 1, b'5'];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

pub(crate) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// Returns a request without a body.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, GET)
}

/// Returns the head of a request whose body follows.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, POST_FIVE)
}

/// A session after the exchange of settings, and the state of its client.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) requests: Vec<u32>,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn new() -> Client {
        let mut client = Client::silent();
        client.send(PREFACE).unwrap();
        client.send(&frame(SETTINGS, 0, 0, &[])).unwrap();
        client.answers();
        client
    }

    pub(crate) fn silent() -> Client {
        let session = Session::new(Config { streams_max: 4, head_bytes_max: 1000 });
        Client { session, requests: Vec::new(), unread: Vec::new() }
    }

    /// Passes all of the bytes to the session.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.unread.extend_from_slice(bytes);
        let mut block = Block::default();
        while let Some(read) = self.session.read(&self.unread, &mut block)? {
            self.unread.drain(..read.len);
            if let Event::Request { stream, .. } = read.event {
                self.requests.push(stream);
            }
        }
        Ok(())
    }

    /// Returns the output of the session since the last call, one line per frame.
    pub(crate) fn answers(&mut self) -> String {
        let out = self.session.unsent().to_vec();
        self.session.sent(out.len());
        told(&out)
    }

    pub(crate) fn body(&mut self, stream: u32) -> (String, http2::BodyPiece) {
        let mut out = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let piece = self.session.poll_body(&mut cx, stream, &mut out);
        (out.escape_ascii().to_string(), piece)
    }

    pub(crate) fn reply(&mut self, stream: u32, is_end: bool) {
        let lines = [(&b"X-A"[..], &b"b"[..]), (b"Connection", b"close")];
        self.session.send_head(stream, 200, lines.into_iter(), is_end);
    }
}

pub(crate) fn told(mut bytes: &[u8]) -> String {
    let mut out = String::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let [a, b, c, kind, flags, stream @ ..] = *head;
        let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let (payload, rest) = rest.split_at(len);
        let stream = u32::from_be_bytes(stream);
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            DATA => writeln!(out, "{stream}: data {len}, flags {flags}"),
            HEADERS => writeln!(out, "{stream}: head {}, flags {flags}", payload.escape_ascii()),
            RST_STREAM => writeln!(out, "{stream}: reset {}", number(0)),
            SETTINGS => writeln!(out, "settings {len}, flags {flags}"),
            PING => writeln!(out, "ping {}, flags {flags}", payload.escape_ascii()),
            GOAWAY => writeln!(out, "goaway {} {}", number(0), number(4)),
            WINDOW_UPDATE => writeln!(out, "{stream}: window {}", number(0)),
            _ => writeln!(out, "{stream}: kind {kind}, {len}"),
        }
        .unwrap();
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame: {bytes:?}");
    out
}
