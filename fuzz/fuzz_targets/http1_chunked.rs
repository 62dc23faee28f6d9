//! Chunked bodies: no panic, the same result whole and byte by byte, and what was decoded can be
//! encoded and decoded again.

#![no_main]

use http1::{Decoder, Framing, Limits, chunk_header, last_chunk, parse_lines};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (mut whole, mut payload) = (Decoder::new(Framing::Chunked), Vec::new());
    let used = whole.decode(bytes, &mut payload);
    let (mut slow, mut other, mut taken) = (Decoder::new(Framing::Chunked), Vec::new(), Ok(0));
    for byte in bytes.chunks(1) {
        let step = slow.decode(byte, &mut other);
        taken = taken.and_then(|taken| step.map(|step| taken + step));
    }
    assert_eq!((used, &payload, whole.is_done()), (taken, &other, slow.is_done()));
    assert_eq!(whole.trailers(), slow.trailers());
    assert!(payload.len() <= bytes.len());
    if whole.is_done() {
        round_trip(&payload, whole.trailers());
    }
});

fn round_trip(payload: &[u8], trailers: &[u8]) {
    parse_lines(trailers, &Limits::default(), &mut Vec::new()).expect("trailers were checked");
    let mut wire = Vec::new();
    for piece in payload.chunks(7) {
        chunk_header(piece.len(), &mut wire);
        wire.extend_from_slice(piece);
        wire.extend_from_slice(b"\r\n");
    }
    last_chunk(trailers, &mut wire);
    let (mut decoder, mut again) = (Decoder::new(Framing::Chunked), Vec::new());
    assert_eq!(decoder.decode(&wire, &mut again), Ok(wire.len()));
    assert!(decoder.is_done());
    assert_eq!((payload, trailers), (&again[..], decoder.trailers()));
}
