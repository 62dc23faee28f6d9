//! Event streams: a backend that sends events of 82 bytes, each other than the one before, and clients that know which comes next.

use std::io;

use crate::rig::{End, Ends, Hand, Rig, Tally, Wire, noise, split_head};

pub(crate) const EVENT_BYTES: usize = 82;
/// An event before it is filled in.
const EVENT: [u8; EVENT_BYTES] =
    *b"data: {\"s\":\"000000\",\"n\":\"0000000000\",\"x\":\"....................................\"}\n\n";

pub(crate) struct Sse {
    clients: Vec<Client>,
    backends: Vec<Backend>,
    /// The backend's connection of each stream.
    served: Vec<Option<usize>>,
    /// All clients ask for the same stream, which the gateway opens once.
    is_shared: bool,
    /// The stream that gets the next event.
    turn: usize,
    /// Clients that get an event of the backend.
    each: u64,
}

struct Client {
    wire: Wire,
    number: usize,
    /// The head of the reply, as far as it came; nothing once it is whole.
    head: Option<Vec<u8>>,
    chunks: Chunks,
    /// The part of an event.
    held: Vec<u8>,
    next: u64,
    is_gone: bool,
}

struct Backend {
    wire: Wire,
    head: Vec<u8>,
    next: u64,
}

/// Where in a chunked body the bytes are.
#[derive(Default)]
struct Chunks {
    /// Bytes of the chunk that are still to come.
    left: usize,
    is_in_data: bool,
}

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

impl Sse {
    pub(crate) fn rig(clients: usize, is_shared: bool) -> io::Result<Rig> {
        let (streams, each) = if is_shared { (1, clients as u64) } else { (clients, 1) };
        let (served, turn) = (vec![None; streams], 0);
        let ends = Sse { clients: Vec::new(), backends: Vec::new(), served, is_shared, turn, each };
        Rig::new(Box::new(ends), clients, each)
    }

    fn on_client(&mut self, at: usize, Hand { scratch, tally }: &mut Hand) {
        let Some(client) = self.clients.get_mut(at).filter(|client| !client.is_gone) else {
            return;
        };
        loop {
            let before = client.next;
            let read = client.wire.read(scratch);
            let more = read.and_then(|(bytes, more)| {
                tally.wrong += client.take(bytes)?;
                Ok(more)
            });
            tally.came += client.next - before;
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    (tally.wrong, client.is_gone) = (tally.wrong + 1, true);
                    return;
                }
            }
        }
    }

    fn on_backend(&mut self, at: usize, is_writable: bool, hand: &mut Hand) -> io::Result<()> {
        let Some(backend) = self.backends.get_mut(at) else { return Ok(()) };
        if is_writable && backend.wire.flush().is_err() {
            return Ok(());
        }
        // A gateway that has left needs nothing more; its client will say so.
        let Ok((bytes, _)) = backend.wire.read(&mut hand.scratch) else { return Ok(()) };
        backend.head.extend_from_slice(bytes);
        let Some((head, _)) = split_head(&backend.head) else { return Ok(()) };
        let path = if self.is_shared { b"GET /shared/" } else { &b"GET /sse/"[..] };
        let number = head.strip_prefix(path).and_then(|head| head.get(..6));
        let number = number.and_then(|digits| str::from_utf8(digits).ok()?.parse::<usize>().ok());
        let place = number.and_then(|number| self.served.get_mut(number));
        let place =
            place.ok_or_else(|| io::Error::other("the backend is asked for something else"))?;
        *place = Some(at);
        backend.head.clear();
        backend.wire.send(HEAD)
    }
}

