//! The client's side of a connection: clients that close, pipeline, or send no proper body.

use std::future::poll_fn;

use http1::Framing;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

fn connected() -> (ClientHandle, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    (SharedClient::new(Wire::Wrapped(Box::new(ours))), theirs)
}

/// Reads what has arrived so far.
async fn arrived(peer: &mut DuplexStream) -> String {
    let mut bytes = Vec::new();
    let read = async { while peer.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {} };
    let _ = tokio::time::timeout(Duration::from_millis(1), read).await;
    String::from_utf8(bytes).unwrap()
}

/// Reads a body to its end.
async fn body(client: &ClientHandle) -> Result<String, Kind> {
    let mut out = Vec::new();
    loop {
        let read = poll_fn(|cx| client.borrow_mut().poll_body(cx, &mut out)).await;
        if read.map_err(|fault| fault.kind)? == Fill::End {
            return Ok(String::from_utf8(out).unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_closed_its_side_is_probed_and_counts_as_gone_after_30_seconds() {
    // After 1, 1.5, 2.5, 4.5, 8.5 and 16.5 s.
    for (takes_interim, probes) in [(true, 6), (false, 0)] {
        let (client, mut peer) = connected();
        peer.shutdown().await.unwrap();
        let began = clock::now();
        poll_fn(|cx| client.borrow_mut().poll_left(cx, takes_interim)).await;
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(arrived(&mut peer).await.matches("HTTP/1.1 100 Continue").count(), probes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_left_is_noticed_by_the_first_probe() {
    let (client, peer) = connected();
    drop(peer);
    let began = clock::now();
    poll_fn(|cx| client.borrow_mut().poll_left(cx, true)).await;
    assert_eq!(began.elapsed().as_secs(), 1);
    // A reply without an end has no use for a client that reads no more.
    let (client, mut peer) = connected();
    peer.shutdown().await.unwrap();
    poll_fn(|cx| client.borrow_mut().poll_gone(cx)).await;
    assert!(client.borrow().half_closed);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_still_there_is_waited_for() {
    let (client, _peer) = connected();
    let left = poll_fn(|cx| client.borrow_mut().poll_left(cx, true));
    assert!(tokio::time::timeout(Duration::from_secs(3600), left).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn pipelined_data_is_read_up_to_a_bound() {
    let (client, mut peer) = connected();
    peer.write_all(&[b'x'; 900_000]).await.unwrap();
    let broken = poll_fn(|cx| client.borrow_mut().poll_broken(cx));
    assert!(tokio::time::timeout(Duration::from_secs(1), broken).await.is_err());
    let read = client.borrow().buffer.len();
    assert!((PIPELINED_BYTES_MAX..PIPELINED_BYTES_MAX + SCRATCH_BYTES).contains(&read), "{read}");
}

#[tokio::test(start_paused = true)]
async fn interim_replies_that_a_client_does_not_read_are_dropped_as_a_whole() {
    let (client, _peer) = connected();
    let mut head = ReplyHead::new(103);
    head.headers.add("Link", &[b'x'; 1000]).unwrap();
    for _ in 0..100 {
        client.pass(0, &head);
    }
    let client = client.borrow();
    assert!(client.interim.len() <= INTERIM_BYTES_MAX && client.interim.ends_with(b"x\r\n\r\n"));
    let text = String::from_utf8_lossy(&client.interim);
    assert_eq!((text.matches("103").count(), text.matches("\r\n\r\n").count()), (15, 15));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_100_gets_it_once_and_only_if_it_has_sent_nothing() {
    for (early, expected) in [("", 1), ("he", 0)] {
        let (client, mut peer) = connected();
        client.borrow_mut().buffer = early.as_bytes().to_vec();
        client.borrow_mut().begin_body(Framing::Length(5), true);
        let sends = async {
            assert_eq!(arrived(&mut peer).await.matches("100 Continue").count(), expected);
            for byte in "hello".bytes().skip(early.len()) {
                peer.write_all(&[byte]).await.unwrap();
            }
        };
        let (read, ()) = tokio::join!(body(&client), sends);
        assert_eq!(read, Ok("hello".to_owned()));
        assert_eq!(arrived(&mut peer).await, "");
        assert_eq!(client.borrow().body_bytes, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_end_where_their_framing_says_and_the_rest_is_kept() {
    let malformed = Err(Kind::Malformed);
    for (framing, sent, expected, rest) in [
        (Framing::Length(2), "hiGET", Ok("hi"), "GET"),
        (Framing::Chunked, "2\r\nhi\r\n0\r\n\r\nGET", Ok("hi"), "GET"),
        (Framing::Chunked, "2\r\nhiX", malformed, ""),
        (Framing::Chunked, "-1\r\n", malformed, ""),
        (Framing::Length(3), "hi", Err(Kind::ClientGone), ""),
        (Framing::Chunked, "2\r\nhi\r\n", Err(Kind::ClientGone), ""),
    ] {
        for split in 0..sent.len() {
            let (client, mut peer) = connected();
            let (early, late) = sent.split_at(split);
            client.borrow_mut().buffer = early.as_bytes().to_vec();
            client.borrow_mut().begin_body(framing, false);
            peer.write_all(late.as_bytes()).await.unwrap();
            drop(peer);
            assert_eq!(body(&client).await, expected.map(str::to_owned), "{sent} at {split}");
            let mut kept = std::mem::take(&mut client.borrow_mut().buffer);
            let mut is_over = false;
            while !is_over {
                let read =
                    poll_fn(|cx| client.borrow_mut().wire.poll_read_into(cx, &mut kept, 100));
                is_over = read.await.unwrap() == 0;
            }
            assert!(expected.is_err() || kept == rest.as_bytes(), "{sent} at {split}");
        }
    }
}
