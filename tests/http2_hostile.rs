//! HTTP/2 clients that mean harm, or have gone without a word. The answers of a session to frames are tested with sessions;
//! this is about the gateway's acts.

use std::time::Duration;

use crate::harness::{Gateway, H2, Origin, Plain, Wire, until};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// End of the head; and of the stream.
pub(crate) const HEAD: u8 = 4;
pub(crate) const ALL: u8 = 5;

/// `GET` and `POST`, by the fixed table.
pub(crate) const GET: &[u8] = &[0x82, 0x84, 0x86, 0x41, 6, b'a', b'.', b't', b'e', b's', b't'];
pub(crate) const POST: &[u8] = &[0x83, 0x84, 0x86, 0x41, 6, b'a', b'.', b't', b'e', b's', b't'];

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// A connection after its preface.
pub(crate) fn greet(gateway: &Gateway) -> Wire {
    let mut wire = gateway.wire();
    wire.send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat());
    wire
}

/// The next frame of that kind, skipping others.
pub(crate) fn next(wire: &mut Wire, wanted: u8) -> Option<Vec<u8>> {
    loop {
        let head = wire.read_exact(9)?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = wire.read_exact(len)?;
        if head[3] == wanted {
            return Some(payload);
        }
    }
}

/// The error code of a GOAWAY.
fn code(goaway: &[u8]) -> u32 {
    u32::from_be_bytes(goaway[4..8].try_into().unwrap())
}

const CALM: u32 = 0xb;

/// CVE-2023-44487. The origin never replies, so no stream ends on its own.
#[test]
fn a_client_that_only_resets_is_sent_away() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let gateway = Gateway::before(&origin);
    let mut wire = greet(&gateway);
    let reset = |n: u32| {
        [frame(HEADERS, ALL, n, GET), frame(RST_STREAM, 0, n, &8u32.to_be_bytes())].concat()
    };
    let all: Vec<u8> = (0..1000).flat_map(|n| reset(2 * n + 1)).collect();
    wire.try_send(all);
    assert_eq!(code(&next(&mut wire, GOAWAY).unwrap()), CALM);
    until("nobody is worked for", || origin.open() == 0);
    assert!(origin.accepted() <= 300, "{} were begun", origin.accepted());
}

/// A stream that costs nothing and ends paid for each reset of one that costs much.
#[test]
fn a_client_that_resets_between_cheap_requests_is_sent_away() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let more = "routes: { cheap: { match: { path: /cheap }, respond: { status: 204 } }, all: { match: { path: /** }, upstream: origin } }";
    let yaml = Plain::default().yaml(&origin);
    let (front, _) = yaml.split_once("routes:").unwrap();
    let gateway = Gateway::start(format!("{front}{more}\n"));
    let mut wire = greet(&gateway);
    let cheap = [&[0x82, 0x86, 0x44, 6][..], b"/cheap", &GET[3..]].concat();
    let pair = |n: u32| {
        let costly = frame(HEADERS, ALL, 4 * n + 1, GET);
        let reset = frame(RST_STREAM, 0, 4 * n + 1, &8u32.to_be_bytes());
        [costly, frame(HEADERS, ALL, 4 * n + 3, &cheap), reset].concat()
    };
    for n in 0..1000 {
        if !wire.try_send(pair(n)) {
            break;
        }
    }
    assert_eq!(code(&next(&mut wire, GOAWAY).unwrap()), CALM);
    assert!(origin.accepted() <= 600, "{} were begun", origin.accepted());
}

#[test]
fn a_client_that_asks_for_answers_and_reads_none_is_sent_away() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    let mut wire = greet(&gateway);
    wire.try_send(frame(PING, 0, 0, b"tidegate").repeat(20_000));
    assert_eq!(code(&next(&mut wire, GOAWAY).unwrap()), CALM);
    assert_eq!(H2::connect(gateway.address("public")).get("http://a.test/").status, 200);
}

