//! How replies are framed, byte for byte.

use std::io;

use kit::fake;
use message::{Fill, Source, WriteTarget};

use super::*;

/// Collects what is written.
struct Sink(Vec<u8>);

impl WriteTarget for Sink {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        let all = pieces.concat();
        self.0.extend_from_slice(all.get(*sent..).unwrap());
        *sent = all.len();
        Poll::Ready(Ok(()))
    }
}

/// A body whose length is not known.
struct Unknown;

impl Source for Unknown {
    fn poll_fill(&mut self, _: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        out.extend_from_slice(b"hi");
        Poll::Ready(Ok(Fill::End))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

fn unknown() -> Body {
    Body::Stream(Box::new(Unknown))
}

fn whole() -> Body {
    Body::whole("hi".into())
}

const GET: ReplyRules = ReplyRules { protocol: Protocol::Http11, head: false, keep_alive: true };
const HEAD: ReplyRules = ReplyRules { head: true, ..GET };
const OLD: ReplyRules = ReplyRules { protocol: Protocol::Http10, ..GET };
const LAST: ReplyRules = ReplyRules { keep_alive: false, ..GET };
const OLD_LAST: ReplyRules = ReplyRules { keep_alive: false, ..OLD };

/// Returns the lines after the status line and the date, with the body, and whether the connection is kept.
async fn written(
    (status, announced): (u16, Option<&str>),
    body: Body,
    rules: ReplyRules,
    tunnelled: bool,
) -> (String, bool) {
    let mut reply = Reply::new(status, body);
    if let Some(announced) = announced {
        reply.head.headers.add("Content-Length", announced.as_bytes()).unwrap();
    }
    let (mut outgoing, keep_alive) = outgoing(reply, rules, tunnelled);
    let mut sink = Sink(Vec::new());
    poll_fn(|cx| outgoing.poll(cx, &mut sink)).await.unwrap();
    let text = String::from_utf8(sink.0).unwrap();
    let (line, rest) = text.split_once("\r\n").unwrap();
    assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{line}");
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(rest.matches(date).count(), 1, "{rest}");
    (rest.replace(date, ""), keep_alive)
}

#[tokio::test(start_paused = true)]
async fn each_reply_has_one_framing_that_its_client_understands() {
    fake::wall(Duration::from_secs(784_111_777));
    let ok = (200, None);
    for (what, head, body, rules, expected, keeps) in [
        ("a known length", ok, whole(), GET, "Content-Length: 2\r\n\r\nhi", true),
        ("an empty body", ok, Body::Empty, GET, "Content-Length: 0\r\n\r\n", true),
        (
            "an unknown length",
            ok,
            unknown(),
            GET,
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            true,
        ),
        ("for HTTP/1.0", ok, unknown(), OLD, "\r\nhi", false),
        (
            "HTTP/1.0 has to be told that the connection stays",
            ok,
            whole(),
            OLD,
            "Content-Length: 2\r\nConnection: keep-alive\r\n\r\nhi",
            true,
        ),
        ("and not that it ends", ok, whole(), OLD_LAST, "Content-Length: 2\r\n\r\nhi", false),
        (
            "HTTP/1.1 the other way round",
            ok,
            whole(),
            LAST,
            "Content-Length: 2\r\nConnection: close\r\n\r\nhi",
            false,
        ),
        ("no content", (204, Some("5")), whole(), GET, "\r\n", true),
        ("not modified", (304, Some("5")), Body::Empty, GET, "Content-Length: 5\r\n\r\n", true),
        ("made here", (304, None), whole(), GET, "Content-Length: 2\r\n\r\n", true),
        ("unknown", (304, None), unknown(), GET, "\r\n", true),
        ("HEAD", ok, whole(), HEAD, "Content-Length: 2\r\n\r\n", true),
        ("HEAD, announced", (200, Some("5")), Body::Empty, HEAD, "Content-Length: 5\r\n\r\n", true),
        ("HEAD, unknown", ok, unknown(), HEAD, "\r\n", true),
        ("a right length", (200, Some("2")), whole(), GET, "Content-Length: 2\r\n\r\nhi", true),
        ("a wrong one", (200, Some("5")), whole(), GET, "Content-Length: 2\r\n\r\nhi", true),
        ("no number", (200, Some("x")), whole(), GET, "Content-Length: 2\r\n\r\nhi", true),
        (
            "one for an unknown body",
            (200, Some("2")),
            unknown(),
            GET,
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            true,
        ),
    ] {
        let written = written(head, body, rules, false).await;
        assert_eq!(written, (expected.to_owned(), keeps), "{what}");
    }
    let upgraded = written((101, None), Body::Empty, LAST, true).await;
    assert_eq!(upgraded, ("\r\n".to_owned(), false), "a tunnel has its own `Connection`");
}

#[test]
fn the_date_of_the_upstream_stays() {
    let mut reply = Reply::new(200, Body::Empty);
    reply.head.headers.add("date", b"then").unwrap();
    let (mut outgoing, _) = outgoing(reply, GET, false);
    let mut sink = Sink(Vec::new());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(outgoing.poll(&mut cx, &mut sink).is_ready());
    let text = String::from_utf8(sink.0).unwrap().to_ascii_lowercase();
    assert_eq!((text.matches("date:").count(), text.contains("date: then")), (1, true));
}
