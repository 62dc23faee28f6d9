//! WebSockets: clients that send texts of 500 bytes, and a backend that answers each with its characters reversed.

use std::io;
use std::time::Duration;

use crate::rig::{
    Count, End, Found, Pace, Rig, SCRATCH_BYTES, Sockets, Wire, noise, rest, split_head,
};

pub(crate) struct WebSockets {
    sockets: Sockets,
    clients: Vec<Side>,
    backends: Vec<Side>,
    message_bytes: usize,
    scratch: Vec<u8>,
    found: Vec<Found>,
    /// The connection that sends the next message.
    turn: usize,
    count: usize,
    sent: u64,
    /// Messages that came, at the backend and back at the client.
    came: u64,
    wrong: u64,
}

/// One end of a connection.
struct Side {
    wire: Wire,
    /// By which its messages are known. The backend learns it from the path.
    number: usize,
    is_open: bool,
    is_gone: bool,
    /// Bytes that are no whole head or frame yet.
    held: Vec<u8>,
    /// Of the client: messages sent.
    sent: u64,
    /// The number of the message that comes next.
    next: u64,
}

/// What the rig does about the connection's bytes.
#[derive(Default)]
struct Taken {
    came: u64,
    wrong: u64,
    answer: Vec<u8>,
}

// The example of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const REPLY: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;
const LONGER: u8 = 126;
const OPENED_AT_ONCE: usize = 50;

impl WebSockets {
    pub(crate) fn new(count: usize, message_bytes: usize) -> io::Result<WebSockets> {
        Ok(WebSockets {
            sockets: Sockets::new()?,
            clients: Vec::new(),
            backends: Vec::new(),
            message_bytes,
            scratch: vec![0; SCRATCH_BYTES],
            found: Vec::new(),
            turn: 0,
            count,
            sent: 0,
            came: 0,
            wrong: 0,
        })
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        let mut found = std::mem::take(&mut self.found);
        self.sockets.look(wait, &mut found)?;
        for found in found.drain(..) {
            match found {
                Found::Accepted(stream) => {
                    let wire = self.sockets.add(stream, End::Backend(self.backends.len()))?;
                    self.backends.push(Side::new(wire, 0));
                }
                Found::Ready { end, is_writable } => self.on_ready(end, is_writable),
            }
        }
        self.found = found;
        Ok(())
    }

    fn on_ready(&mut self, end: End, is_writable: bool) {
        let size = self.message_bytes;
        let (side, is_client) = match end {
            End::Client(at) => (self.clients.get_mut(at), true),
            End::Backend(at) => (self.backends.get_mut(at), false),
        };
        let Some(side) = side.filter(|side| !side.is_gone) else { return };
        let mut taken = Taken::default();
        let done = (|| {
            if is_writable {
                side.wire.flush()?;
            }
            loop {
                let (bytes, more) = side.wire.read(&mut self.scratch)?;
                side.take(bytes, is_client, size, &mut taken)?;
                if !more {
                    break;
                }
            }
            if taken.answer.is_empty() { Ok(()) } else { side.wire.send(&taken.answer) }
        })();
        self.came += taken.came;
        self.wrong += taken.wrong;
        if done.is_err() {
            // The backend's end goes with the client's, which counts.
            self.wrong += u64::from(is_client);
            side.is_gone = true;
        }
    }

    /// Sends the next message of the next connection.
    fn send(&mut self) {
        let number = self.turn;
        self.turn = (number + 1) % self.count.max(1);
        let Some(client) = self.clients.get_mut(number) else { return };
        let mut message = vec![0; self.message_bytes];
        noise(number, client.sent, &mut message);
        let mut frame = Vec::with_capacity(message.len() + 8);
        write_header(message.len(), true, &mut frame);
        // Any key will do, but it has to change something.
        let key = u32::try_from(number).unwrap_or_default().wrapping_mul(0x9e37_79b9).to_le_bytes();
        frame.extend_from_slice(&key);
        frame.extend(message.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        client.sent += 1;
        self.sent += 1;
        if client.wire.send(&frame).is_err() {
            client.is_gone = true;
        }
    }
}

impl Rig for WebSockets {
    fn port(&self) -> u16 {
        self.sockets.port()
    }

    fn open(&mut self, port: u16) -> io::Result<usize> {
        for number in 0..self.count {
            let mut wire = self.sockets.connect(port, End::Client(number))?;
            let request = format!(
                "GET /ws/{number:06} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
            );
            wire.send(request.as_bytes())?;
            self.clients.push(Side::new(wire, number));
            if number % OPENED_AT_ONCE == OPENED_AT_ONCE - 1 || number + 1 == self.count {
                rest(|wait| {
                    self.turn(wait)?;
                    let open = self.clients.iter().filter(|client| client.is_open).count();
                    Ok((open as u64, open == self.clients.len()))
                })?;
            }
        }
        Ok(self.clients.iter().filter(|client| !client.is_open || client.is_gone).count())
    }

