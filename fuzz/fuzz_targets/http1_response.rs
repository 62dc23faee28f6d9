//! Response heads: no panic, spans in place, and the same answer for every prefix once it settles.

#![no_main]

use http1::{MethodKind, Limits, parse_response};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { head_bytes_max: 512, target_bytes_max: 64, headers_max: 8 };

fuzz_target!(|bytes: &[u8]| {
    for (head, connect) in [(false, false), (true, false), (false, true)] {
        let (asked, mut lines) = (MethodKind { head, connect }, Vec::new());
        let whole = parse_response(bytes, &LIMITS, asked, &mut lines);
        for len in 0..bytes.len() {
            let found = parse_response(&bytes[..len], &LIMITS, asked, &mut Vec::new());
            assert!(found == Ok(None) || found == whole, "{found:?} at {len}, then {whole:?}");
        }
        let Ok(Some(found)) = whole else { continue };
        assert!(bytes[..found.head_len].ends_with(b"\r\n\r\n"));
        assert!(http1::is_header_value(found.reason.of(bytes)));
        for line in &lines {
            assert!(http1::is_token(line.name.of(bytes)));
            assert!(http1::is_header_value(line.value.of(bytes)));
        }
    }
});
