//! Tests the client side of a session with frames that a server sends.

use std::task::{Context, Poll, Waker};

use http2::{Block, BodyPiece, Code, Config, Error, PREFACE, RequestLine, Session, StreamFailure};

use crate::frames::*;

/// A session after the exchange of settings, and the state of its server.
struct Server {
    session: Session,
    unread: Vec<u8>,
}

/// `:status: 200` by the static table.
const OK: &[u8] = &[0x88];
const EARLY: &[u8] = &[8, 3, b'1', b'0', b'3'];

impl Server {
    fn new() -> Server {
        let config = Config { streams_max: 4, head_bytes_max: 1000 };
        let mut server = Server { session: Session::client(config), unread: Vec::new() };
        server.answers_behind(PREFACE);
        server.send(&frame(SETTINGS, 0, 0, &[])).unwrap();
        server.answers();
        server
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.unread.extend_from_slice(bytes);
        let mut block = Block::default();
        while let Some(read) = self.session.read(&self.unread, &mut block)? {
            self.unread.drain(..read.len);
        }
        Ok(())
    }

    fn answers(&mut self) -> String {
        self.answers_behind(b"")
    }

    fn answers_behind(&mut self, front: &[u8]) -> String {
        let out = self.session.unsent().to_vec();
        self.session.sent(out.len());
        told(out.strip_prefix(front).unwrap())
    }

    fn get(&mut self) -> u32 {
        self.open(b"GET", true).unwrap()
    }

    fn open(&mut self, method: &[u8], is_end: bool) -> Option<u32> {
        let asking = RequestLine { method, is_https: true, target: b"/", authority: b"a" };
        let lines = [(&b"X-A"[..], &b"b"[..]), (b"Host", b"c"), (b"Connection", b"close")];
        self.session.open_stream(&asking, lines.into_iter(), is_end)
    }

    fn head(&mut self, stream: u32) -> Poll<Result<(u16, String), StreamFailure>> {
        let mut cx = Context::from_waker(Waker::noop());
        let read = self.session.poll_reply(&mut cx, stream);
        read.map_ok(|(head, block)| (head.status, String::from_utf8(block.bytes).unwrap()))
    }

    fn body(&mut self, stream: u32) -> (String, BodyPiece) {
        let mut out = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        let piece = self.session.poll_body(&mut cx, stream, &mut out);
        (out.escape_ascii().to_string(), piece)
    }
}

/// Returns the head of a reply.
fn reply(stream: u32, flags: u8, packed: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, packed)
}

#[test]
fn a_connection_begins_with_a_preface() {
    let mut session = Session::client(Config { streams_max: 4, head_bytes_max: 1000 });
    let out = session.unsent().to_vec();
    session.sent(out.len());
    // No server push; windows of 64 KiB and 4 MiB.
    assert_eq!(
        told(out.strip_prefix(PREFACE).unwrap()),
        "settings 18, flags 0\n0: window 4128769\n"
    );
}

#[test]
fn a_request_is_sent_and_answered() {
    let mut server = Server::new();
    assert_eq!(server.get(), 1);
    // A table size of 0, the pseudo-headers, and a literal line; no connection header of HTTP/1.
    let packed = "\\x82\\x87\\x84\\x01\\x01a\\x00\\x03x-a\\x01b";
    assert_eq!(server.answers(), format!("1: head  {packed}, flags 5\n"));
    assert!(server.head(1).is_pending());
    server.send(&reply(1, 0, EARLY)).unwrap();
    server.send(&reply(1, 0, &[OK, &[0, 1, b'x', 1, b'y']].concat())).unwrap();
    server.send(&frame(DATA, 0, 1, b"hel")).unwrap();
    assert_eq!(server.head(1), Poll::Ready(Ok((103, String::new()))));
    assert_eq!(server.head(1), Poll::Ready(Ok((200, "x: y\r\n".to_owned()))));
    assert_eq!(server.body(1), ("hel".to_owned(), BodyPiece::More));
    server.send(&frame(DATA, 0, 1, b"lo")).unwrap();
    server.send(&reply(1, END_STREAM, &[0, 1, b'x', 1, b'z'])).unwrap();
    assert_eq!(server.body(1), ("lo".to_owned(), BodyPiece::End(b"x: z\r\n".to_vec())));
    server.session.close(1);
    assert_eq!((server.answers(), server.session.open()), (String::new(), 0));
    assert_eq!(server.get(), 3);
}

