//! Signed tokens and key sets: no panic, and what a key has signed says nothing else with the same signature.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| testkit::judge::token(bytes));
