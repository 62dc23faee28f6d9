//! Whole exchanges in memory: what a client is answered and an upstream is asked can be read to the letter, and nothing stays in progress.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| testkit::judge::exchange(bytes));