#[test]
fn a_reply_may_come_whole_before_its_request_has_ended() {
    let mut server = Server::new();
    let stream = server.open(b"POST", false).unwrap();
    assert_eq!(server.session.send_data(stream, b"a", false), 1);
    server.send(&reply(stream, 0, OK)).unwrap();
    assert_eq!(server.session.send_data(stream, b"b", false), 1);
    server.send(&frame(DATA, END_STREAM, stream, b"hello")).unwrap();
    // The server wants no more of the request. The reply is kept complete.
    server.send(&frame(RST_STREAM, 0, stream, &[0; 4])).unwrap();
    assert_eq!(server.session.send_data(stream, b"c", true), 0);
    assert_eq!(server.head(stream), Poll::Ready(Ok((200, String::new()))));
    assert_eq!(server.session.whole_body(stream).unwrap(), b"hello");
    server.answers();
    server.session.close(stream);
    assert_eq!(server.answers(), "");
}

#[test]
fn whoever_leaves_says_so() {
    let mut server = Server::new();
    let stream = server.get();
    server.answers();
    server.session.close(stream);
    assert_eq!(server.answers(), "1: reset 8\n");
    // Frames that were in flight are not an error, and are returned to the connection's window.
    server.send(&reply(stream, 0, OK)).unwrap();
    for _ in 0..140 {
        server.send(&frame(DATA, 0, stream, &[b'x'; 16_384])).unwrap();
    }
    assert_eq!(server.answers(), "0: window 2097152\n");
}

#[test]
fn a_reader_who_stops_stops_its_stream_and_no_other() {
    let mut server = Server::new();
    let (slow, quick) = (server.get(), server.get());
    server.send(&[reply(slow, 0, OK), reply(quick, 0, OK)].concat()).unwrap();
    for stream in [slow, quick] {
        for _ in 0..4 {
            server.send(&frame(DATA, 0, stream, &[b'x'; 16_384])).unwrap();
        }
    }
    server.answers();
    assert_eq!(server.body(quick).0.len(), 65_536);
    assert_eq!(server.answers(), "3: window 65536\n");
    // One byte more than its window.
    server.send(&frame(DATA, 0, slow, b"x")).unwrap();
    assert_eq!(server.answers(), "1: reset 3\n");
    server.send(&frame(DATA, END_STREAM, quick, b"x")).unwrap();
    assert_eq!(server.body(quick), ("x".to_owned(), BodyPiece::End(Vec::new())));
}

#[test]
fn no_more_streams_are_open_than_the_server_allows() {
    let mut server = Server::new();
    let max = |n: u32| frame(SETTINGS, 0, 0, &[&[0, 3][..], &n.to_be_bytes()].concat());
    server.send(&max(2)).unwrap();
    assert_eq!((server.get(), server.get()), (1, 3));
    assert_eq!(server.open(b"GET", true), None);
    server.session.close(1);
    assert_eq!(server.get(), 5);
    server.send(&max(0)).unwrap();
    assert!(server.session.is_shut());
    server.send(&max(1000)).unwrap();
    assert_eq!(server.session.streams_max(), 4, "our own bound");
}

#[test]
fn what_the_server_did_not_begin_may_be_sent_again() {
    let mut server = Server::new();
    let all = [server.get(), server.get(), server.get()];
    server.send(&frame(RST_STREAM, 0, all[0], &7u32.to_be_bytes())).unwrap();
    assert_eq!(server.head(all[0]), Poll::Ready(Err(StreamFailure::Refused)));
    server.send(&frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])).unwrap();
    assert_eq!(server.head(all[2]), Poll::Ready(Err(StreamFailure::Refused)));
    assert_eq!((server.open(b"GET", true), server.session.is_leaving()), (None, true));
    server.send(&reply(all[1], END_STREAM, OK)).unwrap();
    assert_eq!(server.head(all[1]), Poll::Ready(Ok((200, String::new()))));
    all.iter().for_each(|stream| server.session.close(*stream));
    assert!(server.session.is_over());
}

