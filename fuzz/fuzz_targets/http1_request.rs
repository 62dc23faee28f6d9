//! Request heads: no panic, spans in place, and the same answer for every prefix once it settles.

#![no_main]

use http1::{Framing, Limits, Version, parse_request};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { head_bytes_max: 512, target_bytes_max: 64, headers_max: 8 };

fuzz_target!(|bytes: &[u8]| {
    let mut lines = Vec::new();
    let whole = parse_request(bytes, &LIMITS, &mut lines);
    for len in 0..bytes.len() {
        let found = parse_request(&bytes[..len], &LIMITS, &mut Vec::new());
        assert!(found == Ok(None) || found == whole, "{found:?} at {len}, then {whole:?}");
    }
    let Ok(Some(head)) = whole else { return };
    assert!(bytes[..head.head_len].ends_with(b"\r\n\r\n"));
    assert!(head.framing != Framing::UntilClose);
    assert!(head.host.is_some() || head.version == Version::Http10);
    for line in &lines {
        assert!(http1::is_token(line.name.of(bytes)));
        assert!(http1::is_header_value(line.value.of(bytes)));
        assert!(line.line.of(bytes).ends_with(b"\r\n"));
    }
});
