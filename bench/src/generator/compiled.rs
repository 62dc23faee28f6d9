//! Requests as bytes that are changed in place. A template is compiled once, and a request allocates nothing.

use std::collections::BTreeMap;

use super::load::{RowBy, Table, Target, Template};
use super::text::{Part, Text};

/// The values by which a request differs from all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// Unique among the requests of all users.
    pub(super) number: u64,
    /// The number of the user, from 0, over all load servers.
    pub(super) user: u64,
    pub(super) seed: u64,
}

/// A text whose placeholders are filled in for each turn.
pub(super) struct Compiled {
    /// The text of the latest turn.
    bytes: Vec<u8>,
    latest: Turn,
    pieces: Vec<Piece>,
    /// Whether every piece has the same length in all turns, so that the values can be overwritten in place.
    is_even: bool,
    /// The offset of the body, if all pieces have a fixed length.
    body_at: usize,
    /// The number of pieces before the body.
    head_pieces: usize,
}

enum Piece {
    Same(Vec<u8>),
    Number {
        at: usize,
        digits: usize,
    },
    User {
        at: usize,
        digits: usize,
    },
    Random {
        at: usize,
        bytes: usize,
    },
    Spaces {
        at: usize,
        most: usize,
        /// The index of the placeholder in the text, so that placeholders have different values.
        nth: usize,
    },
    Cell {
        at: usize,
        cells: Vec<Vec<u8>>,
        by: RowBy,
    },
    /// The length of the body, if it varies.
    Length,
}

impl Compiled {
    /// Compiles the complete request of a template.
    pub(super) fn request(
        target: &Target,
        template: &Template,
        tables: &BTreeMap<String, Table>,
    ) -> Compiled {
        let mut head = Vec::new();
        let same = |head: &mut Vec<Piece>, text: String| head.push(Piece::Same(text.into()));
        same(&mut head, format!("{} ", template.method));
        head.extend(pieces(&template.path, tables));
        same(&mut head, format!(" HTTP/1.1\r\nHost: {}\r\n", target.host));
        for (name, value) in &template.headers {
            same(&mut head, format!("{name}: "));
            head.extend(pieces(value, tables));
            same(&mut head, "\r\n".to_owned());
        }
        // RFC 9110, 8.6: for a method that expects a body, the length is stated even if the body is empty.
        let states_length = !template.body.parts.is_empty()
            || ["POST", "PUT", "PATCH"].contains(&template.method.as_str());
        if states_length {
            same(&mut head, "Content-Length: ".to_owned());
            match template.body.bytes(tables) {
                Some(bytes) => same(&mut head, bytes.to_string()),
                None => head.push(Piece::Length),
            }
            same(&mut head, "\r\n".to_owned());
        }
        same(&mut head, "\r\n".to_owned());
        Compiled::new(head, pieces(&template.body, tables))
    }

    /// Compiles a text that is not part of a request, such as a message on a stream.
    pub(super) fn text(text: &Text, tables: &BTreeMap<String, Table>) -> Compiled {
        Compiled::new(Vec::new(), pieces(text, tables))
    }

    fn new(head: Vec<Piece>, body: Vec<Piece>) -> Compiled {
        let head_pieces = head.len();
        let mut pieces = head;
        pieces.extend(body);
        let is_even = pieces.iter().all(|piece| piece.bytes().is_some());
        let (bytes, latest) = (Vec::new(), Turn::default());
        let mut compiled = Compiled { bytes, latest, pieces, is_even, body_at: 0, head_pieces };
        compiled.build(&latest);
        compiled
    }

    /// Returns the text of this turn. If it is that of the latest turn, nothing is written: a reply is compared piece by piece.
    pub(super) fn of(&mut self, turn: &Turn) -> &[u8] {
        if self.latest != *turn {
            if self.is_even {
                self.overwrite(turn)
            } else {
                self.build(turn)
            }
            self.latest = *turn;
        }
        &self.bytes
    }

    /// Returns the body of this turn's request.
    pub(super) fn body_of(&mut self, turn: &Turn) -> &[u8] {
        self.of(turn);
        self.bytes.get(self.body_at..).unwrap_or_default()
    }

    fn overwrite(&mut self, turn: &Turn) {
        for piece in &self.pieces {
            let at = match piece {
                Piece::Same(_) | Piece::Length => continue,
                Piece::Number { at, .. }
                | Piece::User { at, .. }
                | Piece::Random { at, .. }
                | Piece::Spaces { at, .. }
                | Piece::Cell { at, .. } => *at,
            };
            let bytes = piece.bytes().unwrap_or(0);
            if let Some(place) = self.bytes.get_mut(at..at + bytes) {
                piece.write(turn, place);
            }
        }
    }

