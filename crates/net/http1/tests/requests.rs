//! Tests request heads: the result of parsing each, or the reason why it is refused.

use http1::Error::{self, *};
use http1::{Framing, Limits, TargetForm, Version, parse_request};

/// Shows a head on one line: `METHOD target 1.x framing`, then the flags that are set, then the host and the lines.
fn show(bytes: &[u8], limits: &Limits) -> Result<Option<String>, Error> {
    let mut lines = Vec::new();
    let Some(head) = parse_request(bytes, limits, &mut lines)? else { return Ok(None) };
    let text = |span: http1::Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
    let version = if head.version == Version::Http11 { "1.1" } else { "1.0" };
    let mut shown =
        format!("{} {} {version} {:?}", text(head.method), text(head.target), head.framing);
    for (on, flag) in [
        (head.keep_alive, "keep"),
        (head.upgrade, "upgrade"),
        (head.expect_continue, "expect"),
        (head.form == TargetForm::Absolute, "absolute"),
    ] {
        if on {
            shown = format!("{shown} {flag}");
        }
    }
    let host = head.host.map_or("-".to_owned(), text);
    let lines: Vec<_> =
        lines.iter().map(|line| format!("[{}={}]", text(line.name), text(line.value))).collect();
    Ok(Some(format!("{shown} @{host} {} +{}", lines.concat(), bytes.len() - head.head_len)))
}

#[track_caller]
fn check(input: &str, expected: &str) {
    let shown = show(input.as_bytes(), &Limits::default());
    assert_eq!(shown, Ok(Some(expected.to_owned())), "{input:?}");
}

/// Checks that a request is refused, whatever bytes follow the mistake.
#[track_caller]
fn refuse(input: impl AsRef<[u8]>, expected: Error) {
    let shown = show(input.as_ref(), &Limits::default());
    assert_eq!(shown, Err(expected), "{}", input.as_ref().escape_ascii());
}

