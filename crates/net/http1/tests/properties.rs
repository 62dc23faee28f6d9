//! Checks properties of all inputs: no panics, results that do not depend on how the input is cut, and output that can be decoded again.
//! Results are compared with httparse and simple models.

use http1::{Decoder, Error, Framing, Limits, MethodKind, Span};
use proptest::prelude::*;

const LIMITS: Limits = Limits { head_bytes_max: 300, target_bytes_max: 40, headers_max: 6 };

/// Generates messages from pieces of valid and malicious messages, since arbitrary bytes seldom get past the method.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"GET "[..],
        b"POST ",
        b"/",
        b"/a?b",
        b"*",
        b"http://a/",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"\r\n",
        b"\n",
        b"\r",
        b"Host: a",
        b"Host:b",
        b"Content-Length: 5",
        b"Content-Length: 0",
        b"X: y",
        b" ",
        b"\t",
        b":",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Expect: 100-continue",
        b"\0",
        b"\xc3\xa9",
        b"#",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 404",
        b"HTTP/",
        b"2",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b";a=b",
        b"ffff",
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"A: b\r\nC: d\r\n",
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 204 No\r\nA: b\r\n\r\n",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat()),
        prop::collection::vec(any::<u8>(), 0..80),
    ]
}

fn request(bytes: &[u8]) -> Result<Option<(http1::RequestHead, Vec<http1::Line>)>, Error> {
    let mut lines = vec![];
    Ok(http1::parse_request(bytes, &LIMITS, &mut lines)?.map(|head| (head, lines)))
}

fn response(bytes: &[u8]) -> Result<Option<(http1::ResponseHead, Vec<http1::Line>)>, Error> {
    let mut lines = vec![];
    let asked = MethodKind::default();
    Ok(http1::parse_response(bytes, &LIMITS, asked, &mut lines)?.map(|head| (head, lines)))
}

/// Checks that the result for each prefix is `None` until it is the result for the whole, and then does not change.
fn settles_once<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<T>, Error>,
) -> Result<(), TestCaseError> {
    let whole = parse(bytes);
    let mut settled = false;
    for len in 0..=bytes.len() {
        let found = parse(bytes.split_at(len).0);
        prop_assert!(!settled || found != Ok(None), "unsettled at {len}");
        settled = found != Ok(None);
        prop_assert!(!settled || found == whole, "{found:?} at {len} of {}", bytes.escape_ascii());
    }
    Ok(())
}

/// Decodes in pieces cut at `cuts`.
fn decode(
    framing: Framing,
    bytes: &[u8],
    cuts: &[usize],
) -> (Result<usize, Error>, Vec<u8>, Vec<u8>) {
    let (mut decoder, mut out, mut at) = (Decoder::new(framing), vec![], 0);
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    for end in ends {
        match decoder.decode(bytes.split_at(end).0.split_at(at).1, &mut out) {
            Ok(used) if used < end - at => {
                return (Ok(at + used), out, decoder.trailers().to_vec());
            }
            Ok(_) => at = end,
            Err(error) => return (Err(error), out, vec![]),
        }
    }
    (Ok(at), out, decoder.trailers().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_head_does_not_depend_on_cuts(bytes in message()) {
        settles_once(&bytes, request)?;
    }

    #[test]
    fn a_response_head_does_not_depend_on_cuts(bytes in message()) {
        settles_once(&bytes, response)?;
    }

    #[test]
    fn lines_are_contiguous_and_reach_the_blank_line(bytes in message()) {
        if let Ok(Some((head, lines))) = request(&bytes) {
            let text = &bytes[..head.head_len];
            prop_assert!(text.ends_with(b"\r\n") && head.head_len <= LIMITS.head_bytes_max + 2);
            let mut at = head.target.end as usize + " HTTP/1.1\r\n".len();
            for line in lines {
                prop_assert_eq!(line.line.start as usize, at);
                prop_assert!(line.line.of(text).ends_with(b"\r\n"));
                prop_assert!(http1::is_token(line.name.of(text)));
                prop_assert!(http1::is_header_value(line.value.of(text)));
                prop_assert_eq!(line.value.of(text).trim_ascii(), line.value.of(text));
                at = line.line.end as usize;
            }
            prop_assert_eq!(at + 2, head.head_len);
        }
    }

    #[test]
    fn what_is_accepted_httparse_accepts(bytes in message()) {
        if let Ok(Some((head, lines))) = request(&bytes) {
            let mut headers = [httparse::EMPTY_HEADER; 8];
            let mut other = httparse::Request::new(&mut headers);
            prop_assert_eq!(other.parse(&bytes), Ok(httparse::Status::Complete(head.head_len)));
            prop_assert_eq!(other.method.map(str::as_bytes), Some(head.method.of(&bytes)));
            prop_assert_eq!(other.path.map(str::as_bytes), Some(head.target.of(&bytes)));
            let theirs: Vec<_> = other.headers.iter().map(|h| (h.name.as_bytes(), h.value)).collect();
            let ours: Vec<_> = lines.iter().map(|l| (l.name.of(&bytes), l.value.of(&bytes))).collect();
            prop_assert_eq!(theirs, ours);
        }
    }

    #[test]
    fn a_body_does_not_depend_on_cuts(bytes in message(), cuts in prop::collection::vec(any::<usize>(), 0..6)) {
        for framing in [Framing::Chunked, Framing::Length(7), Framing::UntilClose, Framing::None] {
            prop_assert_eq!(decode(framing, &bytes, &cuts), decode(framing, &bytes, &[]));
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        sums in prop::collection::vec("[a-z]{1,8}", 0..4),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let trailers: String = sums.iter().map(|sum| format!("X-{sum}: {sum}\r\n")).collect();
        let mut wire = vec![];
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            http1::chunk_header(piece.len(), &mut wire);
            wire.extend_from_slice(piece);
            wire.extend_from_slice(b"\r\n");
        }
        http1::last_chunk(trailers.as_bytes(), &mut wire);
        let end = wire.len();
        wire.extend_from_slice(b"GET");
        let expected = (Ok(end), pieces.concat(), trailers.into_bytes());
        prop_assert_eq!(decode(Framing::Chunked, &wire, &cuts), expected);
    }

    #[test]
    fn spans_never_panic(start: u32, end: u32, bytes in prop::collection::vec(any::<u8>(), 0..9)) {
        let span = Span { start, end };
        prop_assert!(span.of(&bytes).len() <= span.len());
    }
}
