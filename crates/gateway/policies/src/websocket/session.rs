//! Relays one open WebSocket: passes or drops its messages, and closes it.
//!
//! A frame of at most [`WHOLE_BYTES_MAX`] bytes is passed once it is complete, so that the gateway can send frames of its own at any time.
//! A larger frame is streamed. Messages with a schema are gathered.

use std::task::{Context, Poll};
use std::time::Duration;

use ::websocket::{
    self as ws, Begin, CloseCode, Control, Mask, Opcode, Part, Payload, Reader, Sender,
};
use kit::Alarm;
use kit::clock::{self, Instant};
use mediation::json_schema::Document;
use policy::{Outbox, Relay, TunnelSide};
use telemetry::StreamEnd;

use super::end::End;
use super::{Stream, WebSocketSettings};
use crate::quota::Tier;

/// The maximum size of a frame that is passed as a whole. Larger frames are streamed.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// The default maximum size of a message that is gathered for validation.
const GATHERED_BYTES_MAX: u64 = 1 << 20;

/// How long a side may take to answer a Close frame.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The text that a client gets once per window if messages were dropped.
const NOTICE: &str = r#"{"error_code": 4008, "error_message": "Websocket frame throttled out"}"#;

pub(super) struct Session {
    stream: Stream,
    up: Direction,
    down: Direction,
    alarm: Alarm,
    /// When the client's token expires.
    expires: Option<Instant>,
    /// The time of the last data frame in either direction.
    last_data: Instant,
    next_ping: Option<Instant>,
    /// The end of the window in which the client was last notified of drops.
    told_until: Option<Instant>,
    /// Whether the client must be notified of drops at the next message boundary.
    owes_notice: bool,
    /// The deadline of the close handshake, once a Close frame was sent or passed.
    closing: Option<Instant>,
}

/// One direction, from its sender to its receiver.
struct Direction {
    reader: Reader,
    /// The received part of an incomplete frame, with its header. Frames that arrive complete are not stored here.
    held: Vec<u8>,
    /// The part of a message that is gathered for validation.
    gathered: Option<Vec<u8>>,
    /// The number of bytes of the message so far.
    message_bytes: u64,
    handling: MessageHandling,
    /// Whether the receiver has received only a part of a message.
    is_within_message: bool,
    /// Whether the receiver has received only a part of a frame, so that no other frame can be sent to it.
    is_within_frame: bool,
    /// Whether the receiver has been sent a Close frame.
    is_told: bool,
    /// Whether nothing more can be read, because the sender has disconnected or violated the protocol.
    is_over: bool,
    last_seen: Instant,
    /// The payload of the ping that this sender has not answered yet.
    pinged: Option<[u8; 8]>,
}

/// How the current message is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageHandling {
    /// Each frame is passed once it is complete.
    Whole,
    /// The frame is streamed.
    Streamed,
    Gathered,
    Dropped,
}

impl Direction {
    fn new(sender: Sender, now: Instant) -> Direction {
        Direction {
            reader: Reader::new(sender),
            held: Vec::new(),
            gathered: None,
            message_bytes: 0,
            handling: MessageHandling::Whole,
            is_within_message: false,
            is_within_frame: false,
            is_told: false,
            is_over: false,
            last_seen: now,
            pinged: None,
        }
    }

    /// Returns true if a message has begun and not ended, unless it is dropped. It may not have been passed yet.
    fn has_begun(&self) -> bool {
        let is_begun =
            self.handling != MessageHandling::Dropped && !self.reader.is_between_messages();
        is_begun || self.is_within_message
    }

    /// Returns true if nothing more arrives in this direction.
    fn is_done(&self) -> bool {
        self.is_over || self.reader.is_closed()
    }
}

impl Session {
    /// Creates a session. `expires` is the expiry of the client's token, in seconds since the Unix epoch.
    pub(super) fn new(stream: Stream, expires: Option<u64>) -> Session {
        let now = clock::now();
        let expires = expires.and_then(|expires| {
            now.checked_add(Duration::from_secs(expires).saturating_sub(clock::wall()))
        });
        let next_ping = stream.of.settings.ping.and_then(|ping| now.checked_add(ping));
        let mut session = Session {
            stream,
            up: Direction::new(Sender::Client, now),
            down: Direction::new(Sender::Server, now),
            alarm: Alarm::default(),
            expires,
            last_data: now,
            next_ping,
            told_until: None,
            owes_notice: false,
            closing: None,
        };
        session.set_alarm(now);
        session
    }