#[test]
fn a_reply_that_broke_off_is_read_up_to_there() {
    let mut server = Server::new();
    let (broken, whole, reset) = (server.get(), server.get(), server.get());
    server.send(&[reply(broken, 0, OK), frame(DATA, 0, broken, b"half")].concat()).unwrap();
    server.send(&[reply(whole, 0, OK), frame(DATA, END_STREAM, whole, b"all")].concat()).unwrap();
    server.send(&frame(RST_STREAM, 0, reset, &2u32.to_be_bytes())).unwrap();
    server.session.abandon();
    assert_eq!(server.head(broken), Poll::Ready(Ok((200, String::new()))));
    assert_eq!(server.body(broken), ("half".to_owned(), BodyPiece::More));
    assert_eq!(server.body(broken), (String::new(), BodyPiece::Gone));
    assert_eq!(server.session.failure(broken), StreamFailure::Lost);
    assert_eq!(server.body(whole), ("all".to_owned(), BodyPiece::End(Vec::new())));
    assert_eq!(server.head(reset), Poll::Ready(Err(StreamFailure::Reset(Code::INTERNAL_ERROR))));
}

#[test]
fn mistakes_with_a_stream_end_the_stream() {
    let length = |n: u8| [OK, &[0x0f, 0x0d, 1, b'0' + n]].concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (frame(DATA, 0, 1, b"x"), "data before a head"),
        (reply(1, 0, &[0, 1, b'x', 1, b'y']), "no status"),
        (reply(1, 0, &[8, 2, b'2', b'0']), "a status of two digits"),
        (reply(1, 0, &[8, 3, b'0', b'2', b'0']), "a status below 100"),
        (reply(1, 0, &[0x88, 0x88]), "two of them"),
        (reply(1, 0, &[0x88, 0x82]), "a method"),
        (reply(1, 0, &[0, 1, b'x', 1, b'y', 0x88]), "a status behind a line"),
        (reply(1, 0, &[0x88, 0, 1, b'X', 1, b'y']), "a capital letter"),
        (reply(1, 0, &[&[0x88, 0, 10], &b"connection"[..], &[1, b'x']].concat()), "connection"),
        (reply(1, 0, &[8, 3, b'1', b'0', b'1']), "101"),
        (reply(1, END_STREAM, EARLY), "an interim reply at the end"),
        (reply(1, END_STREAM, &length(5)), "no body where one was announced"),
        ([reply(1, 0, &length(1)), frame(DATA, 0, 1, b"xy")].concat(), "more than announced"),
        ([reply(1, 0, &length(3)), frame(DATA, 1, 1, b"xy")].concat(), "less than announced"),
        (
            [reply(1, 0, OK), reply(1, 0, &[0, 1, b'x', 1, b'y'])].concat(),
            "trailers before the end",
        ),
        ([reply(1, 0, OK), reply(1, 1, OK)].concat(), "a status in trailers"),
        (reply(1, 0, EARLY).repeat(17), "interim replies without end"),
        (window_update(1, 0), "a window that grows by nothing"),
    ];
    for (bytes, what) in cases {
        let mut server = Server::new();
        server.get();
        server.answers();
        server.send(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(server.answers(), "1: reset 1\n", "{what}");
        assert!(matches!(server.session.failure(1), StreamFailure::Malformed(_)), "{what}");
        assert_eq!(server.get(), 3, "{what}: the connection goes on");
    }
}

