//! Tests bodies of each framing.

use http1::Error::{self, *};
use http1::{Decoder, Framing, Limits, parse_lines};

/// The payload, the number of remaining bytes, and the trailers; or the error.
type Outcome = Result<(String, usize, String), Error>;

/// Decodes in pieces of every size. The result must not depend on the size.
#[track_caller]
fn outcome(framing: Framing, input: &[u8]) -> Outcome {
    let whole = decode(framing, input, input.len().max(1));
    for size in 1..input.len().min(40) {
        assert_eq!(decode(framing, input, size), whole, "in pieces of {size}");
    }
    whole
}

fn decode(framing: Framing, input: &[u8], size: usize) -> Outcome {
    let (mut decoder, mut out, mut used) = (Decoder::new(framing), Vec::new(), 0);
    for piece in input.chunks(size) {
        let taken = decoder.decode(piece, &mut out)?;
        used += taken;
        if taken < piece.len() {
            assert!(decoder.is_done());
            break;
        }
    }
    decoder.end_of_input()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&out), input.len() - used, text(decoder.trailers())))
}

#[track_caller]
fn chunked(input: impl AsRef<[u8]>, payload: &str, left: usize, trailers: &str) {
    let expected = Ok((payload.to_owned(), left, trailers.to_owned()));
    let input = input.as_ref();
    assert_eq!(outcome(Framing::Chunked, input), expected, "{}", input.escape_ascii());
}

#[track_caller]
fn refuse(input: impl AsRef<[u8]>, error: Error) {
    let input = input.as_ref();
    assert_eq!(outcome(Framing::Chunked, input), Err(error), "{}", input.escape_ascii());
}

#[test]
fn chunks() {
    chunked("0\r\n\r\n", "", 0, "");
    chunked("5\r\nhello\r\n0\r\n\r\nGET", "hello", 3, "");
    chunked("5\r\nhello\r\n6;a=b\r\n world\r\n000\r\n\r\n", "hello world", 0, "");
    chunked("A\r\n0123\r\n6789\r\n0\r\n\r\n", "0123\r\n6789", 0, "");
}

#[test]
fn chunks_refused() {
    refuse("5\r\nhello0\r\n\r\n", ChunkDataEnd);
    refuse("5\r\nhello!!\r\n0\r\n\r\n", ChunkDataEnd);
    refuse("5\r\nhello\n0\r\n\r\n", ChunkDataEnd);
    refuse("5\r\nhello\r0\r\n\r\n", ChunkDataEnd);
    refuse("5\rhello\r\n0\r\n\r\n", ChunkLineEnd);
    refuse("5;\nhello\r\n0\r\n\r\n", ChunkExtension);
    refuse("0x5\r\nhello\r\n0\r\n\r\n", ChunkSize);
    refuse("5\r\nhello\r\n", Truncated);
    refuse("5\r\nhel", Truncated);
    refuse("0\r\n\r", Truncated);
    refuse("0\r\n", Truncated);
    refuse("", Truncated);
    refuse("0\r\nGET / HTTP/1.1\r\n\r\n", Trailer);
    refuse("0\r\n\n", Trailer);
    refuse("0\r\n\rX", Trailer);
    refuse("0\n\n", ChunkLineEnd);
}

#[test]
fn extensions_may_not_outweigh_the_payload() {
    let signed = format!("1000;sig={}\r\n{}\r\n", "f".repeat(100), "x".repeat(4096)).repeat(50);
    let mut out = Vec::new();
    assert!(Decoder::new(Framing::Chunked).decode(signed.as_bytes(), &mut out).is_ok());
    let dear = format!("1;a={}\r\nx\r\n", "f".repeat(200)).repeat(100);
    let refused = Decoder::new(Framing::Chunked).decode(dear.as_bytes(), &mut out);
    assert_eq!(refused, Err(ChunkLineTooLong));
}