    fn build(&mut self, turn: &Turn) {
        let body = self.pieces.iter().skip(self.head_pieces);
        let body_bytes: usize = body.map(|piece| piece.bytes_of(turn)).sum();
        self.bytes.clear();
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let begin = self.bytes.len();
            if number == self.head_pieces {
                self.body_at = begin;
            }
            match piece {
                Piece::Same(text) => self.bytes.extend_from_slice(text),
                Piece::Length => self.bytes.extend_from_slice(body_bytes.to_string().as_bytes()),
                Piece::Number { at, .. }
                | Piece::User { at, .. }
                | Piece::Random { at, .. }
                | Piece::Spaces { at, .. }
                | Piece::Cell { at, .. } => {
                    *at = begin;
                    let bytes = piece.bytes_of(turn);
                    self.bytes.resize(begin + bytes, b' ');
                    if let Some(place) = self.bytes.get_mut(begin..) {
                        piece.write(turn, place);
                    }
                }
            }
        }
        if self.head_pieces == self.pieces.len() {
            self.body_at = self.bytes.len();
        }
    }
}

impl Piece {
    /// Returns the length, or `None` if it varies.
    fn bytes(&self) -> Option<usize> {
        match self {
            Piece::Same(text) => Some(text.len()),
            Piece::Number { digits, .. } | Piece::User { digits, .. } => Some(*digits),
            Piece::Random { bytes, .. } => Some(*bytes),
            Piece::Cell { cells, .. } => {
                let first = cells.first()?.len();
                cells.iter().all(|cell| cell.len() == first).then_some(first)
            }
            Piece::Spaces { .. } | Piece::Length => None,
        }
    }

    fn bytes_of(&self, turn: &Turn) -> usize {
        match self {
            Piece::Cell { cells, by, .. } => cell(cells, *by, turn).len(),
            Piece::Spaces { most, nth, .. } => spaces(turn, *nth, *most),
            Piece::Same(_)
            | Piece::Number { .. }
            | Piece::User { .. }
            | Piece::Random { .. }
            | Piece::Length => self.bytes().unwrap_or(0),
        }
    }

    /// Writes the value into a slice of exactly its length.
    fn write(&self, turn: &Turn, place: &mut [u8]) {
        match self {
            Piece::Number { .. } => write_digits(turn.number, place),
            Piece::User { .. } => write_digits(turn.user, place),
            Piece::Random { at, .. } => write_letters(turn.seed ^ *at as u64, turn.number, place),
            Piece::Cell { cells, by, .. } => place.copy_from_slice(cell(cells, *by, turn)),
            Piece::Spaces { .. } => place.fill(b' '),
            Piece::Same(_) | Piece::Length => {}
        }
    }
}

fn pieces(text: &Text, tables: &BTreeMap<String, Table>) -> Vec<Piece> {
    let piece = |(nth, part): (usize, &Part)| match part {
        Part::Same(text) => Piece::Same(text.clone().into()),
        Part::Spaces(most) => Piece::Spaces { at: 0, most: *most, nth },
        Part::Number(digits) => Piece::Number { at: 0, digits: *digits },
        Part::User(digits) => Piece::User { at: 0, digits: *digits },
        Part::Random(bytes) => Piece::Random { at: 0, bytes: *bytes },
        Part::Cell { table, column } => {
            let table = tables.get(table);
            let cells = table.map(|table| table.cells(column).map(|cell| cell.as_bytes().to_vec()));
            let by = table.map(|table| table.by).unwrap_or_default();
            Piece::Cell { at: 0, cells: cells.into_iter().flatten().collect(), by }
        }
    };
    text.parts.iter().enumerate().map(piece).collect()
}

/// Returns the number of spaces of a placeholder in this turn.
fn spaces(turn: &Turn, nth: usize, most: usize) -> usize {
    let mut letters = [0; 4];
    write_letters(turn.seed.rotate_left(17) ^ ((nth as u64) << 40), turn.number, &mut letters);
    let number = letters.iter().fold(0, |number, letter| number * 16 + usize::from(letter - b'a'));
    number % (most + 1)
}

fn cell<'c>(cells: &'c [Vec<u8>], by: RowBy, turn: &Turn) -> &'c [u8] {
    let number = match by {
        RowBy::Request => turn.number,
        RowBy::User => turn.user,
    };
    let row = usize::try_from(number % cells.len().max(1) as u64);
    row.ok().and_then(|row| cells.get(row)).map_or(&[], Vec::as_slice)
}

/// Writes the last digits of a number, with leading zeros.
pub(super) fn write_digits(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        let last = (number % 10) as u8;
        *digit = b'0' + last;
        number /= 10;
    }
}

/// Number of letters from one random number: four bits each.
const LETTERS: usize = 16;

