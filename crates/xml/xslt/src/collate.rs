//! Collation for `xsl:sort`: dictionary order, first by letters, then by accents, then by case.
//!
//! There is a single order for all languages, because the result of a gateway must not depend on the locale of the machine.

use std::cmp::Ordering;

/// Whether `a` or `A` comes first if texts differ only in case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    UpperFirst,
    LowerFirst,
}

/// A collation key, computed once per text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    letters: String,
    accents: String,
    /// The text itself, for comparing by case.
    cased: String,
    case: Case,
}

impl Key {
    pub(crate) fn new(text: &str, case: Case) -> Key {
        let accents: String = text.chars().flat_map(char::to_lowercase).collect();
        let letters = accents.chars().map(bare).collect();
        Key { letters, accents, cased: text.to_owned(), case }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let by_letter = self.letters.cmp(&other.letters);
        let by_accent = by_letter.then_with(|| self.accents.cmp(&other.accents));
        by_accent.then_with(|| match self.case {
            Case::UpperFirst => self.cased.cmp(&other.cased),
            Case::LowerFirst => other.cased.cmp(&self.cased),
        })
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Lower-case letters of Latin-1 and Latin Extended-A by their base letter.
const ACCENTED: &[(char, &str)] = &[
    ('a', "àáâãäåāăą"),
    ('c', "çćĉċč"),
    ('d', "ďđ"),
    ('e', "èéêëēĕėęě"),
    ('g', "ĝğġģ"),
    ('h', "ĥħ"),
    ('i', "ìíîïĩīĭįı"),
    ('j', "ĵ"),
    ('k', "ķ"),
    ('l', "ĺļľŀł"),
    ('n', "ñńņňŉ"),
    ('o', "òóôõöøōŏő"),
    ('r', "ŕŗř"),
    ('s', "śŝşš"),
    ('t', "ţťŧ"),
    ('u', "ùúûüũūŭůűų"),
    ('w', "ŵ"),
    ('y', "ýÿŷ"),
    ('z', "źżž"),
];

fn bare(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    ACCENTED.iter().find(|(_, list)| list.contains(c)).map_or(c, |(letter, _)| *letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_order() {
        let sorted = |case| {
            let mut words = ["b", "Zoé", "A", "a", "zoe", "B", "Zoe", "éa", "eb", "10", "9"];
            words.sort_by_cached_key(|word| Key::new(word, case));
            words.join(" ")
        };
        assert_eq!(sorted(Case::LowerFirst), "10 9 a A b B éa eb zoe Zoe Zoé");
        assert_eq!(sorted(Case::UpperFirst), "10 9 A a B b éa eb Zoe zoe Zoé");
    }
}
