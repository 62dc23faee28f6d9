//! Invariants that hold for any bytes: the judges of fuzz targets, which tests run over the targets' seeds. A judge panics if its
//! invariant is broken.
#![allow(clippy::panic, clippy::expect_used, reason = "a judge panics if its invariant is broken")]

mod exchange;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use jose::{KeySet, Token};
use plan::telemetry::Telemetry;

pub use exchange::exchange;

/// Judges a header of the PROXY protocol with the bytes after it: exactly the header is read, whatever follows, and a truncated header is
/// not accepted.
pub fn proxy_header(bytes: &[u8]) {
    let (whole, len) = read_header(bytes);
    let Ok(ends) = whole else { return };
    let header = bytes.get(..len).expect("at most all bytes are read");
    assert_eq!(read_header(header), (Ok(ends), len), "it depends on what follows");
    for end in 0..len {
        let (part, _) = read_header(header.get(..end).unwrap_or_default());
        assert!(part.is_err(), "{end} of {len} bytes are a header: {part:?}");
    }
    if let Some((from, to)) = ends {
        assert_eq!(from.is_ipv4(), to.is_ipv4(), "{from} to {to}");
    }
}

/// Returns the content of a header, if it is one, and the number of bytes read.
fn read_header(bytes: &[u8]) -> (Result<Option<(SocketAddr, SocketAddr)>, String>, usize) {
    let mut rest = bytes;
    let read = {
        let reading = pin!(listen::proxy_header(&mut rest));
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read.map_err(|error| error.to_string()),
            Poll::Pending => panic!("a read from memory never waits"),
        }
    };
    (read, bytes.len() - rest.len())
}

/// Judges a signed token, a line end and a key set: a changed token must not be valid with the same signature.
pub fn token(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(at);
    let keys = KeySet::from_json(rest.get(1..).unwrap_or_default());
    let Ok(token) = Token::parse(text) else { return };
    if let Some(claims) = token.claims() {
        assert!(claims.iter().all(|(name, value)| claims.get(name) == Some(value)), "names differ");
    }
    let Some((keys, _)) = keys else { return };
    let verified = keys.verify(&token).is_ok();
    if !verified {
        return;
    }
    assert!(!keys.is_empty(), "an empty key set verified the token");
    // Harmless: a text without a dot is not a token.
    for at in 0..text.iter().rposition(|byte| *byte == b'.').unwrap_or_default() {
        let mut other = text.to_vec();
        if let Some(byte) = other.get_mut(at) {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        let forged = Token::parse(&other).is_ok_and(|token| keys.verify(&token).is_ok());
        assert!(!forged, "the token is still valid with another byte at {at}");
    }
}

/// Judges the text of a configuration: it becomes a plan, or complaints that each have a place in the text.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // The value of a reference is not part of the text, and may be anything on the machine.
    if text.contains("${") {
        return;
    }
    let loaded = config::parse(text, Path::new("/nowhere/tidegate.yaml"));
    let compiled = compile::compile(&loaded, None, &Telemetry::new(1));
    let report = match &compiled {
        Ok(compiled) => &compiled.warnings,
        Err(report) => report,
    };
    assert_eq!(compiled.is_err(), report.has_errors(), "{report}");
    let lines = text.split(['\n', '\r']).count() + 1;
    for complaint in report.errors().chain(report.warnings()) {
        let at = complaint.at;
        assert!(report.sources().of(at).is_some(), "nowhere: {}", complaint.what);
        assert!(usize::try_from(at.line).is_ok_and(|line| line <= lines), "{at:?}");
        assert!(!complaint.what.is_empty());
    }
    assert!(!format!("{report:#}").is_empty() || report.is_empty());
}
