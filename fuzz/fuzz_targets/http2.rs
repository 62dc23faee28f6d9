//! Whatever a client sends over HTTP/2: no panic, answers that are bounded, and the same however it is cut.
#![no_main]

use http2::{Block, Config, Event, PREFACE, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = http2::decode_header_block(data);
    let (at, bytes) = data.split_first().map_or((0, data), |(at, rest)| (usize::from(*at), rest));
    let whole = run(bytes, bytes.len());
    assert_eq!(whole, run(bytes, at.min(bytes.len())));
});

/// What is answered, and how many requests were there, of bytes that come in two pieces.
fn run(bytes: &[u8], cut: usize) -> (Vec<u8>, usize) {
    let mut session = Session::new(Config { streams_max: 4, head_bytes_max: 1000 });
    let (first, second) = bytes.split_at(cut);
    let mut input = PREFACE.to_vec();
    let mut requests = 0;
    for piece in [first, second] {
        input.extend_from_slice(piece);
        let mut block = Block::default();
        loop {
            match session.read(&input, &mut block) {
                Ok(None) => break,
                Ok(Some(read)) => {
                    input.drain(..read.len);
                    requests += usize::from(matches!(read.event, Event::Request { .. }));
                }
                Err(error) => {
                    session.fail(&error);
                    return (session.unsent().to_vec(), requests);
                }
            }
        }
    }
    assert!(session.unsent().len() <= 64 * (bytes.len() + 2));
    (session.unsent().to_vec(), requests)
}