    fn settings(&self) -> &WebSocketSettings {
        &self.stream.of.settings
    }

    /// Returns the direction whose sender is this side, with the outbox of its receiver.
    fn way<'s>(
        &'s mut self,
        from: TunnelSide,
        out: &'s mut Outbox,
    ) -> (&'s mut Direction, &'s mut Vec<u8>) {
        match from {
            TunnelSide::Client => (&mut self.up, &mut out.upstream),
            TunnelSide::Upstream => (&mut self.down, &mut out.client),
        }
    }

    fn read(&mut self, from: TunnelSide, bytes: &mut &[u8], out: &mut Outbox) -> Result<(), End> {
        loop {
            let (way, _) = self.way(from, out);
            let part = way.reader.next(bytes).map_err(|malformed| {
                way.is_over = true;
                End::malformed(from, malformed)
            })?;
            match part {
                None => return Ok(()),
                Some(Part::Payload(payload)) => self.on_payload(from, &payload, out)?,
                Some(Part::Control(control)) => self.on_control(from, &control, out),
            }
        }
    }

    /// Handles the beginning of a data frame.
    fn on_begin(&mut self, from: TunnelSide, data: &Begin, out: &mut Outbox) -> Result<(), End> {
        // The time when the current bytes arrived.
        self.last_data = self.way(from, out).0.last_seen;
        let before = if data.is_first { 0 } else { self.way(from, out).0.message_bytes };
        let message_bytes = before.saturating_add(data.header.len);
        if message_bytes > self.bytes_max(from) {
            return Err(End::too_large(from));
        }
        self.way(from, out).0.message_bytes = message_bytes;
        if data.is_first {
            let handling = self.handling(from, data)?;
            self.way(from, out).0.handling = handling;
        } else if self.way(from, out).0.handling != MessageHandling::Dropped {
            // The beginning of the message has been passed or gathered, so the rest is not dropped.
            if message_bytes > self.window_bytes() {
                let code = self.settings().codes.throttled;
                return Err(End::with_client_code(StreamEnd::Quota, code, "too many bytes"));
            }
            self.charge(data.header.len);
        }
        let (way, _) = self.way(from, out);
        if matches!(way.handling, MessageHandling::Whole | MessageHandling::Streamed) {
            way.handling = if data.header.len > WHOLE_BYTES_MAX {
                MessageHandling::Streamed
            } else {
                MessageHandling::Whole
            };
        }
        Ok(())
    }

    fn bytes_max(&self, from: TunnelSide) -> u64 {
        let WebSocketSettings { message_bytes_max, schema, .. } = self.settings();
        match (message_bytes_max, from, schema) {
            (Some(max), _, _) => *max,
            (None, TunnelSide::Client, Some(_)) => GATHERED_BYTES_MAX,
            (None, TunnelSide::Client | TunnelSide::Upstream, _) => u64::MAX,
        }
    }

    /// Decides how a message is handled, at the beginning of its first frame.
    fn handling(&mut self, from: TunnelSide, data: &Begin) -> Result<MessageHandling, End> {
        let (settings, rights) = (&self.stream.of.settings, self.stream.admitted.rights);
        let gathers = from == TunnelSide::Client && settings.schema.is_some();
        match from {
            TunnelSide::Client if !rights.publish => {
                return Err(End::with_client_code(
                    StreamEnd::Forbidden,
                    settings.codes.forbidden,
                    "no right to publish",
                ));
            }
            TunnelSide::Upstream if !rights.subscribe => return Ok(MessageHandling::Dropped),
            TunnelSide::Client if gathers && !data.is_text => {
                return Err(End::with_client_code(
                    StreamEnd::Invalid,
                    CloseCode::UNSUPPORTED,
                    "only text messages are accepted",
                ));
            }
            TunnelSide::Client | TunnelSide::Upstream => {}
        }
        if let Some(wait) = self.over_quota(data.header.len) {
            if settings.closes {
                let code = settings.codes.throttled;
                return Err(End::with_client_code(StreamEnd::Quota, code, "too many messages"));
            }
            self.drop_until(wait);
            return Ok(MessageHandling::Dropped);
        }
        self.stream.notes.events.set(self.stream.notes.events.get() + 1);
        self.stream.of.metrics.message(self.stream.worker, from == TunnelSide::Client);
        Ok(if gathers { MessageHandling::Gathered } else { MessageHandling::Whole })
    }

    /// Charges a message to the client's quota. If it does not fit, returns the time until it would.
    fn over_quota(&self, bytes: u64) -> Option<Duration> {
        let (of, key) = (&self.stream.of, self.stream.admitted.key);
        of.quotas.take(key, self.stream.tier()?, bytes, self.last_data).err()
    }

    /// Returns the maximum size of a message under the quota. A larger message never fits.
    fn window_bytes(&self) -> u64 {
        self.stream.tier().and_then(Tier::bytes_max).unwrap_or(u64::MAX)
    }

    /// Charges further bytes of a message that is being passed.
    fn charge(&self, bytes: u64) {
        if let Some(tier) = self.stream.tier() {
            self.stream.of.quotas.charge(self.stream.admitted.key, tier, bytes);
        }
    }

    /// Records that a message is dropped. The next window begins after `wait`. The client is notified once per window.
    fn drop_until(&mut self, wait: Duration) {
        self.stream.of.metrics.message_dropped(self.stream.worker);
        let now = clock::now();
        if self.told_until.is_none_or(|until| until <= now) {
            self.told_until = now.checked_add(wait);
            self.owes_notice = true;
        }
    }

    fn on_payload(
        &mut self,
        from: TunnelSide,
        payload: &Payload<'_>,
        out: &mut Outbox,
    ) -> Result<(), End> {
        if let Some(begin) = &payload.begin {
            self.on_begin(from, begin, out)?;
        }
        let (way, to) = self.way(from, out);
        let header = payload.begin.map(|begin| begin.header);
        match way.handling {
            // Most frames arrive complete, and are copied only once.
            MessageHandling::Whole if payload.ends_frame => {
                match header {
                    Some(header) => header.write(to),
                    None => to.extend_from_slice(&std::mem::take(&mut way.held)),
                }
                to.extend_from_slice(payload.bytes);
                way.is_within_message = !payload.ends_message;
            }
            MessageHandling::Whole => {
                has_room(way.held.len())?;
                if let Some(header) = header {
                    header.write(&mut way.held);
                }
                way.held.extend_from_slice(payload.bytes);
            }
            MessageHandling::Streamed => {
                if let Some(header) = header {
                    header.write(to);
                }
                to.extend_from_slice(payload.bytes);
                way.is_within_frame = !payload.ends_frame;
                way.is_within_message = !payload.ends_message;
            }
            MessageHandling::Gathered => {
                let gathered = way.gathered.get_or_insert_default();
                let begin = gathered.len();
                has_room(begin)?;
                gathered.extend_from_slice(payload.bytes);
                if let (Some(mask), Some(plain)) = (payload.mask, gathered.get_mut(begin..)) {
                    ws::unmask(plain, mask, payload.offset);
                }
                if payload.ends_message {
                    // Harmless: a message that is gathered is kept until its end.
                    let message = way.gathered.take().unwrap_or_default();
                    self.on_gathered(&message, &mut out.upstream)?;
                }
            }
            MessageHandling::Dropped => {}
        }
        if from == TunnelSide::Upstream || self.owes_notice {
            self.tell_of_drops(out);
        }
        Ok(())
    }

    /// Validates a complete text message of the client, and passes it as one frame.
    fn on_gathered(&self, message: &[u8], to: &mut Vec<u8>) -> Result<(), End> {
        let WebSocketSettings { schema, codes, .. } = self.settings();
        let is_valid = schema.as_ref().is_none_or(|schema| {
            Document::read(message).is_ok_and(|document| schema.allows(&document))
        });
        if !is_valid {
            return Err(End::with_client_code(
                StreamEnd::Invalid,
                codes.invalid,
                "the message does not match the schema",
            ));
        }
        // Harmless: the frame reader refuses a text that is not UTF-8.
        ws::text(&String::from_utf8_lossy(message), Some(random_mask()), to);
        Ok(())
    }

    /// Notifies the client of drops at the next message boundary.
    fn tell_of_drops(&mut self, out: &mut Outbox) {
        let may_speak = !self.down.is_within_message && !self.down.is_told;
        if self.owes_notice && may_speak {
            self.owes_notice = false;
            ws::text(NOTICE, None, &mut out.client);
        }
    }

    fn on_control(&mut self, from: TunnelSide, control: &Control, out: &mut Outbox) {
        let (way, to) = self.way(from, out);
        if way.is_told {
            return;
        }
        match control.opcode {
            Opcode::Pong if way.pinged.as_ref().is_some_and(|sent| *sent == *control.payload) => {
                way.pinged = None;
            }
            Opcode::Close => {
                to.extend_from_slice(&control.raw);
                way.is_told = true;
                self.close_within(CLOSE_WAIT);
            }
            Opcode::Ping | Opcode::Pong | Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                to.extend_from_slice(&control.raw);
            }
        }
    }

    /// Sends a Close frame to each side that can still receive one.
    fn end(&mut self, end: &End, out: &mut Outbox) {
        if self.closing.is_none() {
            self.stream.notes.end.set(Some(end.why));
            self.stream.of.metrics.stream_ended(self.stream.worker, end.why);
        }
        let sides = [
            (&mut self.down, &mut out.client, end.client, None),
            (&mut self.up, &mut out.upstream, end.upstream, Some(random_mask())),
        ];
        for (way, to, code, mask) in sides {
            // Incomplete frames and messages are discarded.
            (way.held, way.gathered) = (Vec::new(), None);
            if !way.is_told && !way.is_within_frame {
                ws::close(code, end.reason, mask, to);
            }
            way.is_told = true;
        }
        // A side that cannot be sent a Close frame will not answer.
        (self.down.is_over, self.up.is_over) = (
            self.down.is_over || self.up.is_within_frame,
            self.up.is_over || self.down.is_within_frame,
        );
        self.close_within(CLOSE_WAIT);
    }

    fn close_within(&mut self, wait: Duration) {
        let now = clock::now();
        if self.closing.is_none() {
            self.closing = now.checked_add(wait);
            self.set_alarm(now);
        }
    }

    /// Returns true if both directions have ended, or the deadline has passed.
    fn is_over(&self) -> bool {
        let is_late = self.closing.is_some_and(|by| by <= clock::now());
        self.closing.is_some() && (is_late || self.up.is_done() && self.down.is_done())
    }

    /// Sets the alarm for the earliest deadline.
    fn set_alarm(&mut self, now: Instant) {
        let silent = self.settings().ping.and_then(|ping| ping.checked_mul(2));
        let silent_at = |seen: Instant| silent.and_then(|silent| seen.checked_add(silent));
        let due = [
            self.closing,
            self.expires,
            self.settings().idle.and_then(|idle| self.last_data.checked_add(idle)),
            self.next_ping,
            silent_at(self.up.last_seen),
            silent_at(self.down.last_seen),
        ];
        // Harmless: a deadline that is not set never passes.
        let due = due.into_iter().flatten().min();
        let first = if self.closing.is_some() { self.closing } else { due };
        match first {
            Some(at) => self.alarm.set(now, at.saturating_duration_since(now)),
            None => self.alarm.clear(),
        }
    }

    /// Handles deadlines that have passed.
    fn on_alarm(&mut self, out: &mut Outbox) {
        let now = clock::now();
        if self.closing.is_none()
            && let Some(end) = self.due_end(now)
        {
            self.end(&end, out);
        }
        if let (None, Some(ping)) = (self.closing, self.settings().ping)
            && self.next_ping.is_some_and(|at| at <= now)
        {
            self.next_ping = now.checked_add(ping);
            self.ping(out);
        }
        self.set_alarm(now);
    }

    /// Returns the end for a deadline that has passed, if any.
    fn due_end(&self, now: Instant) -> Option<End> {
        let WebSocketSettings { idle, ping, codes, .. } = self.settings();
        let is_silent = |way: &Direction| {
            let longest = ping.and_then(|ping| ping.checked_mul(2));
            longest.is_some_and(|longest| now.duration_since(way.last_seen) >= longest)
        };
        if self.expires.is_some_and(|at| at <= now) {
            return Some(End::with_client_code(
                StreamEnd::Expired,
                codes.expired,
                "the token has expired",
            ));
        }
        if idle.is_some_and(|idle| now.duration_since(self.last_data) >= idle) {
            return Some(End::with_client_code(
                StreamEnd::Idle,
                CloseCode::GOING_AWAY,
                "no data for too long",
            ));
        }
        if is_silent(&self.up) {
            return Some(End::with_client_code(
                StreamEnd::Unanswered,
                CloseCode::GOING_AWAY,
                "no answer to pings",
            ));
        }
        is_silent(&self.down).then(|| {
            End::with_client_code(
                StreamEnd::Unanswered,
                CloseCode::BAD_GATEWAY,
                "the service does not answer",
            )
        })
    }

    fn ping(&mut self, out: &mut Outbox) {
        let payload = fastrand::u64(..).to_ne_bytes();
        // A ping to a side is written into the outbox of that side, between the frames of the other side.
        if !self.up.is_within_frame && out.upstream.is_empty() {
            ws::control(Opcode::Ping, &payload, Some(random_mask()), &mut out.upstream);
            self.down.pinged = Some(payload);
        }
        if !self.down.is_within_frame && out.client.is_empty() {
            ws::control(Opcode::Ping, &payload, None, &mut out.client);
            self.up.pinged = Some(payload);
        }
    }
}