/// Returns a request with these header lines after a Host.
fn with(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn plain() {
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 1.1 None keep @a [Host=a] +0");
    check(
        "GET /x HTTP/1.1\r\nhOST:a:80  \t\r\nB:\r\nC: \t d \r\n\r\nXY",
        "GET /x 1.1 None keep @a:80 [hOST=a:80][B=][C=d] +2",
    );
    check(
        "\r\nM-SEARCH /a?b HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        "M-SEARCH /a?b 1.1 None keep @[::1]:8080 [Host=[::1]:8080] +0",
    );
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * 1.1 None keep @a [Host=a] +0");
    check(
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "CONNECT a:443 1.1 None keep @a:443 [Host=a:443] +0",
    );
    check(
        "GET / HTTP/1.1\r\nHost: a\r\nX: caf\u{e9}\r\n\r\n",
        "GET / 1.1 None keep @a [Host=a][X=caf\u{e9}] +0",
    );
}

#[test]
fn hosts_and_targets() {
    check(
        "GET http://A:80/x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://A:80/x 1.1 None keep absolute @a [Host=a] +0",
    );
    check("GET http://a/x HTTP/1.0\r\n\r\n", "GET http://a/x 1.0 None absolute @a  +0");
    check("GET / HTTP/1.0\r\n\r\n", "GET / 1.0 None @-  +0");
    check(
        "GET http://b:8080/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b:8080/ 1.1 None keep absolute @b:8080 [Host=a] +0",
    );
    refuse("CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", HostMismatch);
    refuse("GET / HTTP/1.1\r\n\r\n", HostMissing);
    refuse("GET http://a/ HTTP/1.1\r\n\r\n", HostMissing);
    refuse("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HostRepeated);
    refuse("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", HostRepeated);
    for host in
        ["", " ", "a, b", "a,b", "u@a", "u:p@a", "a/b", "a?b", "a#b", "a b", "http://a", "a:x"]
    {
        refuse(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), Host);
    }
}

#[test]
fn request_lines() {
    refuse("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Method);
    refuse("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Method);
    refuse("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine);
    refuse("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", LineEnd);
    refuse("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", RequestLine);
    refuse("GET HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("GET /\r\n", Target);
    refuse("GET\r\n", Method);
    refuse("GET / \r\n", RequestLine);
    refuse("   \r\n\r\n", Method);
    refuse("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", Method);
    refuse("GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse(b"GET /\xc0\xaf HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", Target);
    refuse(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Method);
}

#[test]
fn versions() {
    for version in ["HTTP/1.2", "HTTP/2.0", "HTTP/9.9", "HTTP/0.9"] {
        refuse(format!("GET / {version}\r\nHost: a\r\n\r\n"), Version);
    }
    for version in [
        "http/1.1",
        "HTTP/ 1.1",
        "HTTP/1,1",
        "HTTP/01.01",
        "HTTP/2.01",
        "HTTP/3",
        "HTTP/11.1",
        "HTTP/1",
        "HTTP/a.b",
        "HTTP1.1",
        "HTTPS/1.1",
        "Http/1.1",
        "1.1",
    ] {
        refuse(format!("GET / {version}\r\nHost: a\r\n\r\n"), RequestLine);
    }
    for version in ["HTTP/1.10", "HTTP/1.1x", "HTTP/1.1."] {
        refuse(format!("GET / {version}\r\nHost: a\r\n\r\n"), LineEnd);
    }
    refuse("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Version);
}

#[test]
fn line_ends() {
    refuse("GET / HTTP/1.1\nHost: a\r\n\r\n", LineEnd);
    refuse("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", LineEnd);
    refuse("GET / HTTP/1.1\r\nHost: a\r\nX: \nY: b\r\n\r\n", LineEnd);
    refuse("GET / HTTP/1.1\r\nHost: a\r\n\n", LineEnd);
    refuse("GET / HTTP/1.1\r\nHost: a\n\n", LineEnd);
    refuse("GET / HTTP/1.1\rHost: a\r\n\r\n", LineEnd);
    refuse("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", LineEnd);
    refuse("GET / HTTP/1.1\r\nHost: a\r\n\rX", LineEnd);
    refuse(with("X: val\rue"), HeaderValue);
    refuse(with("X: b\r"), HeaderValue);
    refuse(with("X: b\r\n Y"), HeaderName);
    refuse(with("Transfer-Encoding:\r\n chunked"), HeaderName);
    refuse("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
    refuse("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
    refuse("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
    refuse("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", EmptyLines);
}

#[test]
fn names_and_values() {
    for line in [
        ": b",
        "A : b",
        "A\t: b",
        "NoColon",
        " A: b",
        "\tA: b",
        "Bad[: b",
        "A B: c",
        "X\u{e9}: b",
        "A\0: b",
        "Content\tLength: 9",
        "\"A\": b",
        "A\rB: c",
        "Transfer-Encoding : chunked",
    ] {
        refuse(with(line), HeaderName);
    }
    refuse("GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n", HeaderName);
    for value in ["\0", "a\0b", "\x01", "a\x0bb", "\x7f", "\x1b[0m", "a\x08"] {
        refuse(with(&format!("A: {value}")), HeaderValue);
    }
    for alias in ["Content_Length: 9", "content_length: 9", "Transfer_Encoding: chunked"] {
        refuse(with(alias), FramingAlias);
    }
    refuse(with("Content-Type: a/b\r\nContent-Type: c/d"), ContentTypeRepeated);
}

#[test]
fn lengths() {
    for (value, framing) in
        [("0", "None"), ("5", "Length(5)"), ("9223372036854775807", "Length(9223372036854775807)")]
    {
        let expected = format!("POST / 1.1 {framing} keep @a [Host=a][Content-Length={value}] +0");
        check(&with(&format!("Content-Length: {value}")), &expected);
        check(&with(&format!("Content-Length:{value}")), &expected);
    }
    for value in [
        "",
        " ",
        "+5",
        "-1",
        "-0",
        "0x5",
        "0o5",
        "5_0",
        "05",
        "00",
        "5 ",
        " 5",
        "5\t",
        "1 0",
        "5, 5",
        "5,5",
        "5, 10",
        "5;",
        "5.0",
        "1e3",
        "\"5\"",
        "five",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999",
        "\u{665}",
    ] {
        refuse(with(&format!("Content-Length: {value}")), ContentLength);
    }
    refuse(with("Content-Length:\t5"), ContentLength);
    refuse(with("Content-Length: 5\r\nContent-Length: 5"), ContentLengthRepeated);
    refuse(with("Content-Length: 5\r\ncontent-length: 6"), ContentLengthRepeated);
    refuse(
        "GET / HTTP/1.0\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        ContentLengthRepeated,
    );
}

#[test]
fn codings() {
    check(
        &with("Transfer-Encoding: chunked"),
        "POST / 1.1 Chunked keep @a [Host=a][Transfer-Encoding=chunked] +0",
    );
    check(
        &with("TRANSFER-ENCODING:Chunked"),
        "POST / 1.1 Chunked keep @a [Host=a][TRANSFER-ENCODING=Chunked] +0",
    );
    for value in [
        "",
        " chunked",
        "chunked ",
        "\tchunked",
        "xchunked",
        "chunkedx",
        "identity",
        "chunked, identity",
        "identity, chunked",
        "chunked, chunked",
        "chunked,chunked",
        ", chunked",
        "chunked,",
        "\"chunked\"",
        "chunked;q=1",
        "chunked gzip",
        "gzip",
        "chunked, gzip",
        "gzip, chunked, chunked",
        "cow, chunked",
        "'chunked'",
        "chunke\u{1e9e}",
    ] {
        refuse(with(&format!("Transfer-Encoding: {value}")), TransferEncoding);
    }
    for value in ["\x0bchunked", "chunked\0", "chunked\x0c"] {
        refuse(with(&format!("Transfer-Encoding: {value}")), HeaderValue);
    }
    refuse(with("Transfer-Encoding: gzip, chunked"), TransferCoding);
    refuse(
        with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        TransferEncodingRepeated,
    );
    refuse(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), TransferEncoding);
    refuse(with("Content-Length: 5\r\nTransfer-Encoding: chunked"), LengthAndCoding);
    refuse(with("Transfer-Encoding: chunked\r\nContent-Length: 0"), LengthAndCoding);
    refuse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncodingVersion);
}

#[test]
fn connections() {
    for (lines, flags) in [
        ("Connection: close", ""),
        ("Connection: Keep-Alive, CLOSE", ""),
        ("Connection: a\r\nConnection: close", ""),
        ("Connection: keep-alive", " keep"),
        ("Connection: Upgrade\r\nUpgrade: websocket", " keep upgrade"),
        ("Connection: keep-alive, upgrade\r\nUpgrade: a", " keep upgrade"),
        ("Upgrade: websocket", " keep"),
        ("Connection: upgrade", " keep"),
        ("Expect: 100-continue", " keep"),
        ("Content-Length: 1\r\nExpect: 100-Continue", " keep expect"),
        ("Transfer-Encoding: chunked\r\nExpect: 100-continue", " keep expect"),
    ] {
        let shown = show(with(lines).as_bytes(), &Limits::default()).unwrap().unwrap();
        let start = shown.split(" @").next().unwrap();
        let framing = start.split(' ').nth(3).unwrap();
        assert_eq!(start, format!("POST / 1.1 {framing}{flags}"), "{lines}");
    }
    check(
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET / 1.0 None keep @- [Connection=keep-alive] +0",
    );
    check(
        "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n",
        "GET / 1.0 None @- [Connection=upgrade][Upgrade=a] +0",
    );
    check(
        "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        "POST / 1.0 Length(5) @- [Expect=100-continue][Content-Length=5] +5",
    );
    for value in ["200-ok", "", "100-continue, 200-ok", "100-continue=1"] {
        refuse(with(&format!("Expect: {value}")), Expectation);
    }
}

#[test]
fn limits() {
    let limits = Limits { head_bytes_max: 100, target_bytes_max: 20, headers_max: 3 };
    let check = |input: &str, expected: Result<bool, Error>| {
        assert_eq!(show(input.as_bytes(), &limits).map(|head| head.is_some()), expected, "{input}");
    };
    let lines = |n: usize| "A: b\r\n".repeat(n);
    check(&format!("GET / HTTP/1.0\r\n{}\r\n", lines(3)), Ok(true));
    check(&format!("GET / HTTP/1.0\r\n{}\r\n", lines(4)), Err(TooManyHeaders));
    check(&format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(19)), Ok(true));
    check(&format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(20)), Err(TargetTooLong));
    check(&format!("GET /{}", "a".repeat(19)), Ok(false));
    check(&format!("GET /{}", "a".repeat(20)), Err(TargetTooLong));
    check(&"A".repeat(32), Ok(false));
    check(&"A".repeat(33), Err(Method));
    check(&format!("{} / HTTP/1.0\r\n\r\n", "A".repeat(33)), Err(Method));
    check(&format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "b".repeat(77)), Ok(true));
    check(&format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "b".repeat(78)), Err(HeadTooLarge));
    check(&format!("GET / HTTP/1.0\r\nA: {}", "b".repeat(80)), Ok(false));
    check(&format!("GET / HTTP/1.0\r\nA: {}", "b".repeat(81)), Err(HeadTooLarge));
    let many = Limits { headers_max: 1000, ..Limits::default() };
    for (count, expected) in
        [(128, Ok(true)), (129, Ok(true)), (1000, Ok(true)), (1001, Err(TooManyHeaders))]
    {
        let input = format!("GET / HTTP/1.0\r\n{}\r\n", lines(count));
        assert_eq!(show(input.as_bytes(), &many).map(|head| head.is_some()), expected, "{count}");
    }
    assert_eq!(show(format!("GET / HTTP/1.0\r\n{}", lines(500)).as_bytes(), &many), Ok(None));
}

#[test]
fn statuses() {
    for (error, status) in [
        (TargetTooLong, 414),
        (HeadTooLarge, 431),
        (TooManyHeaders, 431),
        (Expectation, 417),
        (TransferCoding, 501),
        (Version, 505),
        (Method, 400),
        (LengthAndCoding, 400),
        (ChunkSize, 400),
    ] {
        assert_eq!(error.status(), status, "{error}");
    }
}

#[test]
fn body_bytes_are_left_alone() {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET";
    let head = parse_request(bytes, &Limits::default(), &mut Vec::new()).unwrap().unwrap();
    assert_eq!(head.framing, Framing::Length(3));
    assert_eq!(&bytes[head.head_len..], b"abcGET");
}