impl Ends for Sse {
    fn begin(&mut self, end: End, mut wire: Wire) -> io::Result<()> {
        let End::Client(at) = end else {
            self.backends.push(Backend { wire, head: Vec::new(), next: 0 });
            return Ok(());
        };
        let (folder, number) = if self.is_shared { ("shared", 0) } else { ("sse", at) };
        let request = format!(
            "GET /{folder}/{number:06} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        );
        wire.send(request.as_bytes())?;
        self.clients.push(Client {
            wire,
            number,
            head: Some(Vec::new()),
            chunks: Chunks::default(),
            held: Vec::new(),
            next: 0,
            is_gone: false,
        });
        Ok(())
    }

    fn on_ready(&mut self, end: End, is_writable: bool, hand: &mut Hand) -> io::Result<()> {
        match end {
            End::Client(at) => self.on_client(at, hand),
            End::Backend(at) => self.on_backend(at, is_writable, hand)?,
        }
        Ok(())
    }

    /// Sends the next event of the next stream.
    fn send(&mut self, tally: &mut Tally) -> io::Result<bool> {
        let number = self.turn;
        self.turn = (number + 1) % self.served.len().max(1);
        let at = self.served.get(number).copied().flatten();
        let Some(backend) = at.and_then(|at| self.backends.get_mut(at)) else { return Ok(true) };
        let mut chunk = [0; EVENT_BYTES + 6];
        if let Some((size, rest)) = chunk.split_first_chunk_mut::<4>()
            && let Some((event, end)) = rest.split_first_chunk_mut::<EVENT_BYTES>()
        {
            *size = *b"52\r\n";
            write_event(number, backend.next, event);
            end.copy_from_slice(b"\r\n");
        }
        backend.next += 1;
        tally.sent += self.each;
        // A connection that is gone is noticed where its events do not come.
        drop(backend.wire.send(&chunk));
        Ok(true)
    }

    fn open(&self) -> usize {
        self.clients.iter().filter(|client| client.head.is_none() && !client.is_gone).count()
    }
}

impl Client {
    /// Takes bytes of the reply, and gives how many events of it are wrong.
    fn take(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let Some(head) = &mut self.head else { return self.take_body(bytes) };
        head.extend_from_slice(bytes);
        let Some((begin, body)) = split_head(head) else { return Ok(0) };
        if !begin.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other(String::from_utf8_lossy(begin).into_owned()));
        }
        let body = body.to_vec();
        self.head = None;
        self.take_body(&body)
    }

    fn take_body(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let Client { number, chunks, held, next, .. } = self;
        let mut wrong = 0;
        chunks.each(bytes, |data| {
            if held.is_empty() && data.len() == EVENT_BYTES {
                wrong += u64::from(!is_event(*number, *next, data));
                *next += 1;
                return;
            }
            held.extend_from_slice(data);
            while let Some((event, _)) = held.split_at_checked(EVENT_BYTES) {
                wrong += u64::from(!is_event(*number, *next, event));
                *next += 1;
                held.drain(..EVENT_BYTES);
            }
        })?;
        Ok(wrong)
    }
}

impl Chunks {
    /// Calls with the data of the chunks.
    fn each(&mut self, mut bytes: &[u8], mut data: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            if self.is_in_data {
                let (piece, rest) = bytes.split_at_checked(self.left).unwrap_or((bytes, &[]));
                if !piece.is_empty() {
                    data(piece);
                }
                (self.left, bytes) = (self.left - piece.len(), rest);
                if self.left > 0 {
                    return Ok(());
                }
                self.is_in_data = false;
            }
            // The line end behind the data, and the next size up to its line end.
            let Some((byte, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            match byte {
                b'0'..=b'9' => self.left = self.left * 16 + usize::from(byte - b'0'),
                b'a'..=b'f' => self.left = self.left * 16 + usize::from(byte - b'a' + 10),
                b'A'..=b'F' => self.left = self.left * 16 + usize::from(byte - b'A' + 10),
                b'\n' if self.left > 0 => self.is_in_data = true,
                b'\r' | b'\n' => {}
                _ => return Err(io::Error::other("no chunk")),
            }
        }
    }
}

/// The event of a stream with this number.
pub(crate) fn write_event(stream: usize, number: u64, event: &mut [u8; EVENT_BYTES]) {
    *event = EVENT;
    write_digits(stream as u64, event.get_mut(12..18).unwrap_or_default());
    write_digits(number, event.get_mut(25..35).unwrap_or_default());
    noise(stream, number, event.get_mut(42..78).unwrap_or_default());
}

fn is_event(stream: usize, number: u64, bytes: &[u8]) -> bool {
    let mut event = [0; EVENT_BYTES];
    write_event(stream, number, &mut event);
    bytes == event
}

fn write_digits(mut number: u64, to: &mut [u8]) {
    for digit in to.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_and_differ() {
        let (mut first, mut second) = ([0; EVENT_BYTES], [0; EVENT_BYTES]);
        write_event(12, 345, &mut first);
        write_event(12, 346, &mut second);
        let text = String::from_utf8(first.to_vec()).unwrap();
        assert!(text.starts_with(r#"data: {"s":"000012","n":"0000000345","x":""#), "{text}");
        let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
        assert!(is_event(12, 345, &first) && !is_event(12, 345, &second));
    }

    #[test]
    fn chunks_are_found_wherever_they_are_split() {
        let body = b"5\r\nhello\r\n10\r\n0123456789abcdef\r\n1\r\n!\r\n";
        for size in 1..body.len() {
            let (mut chunks, mut data) = (Chunks::default(), Vec::new());
            for piece in body.chunks(size) {
                chunks.each(piece, |some| data.extend_from_slice(some)).unwrap();
            }
            assert_eq!(data, b"hello0123456789abcdef!", "in pieces of {size}");
        }
    }
}
