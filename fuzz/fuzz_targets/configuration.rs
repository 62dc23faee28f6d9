//! Texts of configurations: a plan, or complaints that each have a place.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| testkit::judge::configuration(bytes));
