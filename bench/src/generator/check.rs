//! Checks the body of a reply, piece by piece and if possible without keeping it.

use std::collections::BTreeMap;
use std::io::Read as _;

use memchr::memmem;

use super::compiled::{Compiled, Turn};
use super::load::{Expected, ExpectedBody, Table};
use super::reply::BODY_BYTES_MAX;

/// The condition for a template's replies.
pub(super) struct Check {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    body: Rule,
    /// Compressed bodies that have been found to be right. Equal bytes need not be decompressed again.
    known: Vec<Known>,
    known_next: usize,
    plain: Vec<u8>,
}

enum Rule {
    Any,
    Bytes(u64),
    Contains(Compiled),
    Equals(Compiled),
    Echo,
    ContainsRequest,
}

struct Known {
    needle: Vec<u8>,
    body: Vec<u8>,
}

/// What is known of a body that is not complete yet.
#[derive(Default)]
pub(super) struct Seen {
    bytes: u64,
    /// Whether the expected text has been found.
    is_found: bool,
    /// Whether the body differs from the expected text.
    is_wrong: bool,
    /// A compressed body, or the end of a plain one, in which the expected text may begin.
    kept: Vec<u8>,
}

/// Maximum number of known bodies. The replies of a scenario have only a few forms.
const KNOWN_MAX: usize = 64;
/// Maximum size of a known body. Larger bodies are rarely equal.
const KNOWN_BYTES_MAX: usize = 16 << 10;

impl Seen {
    pub(super) fn reset(&mut self) {
        self.kept.clear();
        (self.bytes, self.is_found, self.is_wrong) = (0, false, false);
    }
}

impl Check {
    pub(super) fn new(expected: &Expected, tables: &BTreeMap<String, Table>) -> Check {
        let body = match &expected.body {
            ExpectedBody::Any => Rule::Any,
            ExpectedBody::Bytes(bytes) => Rule::Bytes(*bytes),
            ExpectedBody::Contains(text) => Rule::Contains(Compiled::text(text, tables)),
            ExpectedBody::Equals(text) => Rule::Equals(Compiled::text(text, tables)),
            ExpectedBody::Echo => Rule::Echo,
            ExpectedBody::ContainsRequest => Rule::ContainsRequest,
        };
        Check {
            status: expected.status,
            headers: expected.headers.clone(),
            body,
            known: Vec::new(),
            known_next: 0,
            plain: Vec::new(),
        }
    }

    /// Processes a piece of the body.
    pub(super) fn take(
        &mut self,
        seen: &mut Seen,
        piece: &[u8],
        is_gzip: bool,
        request: &mut Compiled,
        turn: &Turn,
    ) {
        let before = seen.bytes;
        seen.bytes += piece.len() as u64;
        if matches!(self.body, Rule::Any | Rule::Bytes(_)) || seen.is_found || seen.is_wrong {
            return;
        }
        if is_gzip {
            seen.kept.extend_from_slice(piece);
            return;
        }
        match self.body.wanted(request, turn) {
            Answer::Whole(text) => {
                let from = usize::try_from(before).unwrap_or(usize::MAX);
                let expected = text.get(from..).and_then(|rest| rest.get(..piece.len()));
                seen.is_wrong = expected != Some(piece);
            }
            Answer::Part(text) => find(text, seen, piece),
        }
    }

    /// Returns true if the complete body is right.
    pub(super) fn finish(
        &mut self,
        seen: &mut Seen,
        is_gzip: bool,
        request: &mut Compiled,
        turn: &Turn,
    ) -> bool {
        match &self.body {
            Rule::Any => return true,
            Rule::Bytes(bytes) => return seen.bytes == *bytes,
            Rule::Contains(_) | Rule::Equals(_) | Rule::Echo | Rule::ContainsRequest => {}
        }
        let wanted = self.body.wanted(request, turn);
        if !is_gzip {
            return match wanted {
                Answer::Whole(text) => !seen.is_wrong && seen.bytes == text.len() as u64,
                Answer::Part(text) => seen.is_found || text.is_empty(),
            };
        }
        let needle = wanted.text();
        let known = self.known.iter();
        if known.into_iter().any(|known| known.body == seen.kept && known.needle == needle) {
            return true;
        }
        self.plain.clear();
        let mut unpacked =
            flate2::bufread::MultiGzDecoder::new(&*seen.kept).take(BODY_BYTES_MAX + 1);
        if unpacked.read_to_end(&mut self.plain).is_err()
            || self.plain.len() as u64 > BODY_BYTES_MAX
        {
            return false;
        }
        let is_right = match wanted {
            Answer::Whole(text) => self.plain == text,
            Answer::Part(text) => memmem::find(&self.plain, text).is_some(),
        };
        if is_right && needle.len().max(seen.kept.len()) <= KNOWN_BYTES_MAX {
            let known = Known { needle: needle.to_vec(), body: seen.kept.clone() };
            match self.known.get_mut(self.known_next) {
                Some(oldest) => *oldest = known,
                None => self.known.push(known),
            }
            self.known_next = (self.known_next + 1) % KNOWN_MAX;
        }
        is_right
    }
}

