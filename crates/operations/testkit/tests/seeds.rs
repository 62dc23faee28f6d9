//! Runs the judges of fuzz targets on the seeds of the targets.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use std::fs;
use std::path::Path;

use testkit::judge;

/// The step between positions; prime, so that the positions do not coincide with regular structures in a seed.
const EVERY: usize = 11;

fn each(target: &str, judge: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds").join(target);
    let seeds: Vec<_> = fs::read_dir(folder).unwrap().map(|seed| seed.unwrap().path()).collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let bytes = fs::read(&seed).unwrap();
        judge(&bytes);
        // Truncated, and with a byte removed, at a sample of positions.
        for at in (0..bytes.len()).step_by(EVERY) {
            judge(&bytes[..at]);
            judge(&[&bytes[..at], &bytes[at + 1..]].concat());
        }
    }
}

#[test]
fn exchanges() {
    each("http1_exchange", judge::exchange);
}

#[test]
fn tokens() {
    each("jose_token", judge::token);
}

#[test]
fn proxy_headers() {
    each("proxy_protocol", judge::proxy_header);
}

#[test]
fn configurations() {
    each("configuration", judge::configuration);
}
