//! Tests malicious clients.

use http2::{Code, Error};

use crate::frames::*;

/// Sends frames until the session fails, and reads the answers like a normal connection.
fn flood(client: &mut Client, most: usize, mut frames: impl FnMut(u32) -> Vec<u8>) -> Error {
    for n in 0..most {
        if let Err(error) = client.send(&frames(u32::try_from(n).unwrap())) {
            return error;
        }
        client.answers();
    }
    panic!("{most} times were taken");
}

#[test]
fn streams_that_are_opened_to_be_reset() {
    let error = flood(&mut Client::new(), 300, |n| {
        [post(2 * n + 1), frame(RST_STREAM, 0, 2 * n + 1, &[0; 4])].concat()
    });
    assert_eq!(error.code, Code::ENHANCE_YOUR_CALM);
}

/// CVE-2025-8671: the client makes the server reset its streams.
#[test]
fn streams_that_are_opened_to_be_refused() {
    let error =
        flood(&mut Client::new(), 300, |n| [get(2 * n + 1), window_update(2 * n + 1, 0)].concat());
    assert_eq!(error.code, Code::ENHANCE_YOUR_CALM);
}

/// Resets one in `many` streams. Returns how many streams pass, up to 5,000.
fn resets_one_in(many: u32, forgiving: u32) -> u32 {
    let mut client = Client::new();
    for n in 0..5000 {
        let stream = 2 * n + 1;
        if client.send(&get(stream)).is_err() {
            return n;
        }
        match n % many {
            0 if client.send(&frame(RST_STREAM, 0, stream, &[0; 4])).is_err() => return n,
            0 => client.session.reset_flood_count(forgiving),
            _ => client.reply(stream, true),
        }
        client.answers();
    }
    5000
}

#[test]
fn resets_of_a_client_that_mostly_waits_for_its_replies_are_its_right() {
    assert_eq!(resets_one_in(9, 0), 5000);
    // Rare resets pass, even if no stream ends.
    assert_eq!(resets_one_in(1, 1), 5000);
}

/// Formerly, each cheap stream that ended allowed the reset of an expensive one.
#[test]
fn resets_are_not_paid_for_by_as_many_cheap_streams() {
    assert!(resets_one_in(2, 0) < 800, "{}", resets_one_in(2, 0));
}

#[test]
fn frames_that_come_to_nothing() {
    let kinds = [
        ("ping", frame(PING, 0, 0, &[0; 8])),
        ("settings", frame(SETTINGS, 0, 0, &[])),
        ("priority", frame(PRIORITY, 0, 1, &[0; 5])),
        ("empty data", frame(DATA, 0, 1, &[])),
        ("window", window_update(0, 1)),
        ("unknown", frame(0x42, 0, 0, &[])),
    ];
    for (what, fruitless) in kinds {
        let mut client = Client::new();
        client.send(&frame(HEADERS, END_HEADERS, 1, GET)).unwrap();
        let error = flood(&mut client, 20_000, |_| fruitless.clone());
        assert_eq!(error.code, Code::ENHANCE_YOUR_CALM, "{what}");
    }
}

/// CVE-2024-27316.
#[test]
fn header_lines_without_end() {
    let mut client = Client::new();
    client.send(&frame(HEADERS, END_STREAM, 1, GET)).unwrap();
    let error = flood(&mut client, 100, |_| frame(CONTINUATION, 0, 1, &[0x82; 100]));
    assert_eq!(error.code, Code::ENHANCE_YOUR_CALM);
    let mut client = Client::new();
    client.send(&frame(HEADERS, END_STREAM, 1, GET)).unwrap();
    let error = flood(&mut client, 20_000, |_| frame(CONTINUATION, 0, 1, &[]));
    assert_eq!(error.code, Code::ENHANCE_YOUR_CALM);
}

/// CVE-2016-6581: a small block that refers to one long line repeatedly.
#[test]
fn a_small_block_of_much_text_is_a_head_that_is_too_large() {
    let mut client = Client::new();
    let mut block = [GET, &[0x40, 1, b'x', 0x7f, 0x81, 0x06]].concat();
    block.extend([b'v'; 900]);
    block.extend([0xbe; 10_000]);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)).unwrap();
    // It still counts as a request, so that it can be answered: see `Head::is_too_large`.
    assert_eq!(client.requests, [1]);
}
