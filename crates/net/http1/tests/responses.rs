//! Tests response heads.

use http1::Error::{self, *};
use http1::{Limits, MethodKind, Version, parse_response};

fn show(bytes: &[u8], asked: MethodKind) -> Result<Option<String>, Error> {
    let mut lines = Vec::new();
    let Some(head) = parse_response(bytes, &Limits::default(), asked, &mut lines)? else {
        return Ok(None);
    };
    let text = |span: http1::Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
    let version = if head.version == Version::Http11 { "1.1" } else { "1.0" };
    let keep = if head.keep_alive { " keep" } else { "" };
    let upgrade = if head.upgrade { " upgrade" } else { "" };
    let lines: Vec<_> =
        lines.iter().map(|line| format!("[{}={}]", text(line.name), text(line.value))).collect();
    Ok(Some(format!(
        "{version} {} '{}' {:?}{keep}{upgrade} {} +{}",
        head.status,
        text(head.reason),
        head.framing,
        lines.concat(),
        bytes.len() - head.head_len
    )))
}

#[track_caller]
fn check(input: &str, expected: &str) {
    assert_eq!(
        show(input.as_bytes(), MethodKind::default()),
        Ok(Some(expected.to_owned())),
        "{input:?}"
    );
}

#[track_caller]
fn refuse(input: &str, expected: Error) {
    assert_eq!(show(input.as_bytes(), MethodKind::default()), Err(expected), "{input:?}");
}

#[test]
fn plain() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "1.1 200 'OK' Length(2) keep [Content-Length=2] +2",
    );
    check(
        "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "1.1 200 '' None keep [Content-Length=0] +0",
    );
    check("HTTP/1.1 200 \r\nA:\r\n\r\n", "1.1 200 '' UntilClose [A=] +0");
    check(
        "HTTP/1.1 999 Cr\u{e8}me br\u{fb}l\u{e9}e  \r\nTransfer-Encoding: chunked\r\n\r\n",
        "1.1 999 'Cr\u{e8}me br\u{fb}l\u{e9}e  ' Chunked keep [Transfer-Encoding=chunked] +0",
    );
    check("HTTP/1.0 200 OK\r\n\r\nabc", "1.0 200 'OK' UntilClose  +3");
    check(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n",
        "1.0 200 'OK' Length(1) keep [Connection=keep-alive][Content-Length=1] +0",
    );
    check(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:  005 \r\n\r\n",
        "1.1 200 'OK' Length(5) [Connection=close][Content-Length=005] +0",
    );
    check(
        "HTTP/1.1 200 OK\r\nX: caf\u{e9} \t\r\nContent-Type: a\r\nContent-Type: b\r\nExpect: x\r\n\r\n",
        "1.1 200 'OK' UntilClose [X=caf\u{e9}][Content-Type=a][Content-Type=b][Expect=x] +0",
    );
}

#[test]
fn framing_depends_on_status_and_request() {
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP", "1.1 100 'Continue' None keep  +4");
    check(
        "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\nxy",
        "1.1 101 'X' None keep upgrade [Connection=upgrade][Upgrade=a] +2",
    );
    check(
        "HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n",
        "1.1 204 'X' None keep [Content-Length=5] +0",
    );
    check(
        "HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n",
        "1.1 304 'X' None keep [Transfer-Encoding=chunked] +0",
    );
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let head = show(ok, MethodKind { head: true, connect: false }).unwrap().unwrap();
    assert_eq!(head, "1.1 200 'OK' None keep [Content-Length=5] +0");
    let connect = MethodKind { head: false, connect: true };
    assert_eq!(show(ok, connect).unwrap().unwrap(), head);
    let refused = show(b"HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\n", connect).unwrap().unwrap();
    assert_eq!(refused, "1.1 403 'No' Length(5) keep [Content-Length=5] +0");
}

#[test]
fn refused() {
    for (lines, error) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", LengthAndCoding),
        ("Content-Length: 5\r\nContent-Length: 5", ContentLengthRepeated),
        ("Content-Length: +5", ContentLength),
        ("Content-Length: 5, 5", ContentLength),
        ("Content-Length:", ContentLength),
        ("Transfer-Encoding: identity", TransferEncoding),
        ("Transfer-Encoding: gzip", TransferEncoding),
        ("Transfer-Encoding: gzip, chunked", TransferCoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", TransferEncodingRepeated),
        ("A : b", HeaderName),
        ("A: b\r\n c", HeaderName),
        ("A: b\nB: c", LineEnd),
        ("A: \0", HeaderValue),
    ] {
        refuse(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"), error);
    }
    refuse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncodingVersion);
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1  200 OK",
        "HTTP/2 200 OK",
        "ICY 200 OK",
        "HTTP/1.1 099 No",
        "http/1.1 200 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 200 \0",
    ] {
        refuse(&format!("{line}\r\n\r\n"), StatusLine);
    }
    refuse("HTTP/1.1 200 OK\nA: b\r\n\r\n", LineEnd);
    refuse("HTTP/1.1 200\nA: b\r\n\r\n", LineEnd);
    refuse("HTTP/1.1 200 OK\r\nA: b\r\n\n", LineEnd);
    refuse("\r\nHTTP/1.1 200 OK\r\n\r\n", EmptyLines);
    refuse(&format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(1 << 16)), HeadTooLarge);
    refuse(&format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(129)), TooManyHeaders);
}
