//! Tests the reader with cases in the groups of the Autobahn test suite. Each is parsed at once, byte by byte, and in random pieces.

use websocket::{CloseCode, Header, Mask, Opcode, Part, Reader, Sender, unmask};

/// The result of parsing a stream: complete messages, control frames, and the code of the error that ended it.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Read {
    messages: Vec<(bool, Vec<u8>)>,
    controls: Vec<(Opcode, Vec<u8>)>,
    fault: Option<u16>,
}

const MASK: Mask = [0x37, 0xfa, 0x21, 0x3d];

/// Returns a client's frame with this first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    let len = payload.len() as u64;
    Header { is_last: true, opcode: Opcode::Text, mask: Some(MASK), len }.write(&mut header);
    let mut payload = payload.to_vec();
    unmask(&mut payload, MASK, 0);
    header.splice(..1, [first]);
    [header, payload].concat()
}

/// Parses a stream in these pieces. Checks that forwarded data equals the received data.
fn read(sender: Sender, bytes: &[u8], pieces: impl Iterator<Item = usize>) -> Read {
    let (mut reader, mut read, mut rest) = (Reader::new(sender), Read::default(), bytes);
    let (mut message, mut is_text, mut passed) = (Vec::new(), false, Vec::new());
    for piece in pieces {
        let (mut piece, behind) = rest.split_at(piece.min(rest.len()));
        rest = behind;
        loop {
            match reader.next(&mut piece) {
                Ok(None) => break assert!(piece.is_empty()),
                Ok(Some(Part::Payload(payload))) => {
                    if let Some(data) = payload.begin {
                        if data.is_first {
                            is_text = data.is_text;
                        }
                        data.header.write(&mut passed);
                    }
                    passed.extend_from_slice(payload.bytes);
                    let mut plain = payload.bytes.to_vec();
                    if let Some(mask) = payload.mask {
                        unmask(&mut plain, mask, payload.offset);
                    }
                    message.extend(plain);
                    if payload.ends_message {
                        read.messages.push((is_text, std::mem::take(&mut message)));
                    }
                }
                Ok(Some(Part::Control(control))) => {
                    passed.extend_from_slice(&control.raw);
                    read.controls.push((control.opcode, control.payload));
                }
                Err(malformed) => {
                    read.fault = Some(malformed.code.0);
                    assert!(bytes.starts_with(&passed));
                    return read;
                }
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    if !reader.is_closed() {
        assert_eq!(passed, bytes);
    }
    read
}

#[track_caller]
fn check(name: &str, frames: &[Vec<u8>], expected: &Read) {
    let bytes = frames.concat();
    let whole = read(Sender::Client, &bytes, std::iter::once(bytes.len()));
    assert_eq!(&whole, expected, "{name}, whole");
    let octets = read(Sender::Client, &bytes, std::iter::repeat(1));
    assert_eq!(&octets, expected, "{name}, by octets");
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..5 {
        let pieces = std::iter::repeat_with(|| random.usize(1..40));
        assert_eq!(&read(Sender::Client, &bytes, pieces), expected, "{name}, in pieces");
    }
}

fn messages(messages: &[(bool, &[u8])]) -> Read {
    let messages = messages.iter().map(|(is_text, bytes)| (*is_text, bytes.to_vec())).collect();
    Read { messages, ..Read::default() }
}

fn fault(code: CloseCode) -> Read {
    Read { fault: Some(code.0), ..Read::default() }
}

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const LAST: u8 = 0x80;
const PROTOCOL: CloseCode = CloseCode::PROTOCOL_ERROR;

#[test]
fn messages_of_all_lengths() {
    for len in [0, 1, 125, 126, 127, 128, 1023, 1024, 1025, 65_535, 65_536, 70_000] {
        let payload = vec![b'*'; len];
        check("text", &[frame(TEXT, &payload)], &messages(&[(true, &payload)]));
        let payload: Vec<u8> = (0..=255).cycle().take(len).collect();
        check("binary", &[frame(BINARY, &payload)], &messages(&[(false, &payload)]));
    }
}

#[test]
fn control_frames_stand_between_any_two_frames() {
    let ping = |payload: &[u8]| frame(0x89, payload);
    for payload in [&b""[..], b"hello", &[0, 255, 254], &[0xfe; 125]] {
        let expected =
            Read { controls: vec![(Opcode::Ping, payload.to_vec())], ..messages(&[(true, b"ab")]) };
        check("a ping within", &[frame(1, b"a"), ping(payload), frame(LAST, b"b")], &expected);
        check("a ping before", &[ping(payload), frame(TEXT, b"ab")], &expected);
    }
    let pong = Read { controls: vec![(Opcode::Pong, b"x".to_vec())], ..Read::default() };
    check("a pong that nobody asked for", &[frame(0x8a, b"x")], &pong);
    let mut long = frame(0x89, &[0; 126]);
    check("a long ping", &[long.clone()], &fault(PROTOCOL));
    long[0] = 0x08;
    check("a Close frame in fragments", &[long], &fault(PROTOCOL));
    check("a ping in fragments", &[frame(0x09, b"a"), frame(LAST, b"b")], &fault(PROTOCOL));
    check("a pong in fragments", &[frame(0x0a, b"a")], &fault(PROTOCOL));
}

#[test]
fn reserved_bits_and_opcodes_are_refused() {
    for rsv in 1..8_u8 {
        for opcode in [1, 2, 8, 9, 10] {
            check("rsv", &[frame(LAST | rsv << 4 | opcode, b"")], &fault(PROTOCOL));
        }
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        check("opcode", &[frame(LAST | opcode, b"x")], &fault(PROTOCOL));
        let expected = Read { fault: Some(PROTOCOL.0), ..messages(&[(true, b"ok")]) };
        check("opcode behind", &[frame(TEXT, b"ok"), frame(LAST | opcode, b"")], &expected);
    }
}

#[test]
fn fragments_come_in_order() {
    let two = messages(&[(true, b"fragment1fragment2")]);
    check("two", &[frame(1, b"fragment1"), frame(LAST, b"fragment2")], &two);
    check(
        "empty ones",
        &[frame(1, b""), frame(0, b""), frame(LAST, b"")],
        &messages(&[(true, b"")]),
    );
    let split: Vec<Vec<u8>> = (0..50)
        .map(|at| {
            frame(
                if at == 0 {
                    2
                } else if at == 49 {
                    LAST
                } else {
                    0
                },
                &[at],
            )
        })
        .collect();
    check("many", &split, &messages(&[(false, &(0..50).collect::<Vec<u8>>())]));
    for (name, frames) in [
        ("a continuation of nothing", vec![frame(LAST, b"x")]),
        ("a first one of nothing", vec![frame(0, b"x"), frame(TEXT, b"y")]),
        ("a text within a text", vec![frame(1, b"a"), frame(TEXT, b"b")]),
        ("binary within a text", vec![frame(1, b"a"), frame(BINARY, b"b")]),
    ] {
        check(name, &frames, &fault(PROTOCOL));
    }
    let behind = Read { fault: Some(PROTOCOL.0), ..messages(&[(true, b"ab")]) };
    check("one more", &[frame(1, b"a"), frame(LAST, b"b"), frame(LAST, b"c")], &behind);
}

#[test]
fn texts_are_utf8_wherever_they_are_split() {
    let good: &[&[u8]] = &[
        "Hello-µ@ßöäüàá-UTF-8!!".as_bytes(),
        "κόσμε".as_bytes(),
        b"\x00",
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xef\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbd",
        b"\xef\xbf\xbe",
        b"\xf0\x9f\xbf\xbf",
    ];
    for text in good {
        check("whole", &[frame(TEXT, text)], &messages(&[(true, text)]));
        for at in 0..text.len() {
            let (front, back) = text.split_at(at);
            check("split", &[frame(1, front), frame(LAST, back)], &messages(&[(true, text)]));
        }
        check("binary", &[frame(BINARY, b"\xff\xfe")], &messages(&[(false, b"\xff\xfe")]));
    }
    let bad: &[&[u8]] = &[
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited",
        b"\x80",
        b"\xbf",
        b"\xc0 ",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x80\x80\x80\xaf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"\xfe\xfe\xff\xff",
        b"\xc2",
        b"\xe1\xbd",
        b"\xf0\x90\x80",
        b"abc\xc3",
    ];
    for text in bad {
        check("whole", &[frame(TEXT, text)], &fault(CloseCode::INVALID_PAYLOAD));
        for at in 0..text.len() {
            let (front, back) = text.split_at(at);
            let frames = [frame(1, front), frame(LAST, back)];
            check("split", &frames, &fault(CloseCode::INVALID_PAYLOAD));
        }
    }
}

#[test]
fn what_cannot_become_utf8_is_found_before_its_end() {
    let mut reader = Reader::new(Sender::Client);
    let mut bytes = &frame(TEXT, &[b"a\xf4\x90".as_slice(), &[0; 1000]].concat())[..9];
    assert!(
        matches!(reader.next(&mut bytes), Ok(Some(Part::Payload(first))) if first.begin.is_some())
    );
    let found = loop {
        match reader.next(&mut bytes) {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(malformed) => break Some(malformed.code),
        }
    };
    assert_eq!(found, None, "only `a` is there");
    let all = frame(TEXT, &[b"a\xf4\x90".as_slice(), &[0; 1000]].concat());
    let mut bytes = &all[9..12];
    assert!(
        reader
            .next(&mut bytes)
            .is_err_and(|malformed| malformed.code == CloseCode::INVALID_PAYLOAD)
    );
}

#[test]
fn close_frames_have_good_codes_and_end_everything() {
    let closed = |payload: &[u8]| Read {
        controls: vec![(Opcode::Close, payload.to_vec())],
        ..Read::default()
    };
    let close = |code: u16, reason: &str| [&code.to_be_bytes()[..], reason.as_bytes()].concat();
    check("empty", &[frame(0x88, b"")], &closed(b""));
    check("half a code", &[frame(0x88, b"a")], &fault(PROTOCOL));
    let long = close(1000, &"x".repeat(123));
    check("a long reason", &[frame(0x88, &long)], &closed(&long));
    check("too long", &[frame(0x88, &close(1000, &"x".repeat(124)))], &fault(PROTOCOL));
    let bad = [&close(1000, "")[..], b"\xce\xba\xed\xa0\x80"].concat();
    check("a bad reason", &[frame(0x88, &bad)], &fault(CloseCode::INVALID_PAYLOAD));
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        let payload = close(code, "bye");
        check("good", &[frame(0x88, &payload)], &closed(&payload));
    }
    for code in [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535] {
        check("bad", &[frame(0x88, &close(code, "bye"))], &fault(PROTOCOL));
    }
    let behind = [frame(0x88, b""), frame(TEXT, b"never"), frame(0x89, b"never"), vec![0xff; 9]];
    check("nothing follows", &behind, &closed(b""));
    let within = [frame(1, b"a"), frame(0x88, b""), frame(LAST, b"b")];
    check("within a message", &within, &closed(b""));
}

#[test]
fn masks_and_lengths_are_as_they_have_to_be() {
    let unmasked = |bytes: &[u8], sender| read(sender, bytes, std::iter::once(bytes.len()));
    assert_eq!(unmasked(&[0x81, 1, b'a'], Sender::Client), fault(PROTOCOL));
    assert_eq!(unmasked(&[0x81, 1, b'a'], Sender::Server), messages(&[(true, b"a")]));
    assert_eq!(unmasked(&frame(TEXT, b"a"), Sender::Server), fault(PROTOCOL));
    for header in [
        vec![0x82, 126, 0, 125],
        vec![0x82, 127, 0, 0, 0, 0, 0, 0, 255, 255],
        vec![0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
    ] {
        assert_eq!(unmasked(&header, Sender::Server), fault(PROTOCOL), "{header:?}");
    }
}