/// Writes letters from a to p that depend on seed and number, so that no cache can help. Sixteen letters are made at a time, because a body
/// of 100 KiB is written once to be sent and at least once more to be compared.
pub(super) fn write_letters(seed: u64, number: u64, place: &mut [u8]) {
    const FOUR_BITS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const FIRST: u64 = 0x6161_6161_6161_6161;
    let mut state = seed.rotate_left(32) ^ number.wrapping_mul(0xd134_2543_de82_ef95);
    let mut letters = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let halves = [mixed & FOUR_BITS, (mixed >> 4) & FOUR_BITS].map(|bits| bits + FIRST);
        (u128::from(halves[1]) << 64 | u128::from(halves[0])).to_le_bytes()
    };
    let mut pieces = place.chunks_exact_mut(LETTERS);
    for piece in &mut pieces {
        piece.copy_from_slice(&letters());
    }
    for (letter, written) in pieces.into_remainder().iter_mut().zip(letters()) {
        *letter = written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::load::Expected;

    fn template(path: &str, body: &str) -> Template {
        Template {
            label: "a".to_owned(),
            weight: 1,
            method: "POST".to_owned(),
            path: path.parse().unwrap(),
            headers: vec![("Authorization".to_owned(), "Bearer ${tokens.jwt}".parse().unwrap())],
            body: body.parse().unwrap(),
            expected: Expected::default(),
        }
    }

    fn tables(tokens: &[&str], by: RowBy) -> BTreeMap<String, Table> {
        let rows = tokens.iter().map(|&token| vec![token.to_owned(), token.len().to_string()]);
        let columns = vec!["jwt".to_owned(), "size".to_owned()];
        BTreeMap::from([("tokens".to_owned(), Table { columns, rows: rows.collect(), by })])
    }

    fn target() -> Target {
        Target { address: "127.0.0.1:1".parse().unwrap(), host: "gw".to_owned(), tls: None }
    }

    #[test]
    fn requests_differ_only_in_their_placeholders() {
        let template = template("/r${number:3}", "<${user:2}|${random:8}|${tokens.size}>");
        for tokens in [&["aa", "bb"][..], &["a", "bbbbbbbbbbbb"]] {
            let mut request =
                Compiled::request(&target(), &template, &tables(tokens, RowBy::Request));
            let mut seen = Vec::new();
            for number in [7, 8, 7, 1008] {
                let turn = Turn { number, user: 42, seed: 1 };
                let text = String::from_utf8(request.of(&turn).to_vec()).unwrap();
                let token = tokens[usize::try_from(number).unwrap() % 2];
                let size = token.len().to_string();
                let random = text.split('|').nth(1).unwrap().to_owned();
                let length = 14 + size.len();
                let expected = format!(
                    "POST /r{:03} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n<42|{random}|{size}>",
                    number % 1000
                );
                assert_eq!(text, expected);
                assert_eq!(request.body_of(&turn), format!("<42|{random}|{size}>").as_bytes());
                seen.push(random);
            }
            assert_eq!(seen[0], seen[2], "the same turn has the same letters");
            assert!(seen[0] != seen[1] && seen[1] != seen[3], "{seen:?}");
        }
    }

    #[test]
    fn white_space_differs_in_length_and_the_length_of_the_body_is_stated() {
        let template = template("/", "<a>${spaces:3}</a>${spaces:3}");
        let mut request = Compiled::request(&target(), &template, &tables(&["t"], RowBy::Request));
        let mut lengths = std::collections::BTreeSet::new();
        for number in 0..50 {
            let turn = Turn { number, user: 0, seed: 1 };
            let body = request.body_of(&turn).to_vec();
            let text = String::from_utf8(request.of(&turn).to_vec()).unwrap();
            assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())), "{text}");
            assert_eq!(body.trim_ascii_end().iter().filter(|byte| **byte != b' ').count(), 7);
            lengths.insert(body.len());
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn letters_are_of_all_kinds_and_a_prefix_does_not_depend_on_the_length() {
        let written = |length: usize| {
            let mut place = vec![0; length];
            write_letters(1, 2, &mut place);
            place
        };
        let long = written(1000);
        for length in [0, 1, 15, 16, 17, 999] {
            assert_eq!(written(length), long[..length]);
        }
        for letter in b'a'..=b'p' {
            let count = long.iter().filter(|one| **one == letter).count();
            assert!((30..100).contains(&count), "{letter}: {count}");
        }
        assert!(long.iter().all(u8::is_ascii_lowercase));
    }

    #[test]
    fn a_user_always_has_the_same_row() {
        let tables = tables(&["aa", "bb", "cc"], RowBy::User);
        let mut text = Compiled::text(&"${tokens.jwt}".parse().unwrap(), &tables);
        for number in 0..9 {
            assert_eq!(text.of(&Turn { number, user: 4, seed: 0 }), b"bb");
        }
    }
}
