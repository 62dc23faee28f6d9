//! WebSockets: clients that send texts of 500 bytes, and a backend that answers each with its characters reversed.

use std::io;

use crate::rig::{End, Ends, Hand, Rig, Tally, Wire, noise, split_head};

pub(crate) struct WebSockets {
    clients: Vec<Side>,
    backends: Vec<Side>,
    message_bytes: usize,
    /// The connection that sends the next message.
    turn: usize,
}

/// One end of a connection.
struct Side {
    wire: Wire,
    /// By which its messages are known. The backend learns it from the path.
    number: usize,
    is_open: bool,
    is_gone: bool,
    /// Bytes that are not a whole head or frame yet.
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
/// A message comes at the backend, and its answer at the client.
const EACH: u64 = 2;

impl WebSockets {
    pub(crate) fn rig(count: usize, message_bytes: usize) -> io::Result<Rig> {
        let (clients, backends) = (Vec::new(), Vec::new());
        let ends = WebSockets { clients, backends, message_bytes, turn: 0 };
        Rig::new(Box::new(ends), count, EACH)
    }
}

impl Ends for WebSockets {
    fn begin(&mut self, end: End, mut wire: Wire) -> io::Result<()> {
        let End::Client(number) = end else {
            self.backends.push(Side::new(wire, 0));
            return Ok(());
        };
        let request = format!(
            "GET /ws/{number:06} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        wire.send(request.as_bytes())?;
        self.clients.push(Side::new(wire, number));
        Ok(())
    }

    fn on_ready(&mut self, end: End, is_writable: bool, hand: &mut Hand) -> io::Result<()> {
        let (side, is_client) = match end {
            End::Client(at) => (self.clients.get_mut(at), true),
            End::Backend(at) => (self.backends.get_mut(at), false),
        };
        let Some(side) = side.filter(|side| !side.is_gone) else { return Ok(()) };
        let mut taken = Taken::default();
        let done = (|| {
            if is_writable {
                side.wire.flush()?;
            }
            loop {
                let (bytes, more) = side.wire.read(&mut hand.scratch)?;
                side.take(bytes, is_client, self.message_bytes, &mut taken)?;
                if !more {
                    break;
                }
            }
            if taken.answer.is_empty() { Ok(()) } else { side.wire.send(&taken.answer) }
        })();
        hand.tally.came += taken.came;
        hand.tally.wrong += taken.wrong;
        if done.is_err() {
            // The backend's end goes with the client's, which counts.
            hand.tally.wrong += u64::from(is_client);
            side.is_gone = true;
        }
        Ok(())
    }

    /// Sends the next message of the next connection.
    fn send(&mut self, tally: &mut Tally) -> io::Result<bool> {
        let number = self.turn;
        self.turn = (number + 1) % self.clients.len().max(1);
        let Some(client) = self.clients.get_mut(number) else { return Ok(false) };
        let mut message = vec![0; self.message_bytes];
        noise(number, client.sent, &mut message);
        let mut frame = Vec::with_capacity(message.len() + 8);
        write_header(message.len(), true, &mut frame);
        // Any key will do, but it has to change something.
        let key = u32::try_from(number).unwrap_or_default().wrapping_mul(0x9e37_79b9).to_le_bytes();
        frame.extend_from_slice(&key);
        frame.extend(message.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        client.sent += 1;
        tally.sent += EACH;
        if client.wire.send(&frame).is_err() {
            client.is_gone = true;
        }
        Ok(true)
    }

    fn open(&self) -> usize {
        self.clients.iter().filter(|client| client.is_open && !client.is_gone).count()
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
        let mut rest = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            &held
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
