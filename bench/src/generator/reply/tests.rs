use super::*;

const ANY: Inquiry<'static> = Inquiry { headers: &[], is_head: false };

/// Reads a reply in pieces of this size. Returns its head and body, or the error.
fn read(reply: &[u8], size: usize, wanted: &Inquiry<'_>) -> Result<(Head, String), String> {
    let mut reader = Reader::default();
    let mut body = Vec::new();
    let mut pieces = reply.chunks(size).peekable();
    while let Some(piece) = pieces.next() {
        let took = reader.take(piece, wanted, |_, bytes| body.extend_from_slice(bytes));
        match took.map_err(|kind| format!("{kind:?}"))? {
            Progress::Partial => {}
            Progress::Whole(_) if pieces.peek().is_some() => return Err("too early".to_owned()),
            Progress::Whole(head) => {
                assert_eq!(reader.received_bytes, reply.len() as u64);
                return Ok((head, String::from_utf8(body).unwrap()));
            }
        }
    }
    let head = reader.close().ok_or("not whole")?;
    Ok((head, String::from_utf8(body).unwrap()))
}

#[test]
fn replies_are_read_in_pieces_of_any_size() {
    let cases: [(&str, u16, &str); 8] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, ""),
        ("HTTP/1.1 500 Oops\r\ncontent-length:0\r\n\r\n", 500, ""),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
            200,
            "hello0123456789",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            200,
            "hi",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, "x"),
    ];
    for (reply, status, body) in cases {
        for size in 1..=reply.len() {
            let (head, read) = read(reply.as_bytes(), size, &ANY)
                .unwrap_or_else(|why| panic!("{reply} in pieces of {size}: {why}"));
            assert_eq!((head.status, read.as_str()), (status, body), "{reply}, {size}");
        }
    }
}

#[test]
fn invalid_replies_are_refused_in_pieces_of_any_size() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX * 2));
    let line = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}",
        "x".repeat(CHUNK_LINE_BYTES_MAX * 2)
    );
    let cases = [
        "HTTP/2 200 OK\r\n\r\n",
        "hello, this is something else\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        &long,
        &line,
    ];
    for reply in cases {
        for size in (1..40).chain([reply.len()]) {
            let read = read(reply.as_bytes(), size, &ANY);
            let begin = reply.get(..60).unwrap_or(reply);
            // A second reply without a request is an error.
            let refused = match &read {
                Err(why) => why == "Protocol" || why == "too early",
                Ok(_) => false,
            };
            assert!(refused, "{begin} in pieces of {size}: {read:?}");
        }
    }
}

#[test]
fn a_reply_that_ends_early_is_incomplete() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
    ] {
        assert_eq!(read(reply.as_bytes(), 7, &ANY).unwrap_err(), "not whole", "{reply}");
    }
}

#[test]
fn heads_are_parsed() {
    let region = [("X-Soap-Region".to_owned(), "soap2".to_owned())];
    let wanted = Inquiry { headers: &region, is_head: true };
    let of = |lines: &str| {
        read(format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n").as_bytes(), 999, &wanted).unwrap().0
    };
    assert!(of("x-soap-region: soap2").has_expected);
    assert!(!of("X-Soap-Region: soap3").has_expected);
    assert!(of("Connection: close").closes && !of("Connection: keep-alive").closes);
    assert!(of("Content-Encoding: gzip").is_gzip && !of("Content-Encoding: br").is_gzip);
}