#[test]
fn mistakes_with_the_connection_end_it() {
    let settings = |name: u8, value: u32| {
        frame(SETTINGS, 0, 0, &[&[0, name][..], &value.to_be_bytes()].concat())
    };
    let cases: Vec<(Vec<u8>, Code, &str)> = vec![
        (reply(2, 0, OK), Code::PROTOCOL_ERROR, "a pushed stream"),
        (reply(3, 0, OK), Code::PROTOCOL_ERROR, "a stream that nobody opened"),
        (reply(0, 0, OK), Code::PROTOCOL_ERROR, "no stream"),
        (frame(DATA, 0, 3, b"x"), Code::PROTOCOL_ERROR, "data of nobody"),
        (frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]), Code::PROTOCOL_ERROR, "a push"),
        (settings(2, 1), Code::PROTOCOL_ERROR, "leave to push"),
        (settings(4, 0x8000_0000), Code::FLOW_CONTROL_ERROR, "a window that is too large"),
        (settings(5, 1), Code::PROTOCOL_ERROR, "a frame size that is too small"),
        (window_update(0, 0x7fff_ffff), Code::FLOW_CONTROL_ERROR, "more window than there can be"),
        (window_update(0, 0), Code::PROTOCOL_ERROR, "a window that grows by nothing"),
        (frame(RST_STREAM, 0, 1, b"abc"), Code::FRAME_SIZE_ERROR, "a short reset"),
        (frame(RST_STREAM, 0, 5, &[0; 4]), Code::PROTOCOL_ERROR, "a reset of nothing"),
        (frame(GOAWAY, 0, 0, b"abc"), Code::FRAME_SIZE_ERROR, "a short goodbye"),
        (frame(CONTINUATION, 4, 1, OK), Code::PROTOCOL_ERROR, "a continuation of nothing"),
        (
            [frame(HEADERS, 0, 1, OK), frame(PING, 0, 0, &[0; 8])].concat(),
            Code::PROTOCOL_ERROR,
            "a frame within a head",
        ),
        (reply(1, 0, &[0xbe]), Code::COMPRESSION_ERROR, "an entry that was never made"),
        (frame(PING, 0, 0, &[0; 8]).repeat(10_001), Code::ENHANCE_YOUR_CALM, "pings"),
        (frame(SETTINGS, 0, 0, &[]).repeat(10_001), Code::ENHANCE_YOUR_CALM, "settings"),
        (frame(DATA, 0, 1, b"").repeat(10_001), Code::ENHANCE_YOUR_CALM, "empty frames"),
        (frame(9, 0, 1, &[0; 5000]), Code::PROTOCOL_ERROR, "a continuation of nothing"),
        (
            [frame(HEADERS, 0, 1, &[0; 3000]), frame(CONTINUATION, 0, 1, &[0; 3000])].concat(),
            Code::ENHANCE_YOUR_CALM,
            "a head without end",
        ),
    ];
    for (bytes, code, what) in cases {
        let mut server = Server::new();
        server.get();
        if what == "empty frames" {
            server.send(&reply(1, 0, OK)).unwrap();
        }
        let error = server.send(&bytes).expect_err(what);
        assert_eq!(error.code, code, "{what}: {error}");
    }
    let config = Config { streams_max: 4, head_bytes_max: 1000 };
    let early = Session::client(config).read(&frame(PING, 0, 0, &[0; 8]), &mut Block::default());
    assert_eq!(early.unwrap_err().code, Code::PROTOCOL_ERROR, "no settings first");
}

#[test]
fn heads_of_one_stream_share_a_bound() {
    let mut server = Server::new();
    server.get();
    server.answers();
    let long = [&[0, 1, b'x', 0x7f, 0xa9, 0x02][..], &[b'v'; 424]].concat();
    for _ in 0..2 {
        server.send(&reply(1, 0, &[EARLY, &long].concat())).unwrap();
    }
    server.send(&reply(1, 0, &[OK, &long].concat())).unwrap();
    assert_eq!(server.answers(), "1: reset 1\n");
}

#[test]
fn replies_to_head_and_without_bodies_announce_what_they_like() {
    let mut server = Server::new();
    let length = [&[0x0f, 0x0d, 1, b'5'][..]].concat();
    let stream = server.open(b"HEAD", true).unwrap();
    server.send(&reply(stream, END_STREAM, &[OK, &length].concat())).unwrap();
    assert_eq!(server.head(stream), Poll::Ready(Ok((200, "content-length: 5\r\n".to_owned()))));
    assert_eq!(server.session.whole_body(stream).unwrap(), b"");
    // A 304 with data, which it must not have.
    let stream = server.get();
    server.send(&reply(stream, 0, &[&[0x8b], &length[..]].concat())).unwrap();
    server.send(&frame(DATA, END_STREAM, stream, b"hello")).unwrap();
    assert!(matches!(server.session.failure(stream), StreamFailure::Malformed(_)));
}
