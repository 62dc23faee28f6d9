//! Tests flow control in both directions.

use std::task::{Context, Poll, Waker};

use http2::Code;

use crate::frames::*;

fn room(client: &mut Client, stream: u32) -> Poll<Option<usize>> {
    client.session.poll_room(&mut Context::from_waker(Waker::noop()), stream)
}

#[test]
fn no_more_is_sent_than_the_client_takes() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    client.send(&get(3)).unwrap();
    client.reply(1, false);
    assert_eq!(client.session.send_data(1, &[0; 70_000], true), 65_535);
    assert_eq!((room(&mut client, 1), room(&mut client, 3)), (Poll::Pending, Poll::Pending));
    assert!(client.answers().ends_with("1: data 16384, flags 0\n1: data 16383, flags 0\n"));
    // A larger stream window alone is not enough.
    client.send(&window_update(1, 10_000)).unwrap();
    assert_eq!(room(&mut client, 1), Poll::Pending);
    client.send(&window_update(0, 5000)).unwrap();
    assert_eq!(room(&mut client, 1), Poll::Ready(Some(5000)));
    assert_eq!(room(&mut client, 3), Poll::Ready(Some(5000)));
    assert_eq!(client.session.send_data(1, &[0; 4465], true), 4465);
    assert_eq!(client.answers(), "1: data 4465, flags 1\n");
    assert_eq!(room(&mut client, 1), Poll::Ready(None));
}

#[test]
fn a_client_may_change_its_mind_about_windows() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    assert_eq!(client.session.send_data(1, &[0; 100], false), 100);
    let first = |window: u32| frame(SETTINGS, 0, 0, &[&[0, 4], &window.to_be_bytes()[..]].concat());
    client.send(&first(50)).unwrap();
    assert_eq!(room(&mut client, 1), Poll::Pending, "a window may be below nothing");
    client.send(&first(150)).unwrap();
    assert_eq!(room(&mut client, 1), Poll::Ready(Some(50)));
    client.send(&window_update(1, 0x7fff_ffff - 50)).unwrap();
    let error = client.send(&first(151)).unwrap_err();
    assert_eq!(error.code, Code::FLOW_CONTROL_ERROR);
}

/// Issue 18.12: a frame can contain 2,730 windows, and each was applied to every stream.
#[test]
fn of_the_windows_in_one_frame_the_last_is_applied() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    let windows = |all: &[u32]| {
        let one = |window: &u32| [&[0, 4][..], &window.to_be_bytes()].concat();
        frame(SETTINGS, 0, 0, &all.iter().flat_map(one).collect::<Vec<u8>>())
    };
    client.send(&windows(&[1, 2, 3, 70])).unwrap();
    assert_eq!(room(&mut client, 1), Poll::Ready(Some(70)));
    // If the first window were applied, it would overflow the stream's window.
    client.send(&window_update(1, 0x7fff_ffff - 70)).unwrap();
    client.send(&windows(&[71, 70])).unwrap();
    assert_eq!(
        client.send(&windows(&[0x8000_0000, 70])).unwrap_err().code,
        Code::FLOW_CONTROL_ERROR
    );
}

/// Issue 18.2: the client reads little at a time, and updates its window each time.
#[test]
fn what_waits_to_be_written_is_bounded() {
    const MOST: usize = 128 * 1024;
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    client.send(&window_update(1, 0x7fff_0000)).unwrap();
    client.send(&window_update(0, 0x7fff_0000)).unwrap();
    let body = vec![0; 1 << 20];
    let mut sent = 0;
    for _ in 0..1000 {
        sent += client.session.send_data(1, &body, false);
        let unsent = client.session.unsent().len();
        assert!(unsent <= MOST + MOST / 8, "{unsent} bytes wait");
        client.session.sent(10_000);
    }
    assert!(sent > 9_000_000, "{sent}");
    let held = client.session.held_bytes();
    assert!(held <= 4 * MOST, "{held} bytes are held for it");
}

#[test]
fn windows_do_not_overflow() {
    let mut client = Client::new();
    client.send(&get(1)).unwrap();
    client.send(&window_update(1, 0x7fff_ffff)).unwrap();
    assert_eq!(client.answers(), "1: reset 3\n");
    let error = client.send(&window_update(0, 0x7fff_ffff)).unwrap_err();
    assert_eq!(error.code, Code::FLOW_CONTROL_ERROR);
}

#[test]
fn what_is_read_may_be_sent_again() {
    let mut client = Client::new();
    client.send(&frame(HEADERS, END_HEADERS, 1, GET)).unwrap();
    let mut windows = String::new();
    for _ in 0..64 {
        client.send(&frame(DATA, 0, 1, &[0; 16_384])).unwrap();
        client.body(1);
        windows += &client.answers();
    }
    // Half of each window at a time.
    let stream = "1: window 131072\n".repeat(8);
    assert_eq!(windows.replace("0: window 524288\n", ""), stream);
    assert_eq!(windows.matches("0: window 524288\n").count(), 2);
}

#[test]
fn more_than_the_window_ends_the_stream_or_the_connection() {
    let mut client = Client::new();
    client.send(&frame(HEADERS, END_HEADERS, 1, GET)).unwrap();
    for _ in 0..16 {
        client.send(&frame(DATA, 0, 1, &[0; 16_384])).unwrap();
    }
    assert_eq!(client.answers(), "");
    client.send(&frame(DATA, 0, 1, b"x")).unwrap();
    assert_eq!(client.answers(), "1: reset 3\n");

    let mut client = Client::new();
    for stream in [1, 3, 5, 7] {
        client.send(&frame(HEADERS, END_HEADERS, stream, GET)).unwrap();
        for _ in 0..16 {
            client.send(&frame(DATA, 0, stream, &[0; 16_384])).unwrap();
        }
    }
    let error = client.send(&frame(DATA, 0, 1, b"x")).unwrap_err();
    assert_eq!(error.code, Code::FLOW_CONTROL_ERROR);
}

/// This includes bytes that were not read before their stream ended. Otherwise, the other streams of the connection would starve.
#[test]
fn the_window_of_a_stream_that_ends_comes_back() {
    let mut client = Client::new();
    let mut windows = String::new();
    for n in 0..16 {
        let stream = 1 + 2 * n;
        client.send(&frame(HEADERS, END_HEADERS, stream, GET)).unwrap();
        for _ in 0..8 {
            client.send(&frame(DATA, 0, stream, &[0; 16_384])).unwrap();
        }
        match n % 3 {
            0 => client.send(&frame(RST_STREAM, 0, stream, &[0; 4])).unwrap(),
            1 => client.session.reset(stream, Code::CANCEL),
            _ => client.reply(stream, true),
        }
        windows += &client.answers();
    }
    assert_eq!(windows.matches("0: window 524288\n").count(), 4, "{windows}");
}

#[test]
fn too_much_unwritten_is_no_room() {
    let mut client = Client::new();
    client.send(&window_update(0, 1_000_000)).unwrap();
    client.send(&get(1)).unwrap();
    client.send(&window_update(1, 1_000_000)).unwrap();
    client.session.send_data(1, &[0; 140_000], false);
    assert!(client.session.is_full());
    assert_eq!(room(&mut client, 1), Poll::Pending);
    client.answers();
    assert!(matches!(room(&mut client, 1), Poll::Ready(Some(_))));
}
