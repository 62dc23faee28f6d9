//! Encodes header lines: as indices of the static table if it has them, otherwise as literals. Nothing is added to the peer's dynamic
//! table, since values that differ between messages (dates, numbers, identifiers) would evict the others.

use super::{fixed, integer};
use crate::RequestLine;

/// Sets the peer's dynamic table size to 0. Sent once per connection, before the first line.
pub(crate) fn forget(out: &mut Vec<u8>) {
    out.push(0x20);
}

/// Encodes `:status`.
pub(crate) fn status(out: &mut Vec<u8>, status: u16) {
    const KNOWN: [(u16, u8); 7] =
        [(200, 8), (204, 9), (206, 10), (304, 11), (400, 12), (404, 13), (500, 14)];
    if let Some((_, index)) = KNOWN.iter().find(|(known, _)| *known == status) {
        return out.push(0x80 | index);
    }
    out.push(8);
    let mut digits = itoa::Buffer::new();
    string(out, digits.format(status).as_bytes());
}

/// Encodes the pseudo-headers of a request.
pub(crate) fn request(out: &mut Vec<u8>, asking: &RequestLine<'_>) {
    const AUTHORITY: u8 = 1;
    const METHOD: u8 = 2;
    const PATH: u8 = 4;
    match asking.method {
        b"GET" => out.push(0x82),
        b"POST" => out.push(0x83),
        method => {
            out.push(METHOD);
            string(out, method);
        }
    }
    out.push(if asking.is_https { 0x87 } else { 0x86 });
    match asking.target {
        b"/" => out.push(0x84),
        target => {
            out.push(PATH);
            string(out, target);
        }
    }
    out.push(AUTHORITY);
    string(out, asking.authority);
}

/// Encodes one line. The name is written in lower case (RFC 9113, 8.2.1).
pub(crate) fn write(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // A literal without indexing: 0000, then the index of the name, or 0 and the name.
    let mut lower = [0; NAME_BYTES_LOOKED_UP];
    match lower.get_mut(..name.len()) {
        Some(text) => {
            text.copy_from_slice(name);
            // The whole array is converted: a fixed length takes fewer instructions than a variable one.
            lower.make_ascii_lowercase();
            let name = lower.get(..name.len()).unwrap_or_default();
            match fixed::index_of(name) {
                Some(index) => integer::put(out, 0, 4, index),
                None => {
                    out.push(0);
                    string(out, name);
                }
            }
        }
        None => {
            out.push(0);
            integer::put(out, 0, 7, name.len());
            out.extend(name.iter().map(u8::to_ascii_lowercase));
        }
    }
    string(out, value);
}

/// The maximum length of a name that is looked up. No name in the static table is longer.
const NAME_BYTES_LOOKED_UP: usize = 32;

fn string(out: &mut Vec<u8>, text: &[u8]) {
    integer::put(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    #[test]
    fn encoded_lines_are_decoded_again() {
        let long = "v".repeat(5000);
        let lines = [
            ("content-type", "text/plain"),
            ("x-request-id", "0af"),
            ("accept-charset", ""),
            ("x", &long),
            ("via", "1.1 tidegate"),
        ];
        let mut out = Vec::new();
        forget(&mut out);
        status(&mut out, 200);
        status(&mut out, 499);
        lines.iter().for_each(|(name, value)| {
            write(&mut out, name.to_uppercase().as_bytes(), value.as_bytes());
        });
        let mut read = Vec::new();
        let mut decoder = Decoder::default();
        decoder
            .decode(&out, |name, value| {
                read.push((
                    String::from_utf8(name.to_vec()).unwrap(),
                    String::from_utf8(value.to_vec()).unwrap(),
                ));
            })
            .unwrap();
        let written = [(":status", "200"), (":status", "499")].iter().chain(&lines);
        assert!(
            written.eq(&read.iter().map(|(n, v)| (&**n, &**v)).collect::<Vec<_>>()),
            "{read:?}"
        );
    }
}