#[test]
fn trailers() {
    chunked("0\r\nX-Sum: abc\r\n\r\n", "", 0, "X-Sum: abc\r\n");
    chunked(
        "1\r\na\r\n0\r\nA: b\r\nContent-Digest: c\r\n\r\nZ",
        "a",
        1,
        "A: b\r\nContent-Digest: c\r\n",
    );
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Host",
        "Authorization",
        "Content-Type",
        "Cookie",
        "Content_Length",
        "X-Forwarded-For",
        "Trailer",
        "Connection",
        "Via",
        "Set-Cookie",
    ] {
        chunked(format!("0\r\nA: b\r\n{name}: 1\r\nC: d\r\n\r\n"), "", 0, "A: b\r\nC: d\r\n");
    }
    for line in
        ["A : b", "A", ": b", " A: b", "A: b\0", "A: b\rc", "A: b\n", "A: b\r\n c", "\n", "A: b\r"]
    {
        refuse(format!("0\r\n{line}\r\n\r\n"), Trailer);
    }
    refuse("0\r\nA: b\nC: d\r\n\r\n", Trailer);
    refuse(format!("0\r\nA: {}\r\n\r\n", "b".repeat(9000)), TrailerTooLarge);
    refuse(format!("0\r\n{}\r\n", "A: b\r\n".repeat(33)), TrailerTooLarge);
}

#[test]
fn lengths() {
    let decoded = |framing, input: &str| outcome(framing, input.as_bytes());
    let ok = |payload: &str, left| Ok((payload.to_owned(), left, String::new()));
    assert_eq!(decoded(Framing::Length(3), "abcGET"), ok("abc", 3));
    assert_eq!(decoded(Framing::Length(0), "GET"), ok("", 3));
    assert_eq!(decoded(Framing::None, "GET"), ok("", 3));
    assert_eq!(decoded(Framing::UntilClose, "abc"), ok("abc", 0));
    assert_eq!(decoded(Framing::Length(3), "ab"), Err(Truncated));
}

#[test]
fn remaining_and_advance() {
    let mut decoder = Decoder::new(Framing::Length(10));
    assert_eq!((decoder.remaining(), decoder.is_chunked()), (Some(10), false));
    decoder.advance(4);
    assert_eq!(decoder.remaining(), Some(6));
    decoder.decode(b"abc", &mut Vec::new()).unwrap();
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(3), false));
    decoder.advance(3);
    assert_eq!((decoder.remaining(), decoder.is_done()), (Some(0), true));
    let mut decoder = Decoder::new(Framing::UntilClose);
    decoder.advance(99);
    assert_eq!((decoder.remaining(), decoder.is_done()), (None, false));
    decoder.end_of_input().unwrap();
    assert!(decoder.is_done());
    let decoder = Decoder::new(Framing::Chunked);
    assert_eq!((decoder.remaining(), decoder.is_chunked()), (None, true));
}

#[test]
fn an_error_is_final() {
    let (mut decoder, mut out) = (Decoder::new(Framing::Chunked), Vec::new());
    assert_eq!(decoder.decode(b"zz", &mut out), Err(ChunkSize));
    assert_eq!(decoder.decode(b"0\r\n\r\n", &mut out), Err(ChunkSize));
    assert_eq!(decoder.end_of_input(), Err(ChunkSize));
    assert!(!decoder.is_done() && out.is_empty());
}

#[test]
fn blocks_of_lines() {
    let limits = Limits { headers_max: 2, head_bytes_max: 40, ..Limits::default() };
    let parse = |block: &str| {
        let mut lines = Vec::new();
        parse_lines(block.as_bytes(), &limits, &mut lines).map(|()| {
            let bytes = block.as_bytes();
            let text = |span: http1::Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
            lines.iter().map(|l| format!("{}={}", text(l.name), text(l.value))).collect::<Vec<_>>()
        })
    };
    assert_eq!(parse(""), Ok(vec![]));
    assert_eq!(parse("A: b \r\nC:\r\n"), Ok(vec!["A=b".to_owned(), "C=".to_owned()]));
    for (block, error) in [
        ("A: b", LineEnd),
        ("A: b\n", LineEnd),
        ("A: b\r\n\r\n", LineEnd),
        ("A: b\r\n\r\nC: d\r\n", LineEnd),
        ("A: b\r\nB: c\r\nC: d\r\n", TooManyHeaders),
        ("A b\r\n", HeaderName),
        ("A: b\r\n c\r\n", HeaderName),
        ("A: \0\r\n", HeaderValue),
        ("A: 0123456789012345678901234567890123456789\r\n", HeadTooLarge),
    ] {
        assert_eq!(parse(block), Err(error), "{block:?}");
    }
}