impl Relay for Session {
    fn on_bytes(&mut self, from: TunnelSide, mut bytes: &[u8], out: &mut Outbox) {
        if bytes.is_empty() {
            return;
        }
        let (way, _) = self.way(from, out);
        way.last_seen = clock::now();
        if way.is_over {
            return;
        }
        if way.is_told {
            return self.read_past(from, bytes, out);
        }
        if let Err(end) = self.read(from, &mut bytes, out) {
            self.end(&end, out);
            self.read_past(from, bytes, out);
        }
    }

    fn on_end(&mut self, from: TunnelSide, out: &mut Outbox) {
        let is_within = self.down.has_begun();
        self.way(from, out).0.is_over = true;
        if self.closing.is_some() {
            // The side disconnected without answering the Close frame. The other side still gets its answer.
            let (way, to) = self.way(from, out);
            if !way.is_told && !way.is_within_frame {
                way.is_told = true;
                let mask = (from == TunnelSide::Client).then(random_mask);
                ws::close(CloseCode::NORMAL, "", mask, to);
            }
        } else {
            let client = if is_within { CloseCode::INTERNAL_ERROR } else { CloseCode::BAD_GATEWAY };
            let why = match from {
                TunnelSide::Client => StreamEnd::ClientGone,
                TunnelSide::Upstream => StreamEnd::UpstreamGone,
            };
            self.end(&End { why, client, upstream: CloseCode::GOING_AWAY, reason: "" }, out);
        }
    }

