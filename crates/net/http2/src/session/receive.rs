//! Handles frames from the peer, one by one (RFC 9113, 5 and 6).

use http1::Limits;

use super::{
    ENDS_PER_RESET, Event, FIRST_WINDOW, FRAMES_WITHOUT_PROGRESS_MAX, PrefaceState, SHUTDOWN_PING,
    ShutdownState,
};
use super::{PREFACE, RESETS_MAX, ReadOutcome, STREAM_WINDOW, Session, Side, WINDOW_MAX};
use crate::block::{Block, BlockReader, Head, Part};
use crate::error::{Code, Error};
use crate::frame::{self, flag, kind, number};
use crate::session::stream::Stream;

/// A block of header lines that spans several frames.
pub(super) struct PartialBlock {
    stream: u32,
    is_end: bool,
    bytes: Vec<u8>,
}

/// A compressed block may be this many times as long as the limit on decompressed text, so that a head that is too large still gets an
/// answer.
const PACKED_MAX: usize = 4;

const IDLE: Error = Error::protocol("a frame for a stream that was never opened");
const NO_STREAM: Error = Error::protocol("a frame on stream 0 that needs another stream");
const WITH_STREAM: Error = Error::protocol("a frame of the connection that is not on stream 0");
const WRONG_SIZE: Error = Error::new(Code::FRAME_SIZE_ERROR, "a frame of the wrong size");
const NO_GROWTH: Error = Error::protocol("a WINDOW_UPDATE with an increment of 0");
const TRAILERS_TOO_LARGE: (Code, &str) = (Code::PROTOCOL_ERROR, "trailers that are too large");
const TOO_MUCH: Error = Error::new(Code::FLOW_CONTROL_ERROR, "more than the window allows");

impl Session {
    /// Reads one frame from the front of the input. Returns `None` if it is incomplete. The head of a request is stored in `block`.
    pub fn read(&mut self, input: &[u8], block: &mut Block) -> Result<Option<ReadOutcome>, Error> {
        if self.preface_state == PrefaceState::Nothing {
            return self.preface(input);
        }
        let Some(head) = frame::Head::read(input) else { return Ok(None) };
        if head.len > frame::PAYLOAD_BYTES_MAX {
            return Err(Error::new(Code::FRAME_SIZE_ERROR, "a frame of more than 16,384 bytes"));
        }
        let len = frame::HEAD_BYTES + head.len;
        let Some(payload) = input.get(frame::HEAD_BYTES..len) else { return Ok(None) };
        let event = self.frame(head, payload, block)?;
        Ok(Some(ReadOutcome { len, event }))
    }

    fn preface(&mut self, input: &[u8]) -> Result<Option<ReadOutcome>, Error> {
        // Harmless: if the preface is incomplete, only the bytes that have arrived are compared.
        if !input.iter().zip(PREFACE).all(|(a, b)| a == b) {
            return Err(Error::protocol("the connection preface is invalid"));
        }
        if input.len() < PREFACE.len() {
            return Ok(None);
        }
        self.preface_state = PrefaceState::Preface;
        Ok(Some(ReadOutcome { len: PREFACE.len(), event: Event::Nothing }))
    }

