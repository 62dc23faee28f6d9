//! The answers of a session to frames.

use http2::{BodyPiece, Code};

use crate::frames::*;

#[test]
fn a_connection_begins_with_settings_and_a_window() {
    let mut client = Client::silent();
    assert_eq!(client.answers(), "settings 24, flags 0\n0: window 983041\n");
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    client.send(&frame(SETTINGS, 0, 0, &[])).unwrap();
    assert_eq!(client.answers(), "settings 0, flags 1\n");
}

#[test]
fn a_request_is_answered() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    assert_eq!(client.requests, [1]);
    client.reply(1, false);
    assert_eq!(client.session.send_data(1, b"hello", true), 5);
    // A table size of 0, status 200, and a literal line; no connection header of HTTP/1.
    assert_eq!(
        client.answers(),
        "1: head  \\x88\\x00\\x03x-a\\x01b, flags 4\n1: data 5, flags 1\n"
    );
    assert_eq!(client.session.open(), 0);
    client.send(&get(3)).unwrap();
    client.reply(3, true);
    assert_eq!(client.answers(), "3: head \\x88\\x00\\x03x-a\\x01b, flags 5\n");
}

#[test]
fn a_long_head_is_cut() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    let long = [b'v'; 40_000];
    client.session.send_head(1, 200, [(&b"x"[..], &long[..])].into_iter(), true);
    let answers = client.answers();
    let kinds: Vec<_> = answers.lines().map(|line| &line[..6]).collect();
    assert_eq!(kinds, ["1: hea", "1: kin", "1: kin"], "{answers}");
    assert!(
        answers.lines().next().unwrap().ends_with("flags 1"),
        "the end of the stream, not of the head"
    );
}

#[test]
fn a_body_comes_in_pieces_and_ends_in_trailers() {
    let mut client = Client::new();
    client.send(&post(1)).unwrap();
    assert_eq!(client.body(1), (String::new(), BodyPiece::None));
    assert_eq!(client.session.remaining(1), Some(5));
    client.send(&frame(DATA, 0, 1, b"hel")).unwrap();
    assert_eq!(client.session.remaining(1), Some(5));
    assert_eq!(client.body(1), ("hel".to_owned(), BodyPiece::More));
    client.send(&frame(DATA, 8, 1, b"\x02lo\0\0")).unwrap();
    let trailer = [0, 1, b'x', 1, b'y'];
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailer)).unwrap();
    assert_eq!(client.session.whole_body(1), None);
    assert_eq!(client.body(1), ("lo".to_owned(), BodyPiece::End(b"x: y\r\n".to_vec())));
    assert_eq!(client.answers(), "");
}

#[test]
fn a_body_that_is_there_is_taken_whole() {
    let mut client = Client::new();
    client.send(&post(1)).unwrap();
    assert_eq!(client.session.whole_body(1), None);
    client.send(&frame(DATA, END_STREAM, 1, b"hello")).unwrap();
    assert_eq!(client.session.remaining(1), Some(5));
    assert_eq!(client.session.whole_body(1).unwrap(), b"hello");
}

#[test]
fn a_reply_before_the_end_of_its_request_stops_the_client() {
    let mut client = Client::new();
    client.send(&post(1)).unwrap();
    client.reply(1, true);
    assert!(client.answers().ends_with("flags 5\n1: reset 0\n"));
    // Data that was already on its way is accepted.
    client.send(&frame(DATA, END_STREAM, 1, b"hello")).unwrap();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0, 1, b'x', 1, b'y'])).unwrap();
    assert_eq!(client.answers(), "");
}

#[test]
fn mistakes_with_a_stream_end_the_stream() {
    let cases: [(&str, &[Vec<u8>], u32); 9] = [
        ("more than announced", &[post(1), frame(DATA, 0, 1, b"hello!")], 1),
        ("less than announced", &[post(1), frame(DATA, END_STREAM, 1, b"hell")], 1),
        ("none of what was announced", &[frame(HEADERS, 5, 1, POST_FIVE)], 1),
        ("data behind the end", &[get(1), frame(DATA, 0, 1, b"x")], 5),
        ("a head behind the end", &[get(1), frame(HEADERS, 5, 1, &[])], 5),
        ("trailers that end nothing", &[post(1), frame(HEADERS, END_HEADERS, 1, &[])], 1),
        ("a pseudo-header too few", &[frame(HEADERS, 5, 1, &[0x82, 0x84])], 1),
        ("dependence on itself", &[frame(HEADERS, 0x25, 1, &[&[0, 0, 0, 1, 9], GET].concat())], 1),
        ("a window that grows by nothing", &[get(1), window_update(1, 0)], 1),
    ];
    for (what, frames, code) in cases {
        let mut client = Client::new();
        for frame in frames {
            client.send(frame).unwrap();
        }
        assert_eq!(client.answers(), format!("1: reset {code}\n"), "{what}");
        assert_eq!(client.session.open(), 0, "{what}");
        client.send(&get(3)).unwrap();
        assert_eq!(client.requests.last(), Some(&3), "{what}");
    }
}

