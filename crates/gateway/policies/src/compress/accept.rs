//! Parses `Accept-Encoding` (RFC 9110, 12.5.3), and chooses the encoding that the client prefers.

use message::{Headers, weighted};

use super::Encoding;

/// The maximum size of the header. A larger one is ignored. Browsers send about 30 bytes.
const BYTES_MAX: usize = 1024;

/// Returns the encoding to use: the one that the client prefers, or the first of `ours` among equal weights. `None` means no encoding.
pub(super) fn choose(headers: &Headers, ours: &[Encoding]) -> Option<Encoding> {
    let lines: Vec<&[u8]> = headers.get_all("accept-encoding").collect();
    if lines.is_empty() || lines.iter().map(|line| line.len()).sum::<usize>() > BYTES_MAX {
        return None;
    }
    // Harmless: an invalid item does not request any encoding.
    let items = || lines.iter().flat_map(|line| line.split(|b| *b == b',')).filter_map(weighted);
    let said = |name: &[u8]| {
        items().find(|(named, _)| named.eq_ignore_ascii_case(name)).map(|(_, weight)| weight)
    };
    let any = said(b"*");
    let weight = |encoding: Encoding| {
        let alias = if encoding == Encoding::Gzip { said(b"x-gzip") } else { None };
        said(encoding.name().as_bytes()).or(alias).or(any).unwrap_or(0)
    };
    let plain = said(b"identity").unwrap_or(0);
    // `max_by_key` returns the last of equal maxima, so `ours` is iterated in reverse.
    let best = ours.iter().rev().copied().max_by_key(|encoding| weight(*encoding))?;
    (weight(best) > 0 && weight(best) >= plain).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::{Br, Gzip, Zstd};

    #[test]
    fn the_clients_preference_decides_and_ours_among_equal_weights() {
        for (lines, chosen) in [
            (&["gzip, deflate, br, zstd"][..], Some(Zstd)),
            (&["gzip, br"], Some(Br)),
            (&["gzip;q=1.0, br;q=0.5"], Some(Gzip)),
            (&["GZIP ; q=0.2"], Some(Gzip)),
            (&["x-gzip"], Some(Gzip)),
            (&["*"], Some(Zstd)),
            (&["*;q=0.1, zstd;q=0"], Some(Br)),
            (&["identity, gzip;q=0.5"], None),
            (&["identity;q=0.5, gzip;q=0.5"], Some(Gzip)),
            (&["gzip;q=0"], None),
            (&["gzip;q=0.000"], None),
            (&["gzip;q=0.001"], Some(Gzip)),
            (&["gzip;q=2"], None),
            (&["gzip;q=x"], None),
            (&["gzip;q=0.1234"], None),
            (&["deflate"], None),
            (&["br", "gzip;q=0.9"], Some(Br)),
            (&[",,;;q=1,"], None),
            (&[""], None),
            (&[], None),
        ] {
            let mut headers = Headers::new();
            lines.iter().for_each(|line| headers.add("Accept-Encoding", line.as_bytes()).unwrap());
            assert_eq!(choose(&headers, &[Zstd, Br, Gzip]), chosen, "{lines:?}");
        }
        let mut headers = Headers::new();
        headers.add("Accept-Encoding", "gzip,".repeat(1000).as_bytes()).unwrap();
        assert_eq!(choose(&headers, &[Gzip]), None, "too large a header is ignored");
    }
}