enum Answer<'t> {
    Whole(&'t [u8]),
    Part(&'t [u8]),
}

impl<'t> Answer<'t> {
    fn text(&self) -> &'t [u8] {
        match self {
            Answer::Whole(text) | Answer::Part(text) => text,
        }
    }
}

impl Rule {
    fn wanted<'t>(&'t mut self, request: &'t mut Compiled, turn: &Turn) -> Answer<'t> {
        match self {
            Rule::Any | Rule::Bytes(_) => Answer::Part(&[]),
            Rule::Contains(text) => Answer::Part(text.of(turn)),
            Rule::Equals(text) => Answer::Whole(text.of(turn)),
            Rule::Echo => Answer::Whole(request.body_of(turn)),
            Rule::ContainsRequest => Answer::Part(request.body_of(turn)),
        }
    }
}

/// Searches for the text in a piece, including a match that begins before it.
fn find(text: &[u8], seen: &mut Seen, piece: &[u8]) {
    let overlap = text.len().saturating_sub(1);
    if !seen.kept.is_empty() {
        let begin = piece.get(..overlap.min(piece.len())).unwrap_or_default();
        seen.kept.extend_from_slice(begin);
        seen.is_found = memmem::find(&seen.kept, text).is_some();
        if begin.len() == piece.len() && !seen.is_found {
            let excess = seen.kept.len().saturating_sub(overlap);
            seen.kept.drain(..excess);
            return;
        }
    }
    seen.is_found |= memmem::find(piece, text).is_some();
    seen.kept.clear();
    if !seen.is_found {
        let from = piece.len().saturating_sub(overlap);
        seen.kept.extend_from_slice(piece.get(from..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::generator::text::Text;

    fn check(expected: ExpectedBody, body: &[u8], size: usize, is_gzip: bool) -> bool {
        let tables = BTreeMap::new();
        let expected = Expected { body: expected, ..Expected::default() };
        let mut check = Check::new(&expected, &tables);
        let mut request = Compiled::text(&Text::same("ababc"), &tables);
        let turn = Turn::default();
        let mut right = None;
        // The second time, a compressed body is known.
        for _ in 0..2 {
            let mut seen = Seen::default();
            for piece in body.chunks(size) {
                check.take(&mut seen, piece, is_gzip, &mut request, &turn);
            }
            let again = check.finish(&mut seen, is_gzip, &mut request, &turn);
            assert!(right.is_none_or(|right| right == again));
            right = Some(again);
        }
        right.unwrap()
    }

    #[test]
    fn bodies_are_checked_in_pieces_of_any_size() {
        let contains = || ExpectedBody::Contains(Text::same("ababc"));
        let equals = || ExpectedBody::Equals(Text::same("ababc"));
        let cases: [(ExpectedBody, &str, bool); 12] = [
            (ExpectedBody::Any, "anything", true),
            (contains(), "xxabababcyy", true),
            (contains(), "xxababacyy", false),
            (contains(), "ab", false),
            (equals(), "ababc", true),
            (equals(), "ababcd", false),
            (equals(), "abab", false),
            (equals(), "ababx", false),
            (ExpectedBody::Echo, "ababc", true),
            (ExpectedBody::Echo, "babca", false),
            (ExpectedBody::ContainsRequest, "{ababc}", true),
            (ExpectedBody::ContainsRequest, "{abab c}", false),
        ];
        for (expected, body, right) in cases {
            for size in 1..=body.len() {
                let found = check(expected.clone(), body.as_bytes(), size, false);
                assert_eq!(found, right, "{expected:?} {body} in pieces of {size}");
            }
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(body.as_bytes()).unwrap();
            let gzip = gzip.finish().unwrap();
            for size in 1..=gzip.len() {
                let found = check(expected.clone(), &gzip, size, true);
                assert_eq!(found, right, "{expected:?} {body} compressed, pieces of {size}");
            }
        }
        assert!(check(ExpectedBody::Bytes(3), b"abc", 2, false));
        assert!(!check(ExpectedBody::Bytes(3), b"abcd", 2, false));
        assert!(!check(contains(), b"not gzip", 3, true));
    }

    #[test]
    fn a_small_body_that_decompresses_to_too_much_is_wrong() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let zeros = vec![0; 1 << 20];
        for _ in 0..65 {
            gzip.write_all(&zeros).unwrap();
        }
        gzip.write_all(b"ababc").unwrap();
        let bomb = gzip.finish().unwrap();
        assert!(!check(ExpectedBody::Contains(Text::same("ababc")), &bomb, 1 << 20, true));
    }
}