    /// The rate is that of messages both ways together.
    fn run(&mut self, rate: f64, time: Duration) -> io::Result<Count> {
        let before = (self.sent, self.came, self.wrong);
        let mut pace = Pace::begin(rate / 2.0, time);
        while let Some((due, wait)) = pace.due(u64::MAX)? {
            (0..due).for_each(|_| self.send());
            self.turn(wait)?;
        }
        let wall = pace.elapsed();
        rest(|wait| {
            self.turn(wait)?;
            Ok((self.came, self.came == 2 * self.sent))
        })?;
        let (sent, came, wrong) = before;
        let (sent, came, wrong) = (2 * (self.sent - sent), self.came - came, self.wrong - wrong);
        Ok(Count { sent, came, wrong, wall })
    }
}

impl Side {
    fn new(wire: Wire, number: usize) -> Side {
        let (is_open, is_gone, held, sent, next) = (false, false, Vec::new(), 0, 0);
        Side { wire, number, is_open, is_gone, held, sent, next }
    }

    fn take(
        &mut self,
        bytes: &[u8],
        is_client: bool,
        size: usize,
        taken: &mut Taken,
    ) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.held);
        let mut rest = match held.is_empty() {
            true => bytes,
            false => {
                held.extend_from_slice(bytes);
                &held
            }
        };
        if !self.is_open
            && let Some((head, behind)) = split_head(rest)
        {
            self.begin(head, is_client, taken)?;
            rest = behind;
        }
        if self.is_open {
            while let Some((payload, behind)) = next_frame(rest, is_client)? {
                self.on_message(payload, is_client, size, taken);
                rest = behind;
            }
        }
        self.held = rest.to_vec();
        Ok(())
    }

    fn begin(&mut self, head: &[u8], is_client: bool, taken: &mut Taken) -> io::Result<()> {
        let refusal = || io::Error::other(String::from_utf8_lossy(head).into_owned());
        if is_client {
            self.is_open = head.starts_with(b"HTTP/1.1 101 ");
            return if self.is_open { Ok(()) } else { Err(refusal()) };
        }
        let number = head.strip_prefix(b"GET /ws/").and_then(|head| head.get(..6));
        let number = number.and_then(|digits| str::from_utf8(digits).ok()?.parse::<usize>().ok());
        self.number = number.ok_or_else(refusal)?;
        self.is_open = true;
        taken.answer.extend_from_slice(REPLY);
        Ok(())
    }

    fn on_message(&mut self, payload: Frame<'_>, is_client: bool, size: usize, taken: &mut Taken) {
        let mut expected = vec![0; size];
        noise(self.number, self.next, &mut expected);
        self.next += 1;
        taken.came += 1;
        let mut message = payload.bytes.to_vec();
        if let Some(key) = payload.key {
            message.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        }
        if is_client {
            message.reverse();
        }
        taken.wrong += u64::from(message != expected);
        if !is_client {
            message.reverse();
            write_header(message.len(), false, &mut taken.answer);
            taken.answer.extend_from_slice(&message);
        }
    }
}

/// A frame's payload, as it came.
struct Frame<'b> {
    bytes: &'b [u8],
    key: Option<[u8; 4]>,
}

/// The first whole frame, and what is behind it. Other frames than those that are sent here are an error.
fn next_frame(bytes: &[u8], is_client: bool) -> io::Result<Option<(Frame<'_>, &[u8])>> {
    let wrong = || io::Error::other("no frame of ours");
    let Some(([first, second], rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    if *first != TEXT || (second & MASKED == 0) != is_client {
        return Err(wrong());
    }
    let (len, rest) = match second & !MASKED {
        LONGER => match rest.split_first_chunk::<2>() {
            Some((len, rest)) => (usize::from(u16::from_be_bytes(*len)), rest),
            None => return Ok(None),
        },
        len @ 0..LONGER => (usize::from(len), rest),
        _ => return Err(wrong()),
    };
    let (key, rest) = match (is_client, rest.split_first_chunk::<4>()) {
        (true, _) => (None, rest),
        (false, Some((key, rest))) => (Some(*key), rest),
        (false, None) => return Ok(None),
    };
    let whole = rest.split_at_checked(len);
    Ok(whole.map(|(bytes, rest)| (Frame { bytes, key }, rest)))
}

fn write_header(len: usize, is_masked: bool, out: &mut Vec<u8>) {
    let masked = if is_masked { MASKED } else { 0 };
    match u8::try_from(len) {
        Ok(len) if len < LONGER => out.extend_from_slice(&[TEXT, masked | len]),
        _ => {
            out.extend_from_slice(&[TEXT, masked | LONGER]);
            out.extend_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
}