#[test]
fn header_lines_without_end_are_not_kept() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    let mut wire = greet(&gateway);
    wire.send(frame(HEADERS, 0, 1, GET));
    // `x: vvv...`, not indexed; a megabyte of it.
    let line = [&[0, 1, b'x', 0x7f, 0x81, 0x06][..], &[b'v'; 896]].concat();
    wire.try_send(frame(9, 0, 1, &line.repeat(16)).repeat(70));
    assert_eq!(code(&next(&mut wire, GOAWAY).unwrap()), CALM);
}

/// The time for a head is a total: dribbling does not make it longer.
#[test]
fn a_head_that_does_not_end_in_time_is_not_waited_for() {
    let origin = Origin::saying("ok");
    let listener = "timeout: { head: 1500ms }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let half = frame(HEADERS, ALL, 1, GET)[..10].to_vec();
    for begun in [frame(HEADERS, 0, 1, GET), half] {
        let mut wire = greet(&gateway);
        wire.send(begun);
        std::thread::sleep(Duration::from_millis(500));
        wire.send([0]);
        // It gets a GOAWAY without an error.
        assert_eq!(code(&next(&mut wire, GOAWAY).unwrap()), 0);
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_client_that_has_gone_without_a_word_is_found_out() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let listener = "timeout: { idle: 500ms, head: 3s }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let mut wire = greet(&gateway);
    wire.send(frame(HEADERS, ALL, 1, GET));
    origin.wait_for_requests(1);
    // It is asked, and does not answer.
    assert_eq!(next(&mut wire, PING).unwrap(), b"tidegate");
    until("nobody is worked for", || origin.open() == 0);
    assert!(next(&mut wire, GOAWAY).is_none(), "it is closed");

    let mut wire = greet(&gateway);
    wire.send(frame(HEADERS, ALL, 1, GET));
    for _ in 0..3 {
        let asked = next(&mut wire, PING).unwrap();
        wire.send(frame(PING, 1, 0, &asked));
    }
    assert_eq!(origin.open(), 1, "it waits as long as its client does");
}

/// A target or a host is written into HTTP/1 as it came.
#[test]
fn nothing_is_smuggled_into_http_1() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let literal = |index: u8, value: &[u8]| {
        [&[index, u8::try_from(value.len()).unwrap()][..], value].concat()
    };
    let targets: [&[u8]; 6] =
        [b"/a b", b"/a\r\nX: y", b"/a\tb", b"a", b"http://a.test/", b"/\xc3\xa9"];
    for (n, target) in targets.iter().enumerate() {
        let mut wire = greet(&gateway);
        let block = [&[0x82, 0x86][..], &literal(4, target), &literal(1, b"a.test")].concat();
        wire.send(frame(HEADERS, ALL, 1, &block));
        let head = next(&mut wire, HEADERS).unwrap();
        // The status 400 from the static table, after the size of the dynamic one.
        assert_eq!(head[..2], [0x20, 0x8c], "{n}: {}", head.escape_ascii());
    }
    for host in [&b"a b"[..], b"a\r\nX: y", b"a/b"] {
        let mut wire = greet(&gateway);
        let block = [&[0x82, 0x84, 0x86][..], &literal(1, host)].concat();
        wire.send(frame(HEADERS, ALL, 1, &block));
        assert_eq!(next(&mut wire, HEADERS).unwrap()[..2], [0x20, 0x8c]);
    }
    for line in
        [&b"\0\x01x\x07a\r\nb: c"[..], b"\0\x02x:\x01a", b"\0\x11transfer-encoding\x07chunked"]
    {
        let mut wire = greet(&gateway);
        wire.send(frame(HEADERS, ALL, 1, &[GET, line].concat()));
        assert_eq!(next(&mut wire, RST_STREAM).unwrap(), [0, 0, 0, 1]);
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_body_that_is_not_as_long_as_announced_never_looks_whole() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let five = [POST, &[0x0f, 0x0d, 1, b'5']].concat();
    for body in [&b"hell"[..], b"hello!"] {
        let mut wire = greet(&gateway);
        wire.send(frame(HEADERS, HEAD, 1, &five));
        wire.send(frame(DATA, 1, 1, body));
        assert_eq!(next(&mut wire, RST_STREAM).unwrap(), [0, 0, 0, 1]);
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(origin.requests().iter().all(|request| !request.whole), "{:?}", origin.requests());
}
