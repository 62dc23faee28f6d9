//! Parses one direction of a connection strictly, in pieces of any size (RFC 6455, 5).

use crate::close::{ProtocolError, code_of};
use crate::frame::{
    CONTROL_BYTES_MAX, FIN, HEADER_BYTES_MAX, Header, MASKED, Mask, OPCODE, Opcode, RESERVED,
    is_ascii, unmask,
};
use crate::utf8::Utf8;

/// The end whose frames are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A client, which masks all frames.
    Client,
    /// A server, which masks no frames.
    Server,
}

/// Parses the frames of one end.
#[derive(Debug)]
pub struct Reader {
    sender: Sender,
    /// The received part of a header.
    begun: [u8; HEADER_BYTES_MAX],
    begun_len: usize,
    /// The frame whose payload is being received.
    frame: Option<Frame>,
    /// The opcode of the current message, until its last fragment is complete.
    message: Option<Opcode>,
    /// The UTF-8 validation of a text message.
    text: Utf8,
    /// The control frame being received: its header and payload, unchanged.
    control: Vec<u8>,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    header: Header,
    header_len: usize,
    /// The number of payload bytes received so far.
    passed: u64,
    is_text: bool,
}

/// A part of the received data, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'b> {
    /// The next bytes of a data frame's payload, possibly none.
    Payload(Payload<'b>),
    /// A complete control frame.
    Control(Control),
}

/// The beginning of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    pub header: Header,
    /// Whether the frame is the first of its message.
    pub is_first: bool,
    /// Whether its message is a text.
    pub is_text: bool,
}

/// A piece of a data frame's payload, unchanged: masked if the sender masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload<'b> {
    /// The beginning of the frame, if this is its first piece.
    pub begin: Option<Begin>,
    pub bytes: &'b [u8],
    pub mask: Option<Mask>,
    /// The offset in the frame's payload.
    pub offset: u64,
    pub ends_frame: bool,
    pub ends_message: bool,
}

/// A control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    pub opcode: Opcode,
    /// The payload, unmasked.
    pub payload: Vec<u8>,
    /// The whole frame, unchanged.
    pub raw: Vec<u8>,
}

/// The number of bytes of a text that are unmasked at a time for validation.
const VALIDATED_BYTES: usize = 1 << 10;

impl Reader {
    pub fn new(sender: Sender) -> Reader {
        Reader {
            sender,
            begun: [0; HEADER_BYTES_MAX],
            begun_len: 0,
            frame: None,
            message: None,
            text: Utf8::default(),
            control: Vec::new(),
            is_closed: false,
        }
    }

    /// Returns true once a Close frame has been received. No further data is parsed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns true at a message boundary: no message and no frame is incomplete.
    pub fn is_between_messages(&self) -> bool {
        self.message.is_none() && self.frame.is_none() && self.begun_len == 0
    }

    /// Takes the next part from the front of `bytes`. Returns `None` if more bytes are needed; all of `bytes` are then consumed.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<Part<'b>>, ProtocolError> {
        if self.is_closed {
            *bytes = &[];
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let (frame, begin) = match self.frame {
            Some(frame) => (frame, None),
            None => {
                let Some(frame) = self.read_header(bytes)? else { return Ok(None) };
                if frame.header.opcode.is_control() {
                    // A header has only one encoding, so this equals the received bytes.
                    frame.header.write(&mut self.control);
                    (frame, None)
                } else {
                    (frame, Some(self.begin_data(&frame)))
                }
            }
        };
        if frame.header.opcode.is_control() {
            return self.read_control(frame, bytes);
        }
        self.read_payload(frame, begin, bytes).map(Some)
    }