    fn frame(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Event, Error> {
        if self.preface_state == PrefaceState::Preface && head.kind != kind::SETTINGS {
            return Err(Error::protocol("the preface has no SETTINGS"));
        }
        if self.unfinished.is_some() && head.kind != kind::CONTINUATION {
            return Err(Error::protocol("a frame within a block of header lines"));
        }
        self.frames_without_progress += 1;
        if self.frames_without_progress > FRAMES_WITHOUT_PROGRESS_MAX {
            return Err(Error::new(Code::ENHANCE_YOUR_CALM, "too many frames without effect"));
        }
        let event = self.by_kind(head, payload, block)?;
        if self.resets > RESETS_MAX * ENDS_PER_RESET {
            Err(Error::new(Code::ENHANCE_YOUR_CALM, "too many streams that are reset"))
        } else {
            Ok(event)
        }
    }

    fn by_kind(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Event, Error> {
        match head.kind {
            kind::DATA => self.data(head, payload)?,
            kind::HEADERS => return self.headers(head, payload, block),
            kind::PRIORITY => self.priority(head, payload)?,
            kind::RST_STREAM => self.reset_by_peer(head, payload)?,
            kind::SETTINGS => self.settings(head, payload)?,
            kind::PUSH_PROMISE => {
                return Err(Error::protocol("PUSH_PROMISE, although push is not allowed"));
            }
            kind::PING => self.pinged(head, payload)?,
            kind::GOAWAY => self.goaway(head, payload)?,
            kind::WINDOW_UPDATE => self.window_update(head, payload)?,
            kind::CONTINUATION => return self.continuation(head, payload, block),
            // Harmless: unknown frames are ignored (5.5).
            _ => {}
        }
        Ok(Event::Nothing)
    }

    fn data(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        self.known(head.stream)?;
        let bytes = head.unpadded(payload)?;
        let len = u32::try_from(head.len).unwrap_or(u32::MAX);
        if !self.receive.charge(len) {
            return Err(TOO_MUCH);
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            self.give_back(len);
            if !self.streams.was_reset(head.stream) {
                frame::reset(&mut self.out, head.stream, Code::STREAM_CLOSED);
            }
            return Ok(());
        };
        let is_end = head.has(flag::END_STREAM);
        let is_early = stream.reply.as_ref().is_some_and(|reply| !reply.has_begun);
        let fits = match &mut stream.announced {
            None => true,
            Some(left) => match left.checked_sub(bytes.len() as u64) {
                None => false,
                Some(rest) => {
                    *left = rest;
                    rest == 0 || !is_end
                }
            },
        };
        let wrong = if !stream.is_receiving {
            Some(Code::STREAM_CLOSED)
        } else if !stream.receive.charge(len) {
            Some(Code::FLOW_CONTROL_ERROR)
        } else if !fits || is_early {
            Some(Code::PROTOCOL_ERROR)
        } else {
            None
        };
        if let Some(code) = wrong {
            self.give_back(len);
            self.refuse_stream(head.stream, code);
            return Ok(());
        }
        stream.body.extend_from_slice(bytes);
        stream.is_receiving = !is_end;
        if !bytes.is_empty() || is_end {
            stream.wake_reader();
            self.frames_without_progress = 0;
        }
        let padding = len.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.consumed(head.stream, padding);
        if self.side == Side::Client {
            self.give_back(len);
        }
        Ok(())
    }

    fn headers(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Event, Error> {
        match self.side {
            Side::Client => self.known(head.stream)?,
            Side::Server if head.stream == 0 => return Err(NO_STREAM),
            Side::Server => {}
        }
        let mut packed = head.unpadded(payload)?;
        let mut depends_on = None;
        if head.has(flag::PRIORITY) {
            let (priority, rest) = packed.split_first_chunk::<5>().ok_or(WRONG_SIZE)?;
            let [a, b, c, d, _weight] = *priority;
            (packed, depends_on) = (rest, Some(number([a, b, c, d])));
        }
        let is_end = head.has(flag::END_STREAM);
        if !head.has(flag::END_HEADERS) {
            let bytes = packed.to_vec();
            self.unfinished = Some(PartialBlock { stream: head.stream, is_end, bytes });
            return Ok(Event::Nothing);
        }
        let event = self.lines(head.stream, is_end, packed, block)?;
        if depends_on == Some(head.stream) {
            self.refuse_stream(head.stream, Code::PROTOCOL_ERROR);
            return Ok(Event::Nothing);
        }
        Ok(event)
    }

    fn continuation(
        &mut self,
        head: frame::Head,
        payload: &[u8],
        block: &mut Block,
    ) -> Result<Event, Error> {
        const ALONE: Error = Error::protocol("a CONTINUATION without its HEADERS");
        let mut unfinished =
            self.unfinished.take().filter(|block| block.stream == head.stream).ok_or(ALONE)?;
        if unfinished.bytes.len() + payload.len() > PACKED_MAX * self.config.head_bytes_max {
            return Err(Error::new(
                Code::ENHANCE_YOUR_CALM,
                "a block of header lines that is too long",
            ));
        }
        unfinished.bytes.extend_from_slice(payload);
        if !head.has(flag::END_HEADERS) {
            self.unfinished = Some(unfinished);
            return Ok(Event::Nothing);
        }
        self.lines(unfinished.stream, unfinished.is_end, &unfinished.bytes, block)
    }

    /// Handles a complete block of header lines. It is decompressed even if it is refused afterwards, since later blocks may refer to the
    /// table entries that it adds.
    fn lines(
        &mut self,
        number: u32,
        is_end: bool,
        packed: &[u8],
        block: &mut Block,
    ) -> Result<Event, Error> {
        let bytes_max = self.config.head_bytes_max;
        let (part, bytes_max) = match (self.side, self.expects_head(number)) {
            (Side::Server, _) if number > self.last_opened => (Part::Request, bytes_max),
            (Side::Client, Some(bytes_left)) => (Part::Reply, bytes_left),
            (Side::Server | Side::Client, _) => (Part::Trailers, bytes_max),
        };
        let mut reading = BlockReader::new(block, part, bytes_max);
        self.decoder.decode(packed, |name, value| reading.line(name, value))?;
        let head = reading.finish();
        match part {
            Part::Request => return self.request(number, is_end, head),
            Part::Reply => self.reply(number, is_end, head, block),
            Part::Trailers => self.trailers(number, is_end, head, block)?,
        }
        Ok(Event::Nothing)
    }

    fn request(
        &mut self,
        number: u32,
        is_end: bool,
        head: Result<Head, &'static str>,
    ) -> Result<Event, Error> {
        if number.is_multiple_of(2) {
            return Err(Error::protocol("a client's stream with an even number"));
        }
        self.last_opened = number;
        if self.leaving == ShutdownState::Refusing {
            self.streams.note_reset(number);
            return Ok(Event::Nothing);
        }
        self.last_stream = number;
        let has_room =
            self.streams.len() < usize::try_from(self.config.streams_max).unwrap_or(usize::MAX);
        let announced = |head: &Head| !is_end || head.content_length.is_none_or(|n| n == 0);
        let refused = match head {
            Ok(head) if !announced(&head) => Code::PROTOCOL_ERROR,
            Ok(head) if has_room => {
                let mut stream = Stream::new(
                    number,
                    !is_end,
                    head.content_length,
                    self.room_first,
                    STREAM_WINDOW,
                );
                stream.is_tunnel = head.protocol.is_some();
                self.streams.push(stream);
                self.frames_without_progress = 0;
                return Ok(Event::Request { stream: number, head });
            }
            Ok(_) => Code::REFUSED_STREAM,
            Err(_) => Code::PROTOCOL_ERROR,
        };
        frame::reset(&mut self.out, number, refused);
        self.streams.note_reset(number);
        Ok(Event::Nothing)
    }

    fn trailers(
        &mut self,
        number: u32,
        is_end: bool,
        head: Result<Head, &'static str>,
        block: &mut Block,
    ) -> Result<(), Error> {
        let Some(stream) = self.streams.get_mut(number) else {
            return match (self.streams.was_reset(number), self.side) {
                (true, _) => Ok(()),
                // This side may have closed the stream long ago.
                (false, Side::Client) => {
                    frame::reset(&mut self.out, number, Code::STREAM_CLOSED);
                    Ok(())
                }
                (false, Side::Server) => {
                    Err(Error::new(Code::STREAM_CLOSED, "a head for a stream that has ended"))
                }
            };
        };
        let whole = stream.announced.is_none_or(|left| left == 0);
        // Trailers of gRPC services may be as large as a head, since they contain the details of an error.
        let limits = match self.side {
            Side::Server => Limits::TRAILERS,
            Side::Client => Limits::default(),
        };
        let trailers = match head {
            _ if !stream.is_receiving => {
                Err((Code::STREAM_CLOSED, "header lines after the end of the stream"))
            }
            _ if stream.is_tunnel => Err((Code::PROTOCOL_ERROR, "trailers of a tunnel")),
            Err(why) => Err((Code::PROTOCOL_ERROR, why)),
            Ok(head) if head.is_too_large => Err(TRAILERS_TOO_LARGE),
            Ok(_) if is_end && whole => http1::check_trailers(&block.bytes, &block.lines, &limits)
                .map_err(|_too_large| TRAILERS_TOO_LARGE),
            Ok(_) => Err((Code::PROTOCOL_ERROR, "trailers before the end of the message")),
        };
        match trailers {
            Err((code, why)) => self.refuse_stream_for(number, code, why),
            Ok(trailers) => {
                stream.is_receiving = false;
                stream.trailers = trailers;
                stream.wake_reader();
            }
        }
        Ok(())
    }

    /// Checks a PRIORITY frame. It is obsolete and has no effect, but a malformed one is an error.
    fn priority(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        if head.stream == 0 {
            return Err(NO_STREAM);
        }
        let wrong = match payload {
            [a, b, c, d, _weight] if number([*a, *b, *c, *d]) == head.stream => {
                Code::PROTOCOL_ERROR
            }
            [_, _, _, _, _] => return Ok(()),
            _ => Code::FRAME_SIZE_ERROR,
        };
        self.refuse_stream(head.stream, wrong);
        Ok(())
    }

    fn reset_by_peer(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        self.known(head.stream)?;
        let code = Code(u32::from_be_bytes(*payload.as_array::<4>().ok_or(WRONG_SIZE)?));
        if self.side == Side::Client {
            self.reset_by_server(head.stream, code);
            return Ok(());
        }
        if let Some(stream) = self.streams.remove(head.stream) {
            self.discard(&stream);
            stream.wake();
            self.count_reset();
        }
        Ok(())
    }

    /// Resets a stream because of an error of the peer. It is counted like a reset by the client (CVE-2025-8671).
    fn refuse_stream(&mut self, number: u32, code: Code) {
        self.refuse_stream_for(number, code, "a frame that its stream does not allow");
    }

    fn refuse_stream_for(&mut self, number: u32, code: Code, why: &'static str) {
        if self.side == Side::Client {
            return self.refuse_reply(number, code, why);
        }
        self.count_reset();
        self.reset(number, code);
    }

    fn settings(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        if head.stream != 0 {
            return Err(WITH_STREAM);
        }
        let is_ack = head.has(flag::ACK);
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() || (is_ack && !settings.is_empty()) {
            return Err(WRONG_SIZE);
        }
        self.preface_state = PrefaceState::Settings;
        if is_ack {
            return Ok(());
        }
        let mut window = None;
        for [name_high, name_low, value @ ..] in settings {
            let name = u16::from_be_bytes([*name_high, *name_low]);
            let value = u32::from_be_bytes(*value);
            check_setting(name, value, &mut window)?;
            self.obey(name, value)?;
        }
        if let Some(window) = window {
            self.set_first_window(window)?;
        }
        frame::begin(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
        Ok(())
    }

    /// Applies a setting that affects only clients: the limit on streams. A server must not enable push (6.5.2).
    fn obey(&mut self, name: u16, value: u32) -> Result<(), Error> {
        const ENABLE_PUSH: u16 = 0x2;
        const MAX_CONCURRENT_STREAMS: u16 = 0x3;
        match (self.side, name) {
            (Side::Client, ENABLE_PUSH) if value > 0 => {
                return Err(Error::protocol("a server that sets ENABLE_PUSH"));
            }
            (Side::Client, MAX_CONCURRENT_STREAMS) => self.streams_allowed = value,
            (Side::Client | Side::Server, _) => {}
        }
        Ok(())
    }

    /// Sets the initial window of new streams. The windows of open streams change with it (6.9.2).
    fn set_first_window(&mut self, window: i64) -> Result<(), Error> {
        let more = window - std::mem::replace(&mut self.room_first, window);
        for stream in self.streams.iter_mut() {
            stream.room += more;
            if stream.room > WINDOW_MAX {
                return Err(TOO_MUCH);
            }
            stream.wake_writer();
        }
        Ok(())
    }

    fn pinged(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        if head.stream != 0 {
            return Err(WITH_STREAM);
        }
        let payload = *payload.as_array::<8>().ok_or(WRONG_SIZE)?;
        if !head.has(flag::ACK) {
            frame::ping(&mut self.out, flag::ACK, payload);
            return Ok(());
        }
        if payload == SHUTDOWN_PING && self.leaving == ShutdownState::Announced {
            self.refuse();
        }
        Ok(())
    }

    /// Handles a GOAWAY: the peer opens or accepts no more streams. Open streams may finish.
    fn goaway(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        if head.stream != 0 {
            return Err(WITH_STREAM);
        }
        let last = match payload.len() {
            8.. => payload.first_chunk::<4>().map(|last| number(*last)).ok_or(WRONG_SIZE)?,
            _ => return Err(WRONG_SIZE),
        };
        match self.side {
            Side::Server => self.refuse(),
            Side::Client => self.goaway_by_server(last),
        }
        Ok(())
    }

    fn window_update(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Error> {
        let more = i64::from(number(*payload.as_array::<4>().ok_or(WRONG_SIZE)?));
        if head.stream == 0 {
            self.room += more;
            return if more == 0 {
                Err(NO_GROWTH)
            } else if self.room > WINDOW_MAX {
                Err(TOO_MUCH)
            } else {
                self.streams.wake_writers();
                Ok(())
            };
        }
        self.known(head.stream)?;
        let Some(stream) = self.streams.get_mut(head.stream) else {
            // An update may arrive after the end of the stream. An increment of 0 is always an error.
            return if more == 0 { Err(NO_GROWTH) } else { Ok(()) };
        };
        stream.room += more;
        if more == 0 {
            self.refuse_stream(head.stream, Code::PROTOCOL_ERROR)
        } else if stream.room > WINDOW_MAX {
            self.refuse_stream(head.stream, Code::FLOW_CONTROL_ERROR)
        } else {
            stream.wake_writer()
        }
        Ok(())
    }

    /// Fails if the stream was never opened.
    fn known(&self, stream: u32) -> Result<(), Error> {
        match stream {
            0 => Err(NO_STREAM),
            _ if stream > self.last_opened || stream.is_multiple_of(2) => Err(IDLE),
            _ => Ok(()),
        }
    }

    /// Returns `len` bytes to the connection's window.
    pub(super) fn give_back(&mut self, len: u32) {
        if let Some(len) = self.receive.give(len) {
            frame::word(&mut self.out, kind::WINDOW_UPDATE, 0, len);
        }
    }

    /// Returns to the connection's window the unread bytes of a stream that ends.
    pub(super) fn discard(&mut self, stream: &Stream) {
        if self.side == Side::Server {
            self.give_back(u32::try_from(stream.body.len()).unwrap_or(u32::MAX));
        }
    }

    /// Records that `len` bytes of a stream were read or discarded, and returns them to the windows. A client has returned them to the
    /// connection's window already, when they arrived.
    pub(super) fn consumed(&mut self, number: u32, len: u32) {
        if self.side == Side::Server {
            self.give_back(len);
        }
        let Some(stream) = self.streams.get_mut(number).filter(|stream| stream.is_receiving) else {
            return;
        };
        if let Some(len) = stream.receive.give(len) {
            frame::word(&mut self.out, kind::WINDOW_UPDATE, number, len);
        }
    }
}

/// Checks one setting. `window` is set to the last INITIAL_WINDOW_SIZE of the frame, the only one that is applied: a frame can contain
/// 2,730 of them, and applying each would iterate over all streams.
fn check_setting(name: u16, value: u32, window: &mut Option<i64>) -> Result<(), Error> {
    const ENABLE_PUSH: u16 = 0x2;
    const INITIAL_WINDOW_SIZE: u16 = 0x4;
    const MAX_FRAME_SIZE: u16 = 0x5;
    match name {
        ENABLE_PUSH if value > 1 => Err(Error::protocol("ENABLE_PUSH is neither 0 nor 1")),
        MAX_FRAME_SIZE if !(16_384..=0xff_ffff).contains(&value) => {
            Err(Error::protocol("MAX_FRAME_SIZE is out of its range"))
        }
        INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => Err(TOO_MUCH),
        INITIAL_WINDOW_SIZE => {
            *window = Some(i64::from(value));
            Ok(())
        }
        _ => Ok(()),
    }
}

const _: () = assert!(FIRST_WINDOW < super::CONNECTION_WINDOW);
