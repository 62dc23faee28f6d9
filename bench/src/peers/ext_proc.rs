//! An interceptor for Envoy's `ext_proc`: a gRPC service that receives the headers and the body of each request and adds the header
//! `x-intercepted: yes`, as the interceptor of document 000 does.
//!
//! Owns the few messages of `envoy.service.ext_proc.v3` that this needs. It never parses a body.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Waker};

use http2::{Block, BodyPiece, Config, Event, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CONFIG: Config = Config { streams_max: 1000, head_bytes_max: 64 << 10 };
/// Length of the flag and the length before each gRPC message.
const PREFIX_BYTES: usize = 5;
/// Maximum size of a message. Envoy buffers at most 1 MiB of a body.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
const READ_BYTES: usize = 64 << 10;

/// The part of a request that Envoy sends. Its configuration asks for no other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The headers of a request, and whether they are the end of the request.
    Headers {
        is_whole: bool,
    },
    Body,
}

/// Serves until the listener fails.
///
/// # Errors
///
/// If the address cannot be bound, or no connection can be accepted.
pub fn serve(address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        ready(listener.local_addr()?);
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // Envoy closes its connections when it ends, which is not a failure of this service.
            connections.spawn(async move { drop(connection(stream).await) });
            while connections.try_join_next().is_some() {}
        }
    })
}

async fn connection(mut stream: TcpStream) -> io::Result<()> {
    let mut session = Session::new(CONFIG);
    let (mut block, mut unread) = (Block::default(), Vec::new());
    let mut calls: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    loop {
        unread.reserve(READ_BYTES);
        if stream.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
        let mut taken = 0;
        while let Some(rest) = unread.get(taken..).filter(|rest| !rest.is_empty()) {
            let Some(read) = session.read(rest, &mut block).map_err(io::Error::other)? else {
                break;
            };
            taken += read.len;
            if let Event::Request { stream, .. } = read.event {
                calls.insert(stream, Vec::new());
                let grpc = (&b"content-type"[..], &b"application/grpc"[..]);
                session.send_head(stream, 200, [grpc].into_iter(), false);
            }
        }
        unread.drain(..taken);
        calls.retain(|number, held| advance(&mut session, *number, held));
        let len = session.unsent().len();
        stream.write_all(session.unsent()).await?;
        session.sent(len);
    }
}

/// Answers the messages of a call that have arrived. Returns false if the call is over.
fn advance(session: &mut Session, number: u32, held: &mut Vec<u8>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        let piece = session.poll_body(&mut cx, number, held);
        let is_good = answer(session, number, held);
        match piece {
            BodyPiece::More if is_good => {}
            BodyPiece::None if is_good => return true,
            BodyPiece::Gone => return false,
            BodyPiece::End(_) if is_good => {
                let ok = (&b"grpc-status"[..], &b"0"[..]);
                session.send_trailers(number, [ok].into_iter());
                return false;
            }
            BodyPiece::More | BodyPiece::None | BodyPiece::End(_) => {
                session.reset(number, http2::Code::CANCEL);
                return false;
            }
        }
    }
}

/// Answers each complete message. Returns false if a message is unknown or too large, or if its answer does not fit the window.
fn answer(session: &mut Session, number: u32, held: &mut Vec<u8>) -> bool {
    while let Some((prefix, rest)) = held.split_first_chunk::<PREFIX_BYTES>() {
        let [_, a, b, c, d] = *prefix;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MESSAGE_BYTES_MAX {
            return false;
        }
        let Some(message) = rest.get(..length) else { return true };
        let Some(asked) = asked(message) else { return false };
        let answer = framed(&response(asked));
        held.drain(..PREFIX_BYTES + length);
        if session.send_data(number, &answer, false) != answer.len() {
            return false;
        }
    }
    true
}

/// Returns an uncompressed gRPC message.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// `ProcessingRequest`: field 2 has the headers of the request, field 4 its body.
fn asked(message: &[u8]) -> Option<Asked> {
    let mut fields = Fields(message);
    while let Some((number, value)) = fields.next_field()? {
        match (number, value) {
            (2, Value::Bytes(headers)) => {
                let mut is_whole = false;
                let mut inner = Fields(headers);
                while let Some((number, value)) = inner.next_field()? {
                    // `HttpHeaders.end_of_stream`
                    is_whole |= (number, value) == (3, Value::Number(1));
                }
                return Some(Asked::Headers { is_whole });
            }
            (4, Value::Bytes(_)) => return Some(Asked::Body),
            _ => {}
        }
    }
    None
}

/// `ProcessingResponse`: field 1 answers headers, field 3 a body. The header is added with the last part of a request.
fn response(asked: Asked) -> Vec<u8> {
    let (field, adds) = match asked {
        Asked::Headers { is_whole } => (1, is_whole),
        Asked::Body => (3, true),
    };
    let common = if adds {
        // HeaderValue { key, raw_value }, HeaderValueOption { header }, HeaderMutation { set_headers }
        let value = [bytes(1, b"x-intercepted"), bytes(3, b"yes")].concat();
        bytes(2, &bytes(1, &bytes(1, &value)))
    } else {
        Vec::new()
    };
    // HeadersResponse and BodyResponse { response: CommonResponse { header_mutation } }
    bytes(field, &bytes(1, &common))
}

/// Returns a length-delimited field of protobuf.
fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    let mut length = content.len();
    let low = |length: usize| length.to_le_bytes()[0] & 0x7f;
    while length >= 0x80 {
        out.push(low(length) | 0x80);
        length >>= 7;
    }
    out.push(low(length));
    out.extend_from_slice(content);
    out
}

/// Iterates over the fields of a protobuf message.
struct Fields<'m>(&'m [u8]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

impl<'m> Fields<'m> {
    /// Returns the next field, `Some(None)` at the end, or `None` if the message is not protobuf.
    fn next_field(&mut self) -> Option<Option<(u64, Value<'m>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return None,
        };
        Some(Some((key >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let [byte] = *self.take(1)? else { return None };
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_envoy_are_distinguished_and_answered() {
        let headers = bytes(2, &bytes(1, &bytes(1, b"anything")));
        assert_eq!(asked(&headers), Some(Asked::Headers { is_whole: false }));
        let whole = bytes(2, &[bytes(1, b""), vec![3 << 3, 1]].concat());
        assert_eq!(asked(&whole), Some(Asked::Headers { is_whole: true }));
        assert_eq!(asked(&bytes(4, &bytes(1, &[b'x'; 300]))), Some(Asked::Body));
        for wrong in [
            &b""[..],
            b"\x22",
            b"\x22\x05ab",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            &bytes(3, b""),
        ] {
            assert_eq!(asked(wrong), None, "{wrong:?}");
        }
        assert_eq!(response(Asked::Headers { is_whole: false }), b"\x0a\x02\x0a\x00");
        let added = b"\x1a\x1c\x0a\x1a\x12\x18\x0a\x16\x0a\x14\x0a\x0dx-intercepted\x1a\x03yes";
        assert_eq!(response(Asked::Body), added);
    }
}