    fn leave(&mut self, out: &mut Outbox) {
        let is_between =
            |way: &Direction| !way.is_within_message && way.reader.is_between_messages();
        if self.closing.is_none() && is_between(&self.up) && is_between(&self.down) {
            self.end(&End::with_client_code(StreamEnd::Leaving, CloseCode::GOING_AWAY, ""), out);
        }
    }

    fn cut(&mut self, why: StreamEnd, out: &mut Outbox) {
        if self.closing.is_none() {
            self.end(&End::with_client_code(why, CloseCode::GOING_AWAY, ""), out);
        }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>, out: &mut Outbox) -> Poll<()> {
        while self.alarm.poll(cx).is_ready() {
            self.on_alarm(out);
            if self.is_over() {
                return Poll::Ready(());
            }
        }
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Session {
    /// Skips data after the end, up to the sender's Close frame.
    fn read_past(&mut self, from: TunnelSide, mut bytes: &[u8], out: &mut Outbox) {
        let (way, _) = self.way(from, out);
        loop {
            match way.reader.next(&mut bytes) {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => {
                    way.is_over = true;
                    return;
                }
            }
        }
    }
}

/// Returns a mask that scripts cannot predict (RFC 6455, 10.3).
fn random_mask() -> Mask {
    fastrand::u32(..).to_ne_bytes()
}

/// Fails if there is no memory for a message to grow to twice its size.
fn has_room(bytes: usize) -> Result<(), End> {
    if kit::memory::has_room(bytes) { Ok(()) } else { Err(End::no_memory()) }
}
