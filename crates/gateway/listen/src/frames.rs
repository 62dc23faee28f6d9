//! Finds the ends of WebSocket frames and messages (RFC 6455, 5.2) from their headers.
//!
//! Every WebSocket tunnel is followed from the first byte on, since a frame's start cannot be found later. Only the two to
//! fourteen bytes of each header are read and the payload is skipped, so a message costs some tens of instructions whatever its
//! length.

/// The progress of one direction of a WebSocket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frames {
    header: [u8; HEADER_BYTES_MAX],
    /// The number of header bytes read. Zero between two frames, and during a payload.
    begun: u8,
    /// The remaining bytes of the payload.
    payload: u64,
    /// True if the current frame is a Close frame.
    is_close: bool,
    /// True within a message whose last fragment has not begun.
    is_within_message: bool,
    closed: bool,
}

/// Two bytes, a length of eight and a masking key of four.
const HEADER_BYTES_MAX: usize = 14;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x8;
/// The first opcode of control frames, which may occur between the fragments of a message.
const CONTROL: u8 = 0x8;

/// The code for "going away" (RFC 6455, 7.4.1).
pub(crate) const GOING_AWAY: u16 = 1001;

/// The masking key of Close frames that are sent as a client. Masks prevent intermediaries from interpreting data that a script has chosen.
/// No script chooses the content of these frames, so the key may be public.
const KEY: [u8; 4] = [0x5a, 0xa5, 0x3c, 0xc3];

/// Encodes a Close frame with a code, masked as from a client, or unmasked as from a server.
pub(crate) fn close(code: u16, is_masked: bool) -> Vec<u8> {
    let [high, low] = code.to_be_bytes();
    let [first, second, ..] = KEY;
    if is_masked {
        [&[FIN | CLOSE, MASKED | 2], &KEY[..], &[high ^ first, low ^ second]].concat()
    } else {
        vec![FIN | CLOSE, 2, high, low]
    }
}

impl Frames {
    /// True if a Close frame has passed. Nothing may follow it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if a frame may be inserted here without splitting a message.
    pub(crate) fn is_between(&self) -> bool {
        self.is_between_frames() && !self.is_within_message
    }