    /// Continues to parse a header, up to its end if that is available.
    fn read_header(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, ProtocolError> {
        // Most headers arrive complete.
        if self.begun_len == 0
            && let Some(frame) = self.header(bytes)?
        {
            *bytes = bytes.get(frame.header_len..).unwrap_or_default();
            return Ok(Some(frame));
        }
        loop {
            if let Some(frame) =
                self.header(self.begun.get(..self.begun_len).unwrap_or_default())?
            {
                self.begun_len = 0;
                return Ok(Some(frame));
            }
            let missing = self.header_bytes_min().saturating_sub(self.begun_len);
            let (piece, rest) = bytes.split_at_checked(missing).unwrap_or((*bytes, &[]));
            if piece.is_empty() {
                return Ok(None);
            }
            let places = self.begun.iter_mut().skip(self.begun_len);
            // Harmless: the piece is no longer than the missing part.
            places.zip(piece).for_each(|(place, byte)| *place = *byte);
            self.begun_len += piece.len();
            *bytes = rest;
        }
    }

    /// Returns the length of the header, or if the received bytes do not determine it, a lower bound.
    fn header_bytes_min(&self) -> usize {
        let [_, second, ..] = self.begun;
        if self.begun_len < 2 {
            return 2;
        }
        let length = match second & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & MASKED == 0 { 0 } else { size_of::<Mask>() };
        2 + length + mask
    }

    /// Parses the header at the front of these bytes, if it is complete. Errors are detected as early as possible.
    fn header(&self, bytes: &[u8]) -> Result<Option<Frame>, ProtocolError> {
        let [first, second, lengths @ ..] = bytes else {
            return match bytes {
                [first] => self.check_first(*first).map(|_| None),
                _ => Ok(None),
            };
        };
        let opcode = self.check_first(*first)?;
        let is_masked = second & MASKED != 0;
        match (self.sender, is_masked) {
            (Sender::Client, false) => {
                return Err(ProtocolError::protocol("a client's frame without a mask"));
            }
            (Sender::Server, true) => {
                return Err(ProtocolError::protocol("a server's frame with a mask"));
            }
            (Sender::Client, true) | (Sender::Server, false) => {}
        }
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(ProtocolError::protocol("a control frame over 125 bytes"));
        }
        let (len, rest) = match (short, lengths) {
            (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest),
            (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), rest)
            }
            (126 | 127, _) => return Ok(None),
            (short, rest) => (u64::from(short), rest),
        };
        if short == 126 && len < 126 || short == 127 && len <= u64::from(u16::MAX) {
            return Err(ProtocolError::protocol("a length that is encoded in too many bytes"));
        }
        if i64::try_from(len).is_err() {
            return Err(ProtocolError::protocol("a length of more than 63 bits"));
        }
        let (mask, rest) = match (is_masked, rest) {
            (false, rest) => (None, rest),
            (true, [a, b, c, d, rest @ ..]) => (Some([*a, *b, *c, *d]), rest),
            (true, _) => return Ok(None),
        };
        let header = Header { is_last: first & FIN != 0, opcode, mask, len };
        let is_text = opcode == Opcode::Text || self.message == Some(Opcode::Text);
        let header_len = bytes.len() - rest.len();
        Ok(Some(Frame { header, header_len, passed: 0, is_text }))
    }

    /// Checks the first byte of a header against the preceding frames.
    fn check_first(&self, first: u8) -> Result<Opcode, ProtocolError> {
        if first & RESERVED != 0 {
            return Err(ProtocolError::protocol("a reserved bit without an extension"));
        }
        let opcode = Opcode::of(first & OPCODE);
        let opcode = opcode.ok_or(ProtocolError::protocol("a reserved opcode"))?;
        let is_last = first & FIN != 0;
        match (opcode, self.message) {
            (Opcode::Close | Opcode::Ping | Opcode::Pong, _) if !is_last => {
                Err(ProtocolError::protocol("a control frame in fragments"))
            }
            (Opcode::Continuation, None) => {
                Err(ProtocolError::protocol("a continuation without a message"))
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                Err(ProtocolError::protocol("a message within a message"))
            }
            (Opcode::Close | Opcode::Ping | Opcode::Pong, _)
            | (Opcode::Continuation, Some(_))
            | (Opcode::Text | Opcode::Binary, None) => Ok(opcode),
        }
    }

    fn begin_data(&mut self, frame: &Frame) -> Begin {
        let Frame { header, is_text, .. } = *frame;
        let is_first = self.message.is_none();
        if is_first {
            self.message = Some(header.opcode);
            self.text = Utf8::default();
        }
        Begin { header, is_first, is_text }
    }

    fn read_payload<'b>(
        &mut self,
        mut frame: Frame,
        begin: Option<Begin>,
        bytes: &mut &'b [u8],
    ) -> Result<Part<'b>, ProtocolError> {
        let Frame { header, passed: offset, .. } = frame;
        let left = usize::try_from(header.len - offset).unwrap_or(usize::MAX);
        let (piece, rest) = bytes.split_at_checked(left).unwrap_or((*bytes, &[]));
        if frame.is_text && !self.check_text(piece, header.mask, offset) {
            return Err(ProtocolError::text("a text that is not UTF-8"));
        }
        *bytes = rest;
        frame.passed += u64::try_from(piece.len()).unwrap_or_default();
        let ends_frame = frame.passed == header.len;
        let ends_message = ends_frame && header.is_last;
        if ends_message {
            if frame.is_text && !self.text.is_whole() {
                return Err(ProtocolError::text("a text that ends within a character"));
            }
            self.message = None;
        }
        self.frame = (!ends_frame).then_some(frame);
        let mask = header.mask;
        Ok(Part::Payload(Payload { begin, bytes: piece, mask, offset, ends_frame, ends_message }))
    }

    fn check_text(&mut self, piece: &[u8], mask: Option<Mask>, offset: u64) -> bool {
        let Some(mask) = mask else { return self.text.pass(piece) };
        let mut offset = offset;
        piece.chunks(VALIDATED_BYTES).all(|some| {
            let at = offset;
            offset += u64::try_from(some.len()).unwrap_or_default();
            // Most texts are ASCII, which can be checked without unmasking.
            self.text.is_whole() && is_ascii(some, mask, at) || self.check_masked(some, mask, at)
        })
    }

    fn check_masked(&mut self, some: &[u8], mask: Mask, offset: u64) -> bool {
        let mut plain = [0; VALIDATED_BYTES];
        let Some(plain) = plain.get_mut(..some.len()) else { return false };
        plain.copy_from_slice(some);
        unmask(plain, mask, offset);
        self.text.pass(plain)
    }

    fn read_control<'b>(
        &mut self,
        mut frame: Frame,
        bytes: &mut &'b [u8],
    ) -> Result<Option<Part<'b>>, ProtocolError> {
        let left = usize::try_from(frame.header.len - frame.passed).unwrap_or(usize::MAX);
        let (piece, rest) = bytes.split_at_checked(left).unwrap_or((*bytes, &[]));
        self.control.extend_from_slice(piece);
        *bytes = rest;
        if piece.len() < left {
            frame.passed += u64::try_from(piece.len()).unwrap_or_default();
            self.frame = Some(frame);
            return Ok(None);
        }
        self.frame = None;
        let raw = std::mem::take(&mut self.control);
        let mut payload = raw.get(frame.header_len..).unwrap_or_default().to_vec();
        if let Some(mask) = frame.header.mask {
            unmask(&mut payload, mask, 0);
        }
        let opcode = frame.header.opcode;
        if opcode == Opcode::Close {
            code_of(&payload)?;
            self.is_closed = true;
            *bytes = &[];
        }
        Ok(Some(Part::Control(Control { opcode, payload, raw })))
    }
}
