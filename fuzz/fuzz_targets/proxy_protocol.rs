//! Headers of the PROXY protocol: read to their end and no further, whatever follows.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| testkit::judge::proxy_header(bytes));