    /// True if a control frame may be inserted here, possibly between the fragments of a message.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.begun == 0 && self.payload == 0
    }

    /// Processes all of these bytes.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.closed {
            rest = rest.get(self.pass_one(rest)..).unwrap_or_default();
        }
    }

    /// Processes bytes up to the first position between two messages or after a Close frame, if there is one. Returns their number.
    pub(crate) fn pass_to_between(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut passed = 0;
        while let Some(rest) = bytes.get(passed..).filter(|rest| !rest.is_empty()) {
            passed += self.pass_one(rest);
            if self.closed || self.is_between() {
                return Some(passed);
            }
        }
        None
    }

    /// Processes bytes up to the end of the frame or of the input, which is not empty. Returns their number.
    fn pass_one(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        if self.payload == 0 {
            while self.begun < self.header_bytes() {
                let Some(byte) = bytes.get(taken) else { return taken };
                if let Some(next) = self.header.get_mut(usize::from(self.begun)) {
                    *next = *byte;
                }
                (self.begun, taken) = (self.begun + 1, taken + 1);
            }
            self.begin();
        }
        let left = bytes.len().saturating_sub(taken);
        let passed = usize::try_from(self.payload).unwrap_or(usize::MAX).min(left);
        self.payload -= u64::try_from(passed).unwrap_or(u64::MAX);
        if self.payload == 0 && self.is_close {
            self.closed = true;
        }
        taken + passed
    }

    /// The length of the header, as far as the bytes read so far determine it.
    fn header_bytes(&self) -> u8 {
        if self.begun < 2 {
            return 2;
        }
        let lengths = self.header[1];
        let more = match lengths & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + more + if lengths & MASKED == 0 { 0 } else { 4 }
    }

    /// Processes a complete header.
    fn begin(&mut self) {
        let [first, lengths, eight @ ..] = self.header;
        let [a, b, c, d, e, f, g, h, ..] = eight;
        self.payload = match lengths & !MASKED {
            126 => u64::from(u16::from_be_bytes([a, b])),
            127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            short => u64::from(short),
        };
        self.begun = 0;
        self.is_close = first & OPCODE == CLOSE;
        if first & OPCODE < CONTROL {
            self.is_within_message = first & FIN == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this first byte and a payload of this length.
    fn frame(first: u8, masked: bool, payload: usize) -> Vec<u8> {
        let mask = if masked { MASKED } else { 0 };
        let mut frame = vec![first];
        match payload {
            0..126 => frame.push(mask | u8::try_from(payload).unwrap()),
            126..65_536 => {
                frame.push(mask | 126);
                frame.extend(u16::try_from(payload).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(mask | 127);
                frame.extend(u64::try_from(payload).unwrap().to_be_bytes());
            }
        }
        frame.extend(masked.then_some([1, 2, 3, 4]).into_iter().flatten());
        // The payload looks like headers.
        frame.extend(std::iter::repeat_n(0x88, payload));
        frame
    }

    #[test]
    fn a_place_between_messages_is_found_wherever_the_bytes_are_split() {
        const TEXT: u8 = 0x01;
        for (name, frames, ends_between) in [
            ("nothing", vec![], true),
            ("a message", vec![frame(FIN | TEXT, true, 5)], true),
            ("an empty one", vec![frame(FIN | TEXT, false, 0)], true),
            ("a longer one", vec![frame(FIN | 2, true, 126)], true),
            ("a long one", vec![frame(FIN | 2, false, 70_000)], true),
            ("a fragment", vec![frame(TEXT, true, 5)], false),
            ("two", vec![frame(TEXT, true, 5), frame(0, true, 5)], false),
            ("with a ping", vec![frame(TEXT, true, 5), frame(FIN | 9, true, 5)], false),
            ("and the last", vec![frame(TEXT, true, 5), frame(FIN, true, 5)], true),
        ] {
            let bytes = frames.concat();
            for piece in [1, 2, 3, 7, 100_000] {
                let mut passing = Frames::default();
                bytes.chunks(piece).for_each(|bytes| passing.pass(bytes));
                assert_eq!(passing.is_between(), ends_between, "{name} in pieces of {piece}");
                assert!(!passing.is_closed());
            }
            for cut in 1..bytes.len().min(300) {
                let mut passing = Frames::default();
                passing.pass(&bytes[..cut]);
                let ends: Vec<usize> = frames
                    .iter()
                    .scan(0, |at, frame| {
                        *at += frame.len();
                        Some(*at)
                    })
                    .collect();
                let at_end = ends.contains(&cut);
                assert!(at_end || !passing.is_between(), "{name} after {cut}");
            }
        }
    }

    #[test]
    fn bytes_pass_only_to_the_end_of_the_current_message() {
        let text = frame(FIN | 1, false, 5);
        let fragments = [frame(1, false, 5), frame(FIN | 9, false, 0), frame(FIN, false, 5)];
        let close = frame(FIN | CLOSE, false, 2);
        for (begun, rest, passed) in [
            (&text[..3], [&text[3..], &text].concat(), Some(4)),
            (&fragments[0][..], [&fragments[1][..], &fragments[2]].concat(), Some(9)),
            (&fragments[0], fragments[1].clone(), None),
            // Nothing follows a Close frame, not even the rest of a message.
            (&fragments[0], [&close[..], &text].concat(), Some(4)),
        ] {
            let mut passing = Frames::default();
            passing.pass(begun);
            assert_eq!(passing.pass_to_between(&rest), passed, "{begun:?} {rest:?}");
        }
    }

    #[test]
    fn encoded_close_frames_are_recognised() {
        for (is_masked, key) in [(false, [0; 4]), (true, KEY)] {
            let bytes = close(1008, is_masked);
            let mut passing = Frames::default();
            passing.pass(&bytes);
            assert!(passing.is_closed() && passing.is_between());
            assert_eq!(bytes[1] & MASKED != 0, is_masked);
            let code: Vec<u8> =
                bytes[bytes.len() - 2..].iter().zip(key).map(|(byte, key)| byte ^ key).collect();
            assert_eq!(code, 1008_u16.to_be_bytes());
        }
    }

    #[test]
    fn a_control_frame_may_be_inserted_between_fragments() {
        let fragment = frame(1, false, 5);
        let mut passing = Frames::default();
        passing.pass(&fragment);
        assert!(passing.is_between_frames() && !passing.is_between());
        passing.pass(&frame(FIN, false, 5)[..3]);
        assert!(!passing.is_between_frames());
    }
}
