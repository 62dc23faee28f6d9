//! WebSockets: messages of one size at a constant rate, which must be sent back with their characters reversed.

use std::collections::VecDeque;
use std::time::Duration;

use websocket::{Header, Mask, Opcode, Part, Sender, control, unmask};

use super::compiled::{write_digits, write_letters};
use super::control::Control;
use super::load::{Load, WebSocket};
use super::outcome::{ErrorKind, Streams as StreamCounts, WebSocketCounts};
use super::recorder::{Recorder, Sample};
use super::run::{CpuTime, ThreadOutcome};
use super::streams::{Asked, LineState, Peer, Streams};

/// One connection.
struct Talk {
    reader: websocket::Reader,
    /// The message that is being received.
    message: Vec<u8>,
    /// Messages without an answer, each with its number and the time at which it was sent.
    waiting: VecDeque<(u64, Duration)>,
    expected: Vec<u8>,
    seed: u64,
    sent: u64,
    received: u64,
}

// The example of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: Mask = [0x37, 0xfa, 0x21, 0x3d];
/// Number of digits of the message's number, at its start.
const NUMBER_BYTES: usize = 12;
/// If more bytes than this wait to be sent, further messages are not sent. They count as sent, and as errors.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of messages that are sent before received data is read again.
const BURST: u64 = 64;

impl Default for Talk {
    fn default() -> Talk {
        Talk {
            reader: websocket::Reader::new(Sender::Server),
            message: Vec::new(),
            waiting: VecDeque::new(),
            expected: Vec::new(),
            seed: 0,
            sent: 0,
            received: 0,
        }
    }
}

pub(super) fn run(
    load: &Load,
    socket: &WebSocket,
    control: &Control,
) -> Result<ThreadOutcome, String> {
    let mut headers = socket.headers.clone();
    for (name, value) in [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", KEY),
    ] {
        headers.push((name.to_owned(), super::Text::same(value)));
    }
    let request = super::sse::get(load, &socket.path, headers);
    let accept = ("Sec-WebSocket-Accept".to_owned(), ACCEPT.to_owned());
    let asked = Asked { status: 101, headers: vec![accept], is_upgrade: true, is_sample: false };
    let mut streams = Streams::<Talk>::new(load, control, request, asked, socket.ramp)?;
    for (number, line) in streams.lines.iter_mut().enumerate() {
        line.peer.seed = load.seed ^ ((number as u64) << 32) ^ u64::from(load.share.part);
        line.peer.expected = vec![0; socket.message_bytes as usize];
    }
    let mut pace = Pace { begin: None, sent: 0 };
    let turn = |streams: &mut Streams<'_, Talk>| pace.turn(streams, socket);
    let cpu = CpuTime::from_warm_up(|at_warm_up| streams.run(turn, at_warm_up))?;
    let now = streams.now;
    let mut counts =
        WebSocketCounts { attempted: streams.lines.len() as u64, ..WebSocketCounts::default() };
    for line in &mut streams.lines {
        counts.sent += line.peer.sent;
        counts.received += line.peer.received;
        for (_, begin) in line.peer.waiting.drain(..) {
            streams.recorder.record(&Sample::failed(begin, now, ErrorKind::ResponseTimeout));
        }
    }
    counts.failed =
        counts.attempted - streams.count(LineState::Open) - streams.count(LineState::Ended);
    counts.error_rate = WebSocketCounts::rate(counts.sent, counts.received);
    let (labels, users) = streams.finish();
    let streams = Some(StreamCounts::Websocket(counts));
    Ok(ThreadOutcome { labels, users, streams, cpu, log_failed: None })
}

/// Sends messages on the connections in turn, evenly spread over each second.
struct Pace {
    begin: Option<Duration>,
    sent: u64,
}

impl Pace {
    fn turn(&mut self, streams: &mut Streams<'_, Talk>, socket: &WebSocket) -> bool {
        let load = streams.load;
        if self.begin.is_none() && streams.is_settled() {
            self.begin = Some(streams.now);
        }
        if streams.now >= load.duration {
            let is_waiting = |line: &super::streams::Line<Talk>| {
                line.state == LineState::Open && !line.peer.waiting.is_empty()
            };
            let is_over = !streams.lines.iter().any(is_waiting);
            return is_over || streams.now >= load.duration + load.response_max;
        }
        let Some(begin) = self.begin else { return false };
        let count = streams.lines.len() as u64;
        let rate = count * u64::from(socket.events_per_second);
        let elapsed = (streams.now - begin).as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let due = (elapsed * rate as f64) as u64;
        let until = due.min(self.sent + BURST);
        for number in self.sent..until {
            let at = usize::try_from(number % count.max(1)).unwrap_or(0);
            send(streams, at, number / count.max(1), socket.message_bytes);
        }
        self.sent = until;
        false
    }
}