#[test]
fn mistakes_with_the_connection_end_it() {
    let word = 1u32.to_be_bytes();
    let cases: [(&str, Vec<u8>, u32); 25] = [
        ("data without a stream", frame(DATA, 0, 0, b"x"), 1),
        ("data of no stream yet", frame(DATA, 0, 1, b"x"), 1),
        ("padding beyond its frame", [post(1), frame(DATA, 8, 1, b"\x02x")].concat(), 1),
        ("a head without a stream", frame(HEADERS, 5, 0, GET), 1),
        ("an even number", frame(HEADERS, 5, 2, GET), 1),
        ("a number that was used", [get(3), frame(RST_STREAM, 0, 3, &word), get(1)].concat(), 5),
        ("a priority that is cut", frame(HEADERS, 0x25, 1, &[0, 0, 0]), 6),
        ("a block that is cut", frame(HEADERS, 5, 1, &[0x40]), 9),
        ("another frame within a block", [frame(HEADERS, 1, 1, GET), get(3)].concat(), 1),
        (
            "a block that goes on elsewhere",
            [frame(HEADERS, 1, 1, GET), frame(CONTINUATION, 4, 3, &[])].concat(),
            1,
        ),
        ("a continuation of nothing", frame(CONTINUATION, 4, 1, &[]), 1),
        ("a reset of no stream yet", frame(RST_STREAM, 0, 1, &word), 1),
        ("a reset of three bytes", [get(1), frame(RST_STREAM, 0, 1, &[0; 3])].concat(), 6),
        ("settings of a stream", frame(SETTINGS, 0, 1, &[]), 1),
        ("settings of five bytes", frame(SETTINGS, 0, 0, &[0; 5]), 6),
        ("an acknowledgement that says something", frame(SETTINGS, 1, 0, &[0; 6]), 6),
        ("push neither on nor off", frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), 1),
        ("a window beyond 31 bits", frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), 3),
        ("frames too small", frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff]), 1),
        ("a ping of a stream", frame(PING, 0, 1, &[0; 8]), 1),
        ("a ping of seven bytes", frame(PING, 0, 0, &[0; 7]), 6),
        ("a push", frame(5, 4, 1, &[0; 8]), 1),
        (
            "a window of a closed stream that grows by nothing",
            [get(1), frame(RST_STREAM, 0, 1, &word), window_update(1, 0)].concat(),
            1,
        ),
        ("a window of three bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), 6),
        ("a frame of more than it may be", frame(DATA, 0, 1, &[0; 16_385]), 6),
    ];
    for (what, bytes, code) in cases {
        let error = Client::new().send(&bytes).expect_err(what);
        assert_eq!(error.code, Code(code), "{what}: {error}");
    }
    for nonsense in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0zzzzzzzz",
    ] {
        assert_eq!(Client::silent().send(nonsense).unwrap_err().code, Code::PROTOCOL_ERROR);
    }
}

#[test]
fn what_is_unknown_means_nothing() {
    let mut client = Client::new();
    client.send(&frame(0x77, 0xff, 9, b"anything")).unwrap();
    client.send(&frame(SETTINGS, 0, 0, &[0xff, 0xff, 1, 2, 3, 4])).unwrap();
    client.send(&frame(PRIORITY, 0, 9, &[0, 0, 0, 3, 1])).unwrap();
    assert_eq!(client.answers(), "settings 0, flags 1\n");
}

#[test]
fn pings_are_answered() {
    let mut client = Client::new();
    client.send(&frame(PING, 0, 0, b"whatever")).unwrap();
    client.send(&frame(PING, 1, 0, b"whatever")).unwrap();
    assert_eq!(client.answers(), "ping whatever, flags 1\n");
}

/// Streams that the client opens before it knows of the shutdown are served, later ones are not.
#[test]
fn leaving_takes_its_time() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    client.session.leave();
    assert_eq!(client.answers(), "goaway 2147483647 0\nping last one, flags 0\n");
    client.send(&get(3)).unwrap();
    assert_eq!(client.requests, [1, 3]);
    client.send(&frame(PING, 1, 0, b"last one")).unwrap();
    assert_eq!(client.answers(), "goaway 3 0\n");
    client.send(&post(5)).unwrap();
    client.send(&frame(DATA, END_STREAM, 5, b"hello")).unwrap();
    assert_eq!((client.requests.len(), client.answers().as_str()), (2, ""));
    for stream in [1, 3] {
        assert!(!client.session.is_over());
        client.reply(stream, true);
    }
    assert!(client.session.is_over());
}

#[test]
fn a_client_that_goes_gets_its_replies() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    client.send(&frame(GOAWAY, 0, 0, &[0; 8])).unwrap();
    assert!(!client.session.is_over());
    client.reply(1, true);
    assert!(client.session.is_over());
}

#[test]
fn one_stream_more_than_allowed_is_refused() {
    let mut client = Client::new();
    for stream in [1, 3, 5, 7, 9] {
        client.send(&get(stream)).unwrap();
    }
    let answers = client.answers();
    assert_eq!((&client.requests[..], &answers[..]), (&[1, 3, 5, 7][..], "9: reset 7\n"));
    client.reply(1, true);
    client.send(&get(11)).unwrap();
    assert_eq!(client.requests.last(), Some(&11));
}

#[test]
fn leave_to_send_a_body_is_given_once_and_before_the_reply() {
    const CONTINUE: &str = "1: head  \\x08\\x03100, flags 4\n";
    let mut client = Client::new();
    client.send(&post(1)).unwrap();
    client.session.defer_continue(1);
    assert_eq!(client.answers(), "", "nobody wants it yet");
    for answers in [CONTINUE, ""] {
        assert_eq!(client.body(1).1, BodyPiece::None);
        assert_eq!(client.answers(), answers);
    }
    // The client has begun the body without waiting.
    client.send(&[post(3), frame(DATA, 0, 3, b"hel")].concat()).unwrap();
    client.session.defer_continue(3);
    assert_eq!((client.body(3).1, client.body(3).1), (BodyPiece::More, BodyPiece::None));
    // The reply has begun.
    client.send(&post(5)).unwrap();
    client.session.defer_continue(5);
    client.reply(5, false);
    assert_eq!(client.body(5).1, BodyPiece::None);
    assert!(!client.answers().contains("100"));
}