/// Sends the next message of a connection, if it is open.
fn send(streams: &mut Streams<'_, Talk>, at: usize, number: u64, bytes: u32) {
    let now = streams.now;
    let Some(line) = streams.lines.get_mut(at) else { return };
    // A connection that has ended still counts the messages that it should have sent, as the reference's client does.
    match line.state {
        LineState::Open | LineState::Ended => line.peer.sent += 1,
        LineState::Unopened | LineState::Connecting | LineState::Asking | LineState::Failed => {
            return;
        }
    }
    let wire = line.wire.as_mut().filter(|wire| wire.unsent_bytes() <= UNSENT_BYTES_MAX);
    let Some(wire) = wire.filter(|_| line.state == LineState::Open) else {
        streams.recorder.record(&Sample::failed(now, now, ErrorKind::Closed));
        return;
    };
    let mut frame = Vec::with_capacity(bytes as usize + websocket::HEADER_BYTES_MAX);
    let (is_last, opcode, mask) = (true, Opcode::Text, Some(MASK));
    Header { is_last, opcode, mask, len: bytes.into() }.write(&mut frame);
    let head = frame.len();
    frame.resize(head + bytes as usize, 0);
    if let Some(message) = frame.get_mut(head..) {
        write_message(line.peer.seed, number, message);
        unmask(message, MASK, 0);
    }
    line.peer.waiting.push_back((number, now));
    if wire.send(&frame).is_err() {
        // The message remains without an answer, so that it counts as an error at the end.
        line.state = LineState::Ended;
        line.wire = None;
    }
}

/// Writes the message with this number.
fn write_message(seed: u64, number: u64, message: &mut [u8]) {
    let Some((digits, letters)) = message.split_at_mut_checked(NUMBER_BYTES) else { return };
    write_digits(number, digits);
    write_letters(seed, number, letters);
}

impl Peer for Talk {
    fn take(
        &mut self,
        mut bytes: &[u8],
        at: Duration,
        answer: &mut Vec<u8>,
        recorder: &mut Recorder,
    ) -> Result<(), ErrorKind> {
        while let Some(part) = self.reader.next(&mut bytes).map_err(|_| ErrorKind::Protocol)? {
            match part {
                Part::Payload(payload) => {
                    if self.message.len() + payload.bytes.len() > self.expected.len() {
                        return Err(ErrorKind::Protocol);
                    }
                    self.message.extend_from_slice(payload.bytes);
                    if payload.ends_message {
                        self.answered(at, recorder);
                        self.message.clear();
                    }
                }
                Part::Control(frame) => match frame.opcode {
                    Opcode::Ping => control(Opcode::Pong, &frame.payload, Some(MASK), answer),
                    Opcode::Close => return Err(ErrorKind::Closed),
                    Opcode::Pong | Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
                },
            }
        }
        Ok(())
    }
}

impl Talk {
    /// Counts the received message as the answer to the message with its number. Earlier messages may have been lost.
    fn answered(&mut self, at: Duration, recorder: &mut Recorder) {
        let digits = self.message.iter().rev().take(NUMBER_BYTES);
        let number = digits.fold(0, |number: u64, digit| {
            number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        });
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == number);
        let found = place.and_then(|place| self.waiting.remove(place));
        // A message that answers none is ignored.
        let Some((number, begin)) = found else { return };
        write_message(self.seed, number, &mut self.expected);
        self.expected.reverse();
        let bytes = self.message.len() as u64;
        let is_right = self.message == self.expected;
        self.received += u64::from(is_right);
        let result = if is_right { Ok(()) } else { Err(ErrorKind::Content) };
        let (end, status) = (at, None);
        let (sent_bytes, received_bytes) = (bytes, bytes);
        recorder.record(&Sample { begin, end, result, status, sent_bytes, received_bytes });
    }
}
